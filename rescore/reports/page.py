"""The HTML report: one file that needs no network. Python gathers the data, page.html shows it."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from rescore.nbest import FIRST_PASS
from rescore.reports import outlook
from rescore.reports.analysis import Analysis
from rescore.reports.details import Details, SpeakerErrors, Utterance
from rescore.reports.results import Results, cells, gain
from rescore.reports.words import POSITIONS, class_rows
from rescore.tuning.tune import Step

OUTPUTS = ("first pass", "reranked")


def page(results: Results, details: Details) -> str:
    """The whole page."""
    data = {
        "title": f"{results.dataset}: {results.system}",
        "about": f"{results.utterances:,} utterances, {results.hypotheses:,} hypotheses",
        "signature": results.signature,
        "figures": _figures(results),
        "charts": _charts(results, details.analysis, details.curve),
        "tables": [
            *_tables(results, details.analysis),
            *_speakers(details.by_speaker),
            {"title": "Is it worth it?", "rows": [["", ""], *map(list, outlook.rows(details.analysis.outlook))]},
        ],
        "columns": list(details.utterances[0].candidates[0].scores) if details.utterances else [],
        "outputs": OUTPUTS,
        "utterances": [_utterance(utterance) for utterance in details.utterances],
    }
    # Inside a script element nothing but "</" and "<!--" is special: with "<" escaped there is neither.
    packed = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    template = (files("rescore.reports") / "page.html").read_text(encoding="utf-8")
    return template.replace("/*DATA*/", packed)


def _figures(results: Results) -> list[dict[str, str]]:
    cards = []
    for figures in results.metrics:
        bounds = {name: f"95 % CI {low:.2f}-{high:.2f}" for name, (low, high) in figures.intervals.items()}
        difference, _, note = gain(figures).removeprefix(f"{figures.metric} ").partition(", ")
        cards += [
            {
                "name": f"first pass {figures.metric}",
                "value": f"{figures.first_pass:.2f}",
                "note": bounds["first_pass"],
            },
            {"name": f"reranked {figures.metric}", "value": f"{figures.reranked:.2f}", "note": bounds["reranked"]},
            {"name": "change", "value": difference, "note": note},
            {
                "name": f"oracle {figures.metric}",
                "value": f"{figures.oracle:.2f}",
                "note": "best hypothesis of each list",
            },
        ]
    weights = _weights(results)
    if len(weights) == 1:  # several are a table
        cards.append({"name": f"weight of {weights[0][0]}", "value": weights[0][1], "note": results.origin})
    return cards


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
    depths = [[depth.n, depth.oracle] for depth in analysis.by_depth]
    charts.append(
        {"title": "oracle by depth of the lists", "x": "hypotheses", "lines": [{"class": "new", "points": depths}]}
    )
    lengths = analysis.by_length
    charts.append(
        {
            "title": f"{analysis.metric} by length of the reference",
            "x": "words",
            "ticks": list(range(len(lengths))),
            "names": [f"≤{length.to}" if length.to else f">{length.above}" for length in lengths],
            "lines": [
                _line("old", OUTPUTS[0], [[rank, length.first_pass] for rank, length in enumerate(lengths)]),
                _line("new", OUTPUTS[1], [[rank, length.reranked] for rank, length in enumerate(lengths)]),
            ],
        }
    )
    places = [place for place in analysis.by_position if place.position < POSITIONS and place.words]
    if places:
        charts.append(
            {
                "title": "errors in a hundred words, by place in the reference",
                "x": "place",
                "zero": True,
                "lines": [
                    _line(
                        "old",
                        OUTPUTS[0],
                        [[place.position, 100 * place.first_pass / place.words] for place in places],
                    ),
                    _line(
                        "new",
                        OUTPUTS[1],
                        [[place.position, 100 * place.reranked / place.words] for place in places],
                    ),
                ],
            }
        )
    return charts


def _line(style: str, name: str, points: list[list[float]]) -> dict[str, Any]:
    return {"class": style, "name": name, "points": points}


def _thinned(points: list[list[float]], most: int = 1500) -> list[list[float]]:
    """The points thinned to the columns of a screen."""
    every = max(1, len(points) // most)
    return [[round(x, 5), round(y, 4)] for x, y in [*points[:-1:every], points[-1]]]


def _tables(results: Results, analysis: Analysis) -> list[dict[str, Any]]:
    moves = analysis.moves
    weights = _weights(results)
    tables = [
        *({"title": f"{figures.metric}: counts", "rows": cells(figures)} for figures in results.metrics),
        *([{"title": f"Weights, {results.origin}", "rows": [["", "weight"], *weights]}] if len(weights) > 1 else []),
        {
            "title": "Where the choice moved",
            "rows": [
                ["", "utterances"],
                *([name, f"{getattr(moves, name):,}"] for name in ("moved", "better", "worse", "same")),
            ],
        },
    ]
    if analysis.by_class:
        tables.append({"title": "By kind of word", "rows": class_rows(analysis.by_class)})
    for title, pairs in (("Most often corrected", analysis.corrected), ("Most often newly broken", analysis.broken)):
        if pairs:
            body = [[pair.reference, pair.hypothesis or "(nothing)", str(pair.count)] for pair in pairs[:6]]
            tables.append({"title": title, "rows": [["reference", "wrong", "times"], *body]})
    return tables


def _speakers(speakers: Sequence[SpeakerErrors], most: int = 40) -> list[dict[str, Any]]:
    if not speakers:
        return []
    rows = [
        [
            speaker.name,
            f"{speaker.utterances:,}",
            f"{speaker.words:,}",
            *(f"{rate:.1f}" for rate in (speaker.first_pass, speaker.reranked)),
        ]
        for speaker in speakers[:most]
    ]
    more = f" (of {len(speakers)}, those with the most errors)" if len(speakers) > most else ""
    head = ["", "utterances", "words", *(f"{name}, errors in 100 words" for name in OUTPUTS)]
    return [{"title": f"By speaker{more}", "rows": [head, *rows]}]


def _utterance(utterance: Utterance) -> dict[str, Any]:
    return {
        "id": utterance.id,
        "text": " ".join([utterance.id, utterance.reference, *(output.text for output in utterance.outputs)]).lower(),
        "reference": utterance.reference,
        "words": utterance.words,
        "changed": utterance.outputs[0].text != utterance.outputs[1].text,
        "outputs": [
            {
                "pairs": output.pairs,
                "errors": output.errors,
                "respelled": [[edit.start, edit.end, " ".join(edit.words)] for edit in output.respelled],
                "tokens": [[token, _score(value, 2)] for token, value in output.tokens],
            }
            for output in utterance.outputs
        ],
        "certain": [
            [
                word.text,
                round(word.confidence, 3),
                [[alternative, round(mass, 3)] for alternative, mass in word.alternatives],
            ]
            for word in utterance.certain
        ],
        "list": [
            [
                hypothesis.text,
                hypothesis.errors,
                hypothesis.oracle,
                [_score(hypothesis.scores.get(name)) for name in utterance.candidates[0].scores],
            ]
            for hypothesis in utterance.candidates
        ],
    }


def _score(value: float | None, digits: int = 3) -> float | None:
    """For JSON, which knows no infinity."""
    return None if value is None or not math.isfinite(value) else round(value, digits)
