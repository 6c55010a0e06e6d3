"""What a run found, in full precision: the figures, and everything one needs to know how they came about."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import IO

Details = dict[str, int | float]


@dataclass(slots=True)
class Dev:
    """Where the weights were tuned, and what they gave there (percent); one weight alone is as good anywhere from `low`
    to `high`."""

    source: str
    utterances: int
    first_pass: float
    reranked: float
    low: float | None = None
    high: float | None = None


@dataclass(slots=True)
class Results:
    """Figures are percentages, higher is better for BLEU only; None where the lists have no references.

    `intervals` has the 95 % confidence intervals (bootstrap over utterances) of first pass and reranked; `seconds` is
    the time of scoring, tuning and evaluation together, `stages` has each of them.
    """

    utterances: int
    hypotheses: int
    weights: dict[str, float]
    origin: str
    signature: str
    conditions: dict[str, dict[str, float]] = field(default_factory=dict)
    metric: str | None = None
    higher_is_better: bool = False
    first_pass: float | None = None
    oracle: float | None = None
    reranked: float | None = None
    p_value: float | None = None
    ref_words: int | None = None
    counts: dict[str, Details] = field(default_factory=dict)
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)
    dev: Dev | None = None
    changed: int = 0
    decision: str = "best"
    scale: float | None = None
    seconds: float = 0.0
    stages: dict[str, float] = field(default_factory=dict)


def write(results: Results, file: IO[str]) -> None:
    """Write a results file: one JSON object, keys as the fields of `Results`."""
    file.write(json.dumps(asdict(results), indent=2, ensure_ascii=False) + "\n")
