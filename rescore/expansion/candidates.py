"""Words that may have been meant where a recogniser wrote one that no text has.

Words of the lexicon near in letters are proposed by plain edit distance (rapidfuzz, many at once, by length), the
likeliest of them weighed by the channel; two frequent words that were run together are proposed, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from rescore.expansion.channel import Channel
from rescore.expansion.lexicon import Lexicon

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
