"""The interface of features: what somebody who writes a feature has to know.

A feature gives weights to columns of scores (`rescore.columns`). It is a class of the
table `rescore.parts.FEATURES`; another package adds one by an entry point of the group
`rescore.features`. The plan (`rescore.plan`) asks each feature of the table, in this
order:

    further_metrics    which metrics show what the feature gains and costs?
    check_lists        when lists are read: do they suit the feature?
    expansion          what adds the feature's column to the lists?
    counted            of which model are tokens counted?
    weighted           which columns have a weight, and which weights are tuned?
    weighted_alone     and if no feature has such a column?
    unweighted         which columns of scores have no weight, and why?
    untuned_weights    which weights do the options set, if nothing is tuned? (also
                       before anything is read, if --lm is given)
    completed          what do the lists themselves tell, if nothing is tuned?

Reports ask `notes` about the weights that were tuned.

Each method has an answer for a feature that it does not concern, so a feature defines
only what it needs. A feature that counts something in texts is a subclass of
`rescore.features.TextCount`, which answers all of these questions itself.

Four attributes tell the rest of the package what the feature brings and reads:
`reserved_columns` (names of columns, with the unit that tables print), `origins` and
`new_words` (the origins of new hypotheses, which an expansion makes), and `reads` (the
options of metrics that the feature reads, too). A class `Options`
declares options of the command line; their values are in `config.weighing`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

from rescore.columns import Reserved
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.expansion import Expansion, asked_expansions
from rescore.lms import LanguageModel
from rescore.metrics import Metric, MetricOptions, Normaliser
from rescore.parts import FEATURES
from rescore.tuning import Weights
from rescore.tuning.lists import common_expansion_columns


@dataclass(frozen=True, slots=True)
class Reason:
    """One choice of a plan and its reason; `--verbose` prints it."""

    subject: str
    """The thing that is chosen, such as `metric`."""
    chosen: str
    """What the plan chose, such as `WER`."""
    why: str
    shown: bool = False
    """Whether users are told without --verbose, because they may not expect it."""

    def __str__(self) -> str:
        """Return the choice as one line."""
        return f"{self.subject}: {self.chosen} ({self.why})"


class WeightKind(Enum):
    """What a weight means, and so where it may lie."""

    SHARE = "share"
    """A part of the score, in [0, 1]; the weight of the first pass is what the shares
    leave. For scores of language models.
    """
    SIGNED = "signed"
    """The factor of a score that may be subtracted: any number. For parts of the
    toolkit's own score.
    """
    BONUS = "bonus"
    """The score that each unit of a count adds: any number. For words, tokens and
    whatever else a feature counts.
    """


@dataclass(frozen=True, slots=True)
class WeightedColumn:
    """A column that has a weight."""

    name: str
    kind: WeightKind
    fixed: float | None = None
    """The weight that the user sets, beside weights that are tuned; None for a weight
    that is tuned.
    """
    by_default: bool = False
    """Whether the weight is tuned though the user does not ask for it: then no warning
    says that the column is constant.
    """
    option: str = ""
    """The option that sets the bonus: a line names the option if the tuned bonus is 0.
    Empty for a weight of which nobody expects a line.
    """
    subject: str = ""
    """What this line calls the bonus; empty for the words of the option."""

    @property
    def phrase(self) -> str:
        """The bonus in a sentence, such as `word bonus`."""
        return self.subject or self.option.strip("-").replace("-", " ")


@dataclass(slots=True, kw_only=True)
class Situation:
    """Everything that features may look at, and the reasons that they give.

    The plan fills in a field as soon as it is decided:

        from the beginning       config, lists, dev, former_weights, measures,
                                 of_requests
        in further_metrics       measuring, metric too
        in counted               models too
        in weighted              counted too, and weighted of the features before

    `reasons` grows all the time.
    """

    config: RunConfig
    lists: Dataset
    """The lists of the experiment, or the first lists of a stream."""
    dev: Dataset | None
    """The dev lists; None if there are none."""
    former_weights: Weights | None
    """The weights of an earlier tuning, which decide; None to tune weights or to take
    given weights.
    """
    measures: bool
    """Whether texts are decided or measured; else the lists are only scored."""
    of_requests: bool = False
    """Whether the plan is for requests: `lists` is empty, and its header says what
    holds for the lists to come, which may have another default metric.
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
    weighted: tuple[WeightedColumn, ...] = ()
    """The columns to which features before this one in the table gave weights."""
    reasons: list[Reason] = field(default_factory=list)
    """The reasons of all choices so far, of the plan and of features."""

    def note(self, subject: str, chosen: object, why: str) -> None:
        """Add the reason of a choice.

        Args:
            subject: The thing that is chosen.
            chosen: What was chosen.
            why: The reason.
        """
        self.reasons.append(Reason(subject, str(chosen), why))

    def note_unweighted(
        self, features: Mapping[str, Feature], weighted: Collection[str]
    ) -> None:
        """Add which columns of scores have no weight, unless --column names columns.

        Args:
            features: The features.
            weighted: The names of the columns that have a weight.
        """
        if not self.config.columns:
            for feature in features.values():
                self.reasons.extend(feature.unweighted(self, weighted))

    @property
    def tuning_lists(self) -> Dataset:
        """The lists that weights are tuned on: the dev lists, or the lists of the
        experiment if there are no dev lists.
        """
        return self.dev or self.lists

    @property
    def reported_lists(self) -> Dataset:
        """The lists that are reported: the lists of the experiment, or the dev lists if
        there are no others.
        """
        return self.lists or self.tuning_lists

    @property
    def all_sets(self) -> list[Dataset]:
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
    def decides_lists(self) -> bool:
        """Whether texts are chosen from lists that are known, or from requests; else
        weights alone are tuned.
        """
        return bool(self.lists) or self.of_requests

    @property
    def score_columns(self) -> list[str]:
        """The names of the columns of `weighted` that are scores and no counts."""
        names = []
        for column in self.weighted:
            if column.kind is not WeightKind.BONUS:
                names.append(column.name)
        return names

    @property
    def expansion_columns(self) -> list[str]:
        """The names of the columns that expansions will add; without expansions, of the
        columns that earlier expansions added to the lists.
        """
        names: list[str] = []
        for _, part, _ in asked_expansions(self.config):
            names += part.adds
        return names or common_expansion_columns(self.tuning_lists[:1])


class Feature:
    """Something whose columns may have weights; one object for each plan.

    The head of this module says when each method is asked.
    """

    reserved_columns: ClassVar[Mapping[str, Reserved]] = {}
    """The names of the feature's own columns: no file and no model may use them for
    something else. `Reserved.unit` is what tables print: `+0.25 a word`.
    """
    origins: ClassVar[Sequence[str]] = ()
    """The origins of new hypotheses whose words all stand in hypotheses of the toolkit.
    """
    new_words: ClassVar[Sequence[str]] = ()
    """The origins of new hypotheses with words that no system wrote. They may win only
    if this gains something on dev lists.
    """
    reads: ClassVar[Sequence[str]] = ()
    """The names of options of metrics that the feature reads, too, such as `words`, the
    file of --words.
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

    def untuned_weights(self, config: RunConfig) -> Mapping[str, float]:
        """Return the weights that the config sets if nothing is tuned, by the name of
        the column; 0 for no weight.

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
        """Return the expansion that adds the feature's columns to lists before they are
        scored; None if nothing is added.

        It is asked where weights are tuned, where they are set, and where weights of an
        earlier tuning decide (`at.former_weights.weighs_or_tuned(NAME)`): the column is
        added each time.

        Args:
            at: The situation; without models yet.
            words: Cuts texts into words, as the metric does.
        """
        return None

    def counted(self, at: Situation) -> Sequence[LanguageModel]:
        """Return the models whose tokens the feature needs in a column.

        Args:
            at: The situation.
        """
        return ()

    def weighted(self, at: Situation) -> Iterable[WeightedColumn]:
        """Return the columns that have a weight; asked only if weights are tuned.

        `at.note` tells the user why (`--verbose`).

        Args:
            at: The situation; `at.weighted` has the columns of features before this
                one.
        """
        return ()

    def weighted_alone(self, at: Situation) -> Iterable[WeightedColumn]:
        """Return the columns that `rescore tune` tunes if no feature has a column by
        `weighted`.

        Args:
            at: The situation.
        """
        return ()

    def unweighted(self, at: Situation, weighted: Collection[str]) -> Iterable[Reason]:
        """Return which columns of scores have no weight, though others have one, and
        which option gives them a weight. It is not asked where --column names columns.

        Args:
            at: The situation.
            weighted: The names of all columns that have a weight.
        """
        return ()

    def completed(self, at: Situation, weights: Weights, words: Normaliser) -> Weights:
        """Return the weights that decide, with what the lists themselves tell; asked
        only if nothing is tuned.

        Args:
            at: The situation.
            weights: The weights that are given, or of an earlier tuning.
            words: Cuts texts into words, as the metric does.
        """
        return weights

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
