"""Features that count something in a text: the shortest way to a feature of one's
own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

from rescore.columns import Column, Role
from rescore.config import Bonus, RunConfig
from rescore.expansion import Expansion
from rescore.features.base import Feature, Situation, WeightedColumn, WeightKind
from rescore.metrics import Normaliser
from rescore.nbest import Hypothesis, NbestList, with_header
from rescore.options import Declared, Field


class TextCount(Feature):
    """A bonus for each unit that is counted in a hypothesis, such as each number.

    A subclass says three things: `reserved_columns` has one column of counts,
    with its unit; `Options` has one option of `rescore.config.bonus_option`; `count`
    counts. The user tunes the bonus or sets it to a number; without the option the
    feature does nothing. The column is added to the lists wherever it has a weight.
    """

    Options: ClassVar[type[Declared]]
    """A dataclass with one option, which `bonus_option` makes."""

    @abstractmethod
    def count(self, text: str, words: Normaliser) -> float:
        """Return the number of units in a text.

        Args:
            text: The text of a hypothesis.
            words: Cuts texts into words, as the metric does.
        """

    def record(self, words: Normaliser) -> Column:
        """Return the record of the column.

        Weights that were tuned with one record are refused for another, so a count that
        depends on settings names them in the record's `norm`.

        Args:
            words: Cuts texts into words, as the metric does.
        """
        return Column(self._column, "", "", "", Role.COUNT)

    def untuned_weights(self, config: RunConfig) -> Mapping[str, float]:
        """Return the bonus that the config sets."""
        return {self._column: float(self._bonus(config) or 0)}

    def expansion(self, at: Situation, words: Normaliser) -> Expansion | None:
        """Return the counter of units; None if they have no bonus.

        Args:
            at: The situation.
            words: Cuts texts into words.
        """
        former = at.former_weights
        was_tuned = former is not None and former.weighs_or_tuned(self._column)
        if was_tuned or self._bonus(at.config):
            return _Counter(self, words)
        return None

    def weighted(self, at: Situation) -> Iterator[WeightedColumn]:
        """Yield the bonus, tuned or given."""
        bonus = self._bonus(at.config)
        if not bonus:
            return
        flag = self._option.about.flag(self._option.name)
        if bonus is True:
            at.note(f"{self._column} bonus", "tuned", flag)
            yield WeightedColumn(self._column, WeightKind.BONUS, option=flag)
        else:
            at.note(f"{self._column} bonus", f"{bonus:g}", flag)
            yield WeightedColumn(self._column, WeightKind.BONUS, fixed=bonus)

    @property
    def _column(self) -> str:
        """The name of the column."""
        (name,) = self.reserved_columns
        return name

    @property
    def _option(self) -> Field:
        """The option that sets the bonus."""
        (entry,) = self.Options.declared()
        return entry

    def _bonus(self, config: RunConfig) -> Bonus:
        """Return what the user says about the bonus; None for nothing."""
        return getattr(config.weighing.of(self.Options), self._option.name)


class _Counter(Expansion):
    """Adds the column of a feature that counts."""

    def __init__(self, feature: TextCount, words: Normaliser) -> None:
        """Make the counter.

        Args:
            feature: Counts.
            words: Cuts texts into words.
        """
        self._feature = feature
        self._words = words

    @property
    def records(self) -> Mapping[str, Column]:
        """The record of the column that is added."""
        (name,) = self._feature.reserved_columns
        return {name: self._feature.record(self._words)}

    def __call__(
        self, lists: Iterable[NbestList], dev: bool = False
    ) -> Iterator[NbestList]:
        """Yield copies of the lists with the column."""
        for nbest in with_header(
            lists, lambda header: header.with_records(self.records)
        ):
            yield replace(nbest, hypotheses=list(map(self._counted, nbest.hypotheses)))

    def _counted(self, hypothesis: Hypothesis) -> Hypothesis:
        """Return a copy of a hypothesis with the count."""
        (name,) = self._feature.reserved_columns
        number = float(self._feature.count(hypothesis.text, self._words))
        return replace(hypothesis, scores={**hypothesis.scores, name: number})
