"""What a run found, in full precision: the figures, and everything one needs to know how they came about."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import IO

from rescore.errors import UserError
from rescore.files import read_json

Details = dict[str, int | float]

SCHEMA = "rescore/results/1"
"""Format and version; reporting/results.schema.json describes it. The number changes where old readers would fail."""


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

    `dataset` and `system` are names for tables: of the test lists, and of what reranked them. `wrong_utterances` counts
    those with an error. `intervals` has the 95 % confidence intervals (bootstrap over utterances) of first pass and
    reranked; `seconds` is the time of scoring, tuning and evaluation together, `stages` has each of them.
    """

    utterances: int
    hypotheses: int
    weights: dict[str, float]
    origin: str
    signature: str
    schema: str = SCHEMA
    dataset: str | None = None
    system: str | None = None
    conditions: dict[str, dict[str, float]] = field(default_factory=dict)
    metric: str | None = None
    higher_is_better: bool = False
    first_pass: float | None = None
    oracle: float | None = None
    reranked: float | None = None
    p_value: float | None = None
    ref_words: int | None = None
    counts: dict[str, Details] = field(default_factory=dict)
    wrong_utterances: dict[str, int] = field(default_factory=dict)
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


def read(path: Path) -> Results:
    """Read a results file.

    Raises:
        UserError: it is absent, not JSON, of another schema, or has no figures.
    """
    values = read_json(path)
    if not isinstance(values, dict) or values.get("schema") != SCHEMA:
        found = values.get("schema") if isinstance(values, dict) else None
        raise UserError(f"{path}: schema is {found!r}, not {SCHEMA!r}; expected what `rescore run --report` wrote")
    names = {entry.name for entry in fields(Results)}
    unknown = sorted(values.keys() - names)
    if unknown:
        raise UserError(f"{path}: unknown key {unknown[0]!r}")
    try:
        dev = values.pop("dev", None)
        results = Results(**values, dev=Dev(**dev) if dev else None)
    except TypeError as error:
        raise UserError(f"{path}: not a whole results file ({error})") from None
    if results.metric is None:
        raise UserError(f"{path}: has no figures; the lists had no references")
    return results
