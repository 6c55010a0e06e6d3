"""The HTML report: one file that needs no network.

Python writes the answer, its table and the changed utterances, which need no
JavaScript. From packed data, page.html draws the curve of each weight and all
utterances.
"""

from __future__ import annotations

import json
import math
import os
import re
import zlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.resources import files
from typing import Any

from rescore.dataset import Dataset
from rescore.deciding import first_pass
from rescore.errors import UserError
from rescore.metrics import Metric
from rescore.metrics.alignment import AlignedPair, align
from rescore.metrics.normalise import Normaliser
from rescore.nbest import NbestList, tie_order
from rescore.reports.figures import ORACLE, interval_cell
from rescore.reports.groups import as_html
from rescore.reports.markup import html
from rescore.reports.records import MetricResult
from rescore.reports.results import Results
from rescore.reports.summary import cells, nothing_to_measure, reasons_of_zero, worse
from rescore.styles import UNDEFINED, figure, marked_worse, p_value
from rescore.tuning.curves import CurveStep

SCREEN = 1500
"""Points of a curve; a screen shows no more."""
PLAIN = 100
"""Changed utterances of the largest gain, and of the largest loss, that a browser
without JavaScript shows.
"""


def page(
    results: Results,
    metric: Metric,
    lists: Dataset,
    texts: Sequence[str],
    curve: Sequence[CurveStep] = (),
) -> str:
    """Return the HTML page of a run on lists with references.

    Args:
        results: The results of the run.
        metric: The first metric of the results.
        lists: The lists.
        texts: The chosen text of each list.
        curve: The metric on the tuning lists against the weight of each model.

    Raises:
        UserError: No list has a reference.
    """
    if not lists.has_references:
        raise UserError("an HTML report needs references; give --ref FILE")
    columns = lists.score_names
    first = first_pass(lists).texts
    normaliser = metric.words or Normaliser()
    utterances = []
    for nbest, before, after in zip(lists, first, texts, strict=True):
        utterances.append(_utterance(normaliser, nbest, (before, after), columns))
    outputs = (results.metrics[0].baseline, "reranked")
    data = {
        "charts": _charts(results, curve),
        "columns": columns,
        "outputs": outputs,
        "utterances": utterances,
    }
    parts = {
        "TITLE": escape(f"{results.dataset}: {results.system}"),
        "ABOUT": results.size,
        "ANSWER": _answer(results) + _about(results, utterances),
        "PLAIN": _plain(outputs, utterances),
        "SIGNATURE": escape(results.signature),
        "DATA": _packed(data),
    }
    template = (files("rescore.reports") / "page.html").read_text(encoding="utf-8")
    return re.sub("<!--([A-Z]+)-->", lambda match: parts[match[1]], template)


def _about(results: Results, utterances: Sequence[dict[str, Any]]) -> str:
    """Return the HTML of what stands below the table: how many utterances became better
    and worse, the confidence intervals of the reranked texts, and the day.
    """
    losses = [_loss(utterance) for utterance in utterances]
    better = sum(loss < 0 for loss in losses)
    lost = sum(loss > 0 for loss in losses)
    about = [f"{better:,} better, {lost:,} worse"]
    for measured in results.metrics:
        interval = interval_cell(measured.intervals.get("reranked"))
        if interval:
            about.append(f"95 % CI of the reranked {measured.metric} {interval}")
    return f'<p class="faint">{escape("; ".join([*about, _today()]))}</p>'


def _today() -> str:
    """Return the day; or that of SOURCE_DATE_EPOCH, which makes pages reproducible."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
    if seconds.isdecimal():
        return datetime.fromtimestamp(int(seconds), UTC).date().isoformat()
    return datetime.now(UTC).date().isoformat()


def _packed(data: dict[str, Any]) -> str:
    """Return data as page.html unpacks it: base64 of compressed JSON."""
    content = json.dumps(
        data, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )
    return b64encode(zlib.compress(content.encode(), 9)).decode()


def overview(results: Results) -> list[list[str]]:
    """Return the cells of a table with a row for each metric: what reranking changed,
    and what the best hypotheses would give.

    Args:
        results: The results of the run.
    """
    rows = [["", results.metrics[0].baseline, "reranked", "change", "p", ORACLE]]
    for measured in results.metrics:
        change = UNDEFINED
        if measured.is_defined:
            change = f"{measured.reranked - measured.first_pass:+z.2f}"
        row = [
            measured.metric,
            figure(measured.first_pass),
            figure(measured.reranked),
            marked_worse(change, measured.is_worse),
            p_value(measured.p_value),
            figure(measured.oracle),
        ]
        rows.append(row)
    return rows


def _answer(results: Results) -> str:
    """Return the HTML of the answer: a sentence on whether reranking helped, warnings,
    and a table.
    """
    main = results.metrics[0]
    sentences = [_paragraph(verdict(main), main.is_worse)]
    for measured in results.metrics[1:]:
        sentences += [_paragraph(line, is_worse=True) for line in worse(measured)]
    for line in reasons_of_zero(results):
        sentences.append(_paragraph(line, is_worse=False))
    tables = html(overview(results))
    for measured in results.metrics:
        if measured.shows_systems:
            tables += html(cells(measured))
    tables += as_html(results.groups)
    return f'{"".join(sentences)}<div class="sheet">{tables}</div>'


def _plain(names: Sequence[str], utterances: Sequence[dict[str, Any]]) -> str:
    """Return the HTML of the changed utterances, the largest gain first and the largest
    loss last, with the total of all utterances.

    Args:
        names: The names of both outputs.
        utterances: As `_utterance` returns them.
    """
    changed = [utterance for utterance in utterances if utterance["changed"]]
    changed.sort(key=_loss)
    shown = changed
    if len(changed) > 2 * PLAIN:
        shown = [*changed[:PLAIN], *changed[-PLAIN:]]
    rows = [["utterance", "text", *names]]
    for utterance in shown:
        before, after = utterance["outputs"]
        texts = [f"reference: {utterance['reference']}"]
        for name, output in zip(names, (before, after), strict=True):
            texts.append(f"{name}: {output['text']}")
        errors = [str(before["errors"]), str(after["errors"])]
        rows.append([utterance["id"], "\n".join(texts), *errors])
    totals = []
    for place in range(len(names)):
        errors_of = [utterance["outputs"][place]["errors"] for utterance in utterances]
        totals.append(f"{sum(errors_of):,}")
    rows.append([f"total of {len(utterances):,} utterances", "", *totals])
    about = f"{len(shown):,} of {len(changed):,} changed utterances, with their errors"
    return f"<h2>Utterances</h2>{_paragraph(about, False)}{html(rows)}"


def _loss(utterance: dict[str, Any]) -> int:
    """Return by how many errors the reranked text of an utterance is worse."""
    before, after = utterance["outputs"]
    return int(after["errors"] - before["errors"])


def _paragraph(line: str, is_worse: bool) -> str:
    """Return a sentence of the answer as HTML."""
    style = "answer worse" if is_worse else "answer"
    return f'<p class="{style}">{escape(line)}</p>'


def verdict(figures: MetricResult) -> str:
    """Return one sentence on whether reranking helped, and by how much.

    Args:
        figures: The figures of a run under one metric.
    """
    metric = figures.metric
    first = figures.first_pass
    reranked = figures.reranked
    if not figures.is_defined:
        return f"{nothing_to_measure(figures)}."
    if first == reranked:
        return f"Reranking does not change {metric}: {first:.2f}."
    if not figures.certain:
        return f"The change may be chance: {metric} {first:.2f} -> {reranked:.2f}."
    change = "worse" if figures.is_worse else "better"
    answer = f"Reranking is significantly {change} than the {figures.baseline}"
    if first == 0:
        return f"{answer}."
    relative = 100 * (reranked / first - 1)
    more = "more" if relative > 0 else "less"
    return f"{answer}: {abs(relative):.1f} % {more} {metric}."


def _charts(results: Results, steps: Sequence[CurveStep]) -> list[dict[str, Any]]:
    """Return a chart for each column with a curve; its mark is at the tuned weight."""
    steps_of_column: dict[str, list[CurveStep]] = {}
    for step in steps:
        if math.isfinite(step.value):
            steps_of_column.setdefault(step.column, []).append(step)
    charts = []
    for column, own_steps in steps_of_column.items():
        weight = results.weights.get(column, 0.0)
        mark = None
        points = []
        for step in own_steps:
            points.append([step.low, step.value])
            points.append([step.high, step.value])
            if mark is None and step.low <= weight <= step.high:
                mark = [weight, step.value]
        chart = {
            "title": f"{results.metric} on dev against the weight of {column}",
            "points": _thinned(points),
            "mark": mark,
        }
        charts.append(chart)
    return charts


def _thinned(points: list[list[float]]) -> list[list[float]]:
    """Return points thinned to the columns of a screen, and rounded."""
    stride = max(1, len(points) // SCREEN)
    kept = [*points[:-1:stride], *points[-1:]]
    return [[round(x, 5), round(y, 4)] for x, y in kept]


def _utterance(
    normaliser: Normaliser,
    nbest: NbestList,
    texts: tuple[str, str],
    columns: Sequence[str],
) -> dict[str, Any]:
    """Return an utterance as page.html reads it.

    Args:
        normaliser: Cuts texts into words.
        nbest: The list of the utterance.
        texts: The first-pass text and the reranked text.
        columns: The columns of scores that the page shows.
    """
    # Both texts stand below each other, beside one reference: the closest to the
    # reranked text.
    reference = normaliser.closest(nbest.references, texts[-1])
    outputs = []
    for text in texts:
        pairs = align(*normaliser.pair([reference], text))
        outputs.append({"text": text, "pairs": pairs, "errors": _errors(pairs)})
    return {
        "id": nbest.id,
        "text": " ".join([nbest.id, reference, *texts]).lower(),
        "reference": reference,
        "words": len(normaliser(reference)),
        "changed": texts[0] != texts[1],
        "outputs": outputs,
        "list": _hypotheses(normaliser, nbest, columns, texts),
    }


def _hypotheses(
    normaliser: Normaliser,
    nbest: NbestList,
    columns: Sequence[str],
    texts: tuple[str, str],
) -> list[list[Any]]:
    """Return each hypothesis in the order of the file: its text, its errors, whether it
    is the best one, its scores, and whether its text is the first-pass text and the
    reranked text.
    """
    errors = []
    for hypothesis in nbest.hypotheses:
        pairs = align(*normaliser.pair(nbest.references, hypothesis.text))
        errors.append(_errors(pairs))
    best = min(tie_order(nbest), key=errors.__getitem__)
    rows: list[list[Any]] = []
    for place, hypothesis in enumerate(nbest.hypotheses):
        scores = [_for_json(hypothesis.scores.get(name)) for name in columns]
        of_outputs = [hypothesis.text == text for text in texts]
        rows.append([hypothesis.text, errors[place], place == best, scores, of_outputs])
    return rows


def _errors(pairs: Iterable[AlignedPair]) -> int:
    """Return the number of aligned words that are not the same."""
    return sum(expected != word for expected, word in pairs)


def _for_json(score: float | None) -> float | None:
    """Return a rounded score; None if it is infinite, as JSON knows no infinity."""
    if score is None or not math.isfinite(score):
        return None
    return round(score, 3)
