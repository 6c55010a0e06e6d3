"""Outputs that are there already, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO

from rescore import decision
from rescore.errors import UserError
from rescore.metrics import Metric, list_statistics, total, value
from rescore.metrics.resampling import confidence_interval
from rescore.metrics.significance import Chosen, PairedTest
from rescore.nbest import FIRST_PASS, NbestList
from rescore.reports.figures import SHORT, choose, oracle_places, sign
from rescore.reports.styles import as_json, p_value, text
from rescore.tuning.weights import FIRST_PASS_ALONE


@dataclass(slots=True)
class System:
    """One output."""

    name: str
    """Its file."""
    value: float
    """The metric, in percent."""
    counts: dict[str, int | float]
    """What the value was computed from."""
    utterances: int
    low: float
    """Lower end of the 95 % confidence interval (bootstrap over utterances), in percent."""
    high: float
    """Upper end, in percent."""
    oracle: float | None = None
    """The metric of the best hypothesis of each list, in percent; None where lists have one hypothesis."""
    p_value: float | None = None
    """Two-sided, against the first output."""


@dataclass(slots=True)
class Systems:
    """Outputs under one metric."""

    metric: str
    signature: str
    test: str | None = None
    """The significance test and its settings; None for a single output."""
    systems: list[System] = field(default_factory=list)


def compare_outputs(
    outputs: Sequence[tuple[str, Sequence[NbestList]]], metric: Metric, test: PairedTest | None = None
) -> Systems:
    """The figures of several outputs for the same utterances, each with a p-value against the first.

    Raises:
        UserError: an output lacks an utterance that the first has, or has one more.
    """
    test = test or PairedTest()
    several = len(outputs) > 1
    signature = sign(metric, outputs[0][1], FIRST_PASS_ALONE, test=test if several else None)
    systems = Systems(metric.name, str(signature), test.signature if several else None)
    base: dict[str, Chosen] = {}
    for name, lists in outputs:
        statistics = list_statistics(metric, lists)
        first = decision.best(lists, {FIRST_PASS: 1.0})
        chosen = dict(zip((one.id for one in lists), choose(lists, statistics, first), strict=True))
        if base and base.keys() != chosen.keys():
            other = sorted(base.keys() ^ chosen.keys())[0]
            raise UserError(
                f"{name}: utterance {other} is in one of {outputs[0][0]} and {name} only; compare the same set"
            )
        sums = total(statistics, first)
        low, high = confidence_interval(metric, [one.counts for one in chosen.values()])
        system = System(name, value(metric, sums), metric.details(sums), len(lists), low, high)
        if any(len(one.hypotheses) > 1 for one in lists):
            system.oracle = value(metric, total(statistics, oracle_places(metric, lists, statistics)))
        if base:
            same_order = [chosen[key] for key in base]
            system.p_value = test.p_value(metric, outputs[0][1], list(base.values()), same_order)
        base = base or chosen
        systems.systems.append(system)
    return systems


def write(systems: Sequence[Systems], file: IO[str]) -> None:
    """Write one JSON object; of several metrics a list of them."""
    file.write(as_json(systems[0] if len(systems) == 1 else systems) + "\n")


def render(systems: Systems) -> str:
    """A row an output, then the signature."""
    names = list(systems.systems[0].counts)
    oracle = any(system.oracle is not None for system in systems.systems)
    several = len(systems.systems) > 1
    head = [
        "",
        systems.metric,
        "95 % CI",
        *(["oracle"] if oracle else []),
        *(SHORT.get(name, name) for name in names),
        "utterances",
    ]
    rows = [[*head, *(["p"] if several else [])]]
    for system in systems.systems:
        row = [system.name, f"{system.value:.2f}", f"{system.low:.2f}-{system.high:.2f}"]
        if oracle:
            row.append("" if system.oracle is None else f"{system.oracle:.2f}")
        row += [*(f"{system.counts[name]:,}" for name in names), f"{system.utterances:,}"]
        if several:
            row.append(p_value(system.p_value))
        rows.append(row)
    return f"{text(rows)}\n{systems.signature}"
