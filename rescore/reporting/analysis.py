"""An analysis as a few lines, as JSON, and as plots."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from rescore.errors import UserError
from rescore.evaluation.analysis import POSITIONS, Analysis, Pair
from rescore.reporting import figure
from rescore.reporting.styles import text


def write(analysis: Analysis, file: IO[str]) -> None:
    """Write one JSON object."""
    file.write(json.dumps(asdict(analysis), indent=2, ensure_ascii=False) + "\n")


def render(analysis: Analysis) -> str:
    """What a person wants to know first."""
    moves = analysis.moves
    rows = [["words", "utterances", "first pass", "reranked"]]
    for one in analysis.by_length:
        name = f"{one.above + 1}-{one.to}" if one.to else f"over {one.above}"
        rows.append([name, f"{one.utterances:,}", f"{one.first_pass:.2f}", f"{one.reranked:.2f}"])
    depths = [one for one in analysis.by_depth if one.n in (1, 2, 3, 5, 10, 20, 50, 100, len(analysis.by_depth))]
    lines = [
        f"moved to another hypothesis: {moves.moved:,}, better {moves.better:,}, worse {moves.worse:,}, "
        f"neither {moves.same:,}",
        "oracle by depth: " + ", ".join(f"{one.n}: {one.oracle:.2f}" for one in depths),
        "",
        text(rows),
    ]
    if analysis.corrected or analysis.broken:
        lines += ["", _pairs("corrected", analysis.corrected), _pairs("newly broken", analysis.broken)]
    lines += [
        f"perplexity of the first pass by {found.column} and its {analysis.metric}: Spearman {found.spearman:.3f}"
        for found in analysis.correlations
    ]
    return "\n".join([*lines, analysis.signature])


def _pairs(name: str, pairs: list[Pair]) -> str:
    shown = (f"{pair.hypothesis or '(nothing)'} for {pair.reference} {pair.count}" for pair in pairs[:8])
    return f"{name}: {', '.join(shown)}"


def plot(analysis: Analysis, folder: Path) -> list[Path]:
    """Draw the oracle by depth, and errors by place and by length, as PNG.

    Raises:
        UserError: matplotlib is not installed, or the folder cannot be written.
    """
    written = []

    def save(name: str, x_label: str, y_label: str, draw: Callable[[Any], object]) -> None:
        figure.save(folder / f"{name}.png", x_label, y_label, draw)
        written.append(folder / f"{name}.png")

    def by_depth(axes: Any) -> None:
        axes.plot([one.n for one in analysis.by_depth], [one.oracle for one in analysis.by_depth], marker="o")

    def by_position(axes: Any) -> None:
        single = [one for one in analysis.by_position if one.position < POSITIONS]  # the last holds all beyond
        places = [one.position for one in single]
        axes.plot(places, [one.first_pass for one in single], label="first pass")
        axes.plot(places, [one.reranked for one in single], label="reranked")

    def by_length(axes: Any) -> None:
        names = [f"{one.above + 1}-{one.to or ''}" for one in analysis.by_length]
        axes.plot(names, [one.first_pass for one in analysis.by_length], marker="o", label="first pass")
        axes.plot(names, [one.reranked for one in analysis.by_length], marker="o", label="reranked")

    try:
        folder.mkdir(parents=True, exist_ok=True)
        save("oracle_by_depth", "hypotheses", f"oracle {analysis.metric}", by_depth)
        save("by_length", "words in the reference", analysis.metric, by_length)
        if analysis.by_position:
            save("by_position", "place in the reference", "errors", by_position)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({error.strerror or error})") from None
    return written
