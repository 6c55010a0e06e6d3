"""The HTML report: one file that needs no network.

Python writes the answer and the tables, which need no JavaScript. From packed data, page.html draws the charts and the
utterances.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from base64 import b64encode
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from itertools import takewhile
from typing import Any

from rescore.errors import counted
from rescore.nbest import FIRST_PASS
from rescore.reports import outlook
from rescore.reports.analysis import Analysis
from rescore.reports.details import Details, SpeakerErrors
from rescore.reports.figures import SIGNIFICANT
from rescore.reports.markup import html
from rescore.reports.results import MetricResult, Results, cells, overview, worse
from rescore.reports.words import POSITIONS
from rescore.styles import marked_worse
from rescore.tuning.curves import Step

OUTPUTS = ("first pass", "reranked")
SPEAKERS = 40
"""Speakers in the table, at most."""
FEW = 4
"""Error rates by place end where fewer than one in so many references has a word."""


def page(results: Results, details: Details) -> str:
    """The whole page."""
    data = {
        "charts": _charts(results, details.analysis, details.curve),
        "columns": details.columns,
        "outputs": OUTPUTS,
        "utterances": details.utterances,
    }
    packed = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    tables = [*_tables(results, details.analysis), *_speakers(details.by_speaker)]
    worth = html([["", ""], *map(list, outlook.rows(details.analysis.outlook))])
    parts = {
        "TITLE": escape(f"{results.dataset}: {results.system}"),
        "ABOUT": results.size,
        "ANSWER": _answer(results),
        "SIGNATURE": escape(results.signature),
        "CARDS": "".join(_card(*card) for card in _cards(results, details.analysis)),
        "WORTH": _sheet(worth, details.analysis.outlook.title),
        "TABLES": "".join(_sheet(html(rows), title) for title, rows in tables),
        "DATA": b64encode(zlib.compress(packed, 9)).decode(),
    }
    template = (files("rescore.reports") / "page.html").read_text(encoding="utf-8")
    return re.sub("<!--([A-Z]+)-->", lambda match: parts[match[1]], template)


def _answer(results: Results) -> str:
    """One sentence and one table: whether reranking helped, and by how much."""
    main = results.metrics[0]
    lines = [("answer worse" if main.is_worse else "answer", verdict(main))]
    lines += [("answer worse", line) for measured in results.metrics[1:] for line in worse(measured)]
    sentences = "".join(f'<p class="{style}">{escape(line)}</p>' for style, line in lines)
    return sentences + _sheet(html(overview(results)))


def verdict(figures: MetricResult) -> str:
    """The answer in one sentence."""
    if figures.first_pass == figures.reranked:
        return f"Reranking does not change {figures.metric}: {figures.first_pass:.2f}."
    side = "worse" if figures.is_worse else "better"
    certain = figures.p_value is not None and figures.p_value < SIGNIFICANT
    judged = f"significantly {side} than the first pass" if certain else f"{side} than the first pass, maybe by chance"
    relative = 100 * (figures.reranked / figures.first_pass - 1) if figures.first_pass else math.inf
    change = (
        f": {abs(relative):.1f} % {'more' if relative > 0 else 'less'} {figures.metric}" if relative < math.inf else ""
    )
    return f"Reranking is {judged}{change}."


def _cards(results: Results, analysis: Analysis) -> list[tuple[str, str, str]]:
    """Name, value and note of each."""
    moves = analysis.moves
    cards = [
        ("changed", f"{moves.moved:,}", f"of {counted(results.utterances, 'utterance')}"),
        ("better", f"{moves.better:,}", f"of these in {analysis.metric}"),
        ("worse", f"{moves.worse:,}", f"and {moves.same:,} equal"),
    ]
    weights = _weights(results)
    if len(weights) == 1:  # several are a table
        cards.append((f"weight of {weights[0][0]}", weights[0][1], results.origin))
    return cards


def _card(name: str, value: str, note: str) -> str:
    style = f' class="{name}"' if name in ("better", "worse") else ""
    return f'<div class="figure"><span>{escape(name)}</span><b{style}>{value}</b><span>{escape(note)}</span></div>'


def _sheet(table: str, title: str = "") -> str:
    """A box that a wide table scrolls in."""
    return f'<div class="sheet">{f"<h3>{escape(title)}</h3>" if title else ""}{table}</div>'


def _weights(results: Results) -> list[list[str]]:
    """Columns beside the first pass and their weights."""
    return [[name, f"{weight:.3f}"] for name, weight in results.weights.items() if name != FIRST_PASS]


def _charts(results: Results, analysis: Analysis, steps: Sequence[Step]) -> list[dict[str, Any]]:
    charts: list[dict[str, Any]] = []
    for column in dict.fromkeys(step.column for step in steps):
        mine = [step for step in steps if step.column == column]
        points = [[at, step.value] for step in mine for at in (step.low, step.high)]
        weight = results.weights.get(column, 0.0)
        here = next((step.value for step in mine if step.low <= weight <= step.high), None)
        title = f"{results.metric} on dev against the weight of {column}"
        mark = [weight, here] if here is not None and math.isfinite(here) else None
        charts.append({"title": title, "x": "lambda", "lines": [_line("new", _thinned(points))], "mark": mark})
    depths = [[depth.n, depth.oracle] for depth in analysis.by_depth]
    charts.append({"title": "oracle by depth of the lists", "x": "hypotheses", "lines": [_line("new", depths)]})
    lengths = analysis.by_length
    charts.append(
        {
            "title": f"{analysis.metric} by length of the reference",
            "x": "words",
            "bars": True,
            "ticks": list(range(len(lengths))),
            "names": [f"≤{length.to}" if length.to else f">{length.above}" for length in lengths],
            "lines": _both_lines([(rank, length.first_pass, length.reranked) for rank, length in enumerate(lengths)]),
        }
    )
    places = [place for place in analysis.by_position if place.position < POSITIONS]
    enough = max((place.words for place in places), default=0) / FEW
    rates = [
        (place.position, 100 * place.first_pass / place.words, 100 * place.reranked / place.words)
        for place in takewhile(lambda place: place.words and place.words >= enough, places)
    ]
    title = "errors in a hundred words, by place in the reference"
    charts.append({"title": title, "x": "place", "zero": True, "lines": _both_lines(rates)})
    return [chart for chart in charts if any(line["points"] for line in chart["lines"])]


def _both_lines(points: Sequence[tuple[float, float, float]]) -> list[dict[str, Any]]:
    """The lines of both outputs, of points (x, first pass, reranked)."""
    return [
        _line(style, [[point[0], point[place]] for point in points], name=OUTPUTS[place - 1])
        for place, style in enumerate(("old", "new"), 1)
    ]


def _line(style: str, points: Sequence[list[float]], **about: str) -> dict[str, Any]:
    """A line without points at infinity: error rates where no word of the references counts."""
    return {"class": style, **about, "points": [point for point in points if math.isfinite(point[1])]}


def _thinned(points: list[list[float]]) -> list[list[float]]:
    """The points thinned to the columns of a screen."""
    every = max(1, len(points) // 1500)
    return [[round(x, 5), round(y, 4)] for x, y in [*points[:-1:every], points[-1]]]


Table = tuple[str, list[list[str]]]
"""A title and rows of cells."""


def _tables(results: Results, analysis: Analysis) -> list[Table]:
    weights = _weights(results)
    tables = [(f"{figures.metric}: counts", cells(figures)) for figures in results.metrics]
    if len(weights) > 1:
        tables.append((f"Weights, {results.origin}", [["", "weight"], *weights]))
    for title, pairs in (("Most often corrected", analysis.corrected), ("Most often newly broken", analysis.broken)):
        if pairs:
            body = [[pair.reference, pair.hypothesis or "(nothing)", str(pair.count)] for pair in pairs[:6]]
            tables.append((title, [["reference", "wrong", "times"], *body]))
    return tables


def _change(rates: SpeakerErrors) -> str:
    """The difference of the error rates of both outputs; an increase says that it is worse."""
    return marked_worse(f"{rates.reranked - rates.first_pass:+.1f}", rates.reranked > rates.first_pass)


def _speakers(speakers: Sequence[SpeakerErrors]) -> list[Table]:
    if not speakers:
        return []
    rows = [
        [
            speaker.name,
            f"{speaker.utterances:,}",
            f"{speaker.words:,}",
            *(f"{rate:.1f}" for rate in (speaker.first_pass, speaker.reranked)),
            _change(speaker),
        ]
        for speaker in speakers[:SPEAKERS]
    ]
    more = f", the {SPEAKERS} with the most errors of {len(speakers):,}" if len(speakers) > SPEAKERS else ""
    return [(f"Errors in 100 words, by speaker{more}", [["", "utterances", "words", *OUTPUTS, "change"], *rows])]
