"""The record of a tuning: on which lists weights were tuned, for which metric, how, and
how well they do there. Sentences and signatures are made from it, and nothing reads
them back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from rescore.columns import Column
from rescore.content import is_hash_of
from rescore.dataset import Dataset
from rescore.decision import Choice, Decision
from rescore.errors import UserError
from rescore.metrics import METRICS, Metric, MetricOptions
from rescore.options import as_json, options_from_json
from rescore.tuning.components import ToolkitScore

ALL_LISTS = "all lists"
"""What `Tuning.source` says of weights that were tuned on all lists of a set in folds.
"""


class TunedBy(StrEnum):
    """Where weights come from, also weights that nobody tuned."""

    FIRST_PASS = "first_pass"
    """Only the first pass has a weight."""
    TEXTS = "texts"
    """There are no weights, because the texts were not chosen from lists."""
    GIVEN = "given"
    """A user gave them."""
    CARD = "card"
    """The card of a model recommends them."""
    DEV = "dev"
    """They were tuned on dev lists."""
    FOLDS = "folds"
    """Each part of the lists was decided with weights that were tuned on the others."""


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


STANDARD_ERRORS = 2.0
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
    errors: float = STANDARD_ERRORS
    """The standard errors between the gain and each end of the interval: 2, and more
    for the gain by several columns.
    """
    model_alone: TriedAlone | None = None
    """The best of the models that were tried alone; None if there is one column."""
    held_out: bool = False
    """Whether the figures are of held-out folds, each decided with its own weights."""
    emptied: int = 0
    """The lists for which these weights choose an empty text, and whose references have
    words: the scores of many models prefer short texts.
    """


HELD_OUT = "the other folds"
"""The name of the lists that the weights of one fold were tuned on."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """Where weights come from: how they were found, on which lists and for which
    metric, and what they give there.
    """

    by: TunedBy = TunedBy.GIVEN
    source: str = ""
    """The name of the lists that the weights were tuned on, or of the file that gave
    them.
    """
    lists: int = 0
    """Number of lists that the weights were tuned on."""
    digest: str = ""
    """Content hash of these lists (`rescore.content.content_hash`)."""
    folds: int = 0
    """Number of parts of the lists; 0 if the lists were not cut into folds."""
    unit: str = ""
    """The thing that stays together in a fold: `speaker` or `utterance`."""
    held_out: bool = False
    """Whether these are weights of one fold, tuned on the lists of the others."""
    how: dict[str, str] = field(default_factory=dict)
    """How the weights of folds were tuned, as far as the weights of all lists do not
    show it, for signatures.
    """
    forced: bool = False
    """Whether the weights are applied to scores of another model (--force-weights)."""

    metric: str | None = None
    """The metric that was tuned for, a name of `METRICS`; commands that apply the
    weights measure in the same way. None if the weights were not tuned.
    """
    settings: dict[str, Any] = field(default_factory=dict)
    """The options of the metric that are set, such as `{"split_hyphens": true}`; a file
    by its path and digest.
    """
    value: float | None = None
    """The metric on the tuning lists with these weights, in percent."""
    first_pass: float | None = None
    """The metric of their first pass, in percent."""
    low: float | None = None
    """The lower end of the interval in which a single weight is equally good."""
    high: float | None = None
    """The upper end of this interval."""
    with_all: float | None = None
    """The metric with weights of all columns, in percent; None unless columns without a
    significant gain were left out.
    """
    columns: dict[str, Column] = field(default_factory=dict)
    """The record of each column in the lists that were tuned on."""
    options: TuningOptions | None = None
    """How the weights were tuned; None if they were given."""
    unproven: Unproven | None = None
    """The best weights, if the weights are 0 because no gain was significant."""
    toolkit: ToolkitScore | None = None
    """The first pass as a sum of its components, on the lists that were tuned on; None
    unless the weight of a component was tuned.
    """
    of_folds: tuple[Choice, ...] = ()
    """The choice that decided each fold, if the lists were cut into folds."""

    @classmethod
    def on(cls, source: str, lists: Dataset, held_out: bool = False) -> Tuning:
        """Return the record of weights that were tuned on lists.

        Args:
            source: The name of the lists.
            lists: The lists.
            held_out: Whether these are the lists of other folds.
        """
        digest = lists.content_hash
        return cls(TunedBy.DEV, source, len(lists), digest, held_out=held_out)

    def in_folds(self, number: int, unit: str, how: Mapping[str, str]) -> Tuning:
        """Return the record of weights that decided the folds of the same lists.

        Args:
            number: Number of folds.
            unit: The thing that stays together in a fold, `speaker` or `utterance`.
            how: How the weights of each fold were tuned.
        """
        how = dict(how)
        return replace(self, by=TunedBy.FOLDS, folds=number, unit=unit, how=how)

    def with_figures(self, metric: Metric, value: float, first_pass: float) -> Tuning:
        """Return the record with the metric that was tuned for, and its options.

        Args:
            metric: The metric.
            value: The metric with the tuned weights, in percent.
            first_pass: The metric of the first pass, in percent.
        """
        return replace(
            self,
            metric=metric.name.lower(),
            settings=as_json(metric.options),
            value=value,
            first_pass=first_pass,
        )

    @property
    def metric_options(self) -> MetricOptions:
        """The options from which the metric is made again.

        Raises:
            UserError: The metric has no such option, or a file is absent or changed.
        """
        if self.metric is None:
            return MetricOptions()
        try:
            options = options_from_json(METRICS[self.metric].Options, self.settings)
        except UserError as error:
            raise UserError(f"weights tuned for {self.metric}: {error}") from None
        return MetricOptions.of_part(options)

    @property
    def of_all(self) -> Tuning:
        """The record of these weights on other lists than those that were cut into
        folds: the same weights, without the folds.
        """
        if self.by is not TunedBy.FOLDS:
            return self
        return replace(
            self,
            by=TunedBy.DEV,
            source=ALL_LISTS,
            folds=0,
            unit="",
            how={},
            of_folds=(),
        )

    @property
    def has_figures(self) -> bool:
        """Whether the metric of the tuning lists is known."""
        return self.value is not None and self.first_pass is not None

    def is_on(self, lists: Dataset) -> bool:
        """Return whether the weights were tuned on these very lists."""
        return len(lists) == self.lists and is_hash_of(self.digest, lists)

    @property
    def name(self) -> str:
        """The name of the lists that the weights were tuned on."""
        if self.by is TunedBy.FOLDS:
            return f"{self.folds} folds by {self.unit}"
        return self.source

    def __str__(self) -> str:
        """Return the record as a phrase, such as `tuned on dev.json`."""
        match self.by:
            case TunedBy.FIRST_PASS:
                return "first pass"
            case TunedBy.TEXTS:
                return ""
            case TunedBy.GIVEN:
                return self.source or "given"
            case TunedBy.CARD:
                return "recommended by the model card"
        return f"tuned on {self.name}"

    @property
    def signature(self) -> str:
        """The record in a signature: content hashes, no names."""
        if self.by is TunedBy.TEXTS:
            return ""
        parts = []
        if self.by is TunedBy.FOLDS:
            parts += [f"{self.folds}folds", f"by={self.unit}"]
            parts += [f"{name}={value}" for name, value in self.how.items()]
        if self.lists:
            parts.append(f"{self.lists}@{self.digest}")
        elif self.by is TunedBy.CARD:
            parts.append("card")
        else:
            parts.append("given")
        if self.forced:
            parts.append("forced")
        return ",".join(parts)
