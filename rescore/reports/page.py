"""The HTML report: one file that needs no network.

Python writes the answer and its table, which need no JavaScript. From packed data,
page.html draws the curve of each weight and the utterances.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from rescore import decision
from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.metrics import Metric
from rescore.metrics.alignment import align
from rescore.metrics.normalise import Normaliser
from rescore.nbest import FIRST_PASS, NbestList, tie_order
from rescore.reports.figures import ORACLE
from rescore.reports.markup import html
from rescore.reports.records import MetricResult
from rescore.reports.results import Results
from rescore.reports.summary import worse, zero
from rescore.styles import marked_worse, p_value
from rescore.tuning.curves import Step


def page(
    results: Results,
    metric: Metric,
    lists: Sequence[NbestList],
    texts: Sequence[str],
    curve: Sequence[Step] = (),
) -> str:
    """The whole page of a run on lists with references.

    Args:
        texts: the choices, one per list. curve: the metric on the tuning lists against
            the weight of each model.
    """
    if not any(nbest.references for nbest in lists):
        raise UserError("an HTML report needs references; give --ref FILE")
    columns = Dataset.of(lists).scores
    first = decision.best(lists, {FIRST_PASS: 1.0})
    outputs = (
        (nbest.hypotheses[place].text, text)
        for nbest, place, text in zip(lists, first, texts, strict=True)
    )
    normaliser = metric.words or Normaliser()
    data = {
        "charts": _charts(results, curve),
        "columns": columns,
        "outputs": (results.metrics[0].baseline, "reranked"),
        "utterances": [
            _utterance(normaliser, *each, columns)
            for each in zip(lists, outputs, strict=True)
        ],
    }
    packed = json.dumps(
        data, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    ).encode()
    parts = {
        "TITLE": escape(f"{results.dataset}: {results.system}"),
        "ABOUT": results.size,
        "ANSWER": _answer(results),
        "SIGNATURE": escape(results.signature),
        "DATA": b64encode(zlib.compress(packed, 9)).decode(),
    }
    template = (files("rescore.reports") / "page.html").read_text(encoding="utf-8")
    return re.sub("<!--([A-Z]+)-->", lambda match: parts[match[1]], template)


def overview(results: Results) -> list[list[str]]:
    """A row for each metric: what reranking changed, and what the best hypotheses would
    give.
    """
    rows = [["", results.metrics[0].baseline, "reranked", "change", "p", ORACLE]]
    for measured in results.metrics:
        first, reranked, best = (
            f"{value:.2f}"
            for value in (measured.first_pass, measured.reranked, measured.oracle)
        )
        change = marked_worse(
            f"{measured.reranked - measured.first_pass:+z.2f}", measured.is_worse
        )
        rows.append(
            [measured.metric, first, reranked, change, p_value(measured.p_value), best]
        )
    return rows


def _answer(results: Results) -> str:
    """One sentence and one table: whether reranking helped, and by how much."""
    main = results.metrics[0]
    lines = [("answer worse" if main.is_worse else "answer", verdict(main))]
    lines += [
        ("answer worse", line)
        for measured in results.metrics[1:]
        for line in worse(measured)
    ]
    lines += [
        ("answer", line)
        for line in zero(
            results.dev, results.weights, str(results.metric), results.decision
        )
    ]
    sentences = "".join(
        f'<p class="{style}">{escape(line)}</p>' for style, line in lines
    )
    return f'{sentences}<div class="sheet">{html(overview(results))}</div>'


def verdict(figures: MetricResult) -> str:
    """The answer in one sentence."""
    if figures.first_pass == figures.reranked:
        return f"Reranking does not change {figures.metric}: {figures.first_pass:.2f}."
    if not figures.certain:
        return (
            f"The change may be chance: {figures.metric} {figures.first_pass:.2f} ->"
            f" {figures.reranked:.2f}."
        )
    relative = (
        100 * (figures.reranked / figures.first_pass - 1)
        if figures.first_pass
        else math.inf
    )
    more = "more" if relative > 0 else "less"
    share = (
        f": {abs(relative):.1f} % {more} {figures.metric}"
        if relative < math.inf
        else ""
    )
    change = "worse" if figures.is_worse else "better"
    return f"Reranking is significantly {change} than the {figures.baseline}{share}."


def _charts(results: Results, steps: Sequence[Step]) -> list[dict[str, Any]]:
    """A chart for each column with a curve; its mark is at the tuned weight."""
    charts = []
    for column in dict.fromkeys(step.column for step in steps):
        mine = [
            step
            for step in steps
            if step.column == column and math.isfinite(step.value)
        ]
        weight = results.weights.get(column, 0.0)
        here = next(
            (step.value for step in mine if step.low <= weight <= step.high), None
        )
        title = f"{results.metric} on dev against the weight of {column}"
        points = _thinned(
            [[at, step.value] for step in mine for at in (step.low, step.high)]
        )
        charts.append(
            {
                "title": title,
                "points": points,
                "mark": None if here is None else [weight, here],
            }
        )
    return [chart for chart in charts if chart["points"]]


def _thinned(points: list[list[float]]) -> list[list[float]]:
    """The points thinned to the columns of a screen."""
    every = max(1, len(points) // 1500)
    return [[round(x, 5), round(y, 4)] for x, y in [*points[:-1:every], *points[-1:]]]


def _utterance(
    normaliser: Normaliser,
    nbest: NbestList,
    texts: tuple[str, str],
    columns: Sequence[str],
) -> dict[str, Any]:
    """One utterance as page.html reads it: its first-pass and reranked text, and all
    hypotheses in the order of the file.
    """
    # Both texts stand below each other, beside one reference: the closest to the
    # reranked text.
    reference = normaliser.closest(nbest.references, texts[-1])
    words = normaliser(reference)
    aligned = [align(*normaliser.pair([reference], text)) for text in texts]
    errors = [
        _errors(align(*normaliser.pair(nbest.references, hypothesis.text)))
        for hypothesis in nbest.hypotheses
    ]
    best = min(tie_order(nbest), key=errors.__getitem__)
    return {
        "id": nbest.id,
        "text": " ".join([nbest.id, reference, *texts]).lower(),
        "reference": reference,
        "words": len(words),
        "changed": texts[0] != texts[1],
        "outputs": [{"pairs": pairs, "errors": _errors(pairs)} for pairs in aligned],
        "list": [
            [
                each.text,
                number,
                rank == best,
                [_finite(each.scores.get(name)) for name in columns],
            ]
            for rank, (each, number) in enumerate(
                zip(nbest.hypotheses, errors, strict=True)
            )
        ],
    }


def _errors(pairs: Iterable[tuple[str | None, str | None]]) -> int:
    return sum(expected != word for expected, word in pairs)


def _finite(score: float | None) -> float | None:
    """For JSON, which knows no infinity."""
    return None if score is None or not math.isfinite(score) else round(score, 3)
