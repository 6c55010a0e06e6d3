"""Confusion networks of hypotheses: slots in which words compete.

A network is an array of word numbers, (lists, slots, hypotheses), 0 where a hypothesis
has no word in the slot. Lists with equally many hypotheses are aligned together.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
Number = TypeVar("Number", np.int32, np.float64)
OTHER_WORD = 1.5
"""Cost of a word in the place of another word, where a word too many or too few costs
1. With a cost of 1, two wrong pairs are as cheap as a right pair between two words
without a partner; NIST's costs are 4 and 3.
"""
GAP = 0.1
"""Seconds between two different words from which on they stand in different slots: the
times of recognisers differ by as much.
"""
NEARLY = 1e-9
"""Costs that differ by less are equal: of equal alignments a word stands in a slot
rather than beside it.
"""


def networks(
    posteriors: Floats,
    words: Numbers,
    lengths: npt.NDArray[np.intp],
    clock: Floats | None = None,
) -> tuple[Numbers, Numbers, Floats]:
    """Return the confusion networks of lists, whose hypotheses are aligned in their
    order.

    Args:
        posteriors: (lists, hypotheses) the posterior of each hypothesis.
        words: (lists, hypotheses, words) as in `Batch`.
        lengths: (lists, hypotheses) the number of words of each hypothesis.
        clock: (lists, hypotheses, words, 2) the times of words, as in `Batch`.

    Returns:
        (lists, slots, hypotheses) places of words, -1 for none; the same as word
        numbers, 0 for none; the posterior of each such word, or of none, in its slot.
    """
    number, depth, _ = words.shape
    network = _Network.empty(number)
    ranks = list(range(depth))
    # The first hypotheses were aligned before the others were known.
    again = ranks if depth > 2 else []
    for step, rank in enumerate([*ranks, *again]):
        if step >= depth:
            network = network.without_first(posteriors[:, rank])
        own = words[:, rank]
        apart = None
        if clock is not None and network.numbers.size:
            members = [*ranks[rank + 1 :], *ranks[:rank]] if step >= depth else ranks
            spans = _slot_times(network.spoken, clock[:, members[: network.depth]])
            apart = _apart(spans, clock[:, rank])
        network = network.with_one_more(
            posteriors[:, rank], own, lengths[:, rank], apart
        )
    return network.spoken, network.numbers, shares_of(network.numbers, posteriors)


class _Network(NamedTuple):
    """Confusion networks of lists while hypotheses are aligned with them."""

    spoken: Numbers
    """(lists, slots, hypotheses) places of words, -1 for none"""
    numbers: Numbers
    """(lists, slots, hypotheses) numbers of words, 0 for none"""
    shares: Floats
    """(lists, slots, hypotheses) the posterior of each such word, or of none, in its
    slot
    """
    slots: npt.NDArray[np.intp]
    """(lists,) the number of slots"""
    mass: Floats
    """(lists,) the sum of the posteriors of the hypotheses"""

    @classmethod
    def empty(cls, number: int) -> _Network:
        """Return networks without hypotheses."""
        return cls(
            np.full((number, 0, 0), -1, dtype=np.int32),
            np.zeros((number, 0, 0), dtype=np.int32),
            np.zeros((number, 0, 0)),
            np.zeros(number, dtype=np.intp),
            np.zeros(number),
        )

    @property
    def depth(self) -> int:
        """The number of hypotheses."""
        return self.numbers.shape[2]

    def with_one_more(
        self,
        posterior: Floats,
        words: Numbers,
        lengths: npt.NDArray[np.intp],
        apart: Flags | None,
    ) -> _Network:
        """Return the networks with one more hypothesis, which comes last.

        Args:
            posterior: (lists,) the posterior of the hypothesis.
            words: (lists, words) the numbers of its words.
            lengths: (lists,) the number of its words.
            apart: (slots, words, lists) whether a word is at another time than the
                words of a slot; None without times.
        """
        mass = self.mass
        lists = np.arange(len(mass))[:, None]
        members = self.numbers.shape[2]
        # the texts may all be empty
        own = words[:, : max(1, lengths.max(initial=0))]
        tables = _tables(self.numbers, self.shares, own, mass, apart)
        old, new, slots = _aligned(*tables, self.slots, lengths)
        heard = np.take_along_axis(own, np.maximum(new, 0), axis=1)
        heard = np.where(new >= 0, heard, 0)
        beside = (old < 0)[..., None]
        share = posterior[:, None, None]
        if self.spoken.size:
            spoken = np.where(beside, -1, self.spoken[lists, old])
            numbers = np.where(beside, 0, self.numbers[lists, old])
            shares = np.where(beside, mass[:, None, None], self.shares[lists, old])
        else:
            spoken = np.full((*old.shape, members), -1, dtype=np.int32)
            numbers = np.zeros((*old.shape, members), dtype=np.int32)
            shares = np.broadcast_to(mass[:, None, None], numbers.shape)
        same = numbers == heard[..., None]
        shares = np.where(same, shares + share, shares)
        others = np.where(same, shares, 0.0).max(axis=2, initial=0.0)
        whole = np.maximum(others, share[..., 0])
        return _Network(
            _with_last(spoken, new),
            _with_last(numbers, heard),
            _with_last(shares, whole),
            slots,
            mass + posterior,
        )

    def without_first(self, posterior: Floats) -> _Network:
        """Return the networks without the first hypothesis and its own slots.

        Args:
            posterior: (lists,) the posterior of the hypothesis.
        """
        same = self.numbers == self.numbers[..., :1]
        shares = np.where(same, self.shares - posterior[:, None, None], self.shares)
        kept = (self.numbers[..., 1:] > 0).any(axis=2)
        slots = kept.sum(axis=1)
        order = np.argsort(~kept, axis=1, kind="stable")[:, : slots.max(initial=0)]
        lists = np.arange(len(order))[:, None]
        return _Network(
            self.spoken[lists, order, 1:],
            self.numbers[lists, order, 1:],
            shares[lists, order, 1:],
            slots,
            self.mass - posterior,
        )


def _with_last(
    before: npt.NDArray[Number], last: npt.NDArray[np.generic]
) -> npt.NDArray[Number]:
    """Return an array (lists, slots, hypotheses) with one more hypothesis."""
    return np.concatenate([before, last[..., None].astype(before.dtype)], axis=2)


def elected(
    spoken: Numbers, numbers: Numbers, shares: Floats, no_word: float
) -> tuple[npt.NDArray[np.intp], Numbers]:
    """Return the winner of each slot.

    Args:
        spoken: The places of words, as `networks` returns them.
        numbers: The numbers of words, as `networks` returns them.
        shares: The posteriors of words, as `networks` returns them.
        no_word: Factor of the posterior of no word.

    Returns:
        (lists, slots) the hypothesis that gives the word, -1 for no word; (lists,
        slots) the place of the word in the hypothesis.
    """
    none = np.where(numbers == 0, shares, 0.0).max(axis=2, keepdims=True) * no_word
    totals = np.concatenate([none, np.where(numbers > 0, shares, -1.0)], axis=2)
    # the first of equals: no word, then the more probable hypothesis
    equal = totals >= totals.max(axis=2, keepdims=True) - NEARLY
    winner = equal.argmax(axis=-1) - 1
    chosen = np.maximum(winner, 0)[..., None]
    return winner, np.take_along_axis(spoken, chosen, axis=-1)[..., 0]


def shares_of(numbers: Numbers, posteriors: Floats) -> Floats:
    """Return the shares of `networks` for other posteriors in the same networks.

    Args:
        numbers: The numbers of words, as `networks` returns them.
        posteriors: (lists, hypotheses) the posterior of each hypothesis.
    """
    shares = []
    for rank in range(numbers.shape[2]):
        same = numbers == numbers[..., rank : rank + 1]
        shares.append((same @ posteriors[..., None])[..., 0])
    return np.stack(shares, axis=2)


def _aligned(
    placed: Flags,
    matched: Flags,
    slots: npt.NDArray[np.intp],
    lengths: npt.NDArray[np.intp],
) -> tuple[npt.NDArray[np.intp], Numbers, npt.NDArray[np.intp]]:
    """Return slots paired with words, with the least expected number of word errors.

    Args:
        placed: As `_tables` returns it.
        matched: As `_tables` returns it.
        slots: (lists,) the number of slots.
        lengths: (lists,) the number of words.

    Returns:
        (lists, pairs) the slot, -1 for none; (lists, pairs) the place of the word, -1
        for none; (lists,) how many.
    """
    lists = np.arange(len(slots))
    slot = slots - 1
    at = lengths.astype(np.intp)
    most = int((slots + lengths).max(initial=0))
    old = np.full((len(slots), most), -1, dtype=np.intp)
    new = np.full((len(slots), most), -1, dtype=np.int32)
    counts = np.zeros(len(slots), dtype=np.intp)
    for step in range(most):
        active = (slot >= 0) | (at > 0)
        if not active.any():
            break
        within = np.maximum(slot, 0)
        in_slot = slot >= 0
        if len(placed):
            in_slot &= placed[within, at, lists]
        takes = (at > 0) & active & ~in_slot  # a word beside the slots
        if len(matched):
            takes |= in_slot & (at > 0) & matched[within, np.maximum(at - 1, 0), lists]
        at = at - takes
        old[:, step] = np.where(in_slot, slot, -1)
        new[:, step] = np.where(takes, at, -1)
        slot = slot - in_slot
        counts += active
    # from the end to the start
    backwards = np.maximum(counts[:, None] - 1 - np.arange(counts.max(initial=0)), 0)
    beyond = np.arange(backwards.shape[1]) >= counts[:, None]
    rows = lists[:, None]
    return (
        np.where(beyond, -1, old[rows, backwards]),
        np.where(beyond, -1, new[rows, backwards]),
        counts,
    )


def _slot_times(spoken: Numbers, clock: Floats) -> Floats:
    """Return the earliest start and the latest end of the words of each slot, (lists,
    slots, 2); NaN without times.

    Args:
        spoken: (lists, slots, hypotheses) the places of words, -1 for none.
        clock: (lists, hypotheses, words, 2) the times of words.
    """
    lists = np.arange(len(spoken))[:, None, None]
    hypotheses = np.arange(spoken.shape[2])
    times = clock[lists, hypotheses, np.maximum(spoken, 0)]
    times = np.where(spoken[..., None] < 0, np.nan, times)
    starts = np.fmin.reduce(times[..., 0], axis=2)
    ends = np.fmax.reduce(times[..., 1], axis=2)
    return np.stack([starts, ends], axis=-1)


def _apart(slots: Floats, words: Floats) -> Flags:
    """Return whether more than `GAP` lies between words and slots (slots, words,
    lists); False for unknown times.

    Args:
        slots: (lists, slots, 2) the times of slots.
        words: (lists, words, 2) the times of words.
    """
    own = slots.transpose(1, 0, 2)[:, None]
    others = words.transpose(1, 0, 2)[None]
    begin = np.maximum(own[..., 0], others[..., 0])
    end = np.minimum(own[..., 1], others[..., 1])
    return np.asarray(begin > end + GAP)


def _tables(
    numbers: Numbers,
    shares: Floats,
    words: Numbers,
    mass: Floats,
    apart: Flags | None = None,
) -> tuple[Flags, Flags]:
    """Return the tables of the dynamic programme, a row for each slot; lists come last,
    where they lie side by side.

    Args:
        numbers: (lists, slots, hypotheses) the numbers of words in the networks.
        shares: (lists, slots, hypotheses) their posteriors.
        words: (lists, words) the numbers of the words to align.
        mass: (lists,) the sum of all posteriors.
        apart: (slots, words, lists) whether a word is at another time than the words of
            a slot, where only the same word may stand; None without times.

    Returns:
        placed (slots, words + 1, lists), whether the slot comes last in the cheapest
        alignment of the slots up to it with the words so far; matched (slots, words,
        lists), whether the word may stand in the slot.
    """
    count = numbers.shape[1]
    number, length = words.shape
    placed = np.zeros((count, length + 1, number), dtype=bool)
    matched = np.zeros((count, length, number), dtype=bool)
    # 0 is no word, the last is the end of a list
    most = int(max(numbers.max(initial=0), words.max(initial=0))) + 2
    # (lists, words): the posterior of each word in a slot
    every = np.zeros(number * most)
    starts = np.arange(number) * most
    wanted = (starts[:, None] + np.where(words < 0, most - 1, words)).T.copy()
    beside = mass * np.arange(length + 1.0)[:, None]
    above = beside
    for slot in range(count):
        heard = starts[:, None] + numbers[:, slot]
        every[heard] = shares[:, slot]
        none = every[starts]
        match = above[:-1] + (OTHER_WORD * mass - (OTHER_WORD - 1.0) * none)
        match -= OTHER_WORD * every[wanted]
        if apart is not None:
            other = apart[slot, :length] & (every[wanted] == 0.0)
            match += np.where(other, 2 * mass, 0.0)
        best = above + (mass - none)
        np.minimum(best[1:], match, out=best[1:])
        above = np.minimum.accumulate(best - beside, axis=0)
        above += beside
        limit = above + NEARLY
        np.less_equal(best, limit, out=placed[slot])
        np.less_equal(match, limit[1:], out=matched[slot])
        every[heard] = 0.0
    return placed, matched
