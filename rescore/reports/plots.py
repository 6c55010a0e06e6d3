"""Reports as plots (PNG), all in one look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rescore.errors import UserError
from rescore.files import replacing
from rescore.reports.analysis import Analysis
from rescore.reports.speed import Speed
from rescore.reports.words import POSITIONS


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


def plot_analysis(analysis: Analysis, folder: Path) -> list[Path]:
    """Draw the oracle by depth, and errors by place and by length, as PNG.

    Raises:
        UserError: matplotlib is not installed, or the folder cannot be written.
    """
    written = []

    def draw_one(name: str, x_label: str, y_label: str, draw: Callable[[Any], object]) -> None:
        save(folder / f"{name}.png", x_label, y_label, draw)
        written.append(folder / f"{name}.png")

    def by_depth(axes: Any) -> None:
        axes.plot([depth.n for depth in analysis.by_depth], [depth.oracle for depth in analysis.by_depth], marker="o")

    def by_position(axes: Any) -> None:
        single = [
            position for position in analysis.by_position if position.position < POSITIONS
        ]  # the last holds all beyond
        places = [position.position for position in single]
        axes.plot(places, [position.first_pass for position in single], label="first pass")
        axes.plot(places, [position.reranked for position in single], label="reranked")

    def by_length(axes: Any) -> None:
        names = [f"{length.above + 1}-{length.to or ''}" for length in analysis.by_length]
        axes.plot(names, [length.first_pass for length in analysis.by_length], marker="o", label="first pass")
        axes.plot(names, [length.reranked for length in analysis.by_length], marker="o", label="reranked")

    try:
        folder.mkdir(parents=True, exist_ok=True)
        draw_one("oracle_by_depth", "hypotheses", f"oracle {analysis.metric}", by_depth)
        draw_one("by_length", "words in the reference", analysis.metric, by_length)
        if analysis.by_position:
            draw_one("by_position", "place in the reference", "errors", by_position)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror or error})") from None
    return written


def plot_speeds(speeds: Sequence[Speed], path: Path) -> None:
    """Draw milliseconds against words, as PNG.

    Raises:
        UserError: matplotlib is not installed, or the file cannot be written.
    """

    def by_length(axes: Any) -> None:
        for speed in speeds:
            words = [point.words for point in speed.by_length]
            axes.plot(words, [point.milliseconds for point in speed.by_length], marker="o", label=speed.lm)
        axes.set_yscale("log")

    try:
        save(path, "words in the sentence", "milliseconds", by_length)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from None
