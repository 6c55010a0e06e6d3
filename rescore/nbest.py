"""The data model everything shares: N-best lists of hypotheses with columns of scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rescore.errors import UserError

FIRST_PASS = "s2s"
"""The column with the score that the toolkit ranked by."""

SUM = "sum"
"""The column with the unnormalised log-probability, where the toolkit ranked by a mean over tokens."""

REPLACED = "first"
"""The column with what was `s2s`, where another column took its place."""

WORDS = "words"
"""The number of words of a hypothesis: a column that every list has, unless a file gives it one of its own."""

TOKENS = "tokens"
"""The column with the number of a language model's tokens, where it was asked for."""

COUNTS = {WORDS: "word", TOKENS: "token"}
"""Columns that count something, whose weight is a bonus for each."""


@dataclass(slots=True)
class Hypothesis:
    """One candidate: `text` as the toolkit meant a person to read it, `scores` in natural log, higher is better."""

    text: str
    scores: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class NbestList:
    """The hypotheses of one utterance (or source sentence), in the order of the file."""

    id: str
    hypotheses: list[Hypothesis]
    references: tuple[str, ...] = ()
    source: str | None = None

    def column(self, name: str) -> list[float]:
        """The scores of one column, in the order of the hypotheses.

        Raises:
            UserError: a hypothesis has no such score.
        """
        if name == WORDS and WORDS not in self.hypotheses[0].scores:
            return [float(len(hypothesis.text.split())) for hypothesis in self.hypotheses]
        try:
            return [hypothesis.scores[name] for hypothesis in self.hypotheses]
        except KeyError:
            present = ", ".join(sorted({key for hypothesis in self.hypotheses for key in hypothesis.scores})) or "none"
            raise UserError(
                f"utterance {self.id}: no score {name!r} (found: {present}); add it with `rescore score`"
            ) from None


def ranked_by_means(lists: Sequence[NbestList]) -> bool:
    """Whether the first-pass scores are means over tokens, as fairseq's: then the readers keep the sums beside them."""
    return bool(lists) and all(SUM in hypothesis.scores for hypothesis in lists[0].hypotheses)
