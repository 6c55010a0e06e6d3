"""The HTML report: one file that needs no network. Python gathers the data, page.html shows it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from rescore.analysis import POSITIONS, Analysis
from rescore.metrics.alignment import align
from rescore.metrics.normalise import Normaliser
from rescore.nbest import FIRST_PASS, NbestList
from rescore.reporting.results import Results
from rescore.reporting.styles import p_value
from rescore.reporting.table import SHORT
from rescore.scoring.base import LanguageModel, TokenScores
from rescore.tuning.weights import Step

OUTPUTS = ("first pass", "reranked")


def page(
    results: Results,
    analysis: Analysis,
    lists: Sequence[NbestList],
    outputs: tuple[Sequence[str], Sequence[str]],
    lm: LanguageModel,
    steps: Sequence[Step] = (),
    normaliser: Normaliser | None = None,
) -> str:
    """The whole page.

    Args:
        outputs: the texts of first pass and reranked, one a list. lm: whose log-probabilities shade their tokens.
        steps: the curve of the metric against the weight on dev.
    """
    tokens = _tokens(lm, outputs)
    data = {
        "title": f"{results.dataset}: {results.system}",
        "about": f"{results.utterances:,} utterances, {results.hypotheses:,} hypotheses",
        "signature": results.signature,
        "figures": _figures(results),
        "charts": _charts(results, analysis, steps),
        "tables": _tables(results, analysis),
        "outputs": OUTPUTS,
        "utterances": _utterances(lists, outputs, tokens, normaliser or Normaliser()),
    }
    # Inside a script element nothing but "</" and "<!--" is special: with "<" escaped there is neither.
    packed = json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    template = (files("rescore.reporting") / "page.html").read_text(encoding="utf-8")
    return template.replace("/*DATA*/", packed)


def _tokens(lm: LanguageModel, outputs: tuple[Sequence[str], Sequence[str]]) -> dict[str, TokenScores]:
    texts = list(dict.fromkeys([*outputs[0], *outputs[1]]))
    return dict(zip(texts, lm.score(texts), strict=True))


def _figures(results: Results) -> list[dict[str, str]]:
    assert results.first_pass is not None and results.oracle is not None and results.reranked is not None
    bounds = {name: f"95 % CI {low:.2f}-{high:.2f}" for name, (low, high) in results.intervals.items()}
    difference = results.reranked - results.first_pass
    relative = f"{100 * difference / results.first_pass:+.1f} % relative" if results.first_pass else ""
    p = f", p = {p_value(results.p_value)}".replace("= <", "< ") if results.p_value is not None else ""
    lm = {name: weight for name, weight in results.weights.items() if name != FIRST_PASS}
    weights = " ".join(f"{weight:.3f}" for weight in lm.values())
    return [
        {"name": f"first pass {results.metric}", "value": f"{results.first_pass:.2f}", "note": bounds["first_pass"]},
        {"name": f"reranked {results.metric}", "value": f"{results.reranked:.2f}", "note": bounds["reranked"]},
        {"name": "change", "value": f"{difference:+.2f}", "note": relative + p},
        {"name": f"oracle {results.metric}", "value": f"{results.oracle:.2f}", "note": "best hypothesis of each list"},
        {"name": f"weight of {', '.join(lm)}", "value": weights, "note": results.origin},
    ]


def _charts(results: Results, analysis: Analysis, steps: Sequence[Step]) -> list[dict[str, Any]]:
    charts: list[dict[str, Any]] = []
    for column in dict.fromkeys(step.column for step in steps):
        mine = [step for step in steps if step.column == column]
        points = [[at, step.value] for step in mine for at in (step.low, step.high)]
        weight = results.weights.get(column, 0.0)
        here = next((step.value for step in mine if step.low <= weight <= step.high), None)
        line = {"class": "new", "points": _thinned(points)}
        mark = None if here is None else [weight, here]
        charts.append(
            {
                "title": f"{results.metric} on dev against the weight of {column}",
                "x": "lambda",
                "lines": [line],
                "mark": mark,
            }
        )
    depths = [[one.n, one.oracle] for one in analysis.by_depth]
    charts.append(
        {"title": "oracle by depth of the lists", "x": "hypotheses", "lines": [{"class": "new", "points": depths}]}
    )
    lengths = analysis.by_length
    charts.append(
        {
            "title": f"{analysis.metric} by length of the reference",
            "x": "words",
            "ticks": list(range(len(lengths))),
            "names": [f"≤{one.to}" if one.to else f">{one.above}" for one in lengths],
            "lines": [
                _line("old", OUTPUTS[0], [[rank, one.first_pass] for rank, one in enumerate(lengths)]),
                _line("new", OUTPUTS[1], [[rank, one.reranked] for rank, one in enumerate(lengths)]),
            ],
        }
    )
    places = [one for one in analysis.by_position if one.position < POSITIONS]
    if places:
        charts.append(
            {
                "title": "word errors by place in the reference",
                "x": "place",
                "zero": True,
                "whole": True,
                "lines": [
                    _line("old", OUTPUTS[0], [[one.position, one.first_pass] for one in places]),
                    _line("new", OUTPUTS[1], [[one.position, one.reranked] for one in places]),
                ],
            }
        )
    return charts


def _line(style: str, name: str, points: list[list[float]]) -> dict[str, Any]:
    return {"class": style, "name": name, "points": points}


def _thinned(points: list[list[float]], most: int = 1500) -> list[list[float]]:
    """Every so many points: more than a screen has columns cannot be seen."""
    every = max(1, len(points) // most)
    return [[round(x, 5), round(y, 4)] for x, y in [*points[:-1:every], points[-1]]]


def _tables(results: Results, analysis: Analysis) -> list[dict[str, Any]]:
    names = [name for name in next(iter(results.counts.values())) if not name.startswith("ref_")]
    figures = {"first_pass": results.first_pass, "oracle": results.oracle, "reranked": results.reranked}
    rows = [["", str(results.metric), *(SHORT.get(name, name) for name in names)]]
    for key, value in figures.items():
        rows.append([key.replace("_", " "), f"{value:.2f}", *(f"{results.counts[key][name]:,}" for name in names)])
    moves = analysis.moves
    tables = [
        {"title": "Counts", "rows": rows},
        {
            "title": "Where the choice moved",
            "rows": [
                ["", "utterances"],
                *([name, f"{getattr(moves, name):,}"] for name in ("moved", "better", "worse", "same")),
            ],
        },
    ]
    for title, pairs in (("Most often corrected", analysis.corrected), ("Most often newly broken", analysis.broken)):
        if pairs:
            body = [[pair.reference, pair.hypothesis or "(nothing)", str(pair.count)] for pair in pairs[:6]]
            tables.append({"title": title, "rows": [["reference", "wrong", "times"], *body]})
    return tables


def _utterances(
    lists: Sequence[NbestList],
    outputs: tuple[Sequence[str], Sequence[str]],
    tokens: dict[str, TokenScores],
    normaliser: Normaliser,
) -> list[dict[str, Any]]:
    utterances = []
    for nbest, *texts in zip(lists, *outputs, strict=True):
        reference = normaliser(nbest.references[0])
        sides = []
        for text in texts:
            pairs = align(reference, normaliser(text))
            scores = tokens[text]
            shaded = [
                [token, round(float(value), 2)] for token, value in zip(scores.tokens, scores.log_probs, strict=True)
            ]
            sides.append({"pairs": pairs, "errors": sum(ours != theirs for ours, theirs in pairs), "tokens": shaded})
        utterances.append(
            {
                "id": nbest.id,
                "text": " ".join([nbest.id, nbest.references[0], *texts]).lower(),
                "words": len(reference),
                "changed": texts[0] != texts[1],
                "outputs": sides,
            }
        )
    return utterances
