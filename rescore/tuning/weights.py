"""Weights of columns of scores: a record that says what they are, where and for which
metric they were tuned, and how a text is chosen with them; and its JSON form.

`suited` checks that weights are applied to scores of the models that they were tuned
with.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from numbers import Real
from pathlib import Path
from typing import Any

from rescore.columns import FIRST_PASS, Column, Role, reserved_columns, score_columns
from rescore.decision import Decision, ListWeights
from rescore.decision.first_pass import FirstPass
from rescore.errors import UserError
from rescore.files import parsed, read_json, write_text
from rescore.metrics import METRICS, Metric, MetricOptions
from rescore.nbest import Header, NbestList
from rescore.options import as_json, options_from_json
from rescore.tuning.components import ToolkitScore
from rescore.tuning.tuned import Tuned, TunedBy

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TunedFor:
    """The metric that weights were tuned for, and how it counts: commands that apply
    the weights measure in the same way.
    """

    metric: str
    """A name of `rescore.metrics.METRICS`."""
    value: float | None = None
    """The metric on the tuning lists with these weights, in percent."""
    first_pass: float | None = None
    """The metric of their first pass, in percent."""
    utterances: int | None = None
    low: float | None = None
    """The lower end of the interval in which a single weight is equally good."""
    high: float | None = None
    """The upper end of this interval."""
    with_all: float | None = None
    """The metric with weights of all columns, in percent; None unless columns without a
    significant gain were left out.
    """
    settings: dict[str, Any] = field(default_factory=dict)
    """The options of the metric that are set, such as `{"split_hyphens": true}`; a file
    by its path and digest.
    """

    @classmethod
    def by(
        cls, metric: Metric, value: float, first_pass: float, utterances: int
    ) -> TunedFor:
        """Return the record of a metric, with all its options.

        Args:
            metric: The metric that was tuned for.
            value: The metric with the tuned weights, in percent.
            first_pass: The metric of the first pass, in percent.
            utterances: Number of lists that were tuned on.
        """
        settings = as_json(metric.options)
        name = metric.name.lower()
        return cls(name, value, first_pass, utterances, settings=settings)

    @property
    def options(self) -> MetricOptions:
        """The options from which the same metric is made again.

        Raises:
            UserError: The metric has no such option, or a file is absent or changed.
        """
        try:
            options = options_from_json(METRICS[self.metric].Options, self.settings)
        except UserError as error:
            raise UserError(f"weights tuned for {self.metric}: {error}") from None
        return MetricOptions.of_part(options)


@dataclass(frozen=True, slots=True)
class TuningOptions:
    """How weights are tuned. They travel with the weights, so that every report shows
    what was done.
    """

    bonuses: tuple[str, ...] = ()
    """The columns whose weights are bonuses (`rescore.columns.units`)."""
    bagging: bool = True
    """Whether weights are averaged over bootstrap samples and have to be significantly
    better (`search.bagged`); else they are the plain optimum of the lists.
    """
    negative: tuple[str, ...] = ()
    """The columns of scores whose weights have no bounds: LM columns of
    --allow-negative, such as an internal LM that is subtracted (density ratio), and the
    columns that a feature weighs as `SIGNED` (`rescore.features.WeightKind`).
    """
    decision: Decision = field(default_factory=Decision)
    """The decision that is tuned for; its scale is tuned, too, if it needs a scale and
    has none.
    """
    folds: int | None = None
    """Number of parts of the lists, each decided with weights of the other parts; None
    if the lists were not cut.
    """
    speaker: str | None = None
    """The place of the speaker in an id; a fold has all lists of a speaker."""
    given: dict[str, float] = field(default_factory=dict)
    """Bonuses that the user gives; the other weights are tuned beside them."""

    @property
    def for_signature(self) -> dict[str, str]:
        """The options that differ from the defaults, for signatures of folds: these
        contain the weights of all lists, which do not show how the weights of each fold
        were tuned.

        The number of folds and the speakers stand in the record of the folds, the
        decision in a field of its own.
        """
        differing: dict[str, str] = {}
        usual = TuningOptions()
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name not in SIGNED_ELSEWHERE and value != getattr(
                usual, entry.name
            ):
                differing[entry.name] = _signed_value(value)
        if self.decision.uses_posteriors and not self.decision.lacks_scale:
            differing["scale"] = "given"
        return differing


SIGNED_ELSEWHERE = ("decision", "folds", "speaker")
"""Fields of `TuningOptions` that signatures have elsewhere."""


def _signed_value(value: Any) -> str:
    """Return the value of a field as signatures have it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return "+".join(f"{name} {number:g}" for name, number in value.items())
    return "+".join(value)


ERRORS = 2.0
"""Standard errors that a gain has to exceed in all tests: of all columns against the
first pass, of one column beside the others, and of hypotheses with new words. A gain
that is the largest of many has to exceed more (`search.errors_of_sum`,
`search.errors_of_best`).
"""


@dataclass(frozen=True, slots=True)
class TriedAlone:
    """The model that came closest to a significant gain when each model was tried
    alone, because all columns together had no significant gain.
    """

    name: str
    """The column of the model."""
    gain: float
    """Its gain over the first pass, in points; negative for a loss."""
    error: float
    """The standard error of the gain, in points."""
    errors: float
    """The standard errors that the gain had to exceed, as the best of all models."""

    @property
    def gained_errors(self) -> float:
        """The gain in standard errors; 0 if there is no error."""
        return self.gain / self.error if self.error else 0.0


@dataclass(frozen=True, slots=True)
class Unproven:
    """Weights whose gain was tested and is not significant: the first pass decides
    alone.
    """

    weights: dict[str, float]
    value: float
    """The metric with these weights, in percent."""
    low: float
    """The lower end of the 95 % confidence interval of their gain (the gain less
    `errors` standard errors), in points; at most 0.
    """
    high: float
    """The upper end of this interval, in points."""
    alone: float | None = None
    """The metric of the decision with first-pass scores alone, in percent: the value
    that the gain is over.
    """
    errors: float = ERRORS
    """The standard errors between the gain and each end of the interval: 2, and more
    for the gain by several columns.
    """
    model_alone: TriedAlone | None = None
    """The best of the models that were tried alone; None if there is one column."""
    voted: bool = False
    """Whether several systems made the first-pass scores together."""
    held_out: bool = False
    """Whether the figures are of held-out folds, each decided with its own weights."""


@dataclass(frozen=True, slots=True)
class FoldWeights:
    """The weights that decided one fold; its fields are fields of `Weights`."""

    weights: dict[str, float]
    excluded: tuple[str, ...] = ()
    """Origins of hypotheses that could not win, such as `respelled`."""
    mixture: FirstPass | None = None


SCHEMA = "rescore/weights/2"
HELD_OUT = "the other folds"
"""The name of the lists that the weights of one fold were tuned on."""


@dataclass(frozen=True, slots=True, repr=False)
class Weights:
    """The weights of columns of scores, where they come from, and how a text is chosen
    with them.
    """

    weights: dict[str, float]
    tuned: Tuned = field(default_factory=Tuned)
    """Where the weights come from."""
    columns: dict[str, Column] = field(default_factory=dict)
    """The record of each column in the lists that were tuned on."""
    tuned_for: TunedFor | None = None
    decision: Decision = field(default_factory=Decision)
    excluded: frozenset[str] = frozenset()
    """Hypotheses of these origins may not win, and have no posterior."""
    options: TuningOptions | None = None
    """How the weights were tuned; None if they were given."""
    unproven: Unproven | None = None
    """The best weights, if the weights here are 0 because no gain was significant."""
    fold_weights: tuple[FoldWeights, ...] = ()
    """The weights that decided each fold, if the lists were cut into folds."""
    mixture: FirstPass | None = None
    """The first pass of lists of several systems; None if the lists have their own."""
    toolkit: ToolkitScore | None = None
    """The first pass as a sum of its components, on the lists that were tuned on; None
    unless the weight of a component was tuned.
    """
    schema: str = SCHEMA

    def __post_init__(self) -> None:
        """
        Raises:
            UserError: A weight is not a number.
        """
        plain: dict[str, float] = {}
        for name, weight in self.weights.items():
            if not isinstance(weight, Real) or not math.isfinite(weight):
                raise UserError(
                    f"weight of {name} is {weight!r}, not a number; give a number or"
                    " tune again"
                )
            # JSON holds int and float, but not NumPy's numbers.
            plain[name] = weight if isinstance(weight, int) else float(weight)
        object.__setattr__(self, "weights", plain)

    @property
    def score_columns(self) -> list[str]:
        """The weighted columns that are neither the first pass nor bonuses: scores of
        models, parts of the toolkit's own score, and channels.
        """
        return score_columns(self.weights)

    @property
    def value(self) -> float:
        """The metric on the lists that the weights were tuned on, in percent; NaN if
        they were not tuned.
        """
        if self.tuned_for is None or self.tuned_for.value is None:
            return math.nan
        return self.tuned_for.value

    def without(self, name: str) -> Weights:
        """Return the same weights, but 0 for one column."""
        return replace(self, weights={**self.weights, name: 0.0})

    def as_without_columns(self, fewer: Weights) -> Weights:
        """Return these weights as a search over fewer columns has them: 0 for all other
        columns.

        Args:
            fewer: The result of this search.
        """
        assert self.tuned_for and fewer.tuned_for
        figures = replace(
            self.tuned_for,
            value=fewer.tuned_for.value,
            first_pass=fewer.tuned_for.first_pass,
        )
        return replace(
            self,
            weights={name: fewer.weights.get(name, 0.0) for name in self.weights},
            tuned_for=figures,
            decision=fewer.decision,
            excluded=fewer.excluded,
            mixture=fewer.mixture,
        )

    def weighs(self, name: str) -> bool:
        """Return whether a column has a weight other than 0."""
        return bool(self.weights.get(name))

    def weighs_or_tuned(self, name: str) -> bool:
        """Return whether a column has a weight, or is a bonus that was tuned to 0."""
        was_tuned = self.options is not None and name in self.options.bonuses
        return was_tuned or self.weighs(name)

    def __repr__(self) -> str:
        """Return one line with the weights; the rest is in the fields."""
        named = ", ".join(
            f"{name} {weight:.4g}" for name, weight in self.weights.items()
        )
        return f"<Weights: {named} ({self.tuned})>"

    @property
    def sorted_excluded(self) -> tuple[str, ...]:
        """The origins of `excluded`, sorted, for signatures."""
        return tuple(sorted(self.excluded))

    @property
    def of_fold(self) -> FoldWeights:
        """The record of these weights as the weights of one fold."""
        return FoldWeights(self.weights, self.sorted_excluded, self.mixture)

    def of(self, nbest: NbestList) -> ListWeights:
        """Return what decides about a list: the same `ListWeights` for every list.

        The method itself, `weights.of`, is a `WeightsOf`: a function that takes a list.
        """
        return ListWeights(self.weights, self.excluded, self.mixture)

    @classmethod
    def interpolation(
        cls,
        lm: Mapping[str, float],
        tuned: Tuned | None = None,
        bonuses: Mapping[str, float] | None = None,
    ) -> Weights:
        """Return weights of language models and the weight that is left for the first
        pass.

        The combined score is (1 - sum of the LM weights) * s2s + sum of LM weight *
        column + sum of bonus * count. With one LM this is the combination of Shin et
        al. 2020 (section 5.3; https://aclanthology.org/2020.acl-main.76/).

        Args:
            lm: The weight of each LM column.
            tuned: Where the weights come from; None for given weights.
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
        return cls(weights, tuned or Tuned())

    def to_json(self) -> str:
        """Return the weights as JSON; sets are sorted lists."""
        values = asdict(self)
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
        schema = values.get("schema", SCHEMA)
        if schema != SCHEMA:
            raise UserError(
                f"{path}: schema is {schema!r}, not {SCHEMA!r}; tune again"
                " with this version"
            )
        # Weights that a person wrote by hand have no record of tuning.
        values.setdefault("tuned", asdict(Tuned(source=str(path))))
        return parsed(values, cls, str(path))


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


FIRST_PASS_ALONE = Weights({FIRST_PASS: 1.0}, Tuned(TunedBy.FIRST_PASS))
"""The weights without a language model."""


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
    last = None
    for nbest in lists:
        if nbest.header.records is last:  # The lists of a file share one record.
            continue
        last = nbest.header.records
        fault = misfit(weights, last)
        if fault and not force:
            raise UserError(f"utterance {nbest.id}: {fault}")
        _tell_precision(weights, last)
        if fault:
            return replace(weights, tuned=replace(weights.tuned, forced=True))
    return weights


def _tell_precision(weights: Weights, columns: Mapping[str, Column]) -> None:
    """Say which columns were computed in another number format than those that were
    tuned on: their scores differ little.
    """
    for name, tuned in weights.columns.items():
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
    for name, tuned in weights.columns.items():
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
