"""What a run found, in full precision: the figures, and everything one needs to know how they came about."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import IO, Any

Details = dict[str, int | float]


@dataclass(slots=True)
class Dev:
    """Where the weights were tuned, and what they gave there (percent)."""

    source: str
    utterances: int
    first_pass: float
    reranked: float
    low: float
    high: float


@dataclass(slots=True)
class Results:
    """Figures are percentages, higher is better for BLEU only; None where the lists have no references."""

    utterances: int
    hypotheses: int
    weights: dict[str, float]
    origin: str
    signature: str
    metric: str | None = None
    higher_is_better: bool = False
    first_pass: float | None = None
    oracle: float | None = None
    reranked: float | None = None
    p_value: float | None = None
    ref_words: int | None = None
    counts: dict[str, Details] = field(default_factory=dict)
    dev: Dev | None = None
    changed: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value is not None}


def write(results: Results, file: IO[str]) -> None:
    """Write a results file: one JSON object, keys as the fields of `Results`."""
    file.write(json.dumps(results.as_json(), indent=2, ensure_ascii=False) + "\n")
