"""Bonuses for each word and each token: scores that are sums over tokens say little
about how long a sentence should be.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from rescore.columns import TOKENS, WORDS, Reserved, Role
from rescore.config import Bonus, RunConfig
from rescore.errors import UserError
from rescore.features.base import Bounds, Feature, Situation, Weighed
from rescore.lms import LanguageModel, is_pseudo
from rescore.tuning.folds import LARGE_SET

TOKENS_ADVICE = "add it with `rescore score --count-tokens`"


def _refuse_number(flag: str, bonus: Bonus, config: RunConfig) -> None:
    """Refuse a number for a bonus that is tuned.

    Raises:
        UserError: The config tunes weights and gives this one.
    """
    if config.tunes and not isinstance(bonus, bool | None):
        raise UserError(
            f"{flag} NUMBER needs --weight; --dev and --folds tune this bonus"
        )


class WordBonus(Feature):
    """A bonus for each word.

    By default it is tuned beside several columns. Not for BLEU: a bonus fits the
    brevity penalty of the dev lists, and what it gains there is lost on other lists.
    """

    columns: ClassVar = {WORDS: Reserved(Role.COUNT, "word")}

    def check(self, config: RunConfig) -> None:
        _refuse_number("--word-bonus", config.word_bonus, config)

    def given(self, config: RunConfig) -> Mapping[str, float]:
        return {WORDS: float(config.word_bonus or 0)}

    def weighed(self, at: Situation) -> Iterator[Weighed]:
        assert at.metric
        if at.config.word_bonus is not None:
            wanted = bool(at.config.word_bonus)
            why = "--word-bonus"
        elif at.metric.punishes_brevity:
            wanted = False
            why = f"{at.metric.name} has a brevity penalty"
        else:
            wanted = len(at.columns) > 1
            why = "several columns" if wanted else "one column"
        at.note("word bonus", "tuned" if wanted else "off", why)
        if wanted:
            yield Weighed(WORDS, Bounds.BONUS)


class TokenBonus(Feature):
    """A bonus for each token of a language model.

    By default it is tuned on `LARGE_SET` lists or more, with their tokens counted,
    beside a column of pseudo-log-likelihoods. Not for BLEU.
    """

    columns: ClassVar = {TOKENS: Reserved(Role.COUNT, "token", advice=TOKENS_ADVICE)}

    def check(self, config: RunConfig) -> None:
        _refuse_number("--token-bonus", config.token_bonus, config)

    def given(self, config: RunConfig) -> Mapping[str, float]:
        return {TOKENS: float(config.token_bonus or 0)}

    def counted(self, at: Situation) -> Sequence[LanguageModel]:
        """Return the first model of pseudo-log-likelihoods.

        If a count is asked for and no model gives pseudo-log-likelihoods, it is the
        first model. If the lists have a count and no other count is asked for, it is
        none.
        """
        models, why = self._countable(at)
        if models:
            at.note("tokens", f"counted by {models[0].name}", why)
        return models[:1]

    def _countable(self, at: Situation) -> tuple[Sequence[LanguageModel], str]:
        """Return the models whose tokens may be counted, and why."""
        pseudo = [lm for lm in at.models if is_pseudo(lm.model)]
        wanted = self._count_is_wanted(at.config)
        if wanted is not None:
            return (pseudo or at.models) if wanted else (), "asked for"
        known = at.tuned.columns.get(TOKENS) if at.tuned else None
        if known is not None:
            same = [lm for lm in at.models if lm.fingerprint == known.fingerprint]
            return same, "the weights were tuned with its tokens"
        have_count = TOKENS in (at.lists or at.basis).header.columns
        why = "pseudo-log-likelihoods say little about length"
        return (() if have_count else pseudo), why

    def _count_is_wanted(self, config: RunConfig) -> bool | None:
        """Return whether a count is asked for or refused; None for what suits."""
        if config.count_tokens is not None or config.token_bonus is None:
            return config.count_tokens
        return bool(config.token_bonus)

    def weighed(self, at: Situation) -> Iterator[Weighed]:
        wanted, why = self._suits(at)
        at.note("token bonus", "tuned" if wanted else "off", why)
        if wanted:
            yield Weighed(TOKENS, Bounds.BONUS)

    def _suits(self, at: Situation) -> tuple[bool, str]:
        """Return whether the bonus is tuned, and why."""
        assert at.metric
        if at.config.token_bonus is not None:
            return bool(at.config.token_bonus), "--token-bonus"
        if at.metric.punishes_brevity:
            return False, f"{at.metric.name} has a brevity penalty"
        models = {name: one.model for name, one in at.basis.header.columns.items()}
        models |= {lm.name: lm.model for lm in at.models}
        known = [models[name] for name in at.columns if name in models]
        if not any(map(is_pseudo, known)):
            return False, "no pseudo-log-likelihoods"
        if not at.counted and TOKENS not in at.basis.scores:
            return False, "no column of token counts"
        if len(at.basis) < LARGE_SET:
            return False, f"fewer than {LARGE_SET} lists"
        return True, f"{LARGE_SET} lists or more"
