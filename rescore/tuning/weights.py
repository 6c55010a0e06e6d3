"""Weights: a choice with the record of its tuning, and its JSON form.

`suited` checks that weights are applied to scores of the models that they were tuned
with.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from rescore.columns import (
    FIRST_PASS,
    Column,
    Role,
    comes_from_expansion,
    reserved_columns,
    score_columns,
)
from rescore.decision import Choice
from rescore.errors import UserError
from rescore.files import parsed, read_json, write_text
from rescore.nbest import Header, NbestList, first_of_each_header
from rescore.tuning import former
from rescore.tuning.record import TunedBy, Tuning

log = logging.getLogger(__name__)


SCHEMA = "rescore/weights/3"
"""The schema of a weights file; the number changes where old readers would fail."""


@dataclass(frozen=True, slots=True, repr=False)
class Weights(Choice):
    """A choice with the record of where it comes from: what a weights file holds."""

    tuning: Tuning = field(default_factory=Tuning)
    """Where the weights come from."""

    @property
    def score_columns(self) -> list[str]:
        """The columns of `weights` that are neither the first pass nor columns with a
        unit: scores of models, and parts of the toolkit's own score.
        """
        return score_columns(self.weights)

    @property
    def given(self) -> Mapping[str, float]:
        """The bonuses that a user gave beside a tuning."""
        options = self.tuning.options
        return options.given if options else {}

    @property
    def tuned_columns(self) -> list[str]:
        """The columns of `weights` whose weight was tuned and has to gain beside the
        others. They are scores of models, columns of the user, parts of the toolkit's
        score, or counts. Columns of expansions are not among them: they come with new
        hypotheses, whose gain has a test of its own.
        """
        if not self.tuning.has_figures:
            return []
        tuned = []
        for name in self.weights:
            record = self.tuning.columns.get(name)
            is_cost = comes_from_expansion(name, record)
            if name != FIRST_PASS and name not in self.given and not is_cost:
                tuned.append(name)
        return tuned

    @property
    def are_given(self) -> bool:
        """Whether a user gave all weights, beside a tuning that had no other weight to
        tune.
        """
        options = self.tuning.options
        if options is None or self.mixture is not None:
            return False
        if not self.given or options.bonuses or options.negative:
            return False
        return set(self.weights) <= {FIRST_PASS, *self.given}

    @property
    def is_untuned(self) -> bool:
        """Whether neither weights nor the scale of the decision were tuned, though
        there were lists to tune on.
        """
        options = self.tuning.options
        is_open = options is not None and options.decision.lacks_scale
        return self.are_given and not is_open

    @property
    def value(self) -> float:
        """The metric on the lists that the weights were tuned on, in percent; NaN if
        they were not tuned.
        """
        value = self.tuning.value
        return math.nan if value is None else value

    def without(self, name: str) -> Weights:
        """Return the same weights, but 0 for one column."""
        return replace(self, weights={**self.weights, name: 0.0})

    def as_without_columns(self, fewer: Weights) -> Weights:
        """Return these weights as a search over fewer columns has them: 0 for all other
        columns.

        Args:
            fewer: The result of this search.
        """
        has_weight = any(map(fewer.weighs, fewer.tuned_columns))
        tuning = replace(
            self.tuning,
            value=fewer.tuning.value,
            first_pass=fewer.tuning.first_pass,
            unproven=None if has_weight else self.tuning.unproven,
        )
        return replace(
            self,
            weights=dict.fromkeys(self.weights, 0.0) | fewer.weights,
            tuning=tuning,
            decision=fewer.decision,
            excluded=fewer.excluded,
            mixture=fewer.mixture,
        )

    def weighs(self, name: str) -> bool:
        """Return whether a column has a weight other than 0."""
        return bool(self.weights.get(name))

    def weighs_or_tuned(self, name: str) -> bool:
        """Return whether a column has a weight, or is a bonus that was tuned to 0."""
        options = self.tuning.options
        was_tuned = options is not None and name in options.bonuses
        return was_tuned or self.weighs(name)

    def __repr__(self) -> str:
        """Return one line with the weights; the rest is in the fields."""
        named = ", ".join(
            f"{name} {weight:.4g}" for name, weight in self.weights.items()
        )
        return f"<Weights: {named} ({self.tuning})>"

    @property
    def choice(self) -> Choice:
        """What decides, without its record: the choice of one fold."""
        return Choice(self.weights, self.excluded, self.decision, self.mixture)

    @classmethod
    def interpolation(
        cls,
        lm: Mapping[str, float],
        tuning: Tuning | None = None,
        bonuses: Mapping[str, float] | None = None,
    ) -> Weights:
        """Return weights of language models and the weight that is left for the first
        pass.

        The combined score is (1 - sum of the LM weights) * s2s + sum of LM weight *
        column + sum of bonus * count. With one LM this is the combination of Shin et
        al. 2020 (section 5.3; https://aclanthology.org/2020.acl-main.76/).

        Args:
            lm: The weight of each LM column.
            tuning: Where the weights come from; None for given weights.
            bonuses: The weights of columns of counts, and of other columns whose weight
                has no bounds.

        Raises:
            UserError: A weight is negative, the LM weights add up to more than 1, or a
                bonus is not a number.
        """
        weights = {FIRST_PASS: _rest_of(lm), **lm}
        known = reserved_columns()
        for name, bonus in (bonuses or {}).items():
            column = known.get(name)
            if not math.isfinite(bonus):
                what = f"{column.unit} bonus" if column else f"weight of {name}"
                raise UserError(f"{what} {bonus} is not a number")
            # A bonus of 0 for a count is left out. The columns of expansions stay, so
            # that tables show them.
            if bonus or column is None or column.comes_with_hypotheses:
                weights[name] = bonus
        return cls(weights, tuning=tuning or Tuning())

    @property
    def as_record(self) -> dict[str, Any]:
        """The weights as JSON has them; `excluded` is a sorted array."""
        record: dict[str, Any] = json.loads(self.to_json())
        del record["schema"]
        return record

    def to_json(self) -> str:
        """Return the weights as JSON."""
        values = asdict(self) | {"schema": SCHEMA}
        return json.dumps(
            values, indent=2, ensure_ascii=False, allow_nan=False, default=sorted
        )

    def save(self, path: Path) -> None:
        """Write a weights file."""
        write_text(path, self.to_json() + "\n")

    @classmethod
    def load(cls, path: Path) -> Weights:
        """Return the weights of a file.

        Raises:
            UserError: The file is absent or not a weights file, or a weight is not a
                number.
        """
        values = read_json(path)
        weights = values.get("weights") if isinstance(values, dict) else None
        if not isinstance(weights, dict) or not weights:
            raise UserError(
                f'{path}: no "weights"; expected a file that `rescore tune` wrote'
            )
        schema = values.pop("schema", SCHEMA)
        if schema not in (SCHEMA, *former.SCHEMAS):
            raise UserError(
                f"{path}: schema is {schema!r}, not {SCHEMA!r}; tune again"
                " with this version"
            )
        key_of = partial(former.key_of, values)
        if "tuning" not in values:
            values = former.as_today(values, schema, str(path))
        # Weights that a person wrote by hand have no record of tuning.
        tuning = values.setdefault("tuning", {})
        if isinstance(tuning, dict):
            tuning.setdefault("source", str(path))
        return parsed(values, cls, str(path), key_of)


def _rest_of(lm: Mapping[str, float]) -> float:
    """Return the weight that language models leave to the first pass.

    Raises:
        UserError: A weight is negative, or they add up to more than 1.
    """
    total = math.fsum(lm.values())
    for weight in lm.values():
        if not (math.isfinite(weight) and 0 <= weight <= 1):
            raise UserError(f"weight {weight} is not between 0 and 1")
    if total > 1 + 1e-9:
        raise UserError(
            f"the weights of the language models add up to {total:g}; they may add"
            " up to 1 at most"
        )
    return max(0.0, 1 - total)


FIRST_PASS_ALONE = Weights({FIRST_PASS: 1.0}, tuning=Tuning(TunedBy.FIRST_PASS))
"""The weights without a language model."""
OF_TEXTS = Weights({}, tuning=Tuning(TunedBy.TEXTS))
"""No weights: the texts were not chosen from lists, and nobody knows how."""


def suited(
    weights: Weights, lists: Iterable[NbestList], force: bool = False
) -> Weights:
    """Return the weights if they were tuned on scores of the models that gave the
    columns of these lists.

    A column whose model is not recorded, in the lists or with the weights, is taken as
    it is. Scores of another precision suit, too.

    Args:
        weights: The weights.
        lists: The lists that they will be applied to.
        force: Whether weights of another model are returned, too; their record and
            their signature then say so.

    Raises:
        UserError: A column comes from another model, or has another norm.
    """
    for nbest in first_of_each_header(lists):
        records = nbest.header.records
        fault = misfit(weights, records)
        if fault and not force:
            raise UserError(f"utterance {nbest.id}: {fault}")
        _tell_precision(weights, records)
        if fault:
            return replace(weights, tuning=replace(weights.tuning, forced=True))
    return weights


def _tell_precision(weights: Weights, columns: Mapping[str, Column]) -> None:
    """Say which columns were computed in another number format than those that were
    tuned on: their scores differ little.
    """
    for name, tuned in weights.tuning.columns.items():
        scored = columns.get(name)
        if scored is not None and scored.precision != tuned.precision:
            log.info(
                "column %s is in %s, and the weights were tuned on %s",
                name,
                scored.precision or "an unknown number format",
                tuned.precision or "an unknown number format",
            )


def misfit(weights: Weights, columns: Mapping[str, Column]) -> str | None:
    """Return why weights do not suit columns; None if they do.

    Args:
        weights: The weights.
        columns: The record of each column of the lists.
    """
    if weights.mixture is not None:
        fault = weights.mixture.misfit(Header(records=columns).systems)
        if fault:
            return fault
    for name, tuned in weights.tuning.columns.items():
        scored = columns.get(name)
        if scored is not None:
            fault = _misfit_of_column(name, tuned, scored)
            if fault:
                return fault
    return None


def _misfit_of_column(name: str, tuned: Column, scored: Column) -> str | None:
    """Return why a weight does not suit a column; None if it does.

    Args:
        name: The name of the column.
        tuned: The record of the column in the lists that were tuned on.
        scored: The record of the column in the lists that are decided.
    """
    same_model = scored.fingerprint == tuned.fingerprint
    if tuned.role is Role.CHANNEL:
        # The norm of a channel is its lexicon, which may differ from set to set, as
        # the words of --words do.
        if same_model:
            return None
        return (
            f"column {name} comes from the channel {scored.fingerprint}, but"
            f" the weights were tuned with the channel {tuned.fingerprint};"
            " give that --channel, tune again, or go on with --force-weights"
        )
    if same_model and scored.norm == tuned.norm:
        return None
    return (
        f"column {name} comes from {scored.short}, but the weights were tuned"
        f" on scores of {tuned.short}; tune again, score with that model, or go"
        " on with --force-weights"
    )
