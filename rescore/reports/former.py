"""Results files of former versions, in the form of today.

In `rescore/results/3`, of 0.2 and of 0.3 before its release, the weights, the decision
and the figures on dev lie side by side, and how a figure was measured stands in its
signature alone. Reports of `rescore eval` had nothing but the signature, too. This is
the one place that reads signatures of files.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rescore.decision import Choice, Decision
from rescore.decision.first_pass import FirstPass
from rescore.errors import UserError
from rescore.files import parsed
from rescore.parts import BEST
from rescore.signature import Signature, parse
from rescore.tuning.components import ToolkitScore
from rescore.tuning.former import of_signature
from rescore.tuning.record import TunedBy, Tuning, Unproven
from rescore.tuning.weights import Weights

SCHEMA = "rescore/results/3"
"""The former schema that is read."""


@dataclass(frozen=True, slots=True)
class _Dev:
    """What weights gave on the lists that they were tuned on."""

    source: str
    utterances: int
    first_pass: float
    reranked: float
    low: float | None = None
    high: float | None = None
    with_all: float | None = None
    unproven: Unproven | None = None
    fold_weights: tuple[Choice, ...] = ()
    metrics: list[Any] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Results:
    """The fields of a former file that have another place today."""

    weights: dict[str, float]
    origin: str
    signature: str
    excluded: frozenset[str] = frozenset()
    mixture: FirstPass | None = None
    decision: str = BEST
    scale: float | None = None
    deciding: dict[str, str] = field(default_factory=dict)
    toolkit: ToolkitScore | None = None
    dev: _Dev | None = None
    metrics: list[Any] = field(default_factory=list)


def as_today(values: dict[str, Any], place: str) -> dict[str, Any]:
    """Return the values of a results file with one choice and its tuning.

    Args:
        values: The values of a file of the schema 3.
        place: The file, for messages.

    Raises:
        UserError: A field has a wrong type, or a signature is none.
    """
    former = parsed(values, _Results, place)
    signature = _signature(former.signature, place)
    try:
        decision = Decision(former.decision, former.scale, _settings(former.deciding))
    except UserError as error:
        raise UserError(f"{place}: {error}") from None
    weights = Weights(
        former.weights,
        former.excluded,
        decision,
        former.mixture,
        _tuning(former, signature),
    )
    today = {**values, "choice": weights.as_record, "dev": []}
    today["metrics"] = _measured(former.metrics, place)
    if former.dev is not None:
        today["dev"] = _measured(former.dev.metrics, place)
    return today


def conditions(signature: str, place: str) -> dict[str, Any]:
    """Return how a figure was measured, of which a file has the signature alone.

    Args:
        signature: The signature.
        place: The file, for messages.

    Raises:
        UserError: It is no signature.
    """
    return asdict(_signature(signature, place).conditions)


def _signature(text: str, place: str) -> Signature:
    """Return the signature of a file."""
    try:
        return parse(text)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None


def _measured(rows: list[Any], place: str) -> list[Any]:
    """Return the figures of metrics, each with its conditions. Values that are no
    figures are returned as they are.
    """
    today = []
    for row in rows:
        signature = row.get("signature") if isinstance(row, dict) else None
        if isinstance(signature, str):
            row = {**row, "conditions": conditions(signature, place)}
        today.append(row)
    return today


def _tuning(former: _Results, signature: Signature) -> Tuning:
    """Return the record of the tuning: on which lists by the signature and the origin
    in words, and how well by the figures on dev.
    """
    shown = parsed(of_signature(signature.tuned or ""), Tuning, "signature")
    tuning = replace(shown, toolkit=former.toolkit)
    dev = former.dev
    if dev is not None:
        return replace(
            tuning,
            source=dev.source,
            lists=dev.utterances,
            metric=signature.metric.lower(),
            settings={},
            value=dev.reranked,
            first_pass=dev.first_pass,
            low=dev.low,
            high=dev.high,
            with_all=dev.with_all,
            unproven=dev.unproven,
            of_folds=dev.fold_weights,
        )
    if former.origin == str(Tuning(TunedBy.FIRST_PASS)):
        return replace(tuning, by=TunedBy.FIRST_PASS)
    if former.origin == str(tuning):
        return tuning
    return replace(tuning, source=former.origin.removeprefix("tuned on "))


def _settings(deciding: dict[str, str]) -> dict[str, Any]:
    """Return the options of a decision, which the file has in the words of signatures.

    Args:
        deciding: The options that differ from their defaults.
    """
    settings: dict[str, Any] = {}
    for name, text in deciding.items():
        settings[name.replace("-", "_")] = _value(text)
    return settings


def _value(text: str) -> Any:
    """Return the value of an option that a signature shows."""
    if text in ("yes", "no"):
        return text == "yes"
    try:
        return json.loads(text)
    except ValueError:
        return text
