"""What became of parts of the lists: the hypotheses that a model of a cascade scored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from msgspec import Meta

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
        hypotheses, whole = (sum(len(nbest.hypotheses) for nbest in each) for each in (left, lists))
        units, all_units = (sum(sum(nbest.column(unit)) for nbest in each) for each in (left, lists))
        share = units / all_units if all_units else 0.0
        result.append(Cascade(column, record.selection, hypotheses / whole, unit, share, best))
    return result


def cascade_lines(
    records: Sequence[Cascade], metric: str | None, every: Sequence[Mapping[str, float]]
) -> Iterator[str]:
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


@dataclass(frozen=True, slots=True)
class AgainstFirstPass:
    """Texts under the first metric, each beside the first pass's best of its list; 0 for lists without references."""

    texts: Annotated[int, Meta(description="All of them.")]
    better: Annotated[int, Meta(description="Those that are better.")] = 0
    equal: Annotated[int, Meta(description="Those that are as good.")] = 0
    worse: Annotated[int, Meta(description="Those that are worse.")] = 0

    def __str__(self) -> str:
        effects = (("better", self.better), ("equal", self.equal), ("worse", self.worse))
        named = ", ".join(f"{number:,} {name}" for name, number in effects)
        return f"{self.texts:,}" + (f" ({named})" if any(number for _, number in effects) else "")
