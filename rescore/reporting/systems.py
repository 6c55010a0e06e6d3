"""Outputs side by side, for a person."""

from __future__ import annotations

from rescore.evaluation.systems import Systems
from rescore.reporting.results import SHORT
from rescore.reporting.styles import p_value, text


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
