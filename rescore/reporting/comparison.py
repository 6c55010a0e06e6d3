"""A comparison of language models as a table, for a person, a paper, or a program."""

from __future__ import annotations

import json
from dataclasses import asdict

from rescore.experiment.comparison import Comparison
from rescore.nbest import COUNTS, FIRST_PASS
from rescore.parts import STYLES
from rescore.reporting.styles import p_value

JSON = "json"
"""Beside `STYLES`: all figures, in full precision."""


def render(comparison: Comparison, style: str) -> str:
    """The whole comparison in one of `STYLES`, or `json`.

    Text and Markdown have the signature of every row below the table; CSV and LaTeX are the table alone.
    """
    if style == JSON:
        return json.dumps(asdict(comparison), indent=2, ensure_ascii=False)
    table = STYLES[style](_cells(comparison))
    if style in ("csv", "latex"):
        return table
    signatures = [(row.name, row.signature) for row in comparison.rows]
    about = (
        f"{comparison.source}: {comparison.utterances:,} utterances, {comparison.hypotheses:,} hypotheses; "
        f"weights tuned on {comparison.dev_source}; p against the row above"
    )
    if style == "markdown":
        lines = [table, "", about + ".", "", *(f"- {name}: `{signature}`" for name, signature in signatures)]
    else:
        lines = [table, "", about, *(f"{name}: {signature}" for name, signature in signatures)]
    return "\n".join(lines)


def _cells(comparison: Comparison) -> list[list[str]]:
    metric = comparison.metric
    rows = [
        ["", "weight", f"dev {metric}", metric, "gain %", "p", "hyp/s"],
        ["oracle", "", f"{comparison.dev_oracle:.2f}", f"{comparison.oracle:.2f}", "", "", ""],
        ["first pass", "", f"{comparison.dev_first_pass:.2f}", f"{comparison.first_pass:.2f}", "", "", ""],
    ]
    for row in comparison.rows:
        weights = [f"{weight:.3f}" for name, weight in row.weights.items() if name not in (FIRST_PASS, *COUNTS)]
        weights += [f"{row.weights[name]:+.2f} a {unit}" for name, unit in COUNTS.items() if name in row.weights]
        speed = "" if row.speed is None else f"{row.speed:,.0f}"
        figures = [f"{row.dev:.2f}", f"{row.value:.2f}", f"{row.gain:+.1f}", p_value(row.p_value), speed]
        rows.append([row.name, ", ".join(weights), *figures])
    return rows
