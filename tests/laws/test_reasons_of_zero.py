"""Law: a line names each column whose tuned weight is 0: for each kind of column,
beside a column that helps and alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest

from rescore import metrics
from rescore.columns import FROM_FILE, Column, Role
from rescore.dataset import Dataset
from rescore.reports.summary import why_all_zero
from rescore.tuning import TuningOptions, Weights, tune_weights
from rescore.tuning.phrases import notes
from tests.laws.test_zero_weights import USELESS, lists

KINDS: dict[str, Column | None] = {
    "model": Column("tta", "0a16a33bfdda", "sum", "float32"),
    "own column": None,
    "quality estimation": FROM_FILE,
    "component": Column.component("espnet2"),
    "count": Column("", "", "", "", Role.COUNT),
}
SETS = [(kind,) for kind in KINDS] + list(combinations(KINDS, 2))


def tuned(kinds: Sequence[str], helped: bool) -> Weights:
    """Return weights of random columns of some kinds, on lists that have them.

    Args:
        kinds: The kind of each column.
        helped: Whether a model that helps is tuned, too.
    """
    some = lists(systems=False)
    names = USELESS[: len(kinds)]
    of_name = dict(zip(names, [KINDS[kind] for kind in kinds], strict=True))
    records = {name: record for name, record in of_name.items() if record}
    records["good"] = KINDS["model"]
    for nbest in some:
        nbest.header = nbest.header.with_records(records)
    bonuses = [name for name in names if records.get(name) == KINDS["count"]]
    columns = [name for name in names if name not in bonuses]
    negative = [name for name in names if records.get(name) == KINDS["component"]]
    columns += ["good"] if helped else []
    options = TuningOptions(bonuses=tuple(bonuses), negative=tuple(negative))
    metric = metrics.choose_metric("wer", some)
    return tune_weights(metric, Dataset.of(some), columns, options)


def reasons(weights: Weights) -> Iterator[str]:
    """Yield the lines about weights of 0."""
    about = weights.tuning
    tuned_columns = weights.tuned_columns
    yield from notes([weights.weights], tuned_columns, about.with_all, about.value)
    yield from why_all_zero(weights, "WER", {})


@pytest.mark.parametrize("helped", [True, False])
@pytest.mark.parametrize("kinds", SETS, ids=" + ".join)
def test_a_line_names_each_column_of_weight_0(
    kinds: Sequence[str], helped: bool
) -> None:
    weights = tuned(kinds, helped)
    zero = [name for name, weight in weights.weights.items() if not weight]
    assert zero == [*USELESS[: len(kinds)]]
    (line,) = reasons(weights)
    start = line.partition(":")[0]
    assert "0" in start and all(name in line for name in zero)


def test_a_bonus_that_the_user_gives_is_not_tuned() -> None:
    some = lists(systems=False)
    options = TuningOptions(given={"x": 0.0})
    metric = metrics.choose_metric("wer", some)
    weights = tune_weights(metric, Dataset.of(some), ("y", "good"), options)
    assert weights.tuned_columns == ["y", "good"]
