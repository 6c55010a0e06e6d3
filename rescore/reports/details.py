"""Results per utterance: a row for each, for a file or a DataFrame."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rescore.formats import opened
from rescore.metrics import Metric
from rescore.metrics.base import is_better, text_statistics
from rescore.nbest import NbestList
from rescore.reports.markup import comma_separated
from rescore.styles import one_line

Rows = list[dict[str, Any]]


def details(
    metric: Metric | None,
    lists: Sequence[NbestList],
    first: Sequence[str],
    chosen: Sequence[str],
) -> Rows:
    """A row per list: id, source of a translation, reference, both texts, their errors
    (of metrics other than error rates their values), whether the text changed, whether
    it is better, worse or the same by these figures, and the scores of the chosen
    hypothesis (natural log; none of a text that no list has).

    Args:
        metric: None for lists without references. first, chosen: the text of the first
            pass, and the reranked text.
    """
    rows: Rows = [
        {
            "id": nbest.id,
            **({} if nbest.source is None else {"source": nbest.source}),
            "reference": next(iter(nbest.references), None),
            "first_pass": old,
            "chosen": new,
        }
        for nbest, old, new in zip(lists, first, chosen, strict=True)
    ]
    for name, texts in (("first_pass", first), ("chosen", chosen)):
        if metric is None:
            break
        statistics = text_statistics(metric.for_reports, lists, texts)
        counts = (
            metric.losses(statistics)
            if metric.words
            else metric.sentence_values(statistics)
        )
        for row, count in zip(rows, counts.tolist(), strict=True):
            row[f"{name}_{'errors' if metric.words else metric.name}"] = count
    for row, nbest in zip(rows, lists, strict=True):
        row["changed"] = row["first_pass"] != row["chosen"]
        row["verdict"] = None
        if metric is not None:
            old, new = list(row.values())[-4:-2]
            higher_is_better = metric.higher_is_better and not metric.words
            row["verdict"] = (
                "same"
                if old == new
                else "better"
                if is_better(new, old, higher_is_better)
                else "worse"
            )
        same = (
            hypothesis.scores
            for hypothesis in nbest.hypotheses
            if hypothesis.text == row["chosen"]
        )
        row |= next(same, {}) | row
    return rows


def write(rows: Rows, path: str) -> None:
    """Write rows: with the ending .tsv or .csv as a table with a head line, else as
    JSON Lines.
    """
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    if path.endswith((".tsv", ".csv")):
        names = dict.fromkeys(name for row in rows for name in row)
        table = [[row.get(name, "") for name in names] for row in rows]
        cells = [
            [
                one_line(cell if isinstance(cell, str) else json.dumps(cell))
                for cell in row
            ]
            for row in table
        ]
        table = [list(names), *cells]
        lines = (
            ["\t".join(row) for row in table]
            if path.endswith(".tsv")
            else [comma_separated(table)]
        )
    with opened(path) as file:
        file.writelines(f"{line}\n" for line in lines)
