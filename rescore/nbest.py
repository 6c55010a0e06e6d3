"""The data model everything shares: N-best lists of hypotheses with columns of scores, and the columns' origin."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rescore.errors import UserError

FIRST_PASS = "s2s"
"""The column with the score that the toolkit ranked by."""

RANK = "rank"
"""What --s2s calls the order of the file: as a score, minus the natural log of the place."""

SUM = "sum"
"""The column with the unnormalised log-probability, where the toolkit ranked by a mean over tokens."""

FORMER_FIRST_PASS = "first"
"""The column with what was `s2s` in the file, where --s2s put another column in its place."""

WORDS = "words"
"""The number of words of a hypothesis: a column that every list has, unless a file gives it one of its own."""

TOKENS = "tokens"
"""The column with the number of a language model's tokens, where it was asked for."""

COMBINED = "combined"
"""The column that is 1 for hypotheses that were made from others, and 0 for those that the toolkit gave."""

CHANNEL = "channel"
"""The column with the log probability of what was heard given what respelled words mean; 0 where there are none."""

EDITS = "edits"
"""The column with the number of respelled words."""

LISTED = "listed"
"""The column with the number of words of the user's list (`--words`) in the text."""

RESPELLING = (CHANNEL, EDITS, LISTED)
"""Columns of respelled lists; the last where there is such a list."""

COUNTS = {
    WORDS: "word",
    TOKENS: "token",
    CHANNEL: "nat of the channel",
    EDITS: "respelled word",
    LISTED: "listed word",
}
"""Columns that count something, whose weight is a bonus for each, without bounds."""


@dataclass(frozen=True, slots=True)
class Column:
    """Where a column of scores comes from; kept once for all lists of a file."""

    model: str
    """The back-end and its options, such as `bilm:intact`."""
    fingerprint: str
    """Content hash of weights, tokenizer and settings, in hexadecimal; empty for a component score of a toolkit."""
    norm: str
    """`sum`, `mean` or `length^A` over tokens."""
    precision: str
    """The arithmetic: float32, bf16, fp16 or int8."""

    @classmethod
    def component(cls, toolkit: str) -> Column:
        """A part of the toolkit's own score, such as its acoustic score: no language model's, and tuned where asked."""
        return cls(toolkit, "", SUM, "")

    @property
    def is_component(self) -> bool:
        return not self.fingerprint

    @property
    def short(self) -> str:
        """For one line of text."""
        return f"{self.model}@{self.fingerprint[:12]} {self.norm} {self.precision}"


@dataclass(slots=True)
class Hypothesis:
    """One candidate: `text` as the toolkit meant a person to read it, `scores` in natural log, higher is better."""

    text: str
    scores: dict[str, float] = field(default_factory=dict)
    times: tuple[tuple[float, float], ...] = ()
    """Start and end of each word in its recording, in seconds; empty where the toolkit gave none."""


@dataclass(slots=True, repr=False)
class NbestList:
    """The hypotheses of one utterance (or source sentence), in the order of the file."""

    id: str
    hypotheses: list[Hypothesis]
    references: tuple[str, ...] = ()
    source: str | None = None
    provenance: Mapping[str, Column] = field(default_factory=dict)
    """Where columns of scores come from, as far as it is known; one object for all lists of a file."""
    recording: str | None = None
    """What the utterance is a part of; None where its id says so (`rescore.lms.context`)."""

    def __repr__(self) -> str:
        """One line: the rest is in the fields."""
        first = f", {self.hypotheses[0].text[:60]!r}" if self.hypotheses else ""
        return f"<NbestList {self.id}: {len(self.hypotheses)} hypotheses{first}>"

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
            how = "with --respell" if name in RESPELLING else "with `rescore score`"
            raise UserError(f"utterance {self.id}: no score {name!r} (found: {present}); add it {how}") from None


def given_places(nbest: NbestList) -> list[int]:
    """The places of the hypotheses that the toolkit gave, wherever they stand; all where none is said to be its own."""
    own = [place for place, one in enumerate(nbest.hypotheses) if not one.scores.get(COMBINED)]
    return own or list(range(len(nbest.hypotheses)))


def ranked_by_means(lists: Sequence[NbestList]) -> bool:
    """Whether the first-pass scores are means over tokens, as fairseq's: then the readers keep the sums beside them."""
    given = [one.scores for one in lists[0].hypotheses if not one.scores.get(COMBINED)] if lists else []
    return bool(given) and all(SUM in scores for scores in given)


def score_columns(nbest: NbestList) -> list[str]:
    """The columns beside the first pass that hold scores of models, in the order of the file."""
    return [name for name in _columns(nbest) if name not in (SUM, FORMER_FIRST_PASS, COMBINED, *COUNTS)]


def component_columns(nbest: NbestList) -> list[str]:
    """The columns that are parts of the toolkit's own score (decoder, ctc, lm, ...), in the order of the file."""
    return _columns(nbest, components=True)


def _columns(nbest: NbestList, components: bool = False) -> list[str]:
    found = dict.fromkeys(name for hypothesis in nbest.hypotheses for name in hypothesis.scores if name != FIRST_PASS)
    return [name for name in found if (name in nbest.provenance and nbest.provenance[name].is_component) == components]


def content_hash(lists: Iterable[NbestList]) -> str:
    """Eight hexadecimal digits that say which lists these are: ids, references, sources, texts and first-pass scores.

    Columns that were added later do not count, so that a set is the same before and after scoring.
    """
    digest = hashlib.sha256()
    for nbest in lists:
        hypotheses = [(hypothesis.text, hypothesis.scores.get(FIRST_PASS)) for hypothesis in nbest.hypotheses]
        digest.update(json.dumps([nbest.id, nbest.references, nbest.source, hypotheses]).encode())
    return digest.hexdigest()[:8]
