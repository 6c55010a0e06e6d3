"""Voting word by word over an N-best list: a confusion network, as SRILM's nbest-lattice and NIST's ROVER build it.

Mangu et al. 2000; Fiscus 1997. Hypotheses are aligned one after another, the most probable first, with the network of
those before; in each slot of the network the word (or none) with the highest posterior wins. The result need not be one
of the hypotheses.

Lists with equally many hypotheses are aligned together. A network is an array of word numbers, (lists, slots,
hypotheses), 0 where a hypothesis has no word in the slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rescore.asr.written import Token, rewritten, tokens_of
from rescore.decision.rules import DecisionRule
from rescore.metrics.base import Metric
from rescore.metrics.normalise import EXACT
from rescore.nbest import NbestList

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.integer]
CELLS = 1 << 21
"""Slots times words of the lists that are aligned together: bounds memory."""
TOGETHER = 512
"""Most lists that are aligned together: their rows stay in the processor's cache."""
CERTAIN = 2e-9
"""A hypothesis whose posterior exceeds that of all others by more wins in every slot: nothing needs to be aligned."""
NEARLY = 1e-9
"""Costs that differ by less are equal: of equal alignments a word stands in a slot rather than beside it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Lists with equally many hypotheses."""

    places: list[int]
    """(lists,) the place of each list among all"""
    words: Numbers
    """(lists, hypotheses, words) numbers from 1; -1 after the end"""
    lengths: npt.NDArray[np.intp]
    """(lists, hypotheses) numbers of words"""


class Ballots:
    """The words of all hypotheses of all lists, prepared once for all scales."""

    def __init__(self, tokens: Sequence[list[list[Token]]]) -> None:
        """`tokens`: for each list, the words of each hypothesis."""
        self.tokens = tokens
        self._batches = list(_batches(tokens))
        self._texts: dict[tuple[int, bytes], str] = {}  # of each list and outcome of a vote that was seen before
        self._held: list[
            tuple[npt.NDArray[np.intp], Numbers, Numbers]
        ] = []  # of each batch, the order and the network of `hold`

    def hold(self, posteriors: Sequence[Floats]) -> None:
        """Align all hypotheses now, the most probable first; votes are then counted in these networks."""
        self._held.clear()
        for batch in self._batches:
            shares = np.array([posteriors[place] for place in batch.places])
            order = np.argsort(-shares, axis=1, kind="stable")
            rows = np.arange(len(order))[:, None]
            network = _networks(shares[rows, order], batch.words[rows, order], batch.lengths[rows, order])
            self._held.append((order, *network))

    def vote(self, posteriors: Sequence[Floats], empty: Floats) -> list[str]:
        """The text that wins in each list.

        Args:
            posteriors: (hypotheses,) of each list. empty: (lists,) by which the posterior of no word is multiplied.
        """
        winners = [""] * len(self.tokens)
        for number, batch in enumerate(self._batches):
            shares = np.array([posteriors[place] for place in batch.places])  # (lists, hypotheses)
            factors = empty[batch.places]
            most = shares.max(axis=1)
            decided = most * np.minimum(factors, 1.0) > (1.0 - most) * np.maximum(factors, 1.0) + CERTAIN
            for row in np.flatnonzero(decided).tolist():
                hypothesis = int(shares[row].argmax())
                size = batch.lengths[row, hypothesis]
                winners[batch.places[row]] = self._text(batch.places[row], np.full(size, hypothesis), np.arange(size))
            left = np.flatnonzero(~decided)
            if not len(left):
                continue
            rows = left[:, None]
            if self._held:
                held = self._held[number]
                order, spoken, numbers = held[0][left], held[1][left], held[2][left]
            else:
                order = np.argsort(-shares[left], axis=1, kind="stable")
                spoken, numbers = _networks(shares[rows, order], batch.words[rows, order], batch.lengths[rows, order])
            ranks, words = elected(shares[rows, order], spoken, numbers, factors[left])
            for row, place in enumerate(batch.places[row] for row in left.tolist()):
                kept = ranks[row] >= 0
                winners[place] = self._text(place, order[row][ranks[row, kept]], words[row, kept])
        return winners

    def _text(self, place: int, hypotheses: Places, words: Places) -> str:
        """The text of a list's words, each given by its hypothesis and its place there."""
        key = place, np.stack([hypotheses, words]).tobytes()
        if key not in self._texts:
            own, pairs = self.tokens[place], zip(hypotheses.tolist(), words.tolist(), strict=True)
            self._texts[key] = rewritten([own[hypothesis][word] for hypothesis, word in pairs])
        return self._texts[key]


def _batches(lists: Sequence[Sequence[Sequence[str]]]) -> Iterator[Batch]:
    """Lists with equally many hypotheses of about the same length, together."""
    sizes = [(len(hypotheses), max(map(len, hypotheses))) for hypotheses in lists]
    batch: list[int] = []
    for place in sorted(range(len(lists)), key=sizes.__getitem__):
        number, longest = sizes[place]
        full = len(batch) == TOGETHER or len(batch) * (longest + 1) ** 2 >= CELLS
        if batch and (full or sizes[batch[0]][0] != number):
            yield _batch(batch, lists)
            batch = []
        batch.append(place)
    if batch:
        yield _batch(batch, lists)


def _batch(places: list[int], lists: Sequence[Sequence[Sequence[str]]]) -> Batch:
    lengths = np.array([list(map(len, lists[place])) for place in places], dtype=np.intp)
    words = np.full((*lengths.shape, max(1, lengths.max())), -1, dtype=np.int32)  # all texts may be empty
    for row, place in enumerate(places):
        numbers: dict[str, int] = {}
        for rank, hypothesis in enumerate(lists[place]):
            own = [numbers.setdefault(word, len(numbers) + 1) for word in hypothesis]
            words[row, rank, : len(hypothesis)] = own
    return Batch(places, words, lengths)


def _networks(posteriors: Floats, words: Numbers, lengths: npt.NDArray[np.intp]) -> tuple[Numbers, Numbers]:
    """The confusion networks of lists, whose hypotheses are aligned in the order given; arguments as of `elected`.

    Returns:
        (lists, slots, hypotheses) places of words, -1 for none; the same as word numbers, 0 for none.
    """
    number, depth, _ = words.shape
    spoken = np.full((number, 0, 0), -1, dtype=np.int32)
    numbers = np.zeros((number, 0, 0), dtype=np.int32)
    slots = np.zeros(number, dtype=np.intp)
    mass = np.zeros(number)
    rows = np.arange(number)[:, None]
    for rank in range(depth):
        length = lengths[:, rank]
        own = words[:, rank, : max(1, length.max(initial=0))]  # the texts of this rank may all be empty
        old, new, counts = _aligned(numbers, slots, own, length, posteriors[:, :rank], mass)
        merged = np.full((number, old.shape[1], rank + 1), -1, dtype=np.int32)
        merged[..., :rank] = np.where((old >= 0)[..., None], spoken[rows, old] if rank and spoken.size else -1, -1)
        merged[..., rank] = new
        spoken, slots = merged, counts
        at = np.where(spoken >= 0, spoken, 0)
        numbers = np.where(spoken >= 0, words[rows[..., None], np.arange(rank + 1), at], 0)
        mass = mass + posteriors[:, rank]
    return spoken, numbers


def elected(
    posteriors: Floats, spoken: Numbers, numbers: Numbers, empty: Floats
) -> tuple[npt.NDArray[np.intp], Numbers]:
    """The winner of each slot of each list.

    Args:
        posteriors: (lists, hypotheses), in the order of the networks. spoken, numbers: as `_networks` returns them.
            empty: (lists,) by which the posterior of no word is multiplied.

    Returns:
        (lists, slots) the hypothesis that gives the word, -1 for no word; (lists, slots) the place of the word in it.
    """
    same = numbers[..., :, None] == numbers[..., None, :]
    totals = (same @ posteriors[:, None, :, None])[..., 0]  # (lists, slots, hypotheses): of each hypothesis's word
    totals[numbers == 0] = -1.0
    nothing = ((numbers == 0) @ posteriors[..., None])[..., 0] * empty[:, None]
    winner = np.concatenate([nothing[..., None], totals], axis=-1).argmax(axis=-1) - 1
    # The first of equals: no word, then the more probable hypothesis.
    return winner, np.take_along_axis(spoken, np.maximum(winner, 0)[..., None], axis=-1)[..., 0]


def _aligned(
    numbers: Numbers,
    slots: npt.NDArray[np.intp],
    words: Numbers,
    lengths: npt.NDArray[np.intp],
    posteriors: Floats,
    mass: Floats,
) -> tuple[npt.NDArray[np.intp], Numbers, npt.NDArray[np.intp]]:
    """Slots paired with words, of the least expected number of word errors.

    Args:
        numbers: (lists, slots, hypotheses) of the network. slots: (lists,) how many there are. words: (lists, words).
            lengths: (lists,) numbers of words. posteriors: (lists, hypotheses). mass: (lists,) their sum.

    Returns:
        (lists, pairs) the slot, -1 for none; (lists, pairs) the place of the word, -1 for none; (lists,) how many.
    """
    placed, matched = _tables(numbers, words, posteriors, mass)
    lists = np.arange(len(words))
    slot, at = slots - 1, lengths.astype(np.intp)
    most = int((slots + lengths).max(initial=0))
    old = np.full((len(words), most), -1, dtype=np.intp)
    new = np.full((len(words), most), -1, dtype=np.int32)
    counts = np.zeros(len(words), dtype=np.intp)
    for step in range(most):
        active = (slot >= 0) | (at > 0)
        if not active.any():
            break
        within = np.maximum(slot, 0)
        in_slot = (slot >= 0) & (placed[within, at, lists] if len(placed) else False)
        takes = (at > 0) & active & ~in_slot  # a word beside the slots
        if len(matched):
            takes |= in_slot & (at > 0) & matched[within, np.maximum(at - 1, 0), lists]
        at = at - takes
        old[:, step] = np.where(in_slot, slot, -1)
        new[:, step] = np.where(takes, at, -1)
        slot = slot - in_slot
        counts += active
    backwards = np.maximum(counts[:, None] - 1 - np.arange(counts.max(initial=0)), 0)  # from the end to the start
    beyond = np.arange(backwards.shape[1]) >= counts[:, None]
    rows = lists[:, None]
    return np.where(beyond, -1, old[rows, backwards]), np.where(beyond, -1, new[rows, backwards]), counts


def _tables(numbers: Numbers, words: Numbers, posteriors: Floats, mass: Floats) -> tuple[Flags, Flags]:
    """The dynamic programme, a row for each slot; lists come last, where they lie side by side.

    Returns:
        placed (slots, words + 1, lists), whether the slot comes last in the cheapest alignment of the slots up to it
        with the words so far; matched (slots, words, lists), whether the word may stand in the slot.
    """
    count, depth = numbers.shape[1:]
    number, length = words.shape
    placed = np.zeros((count, length + 1, number), dtype=bool)
    matched = np.zeros((count, length, number), dtype=bool)
    most = int(max(numbers.max(initial=0), words.max(initial=0))) + 2  # 0 is no word, the last is the end of a list
    shares = np.zeros(number * most)  # (lists, words): the posterior of each word in a slot
    starts = np.arange(number) * most
    wanted = (starts[:, None] + np.where(words < 0, most - 1, words)).T.copy()
    beside = mass * np.arange(length + 1.0)[:, None]
    above = beside
    for slot in range(count):
        heard = [starts + numbers[:, slot, rank] for rank in range(depth)]
        for rank in range(depth):
            shares[heard[rank]] += posteriors[:, rank]
        match = above[:-1] + mass
        match -= shares[wanted]
        best = above + (mass - shares[starts])
        np.minimum(best[1:], match, out=best[1:])
        above = np.minimum.accumulate(best - beside, axis=0)
        above += beside
        limit = above + NEARLY
        np.less_equal(best, limit, out=placed[slot])
        np.less_equal(match, limit[1:], out=matched[slot])
        for places in heard:
            shares[places] = 0.0
    return placed, matched


class Rover(DecisionRule):
    """The words with the highest posteriors, place by place."""

    needs_scale = True
    counts_no_word = True

    def prepare(self, lists: Sequence[NbestList], metric: Metric | None) -> Ballots:
        """Words are the same where the metric counts them as the same."""
        normaliser = (metric and metric.words) or EXACT
        return Ballots([[tokens_of(hypothesis.text, normaliser) for hypothesis in nbest.hypotheses] for nbest in lists])

    def hold(self, prepared: Ballots, preferences: Sequence[Floats]) -> None:
        prepared.hold(preferences)

    def choose_all(
        self, lists: Sequence[NbestList], preferences: Sequence[Floats], prepared: Ballots, no_word: Floats
    ) -> list[str]:
        return prepared.vote(preferences, no_word)
