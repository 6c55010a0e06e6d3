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
from rescore.tuning import Weights
from rescore.tuning.folds import added_columns


@dataclass(frozen=True, slots=True)
class Reason:
    """One decision of a plan, as `--verbose` prints it."""

    subject: str
    """The thing decided about, such as `metric`."""
    decision: str
    why: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.decision} ({self.why})"


class Bounds(Enum):
    """Where a weight may lie."""

    SHARE = "share"
    """In [0, 1]; it takes its share of the first pass."""
    FREE = "free"
    """Anywhere: scores that may be subtracted."""
    BONUS = "bonus"
    """Anywhere: a score for each unit of a count."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """A column that has a weight."""

    column: str
    bounds: Bounds
    given: float | None = None
    """The weight where a user gives it; None for a weight that is tuned."""


@dataclass(slots=True, kw_only=True)
class Situation:
    """What features may look at, and the reasons that they give. The plan fills it in
    as it is made.
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
    measuring: MetricOptions = field(default_factory=MetricOptions)
    """The options of metrics: of the config, and of the metric that the weights were
    tuned for.
    """
    metric: Metric | None = None
    """The objective of tuning."""
    models: tuple[LanguageModel, ...] = ()
    """The language models, each with a column of its own."""
    counted: tuple[LanguageModel, ...] = ()
    """The model whose tokens are counted, or no model."""
    weighed: tuple[Weighed, ...] = ()
    """What the features before in the table weigh."""
    reasons: list[Reason] = field(default_factory=list)

    def note(self, subject: str, decision: object, why: str) -> None:
        """Add the reason of a decision."""
        self.reasons.append(Reason(subject, str(decision), why))

    @property
    def basis(self) -> Dataset:
        """The lists that weights are tuned on, if any are tuned: the dev lists, else
        the lists of the experiment.
        """
        return self.dev or self.lists

    @property
    def sets(self) -> list[Dataset]:
        """The sets that have lists."""
        return [known for known in (self.lists, self.dev) if known]

    @property
    def tunes(self) -> bool:
        """Whether weights are tuned."""
        return self.dev is not None or self.config.folds is not None

    @property
    def columns(self) -> list[str]:
        """The columns of scores that features before in the table weigh; no counts."""
        scores = [one for one in self.weighed if one.bounds is not Bounds.BONUS]
        return [one.column for one in scores]

    @property
    def added(self) -> list[str]:
        """The columns that expansions will add; else the columns that the lists have
        from expansions.
        """
        names: list[str] = []
        if self.config.expands:
            for _, part, _ in asked(self.config):
                names += part.adds
        return names or added_columns(self.basis[:1])


class Feature:
    """Something whose columns may have weights.

    Each method has an answer for features that have nothing to say.
    """

    columns: ClassVar[Mapping[str, Reserved]] = {}
    """The names of columns that the feature keeps for itself."""
    origins: ClassVar[Sequence[str]] = ()
    """Origins of hypotheses whose words some system wrote."""
    new_words: ClassVar[Sequence[str]] = ()
    """Origins of hypotheses with new words: these may win only where this gains
    something on dev lists.
    """

    reads: ClassVar[Sequence[str]] = ()
    """Options of metrics that it reads."""

    def check(self, config: RunConfig) -> None:
        """Refuse a config that contradicts itself, before anything is read.

        Raises:
            UserError: The config asks for something that cannot be.
        """

    def given(self, config: RunConfig) -> Mapping[str, float]:
        """Return the weights that the config gives, by column; 0 for no weight."""
        return {}

    def further_metrics(
        self, at: Situation, metrics: Sequence[Metric]
    ) -> Sequence[str]:
        """Return names of metrics that show what the feature costs.

        Args:
            at: The situation.
            metrics: The metrics that are reported already.
        """
        return ()

    def expansion(self, at: Situation, words: Normaliser) -> Expansion | None:
        """Return what adds the columns of the feature to lists before they are scored.

        Args:
            at: The situation; without models yet.
            words: Cuts texts into words.
        """
        return None

    def counted(self, at: Situation) -> Sequence[LanguageModel]:
        """Return the models whose tokens the feature needs in a column."""
        return ()

    def weighed(self, at: Situation) -> Iterable[Weighed]:
        """Return the columns that have a weight."""
        return ()

    def notes(self, every: Sequence[Mapping[str, float]]) -> Iterator[str]:
        """Yield what a person does not expect of tuned weights.

        Args:
            every: The weights that decided, of each fold where there are folds.
        """
        return iter(())
