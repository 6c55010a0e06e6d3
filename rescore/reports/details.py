"""Results per utterance: a row for each utterance, for a file or a DataFrame."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rescore.columns import FIRST_PASS
from rescore.dataset import Dataset
from rescore.files import ending_of, opened
from rescore.metrics import Metric, Normaliser
from rescore.metrics.base import is_better, text_statistics
from rescore.nbest import NbestList, ranking
from rescore.reports.markup import comma_separated
from rescore.styles import one_line

Rows = list[dict[str, Any]]


def details(
    metric: Metric | None,
    lists: Dataset,
    first: Sequence[str],
    chosen: Sequence[str],
) -> Rows:
    """Return a row for each list: what was said, both texts, their figures, and scores.

    The figures of a text are its errors, or for metrics other than error rates its
    value. By these figures, the verdict says whether the chosen text is better, worse
    or the same. The scores (natural log) of the chosen hypothesis have the names of
    their columns. The scores of the first-pass hypothesis are `first_pass_COLUMN`.
    A text that is no hypothesis of the list has no scores.

    Args:
        metric: The metric; None for lists without references.
        lists: The lists.
        first: The first-pass text of each list.
        chosen: The reranked text of each list.
    """
    rows: Rows = []
    for nbest, old_text, new_text in zip(lists, first, chosen, strict=True):
        row: dict[str, Any] = {"id": nbest.id}
        if nbest.source is not None:
            row["source"] = nbest.source
        row["reference"] = _spoken(metric, nbest, new_text)
        row["first_pass"] = old_text
        row["chosen"] = new_text
        row |= _answers(metric, row)
        rows.append(row)
    verdicts: list[str | None] = [None] * len(rows)
    if metric is not None:
        verdicts = []
        name = metric.name if metric.words is None else "errors"
        before = _figures(metric, lists, first)
        after = _figures(metric, lists, chosen)
        for row, old, new in zip(rows, before, after, strict=True):
            row[f"first_pass_{name}"] = old
            row[f"chosen_{name}"] = new
            verdicts.append(_verdict(metric, old, new))
    for row, verdict, nbest in zip(rows, verdicts, lists, strict=True):
        row["changed"] = row["first_pass"] != row["chosen"]
        row["verdict"] = verdict
        for column, score in _scores(nbest, row["chosen"]).items():
            row.setdefault(column, score)
        for column, score in _first_pass_scores(nbest, row["first_pass"]).items():
            row.setdefault(f"first_pass_{column}", score)
    return rows


def _answers(
    metric: Metric | None, row: Mapping[str, str | None]
) -> dict[str, str | None]:
    """Return the answers of the texts of a row, where answers are taken out of texts
    (`Normaliser.answer`).
    """
    pattern = metric and metric.words and metric.words.answer
    if not pattern:
        return {}
    answer = Normaliser(answer=pattern)
    answers: dict[str, str | None] = {}
    for name in ("reference", "first_pass", "chosen"):
        text = row[name]
        answers[f"{name}_answer"] = None if text is None else " ".join(answer(text))
    return answers


def _spoken(metric: Metric | None, nbest: NbestList, text: str) -> str | None:
    """Return the first reference of a text, with the alternatives that are aligned with
    the text; None without a reference.
    """
    if not nbest.references:
        return None
    normaliser = (metric and metric.words) or Normaliser()
    ((reference, *_),) = normaliser.spoken([nbest.references], [text])
    return reference


def _figures(metric: Metric, lists: Dataset, texts: Sequence[str]) -> list[float]:
    """Return the errors of each text, or its value if the metric is no error rate."""
    statistics = text_statistics(metric.for_reports, lists, texts)
    return metric.ranking_values(statistics).tolist()


def _verdict(metric: Metric, old: float, new: float) -> str:
    """Return whether a figure is better or worse than the figure of the first pass."""
    if old == new:
        return "same"
    higher_is_better = metric.higher_is_better and not metric.orders_by_errors
    if is_better(new, old, higher_is_better):
        return "better"
    return "worse"


def _scores(nbest: NbestList, text: str) -> dict[str, float]:
    """Return the scores of the first hypothesis with a text; empty if there is none."""
    for hypothesis in nbest.hypotheses:
        if hypothesis.text == text:
            return dict(hypothesis.scores)
    return {}


def _first_pass_scores(nbest: NbestList, text: str) -> dict[str, float]:
    """Return the scores of the hypothesis with a text that has the best first pass;
    empty if there is none.
    """
    first_pass = []
    for hypothesis in nbest.hypotheses:
        first_pass.append(hypothesis.scores.get(FIRST_PASS, -math.inf))
    for index in ranking(nbest, first_pass):
        if nbest.hypotheses[index].text == text:
            return dict(nbest.hypotheses[index].scores)
    return {}


def write(rows: Rows, path: str) -> None:
    """Write rows as a table with a head line, or as JSON Lines.

    Args:
        rows: As `details` returns them.
        path: The file. The endings .tsv and .csv are tables; `-` is stdout.
    """
    ending = ending_of(path)
    if ending == ".tsv":
        lines = ["\t".join(row) for row in _table(rows)]
    elif ending == ".csv":
        lines = [comma_separated(_table(rows))]
    else:
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    with opened(path) as file:
        for line in lines:
            file.write(f"{line}\n")


def _table(rows: Rows) -> list[list[str]]:
    """Return the cells of a table: the names of all columns, then the rows."""
    names: dict[str, None] = {}
    for row in rows:
        names |= dict.fromkeys(row)
    table = [list(names)]
    for row in rows:
        table.append([_cell(row.get(name, "")) for name in names])
    return table


def _cell(value: Any) -> str:
    """Return a value as a cell: a text as it is, other values as in JSON."""
    if isinstance(value, str):
        return one_line(value)
    return one_line(json.dumps(value))
