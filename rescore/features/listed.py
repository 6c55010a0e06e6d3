"""A bonus for each word of the user's list (--words, --boost)."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from rescore.columns import Column, Reserved, Role
from rescore.config import RunConfig
from rescore.errors import UserError
from rescore.expansion import Expansion
from rescore.features.base import Feature, Situation, WeightedColumn, WeightKind
from rescore.metrics import Metric, Normaliser
from rescore.metrics.listed import (
    LISTED,
    WordList,
    check_counting,
    listed_column,
    with_listed,
)
from rescore.nbest import NbestList

log = logging.getLogger(__name__)

ADVICE = "it counts listed words: give --words FILE, to `rescore score` as well"
CONSTANT = (
    "the hypotheses of no tuning list differ in a word of --words, so --boost cannot be"
    " tuned; give --boost NUMBER"
)


class CountListed(Expansion):
    """Adds a column with the number of listed words of each hypothesis."""

    def __init__(self, listed: WordList, words: Normaliser) -> None:
        """Make the counter.

        Args:
            listed: The words that are counted.
            words: Cuts texts into words.
        """
        self._listed = listed
        self._words = words

    @property
    def records(self) -> Mapping[str, Column]:
        """The record of the column that is added."""
        return {LISTED: listed_column(self._listed, self._words)}

    def __call__(
        self, lists: Iterable[NbestList], dev: bool = False
    ) -> Iterator[NbestList]:
        """Yield the lists with the column."""
        return with_listed(lists, self._listed, self._words)


class ListedWords(Feature):
    """A bonus for each word of the user's list. By default it is tuned if an option
    adds hypotheses with new words.
    """

    reads: ClassVar = ("words",)
    reserved_columns: ClassVar = {
        LISTED: Reserved(Role.COUNT, "listed word", advice=ADVICE, if_constant=CONSTANT)
    }

    def untuned_weights(self, config: RunConfig) -> Mapping[str, float]:
        """Return the bonus that the config gives."""
        return {LISTED: float(config.boost or 0)}

    def further_metrics(
        self, at: Situation, metrics: Sequence[Metric]
    ) -> Sequence[str]:
        """Return the error rates of listed words and of all other words.

        They are reported if words are listed and have a bonus, or if no metric that is
        reported already counts them.

        Args:
            at: The situation.
            metrics: The metrics that are reported already.
        """
        if not (at.measuring.words and metrics[0].words):
            return ()
        counted = any(hasattr(metric.options, "words") for metric in metrics)
        if counted and not self._is_used(at):
            return ()
        return ("bwer", "uwer")

    def expansion(self, at: Situation, words: Normaliser) -> Expansion | None:
        """Return the counter of listed words; None if they have no bonus.

        Args:
            at: The situation.
            words: Cuts texts into words.

        Raises:
            UserError: The lists count words that were cut differently.
        """
        listed = at.config.measuring.words
        if at.measures and not self._is_used(at):
            hinted = at.config.boost is None and not at.config.metrics
            if listed is not None and hinted:
                log.info(
                    "--words alone only measures the listed words; to prefer them, add"
                    " --boost NUMBER"
                )
            return None
        if listed is not None:
            return CountListed(listed, words)
        if at.measures:
            check_counting(at.all_sets, words)
        return None

    def weighted(self, at: Situation) -> Iterator[WeightedColumn]:
        """Yield the bonus, tuned or given."""
        boost = self._boost(at)
        if boost is False:
            return
        why = "--boost" if at.config.boost else "hypotheses have new words"
        if boost is True:
            at.note("boost", "tuned", why)
            by_default = at.config.boost is None
            yield WeightedColumn(
                LISTED,
                WeightKind.BONUS,
                by_default=by_default,
                option="--boost",
                subject="boost of listed words",
            )
        else:
            at.note("boost", f"{boost:g}", why)
            yield WeightedColumn(LISTED, WeightKind.BONUS, fixed=boost)

    def notes(self, every: Sequence[Mapping[str, float]]) -> Iterator[str]:
        """Yield a warning if the bonus is negative."""
        if any(weights.get(LISTED, 0.0) < 0 for weights in every):
            yield (
                "the bonus for a listed word is negative: words of --words in the"
                " tuning lists are wrong more often than the other scores say; to"
                " respell without the list, leave out --words"
            )

    def _is_used(self, at: Situation) -> bool:
        """Return whether listed words have a bonus, or had a bonus that was tuned to
        0.
        """
        if at.former_weights is not None and at.former_weights.weighs_or_tuned(LISTED):
            return True
        return self._boost(at) is not False

    def _boost(self, at: Situation) -> bool | float:
        """Return whether the bonus is tuned, or the number that the user gives.

        Raises:
            UserError: There is a bonus, and there are no listed words.
        """
        boost = at.config.boost
        has_count = (
            LISTED in at.lists.score_names or LISTED in at.tuning_lists.score_names
        )
        has_words = has_count or at.config.measuring.words is not None
        if boost is None and at.former_weights is not None:
            return False  # these weights say it: no bonus, or `at.tuned.regards`
        if boost is None:
            return has_words and bool(at.expansion_columns)
        if boost is False or boost == 0:
            return False
        if not has_words:
            raise UserError(
                "--boost needs the listed words; give --words FILE, or lists of"
                " `rescore score --words FILE`"
            )
        return boost
