"""Figures of one or several outputs side by side."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import IO

from rescore.reporting.styles import p_value, text
from rescore.reporting.table import SHORT


@dataclass(slots=True)
class System:
    """One output: its value and oracle in percent, the counts behind it, its p-value against the first output.

    `low` and `high` bound the value's 95 % confidence interval (bootstrap over utterances).
    """

    name: str
    value: float
    counts: dict[str, int | float]
    utterances: int
    low: float
    high: float
    oracle: float | None = None
    p_value: float | None = None


@dataclass(slots=True)
class Systems:
    """Outputs under one metric."""

    metric: str
    signature: str
    test: str | None = None
    systems: list[System] = field(default_factory=list)


def write(systems: Systems, file: IO[str]) -> None:
    """Write one JSON object."""
    file.write(json.dumps(asdict(systems), indent=2, ensure_ascii=False) + "\n")


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
    signature = systems.signature if systems.test is None else f"{systems.signature}|{systems.test}"
    return f"{text(rows)}\n{signature}"
