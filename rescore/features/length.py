"""Bonuses for each word and each token: scores that are sums over tokens say little
about how long a sentence should be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from rescore.columns import TOKENS, WORDS, Reserved, Role
from rescore.config import Bonus, RunConfig
from rescore.features.base import Feature, Situation, WeightedColumn, WeightKind
from rescore.lms import LanguageModel, is_pseudo

LARGE_SET = 500
"""Lists from which on a bonus can be tuned beside a single weight without overfitting.
"""
TOKENS_ADVICE = "add it with `rescore score --lm MODEL --count-tokens`"


def _bonus(
    at: Situation,
    subject: str,
    column: str,
    wanted: bool,
    why: str,
    asked: Bonus,
) -> Iterator[WeightedColumn]:
    """Yield the bonus of a column, tuned or given; note the decision in any case.

    Args:
        at: The situation.
        subject: The name of the bonus, in the reasons.
        column: The column of counts.
        wanted: Whether there is a bonus.
        why: The reason.
        asked: What the user says about the bonus; None for nothing.
    """
    if not wanted:
        at.note(subject, "off", why)
    elif asked is None or asked is True:
        at.note(subject, "tuned", why)
        by_default = asked is None
        yield WeightedColumn(
            column,
            WeightKind.BONUS,
            by_default=by_default,
            option="" if by_default else why,
        )
    else:
        at.note(subject, f"{asked:g}", why)
        yield WeightedColumn(column, WeightKind.BONUS, fixed=asked)


class WordBonus(Feature):
    """A bonus for each word.

    By default it is tuned beside several columns, but not for BLEU: a bonus fits the
    brevity penalty of the dev lists, and this gain is lost on other lists.
    """

    reserved_columns: ClassVar = {WORDS: Reserved(Role.COUNT, "word")}

    def untuned_weights(self, config: RunConfig) -> Mapping[str, float]:
        """Return the bonus that the config gives."""
        return {WORDS: float(config.word_bonus or 0)}

    def weighted(self, at: Situation) -> Iterator[WeightedColumn]:
        """Yield the bonus, tuned or given."""
        wanted, why = self._suits(at)
        asked = at.config.word_bonus
        yield from _bonus(at, "word bonus", WORDS, wanted, why, asked)

    def _suits(self, at: Situation) -> tuple[bool, str]:
        """Return whether there is a bonus, and why."""
        assert at.metric
        if at.config.word_bonus is not None:
            return bool(at.config.word_bonus), "--word-bonus"
        if at.metric.punishes_brevity:
            return False, f"{at.metric.name} has a brevity penalty"
        if len(at.score_columns) > 1:
            return True, "several columns"
        return False, "one column"


class TokenBonus(Feature):
    """A bonus for each token of a language model.

    By default it is tuned on `LARGE_SET` lists or more if their tokens are counted and
    a column has pseudo-log-likelihoods, but not for BLEU.
    """

    reserved_columns: ClassVar = {
        TOKENS: Reserved(Role.COUNT, "token", advice=TOKENS_ADVICE)
    }

    def untuned_weights(self, config: RunConfig) -> Mapping[str, float]:
        """Return the bonus that the config gives."""
        return {TOKENS: float(config.token_bonus or 0)}

    def counted(self, at: Situation) -> Sequence[LanguageModel]:
        """Return the first model of pseudo-log-likelihoods.

        If the user asks for a count and no model gives pseudo-log-likelihoods, it is
        the first model. If the lists have a count and the user asks for none, it is no
        model.
        """
        models, why = self._countable(at)
        if models:
            at.note("tokens", f"counted by {models[0].name}", why)
        return models[:1]

    def _countable(self, at: Situation) -> tuple[Sequence[LanguageModel], str]:
        """Return the models whose tokens may be counted, and why."""
        pseudo = [lm for lm in at.models if is_pseudo(lm.model)]
        wanted = self._count_is_wanted(at.config)
        if wanted is False:
            return (), "refused"
        if wanted:
            return pseudo or at.models, "asked for"
        former = at.former_weights
        if former is not None and TOKENS in former.tuning.columns:
            known = former.tuning.columns[TOKENS]
            same = [lm for lm in at.models if lm.fingerprint == known.fingerprint]
            return same, "the weights were tuned with its tokens"
        if TOKENS in at.reported_lists.header.records:
            return (), "the lists have a count"
        return pseudo, "pseudo-log-likelihoods say little about length"

    def _count_is_wanted(self, config: RunConfig) -> bool | None:
        """Return whether the user asks for a count; None if the user does not say."""
        if config.count_tokens is not None or config.token_bonus is None:
            return config.count_tokens
        return bool(config.token_bonus)

    def weighted(self, at: Situation) -> Iterator[WeightedColumn]:
        """Yield the bonus, tuned or given."""
        wanted, why = self._suits(at)
        asked = at.config.token_bonus
        yield from _bonus(at, "token bonus", TOKENS, wanted, why, asked)

    def _suits(self, at: Situation) -> tuple[bool, str]:
        """Return whether there is a bonus, and why."""
        assert at.metric
        if at.config.token_bonus is not None:
            return bool(at.config.token_bonus), "--token-bonus"
        if at.metric.punishes_brevity:
            return False, f"{at.metric.name} has a brevity penalty"
        models = {}
        for name, column in at.tuning_lists.header.records.items():
            models[name] = column.model
        for lm in at.models:
            models[lm.name] = lm.model
        known = [models[name] for name in at.score_columns if name in models]
        if not any(map(is_pseudo, known)):
            return False, "no pseudo-log-likelihoods"
        if not at.counted and TOKENS not in at.tuning_lists.score_names:
            return False, "no column of token counts"
        if len(at.tuning_lists) < LARGE_SET:
            return False, f"fewer than {LARGE_SET} lists"
        return True, f"{LARGE_SET} lists or more"
