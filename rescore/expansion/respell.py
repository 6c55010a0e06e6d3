"""New hypotheses with other words where a recogniser wrote some that no text has.

An end-to-end recogniser spells, and what it spells need not be a word. Each word that the lexicon lacks gets
candidates (`rescore.expansion.candidates`); of the texts that these make up, the likeliest of a list become
hypotheses, with the first-pass score of the hypothesis they came from and two more columns: `channel`, the log
probability of what was heard given what was meant, and `edits`, how many words were respelled; both are 0 for those
that the toolkit gave. With a user's own words there is a third, `listed`, how many of them a text has. Language models
then decide, with tuned weights of these columns.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

from rescore.expansion.candidates import Candidate, Proposer
from rescore.expansion.channel import Channel
from rescore.expansion.lexicon import Lexicon, spelled
from rescore.expansion.recombine import refuse_scored
from rescore.nbest import CHANNEL, COMBINED, EDITS, FIRST_PASS, LISTED, Hypothesis, NbestList

DEFAULT_NUMBER = 20
SELECTION = 2
"""Raised when other new hypotheses are chosen than before: it is in signatures. 1 weighed the changed words alone."""
LEXICON_WEIGHT, CHANNEL_WEIGHT, EDIT_BONUS = 0.65, 0.7, 3.0
"""Beside the first pass, where a list's new hypotheses are chosen: of the words' log-probabilities in the lexicon, of
the channel, and for each respelled word. They had the best oracle on a third of LibriSpeech dev-other."""
WINDOW = 200
"""Lists whose words are looked up together."""


class Version(NamedTuple):
    """A hypothesis in the making."""

    score: float
    """By which the best are chosen, higher is better."""
    chosen: tuple[tuple[int, Candidate], ...]
    """The places of respelled words, and what stands there."""

    @property
    def channel(self) -> float:
        return sum(candidate.channel for _, candidate in self.chosen)

    def applied(self, words: Sequence[str]) -> str:
        """The text of the hypothesis that has these words."""
        new = dict(self.chosen)
        return " ".join(cased(new[place].text, word) if place in new else word for place, word in enumerate(words))


class Respeller:
    """Adds up to `number` hypotheses to each list of a stream."""

    def __init__(self, channel: Channel, lexicon: Lexicon, number: int = DEFAULT_NUMBER) -> None:
        self._lexicon, self._number = lexicon, number
        self._propose = Proposer(channel, lexicon)

    def __call__(self, lists: Iterable[NbestList]) -> Iterator[NbestList]:
        """Copies of the lists with new hypotheses behind the old ones."""
        stream = iter(lists)
        while window := list(islice(stream, WINDOW)):
            words = {
                word
                for nbest in window
                for hypothesis in nbest.hypotheses
                for word in hypothesis.text.lower().split()
                if self.doubtful(word)
            }
            candidates = self._propose(sorted(words))
            for nbest in window:
                yield self.respell(nbest, candidates)

    def doubtful(self, word: str) -> bool:
        """Whether a word in lower case is none of the lexicon."""
        return word not in self._lexicon and spelled(word)

    def respell(self, nbest: NbestList, candidates: Mapping[str, Sequence[Candidate]]) -> NbestList:
        """A copy of one list with new hypotheses, given candidates for words in lower case.

        Raises:
            UserError: the list has scores of models, which the new hypotheses would lack.
        """
        refuse_scored(nbest, "respell")
        original = {CHANNEL: 0.0, EDITS: 0.0, COMBINED: 0.0}
        old = [replace(one, scores=original | one.scores | self._listed(one.text)) for one in nbest.hypotheses]
        texts = [one.text.split() for one in nbest.hypotheses]
        versions = [
            (version, rank)
            for rank, words in enumerate(texts)
            if math.isfinite(first := nbest.hypotheses[rank].scores[FIRST_PASS])
            for version in self._versions(words, first, candidates, self._number + len(texts))
        ]
        versions.sort(key=lambda item: -item[0].score)
        seen = {" ".join(words).lower() for words in texts}
        new: list[Hypothesis] = []
        for version, rank in versions:
            text = version.applied(texts[rank])
            if text.lower() not in seen and len(new) < self._number:
                seen.add(text.lower())
                columns = {CHANNEL: version.channel, EDITS: float(len(version.chosen)), COMBINED: 1.0}
                columns |= self._listed(text)
                new.append(Hypothesis(text, old[rank].scores | columns))
        return replace(nbest, hypotheses=[*old, *new])

    def _listed(self, text: str) -> dict[str, float]:
        """A column with the number of words that the user listed, where some are."""
        listed = self._lexicon.listed
        return {LISTED: float(sum(word in listed for word in text.lower().split()))} if listed else {}

    def _versions(
        self, words: Sequence[str], first: float, candidates: Mapping[str, Sequence[Candidate]], number: int
    ) -> list[Version]:
        """The best `number` texts that candidates make of a hypothesis, the best first, without itself."""
        heard = [word.lower() for word in words]
        beam = [Version(first + LEXICON_WEIGHT * sum(map(self._lexicon.log_prob, heard)), ())]
        for place, word in enumerate(heard):
            if options := candidates.get(word):
                gains = [(self._gain(word, one), (place, one)) for one in options]
                longer = [Version(old.score + gain, (*old.chosen, new)) for old in beam for gain, new in gains]
                beam = heapq.nlargest(number, [*beam, *longer], key=lambda version: version.score)
        return [version for version in beam if version.chosen]

    def _gain(self, heard: str, meant: Candidate) -> float:
        words = LEXICON_WEIGHT * (meant.prior - self._lexicon.log_prob(heard))
        return words + CHANNEL_WEIGHT * meant.channel + EDIT_BONUS


def cased(text: str, like: str) -> str:
    """A text in the case of a word: upper, with a capital, or lower."""
    if like.isupper() and (len(like) > 1 or text != like.lower()):
        return text.upper()
    return text.capitalize() if like[:1].isupper() else text
