"""What a model scored that was asked about the best hypotheses of each list only, and what that left to win."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rescore.metrics import Metric, list_statistics, oracle, total, value
from rescore.nbest import TOKENS, WORDS, NbestList, Selection


@dataclass(frozen=True, slots=True)
class Cascade:
    """The share of the lists that one model scored."""

    column: str
    """The model's column of scores."""
    selection: Selection
    hypotheses: float
    """Share of all hypotheses that it scored."""
    unit: str
    """`tokens` of the model that counted them, where the lists have their number, else `words`."""
    units: float
    """Share of all tokens (or words) that it scored."""
    oracle: float | None
    """The metric of the best scored hypothesis of each list, in percent; None without references."""


def scored(nbest: NbestList, column: str) -> NbestList:
    """The list of the hypotheses that have a score in a column that a model gave to some."""
    kept = [hypothesis for hypothesis in nbest.hypotheses if not np.isneginf(hypothesis.scores[column])]
    return replace(nbest, hypotheses=kept or nbest.hypotheses)


def cascades(lists: Sequence[NbestList], columns: Sequence[str], metric: Metric | None = None) -> list[Cascade]:
    """A record for each of the columns that a model gave to selected hypotheses."""
    result = []
    for column in columns:
        record = lists[0].provenance.get(column)
        if record is None or record.selection is None:
            continue
        left = [scored(nbest, column) for nbest in lists]
        unit = TOKENS if TOKENS in lists[0].hypotheses[0].scores else WORDS
        best = None
        if metric is not None:
            statistics = list_statistics(metric, left)
            best = value(metric, total(statistics, oracle(metric, statistics)))
        hypotheses = _number(left) / _number(lists)
        result.append(Cascade(column, record.selection, hypotheses, unit, _share(left, lists, unit), best))
    return result


def _number(lists: Sequence[NbestList]) -> int:
    return sum(len(nbest.hypotheses) for nbest in lists)


def _share(selected: Sequence[NbestList], lists: Sequence[NbestList], column: str) -> float:
    part, whole = (sum(sum(nbest.column(column)) for nbest in each) for each in (selected, lists))
    return part / whole if whole else 0.0


def lines(records: Sequence[Cascade], metric: str | None, every: Sequence[Mapping[str, float]]) -> Iterator[str]:
    """One line for each model.

    Args:
        every: all weights that decided: of each condition and fold.
    """
    for cascade in records:
        used = any(weights.get(cascade.column) for weights in every)
        unused = "" if used else "; its weight is 0, so all hypotheses may win"
        best = "" if cascade.oracle is None else f"; their oracle {metric} is {cascade.oracle:.2f}"
        yield (
            f"{cascade.column} scored {100 * cascade.hypotheses:.1f} % of the hypotheses and "
            f"{100 * cascade.units:.1f} % of the {cascade.unit}{best}; {cascade.selection}{unused}"
        )
