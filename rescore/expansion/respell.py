"""Respelling: candidates from a lexicon for what a recogniser wrote, and the hypotheses that they make."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from rescore.expansion.channel import Channel
from rescore.expansion.recombine import refuse_scored
from rescore.lms.lexicon import Lexicon, spelled
from rescore.nbest import CHANNEL, COMBINED, EDITS, FIRST_PASS, LISTED, Hypothesis, NbestList

DISTANCE = 3
"""Letters in which a word may differ."""
PROPOSED = 200
"""Words that the channel weighs, for each that was heard."""
KEPT = 12
"""Candidates of each word."""
EDIT_COST = 3.0
"""What each letter that differs costs in the choice of the proposed, natural log."""
PRIOR = 0.5
"""The weight of the lexicon's log-probability beside the channel's."""
FREQUENT = 1e-5
"""The share of a text from which on a word may be one of two that were run together."""
CELLS = 1 << 24
"""Distances computed at once: bounds memory, a byte each."""

Numbers = npt.NDArray[np.int64]


class Candidate(NamedTuple):
    """What may have been meant."""

    text: str
    """One word, or two."""
    channel: float
    """Natural log of P(heard | meant)."""
    prior: float
    """Natural log of its probability in the lexicon, of two words the sum."""

    @property
    def score(self) -> float:
        """By this the candidates of a word are ordered, higher is better."""
        return self.channel + PRIOR * self.prior


class Proposer:
    """Looks for candidates; what was looked for once is kept."""

    def __init__(self, channel: Channel, lexicon: Lexicon) -> None:
        self._channel, self._lexicon = channel, lexicon
        words = sorted(lexicon.counts, key=len)
        self._words = np.array(words, dtype=object)
        self._priors = np.array([lexicon.log_prob(word) for word in words])
        lengths = np.array([len(word) for word in words])
        self._starts = np.searchsorted(lengths, np.arange(lengths[-1] + DISTANCE + 2))
        self._frequent = {word for word in words if lexicon.counts[word] >= FREQUENT * lexicon.total}
        self._near_frequent = _deletions(word for word in self._frequent if len(word) > 2)
        self._known: dict[str, list[Candidate]] = {}

    def __call__(self, heard: Iterable[str]) -> dict[str, list[Candidate]]:
        """The best `KEPT` candidates for each of some words in lower case, the best first."""
        every = list(dict.fromkeys(heard))
        new = sorted((word for word in every if word not in self._known), key=len)
        proposals = dict(zip(new, self._near(new), strict=True))
        for word in new:
            proposals[word] += self._split(word)
        pairs = [(word, meant) for word in new for meant in proposals[word]]
        channel = self._channel.log_probs([meant for _, meant in pairs], [word for word, _ in pairs])
        for word, group in groupby(zip(pairs, channel.tolist(), strict=True), key=lambda item: item[0][0]):
            found = [
                Candidate(meant, log_prob, sum(map(self._lexicon.log_prob, meant.split())))
                for (_, meant), log_prob in group
            ]
            self._known[word] = sorted(found, key=lambda one: (-one.score, one.text))[:KEPT]
        return {word: self._known.get(word, []) for word in every}

    def _near(self, heard: Sequence[str]) -> Iterator[list[str]]:
        """For words in order of length, other ones of the lexicon that differ in few letters."""
        for length, group in groupby(heard, key=len):
            low, high = (
                int(self._starts[min(max(end, 0), len(self._starts) - 1)])
                for end in (length - DISTANCE, length + DISTANCE + 1)
            )
            words, priors = self._words[low:high].tolist(), self._priors[low:high]
            same = list(group)
            part = max(1, CELLS // max(len(words), 1))
            for start in range(0, len(same), part):
                distances = process.cdist(
                    same[start : start + part],
                    words,
                    scorer=Levenshtein.distance,
                    score_cutoff=DISTANCE,
                    dtype=np.uint8,
                )
                for row in distances:
                    near = np.flatnonzero((row <= DISTANCE) & (row > 0))
                    order = np.argsort(EDIT_COST * row[near] - PRIOR * priors[near], kind="stable")
                    yield [words[index] for index in near[order[:PROPOSED]].tolist()]

    def _split(self, heard: str) -> list[str]:
        """Two frequent words that make up a word, one of them perhaps with a letter more, less or other."""
        found = set()
        for at in range(1, len(heard)):
            left, right = heard[:at], heard[at:]
            if left in self._frequent:
                found |= {f"{left} {word}" for word in self._close(right)}
            if right in self._frequent:
                found |= {f"{word} {right}" for word in self._close(left)}
        return sorted(found)

    def _close(self, piece: str) -> set[str]:
        """Frequent words that differ from a piece in one letter or none."""
        found = {piece} & self._frequent
        for shorter in _shorter(piece) if len(piece) > 2 else ():
            found |= {word for word in self._near_frequent.get(shorter, ()) if Levenshtein.distance(word, piece) <= 1}
        return found


def _shorter(word: str) -> set[str]:
    """A word, and what is left of it without one of its letters."""
    return {word, *(word[:at] + word[at + 1 :] for at in range(len(word)))}


def _deletions(words: Iterable[str]) -> dict[str, list[str]]:
    """The symmetric-delete index of distance 1: what is left of words without a letter, and whose it is."""
    index: defaultdict[str, list[str]] = defaultdict(list)
    for word in words:
        for shorter in _shorter(word):
            index[shorter].append(word)
    return dict(index)


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
