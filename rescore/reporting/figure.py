"""A plot as PNG, all in one look."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rescore.errors import UserError
from rescore.files import replacing


def save(path: Path, x_label: str, y_label: str, draw: Callable[[Any], object]) -> None:
    """Draw on the axes of a new figure, with a legend where something has a label, and write it.

    Raises:
        UserError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UserError("plots need matplotlib; install it: pip install matplotlib") from None
    figure = Figure(figsize=(6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    draw(axes)
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False)
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=150, format="png")
