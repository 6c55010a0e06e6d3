"""Figures of one or several outputs side by side."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import IO

from rescore.reporting.styles import text
from rescore.reporting.table import SHORT


@dataclass(slots=True)
class System:
    """One output: its value and oracle in percent, the counts behind it, its p-value against the first output."""

    name: str
    value: float
    counts: dict[str, int | float]
    utterances: int
    oracle: float | None = None
    p_value: float | None = None


@dataclass(slots=True)
class Systems:
    """Outputs under one metric."""

    metric: str
    signature: str
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
        *(["oracle"] if oracle else []),
        *(SHORT.get(name, name) for name in names),
        "utterances",
    ]
    rows = [[*head, *(["p"] if several else [])]]
    for system in systems.systems:
        row = [system.name, f"{system.value:.2f}"]
        if oracle:
            row.append("" if system.oracle is None else f"{system.oracle:.2f}")
        row += [*(f"{system.counts[name]:,}" for name in names), f"{system.utterances:,}"]
        if several:
            row.append("" if system.p_value is None else f"{system.p_value:.4f}")
        rows.append(row)
    return f"{text(rows)}\n{systems.signature}"
