"""The speed of language models as a table, JSON and a plot."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from rescore.errors import UserError
from rescore.experiment.speed import Speed
from rescore.reporting import figure, styles
from rescore.version import VERSION


def render(speeds: Sequence[Speed], about: str) -> str:
    """A table of all models, and one of milliseconds by length."""
    rows = [["", "hyp/s"]]
    for speed in speeds:
        rows.append([speed.lm, f"{speed.rate:,.0f}"])
    lengths = sorted({one.words for speed in speeds for one in speed.by_length})
    by_length = [["words", *(speed.lm for speed in speeds)]]
    for words in lengths:
        found = [{one.words: one.milliseconds for one in speed.by_length} for speed in speeds]
        by_length.append([str(words), *(f"{times[words]:.2f}" if words in times else "" for times in found)])
    tables = [about, "", styles.text(rows)]
    if lengths:
        tables += ["", "milliseconds a sentence, one at a time", "", styles.text(by_length)]
    return "\n".join(tables)


def write(speeds: Sequence[Speed], about: str, file: IO[str]) -> None:
    """All figures in full precision, as JSON."""
    models = [asdict(speed) | {"rate": speed.rate} for speed in speeds]
    json.dump({"about": about, "rescore": VERSION, "models": models}, file, indent=2)
    file.write("\n")


def plot(speeds: Sequence[Speed], path: Path) -> None:
    """Draw milliseconds against words, as PNG.

    Raises:
        UserError: matplotlib is not installed, or the file cannot be written.
    """

    def by_length(axes: Any) -> None:
        for speed in speeds:
            words = [one.words for one in speed.by_length]
            axes.plot(words, [one.milliseconds for one in speed.by_length], marker="o", label=speed.lm)
        axes.set_yscale("log")

    try:
        figure.save(path, "words in the sentence", "milliseconds", by_length)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from None
