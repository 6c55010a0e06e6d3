"""The interface of features, and what they may look at.

A feature says which columns of scores it weighs, how these weights are bounded, and
why. `rescore.plan.resolve` asks each feature of the table `rescore.parts.FEATURES`, in
its order, and knows none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

from rescore.columns import Reserved
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.expansion import Expansion, asked
from rescore.lms import LanguageModel
from rescore.metrics import Metric, MetricOptions, Normaliser
from rescore.parts import FEATURES
from rescore.tuning import Weights
from rescore.tuning.folds import added_columns


@dataclass(frozen=True, slots=True)
class Reason:
    """One decision of a plan and its reason; `--verbose` prints it."""

    subject: str
    """The thing that is decided about, such as `metric`."""
    decision: str
    why: str

    def __str__(self) -> str:
        """Return the decision as one line."""
        return f"{self.subject}: {self.decision} ({self.why})"


class Bounds(Enum):
    """Where a weight may lie."""

    SHARE = "share"
    """In [0, 1]: the weight is taken from the weight of the first pass."""
    FREE = "free"
    """Anywhere: the scores may be subtracted."""
    BONUS = "bonus"
    """Anywhere: the weight is a score for each unit of a count."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """A column that has a weight."""

    column: str
    bounds: Bounds
    given: float | None = None
    """The weight that the user gives; None for a weight that is tuned."""


@dataclass(slots=True, kw_only=True)
class Situation:
    """Everything that features may look at, and the reasons that they give.

    The plan fills in a field as soon as it is decided.
    """

    config: RunConfig
    lists: Dataset
    """The lists of the experiment, or the first lists of a stream."""
    dev: Dataset | None
    """The dev lists; None if there are none."""
    tuned: Weights | None
    """Weights that were tuned before; None to tune weights or to take given weights."""
    measures: bool
    """Whether texts are decided or measured; else the lists are only scored."""
    of_requests: bool = False
    """Whether the lists stand for requests, each of which may have another default
    metric.
    """
    measuring: MetricOptions = field(default_factory=MetricOptions)
    """The options of metrics: of the config, and of the metric that the weights were
    tuned for.
    """
    metric: Metric | None = None
    """The metric that weights are tuned for."""
    models: tuple[LanguageModel, ...] = ()
    """The language models, each with a column of its own."""
    counted: tuple[LanguageModel, ...] = ()
    """The model whose tokens are counted, or no model."""
    weighed: tuple[Weighed, ...] = ()
    """The columns that features before this one in the table weigh."""
    reasons: list[Reason] = field(default_factory=list)
    """The reasons that features gave."""

    def note(self, subject: str, decision: object, why: str) -> None:
        """Add the reason of a decision.

        Args:
            subject: The thing that is decided about.
            decision: The decision.
            why: The reason.
        """
        self.reasons.append(Reason(subject, str(decision), why))

    @property
    def basis(self) -> Dataset:
        """The lists that weights are tuned on: the dev lists, or the lists of the
        experiment if there are no dev lists.
        """
        return self.dev or self.lists

    @property
    def shown(self) -> Dataset:
        """The lists that are reported: the lists of the experiment, or the dev lists if
        there are no others.
        """
        return self.lists or self.basis

    @property
    def sets(self) -> list[Dataset]:
        """The sets that have lists."""
        sets = []
        if self.lists:
            sets.append(self.lists)
        if self.dev:
            sets.append(self.dev)
        return sets

    @property
    def tunes(self) -> bool:
        """Whether weights are tuned."""
        return self.dev is not None or self.config.folds is not None

    @property
    def columns(self) -> list[str]:
        """The columns of scores, without counts, that features before this one in the
        table weigh.
        """
        columns = []
        for weighed in self.weighed:
            if weighed.bounds is not Bounds.BONUS:
                columns.append(weighed.column)
        return columns

    @property
    def added(self) -> list[str]:
        """The columns that expansions will add; without expansions, the columns that
        the lists have from earlier expansions.
        """
        names: list[str] = []
        for _, part, _ in asked(self.config):
            names += part.adds
        return names or added_columns(self.basis[:1])


class Feature:
    """Something whose columns may have weights.

    `expansion` makes the columns of the feature, if nothing else does; `weighed` says
    which columns have a weight that is tuned; `given` has the weights if nothing is
    tuned. Each method has a default answer, for a feature that it does not concern.
    """

    columns: ClassVar[Mapping[str, Reserved]] = {}
    """The names of columns that the feature keeps for itself."""
    origins: ClassVar[Sequence[str]] = ()
    """Origins of hypotheses whose words a system wrote."""
    new_words: ClassVar[Sequence[str]] = ()
    """Origins of hypotheses with new words, which may win only if this gains something
    on dev lists.
    """

    reads: ClassVar[Sequence[str]] = ()
    """Options of metrics that it reads."""

    def check(self, config: RunConfig) -> None:
        """Refuse a config that contradicts itself, before anything is read.

        Args:
            config: The config.

        Raises:
            UserError: Two options contradict each other.
        """

    def check_lists(self, at: Situation, expansions: Sequence[Expansion]) -> None:
        """Refuse lists and expansions that do not suit the feature, before models are
        loaded.

        Args:
            at: The situation, without models yet.
            expansions: What adds hypotheses to the lists.

        Raises:
            UserError: The lists lack something, or an expansion does not suit them.
        """

    def given(self, config: RunConfig) -> Mapping[str, float]:
        """Return the weights that the config gives, by column; 0 for no weight.

        Args:
            config: The config.
        """
        return {}

    def further_metrics(
        self, at: Situation, metrics: Sequence[Metric]
    ) -> Sequence[str]:
        """Return names of metrics that show what the feature gains and costs.

        Args:
            at: The situation.
            metrics: The metrics that are reported already.
        """
        return ()

    def expansion(self, at: Situation, words: Normaliser) -> Expansion | None:
        """Return the expansion that adds the columns of the feature to lists before
        they are scored; None if nothing is added.

        Args:
            at: The situation; without models yet.
            words: Cuts texts into words.
        """
        return None

    def counted(self, at: Situation) -> Sequence[LanguageModel]:
        """Return the models whose tokens the feature needs in a column.

        Args:
            at: The situation.
        """
        return ()

    def weighed(self, at: Situation) -> Iterable[Weighed]:
        """Return the columns that have a weight.

        Args:
            at: The situation; `weighed` has the columns of features before this one.
        """
        return ()

    def notes(self, every: Sequence[Mapping[str, float]]) -> Iterator[str]:
        """Yield sentences about tuned weights that a person does not expect.

        Args:
            every: The weights that decided; one mapping for each fold, if there are
                folds.
        """
        return iter(())


def all_features() -> dict[str, Feature]:
    """Return the features of the table, by name, in the order in which weights are
    named.
    """
    return {name: feature() for name, feature in FEATURES.loaded()}
