"""Confusion networks of hypotheses: slots in which words compete.

A network is an array of word numbers, (lists, slots, hypotheses), 0 where a hypothesis
has no word in the slot. Lists with equally many hypotheses are aligned together.
"""

from __future__ import annotations

from collections.abc import Sequence
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
FEW_LISTS = 32
"""With fewer lists, paths are followed one by one: steps of arrays take longer."""
BLOCK = 1 << 14
"""Numbers of a table of the dynamic programme that are computed together: bounds
memory.
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
        (lists, slots, hypotheses) the position of the word in the hypothesis, -1 for
        none; the same as word numbers, 0 for none; the posterior of each such word, or
        of none, in its slot.
    """
    texts = _Texts(posteriors, words, lengths, clock)
    network = _with_all(texts)
    if network.depth > 2:
        # The first hypotheses were aligned before the others were known.
        network = _realigned(network, texts)
    return network.positions, network.numbers, shares_of(network.numbers, posteriors)


class _Texts(NamedTuple):
    """The hypotheses of lists, as `networks` takes them."""

    posteriors: Floats
    words: Numbers
    lengths: npt.NDArray[np.intp]
    clock: Floats | None


def _with_all(texts: _Texts) -> _Network:
    """Return the networks of all hypotheses, which are aligned in their order.

    Args:
        texts: The hypotheses.
    """
    number, depth, _ = texts.words.shape
    network = _Network.empty(number)
    for index in range(depth):
        network = _with_hypothesis(network, range(index), texts, index)
    return network


def _realigned(network: _Network, texts: _Texts) -> _Network:
    """Return the networks in which each hypothesis is aligned once more: it is taken
    out and aligned with the network of all others.

    Args:
        network: The networks of all hypotheses, in their order.
        texts: The hypotheses.
    """
    depth = network.depth
    for index in range(depth):
        others = [*range(index + 1, depth), *range(index)]
        remaining = network.without_first(texts.posteriors[:, index])
        network = _with_hypothesis(remaining, others, texts, index)
    return network


def _with_hypothesis(
    network: _Network, members: Sequence[int], texts: _Texts, index: int
) -> _Network:
    """Return the networks with one more hypothesis, which comes last.

    Args:
        network: The networks.
        members: The indices of their hypotheses, in the order of the networks.
        texts: The hypotheses.
        index: The index of the hypothesis that is added.
    """
    apart = None
    if texts.clock is not None and network.numbers.size:
        spans = _slot_times(network.positions, texts.clock[:, list(members)])
        apart = _apart(spans, texts.clock[:, index])
    return network.with_one_more(
        texts.posteriors[:, index],
        texts.words[:, index],
        texts.lengths[:, index],
        apart,
    )


class _Network(NamedTuple):
    """Confusion networks of lists while hypotheses are aligned with them."""

    positions: Numbers
    """(lists, slots, hypotheses) the position of the word in the hypothesis, -1 for
    none
    """
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
        # the texts may all be empty
        new_words = words[:, : max(1, lengths.max(initial=0))]
        tables = _tables(self.numbers, self.shares, new_words, mass, apart)
        old, new, slots = _aligned(*tables, self.slots, lengths)
        heard = np.take_along_axis(new_words, np.maximum(new, 0), axis=1)
        heard = np.where(new >= 0, heard, 0)
        positions = _in_slots(self.positions, old, -1)
        numbers = _in_slots(self.numbers, old, 0)
        shares = _in_slots(self.shares, old, mass[:, None])
        share = posterior[:, None, None]
        same = numbers == heard[..., None]
        shares = np.where(same, shares + share, shares)
        # the posterior of the word in its slot: with the hypotheses that have the word,
        # or of the new hypothesis alone
        total = np.where(same, shares, 0.0).max(axis=2, initial=0.0)
        word_share = np.maximum(total, share[..., 0])
        return _Network(
            _with_last(positions, new),
            _with_last(numbers, heard),
            _with_last(shares, word_share),
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
            self.positions[lists, order, 1:],
            self.numbers[lists, order, 1:],
            shares[lists, order, 1:],
            slots,
            self.mass - posterior,
        )


def _in_slots(
    array: npt.NDArray[Number],
    old: npt.NDArray[np.intp],
    absent: int | Floats,
) -> npt.NDArray[Number]:
    """Return an array (lists, slots, hypotheses) of networks in their new slots.

    Args:
        array: (lists, slots, hypotheses) what stands in the old slots.
        old: (lists, new slots) the old slot of each new slot, -1 for none.
        absent: What stands in a new slot: a number, or (lists, 1).
    """
    number, _, depth = array.shape
    new_slot = np.empty((number, 1, depth), dtype=array.dtype)
    new_slot[:, 0] = absent
    # the index -1 reads the last slot
    with_new = np.concatenate([array, new_slot], axis=1)
    return with_new[np.arange(number)[:, None], old]


def _with_last(
    before: npt.NDArray[Number], last: npt.NDArray[np.generic]
) -> npt.NDArray[Number]:
    """Return an array (lists, slots, hypotheses) with one more hypothesis."""
    return np.concatenate([before, last[..., None].astype(before.dtype)], axis=2)


def elected(
    positions: Numbers, numbers: Numbers, shares: Floats, no_word: float
) -> tuple[npt.NDArray[np.intp], Numbers]:
    """Return the winner of each slot.

    Args:
        positions: The positions of words, as `networks` returns them.
        numbers: The numbers of words, as `networks` returns them.
        shares: The posteriors of words, as `networks` returns them.
        no_word: Factor of the posterior of no word.

    Returns:
        (lists, slots) the hypothesis that gives the word, -1 for no word; (lists,
        slots) the position of the word in the hypothesis.
    """
    none = np.where(numbers == 0, shares, 0.0).max(axis=2, keepdims=True) * no_word
    totals = np.concatenate([none, np.where(numbers > 0, shares, -1.0)], axis=2)
    # the first of equals: no word, then the more probable hypothesis
    equal = totals >= totals.max(axis=2, keepdims=True) - NEARLY
    winner = equal.argmax(axis=-1) - 1
    chosen = np.maximum(winner, 0)[..., None]
    return winner, np.take_along_axis(positions, chosen, axis=-1)[..., 0]


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
        (lists, pairs) the slot, -1 for none; (lists, pairs) the position of the word,
        -1 for none; (lists,) the number of pairs.
    """
    if len(slots) < FEW_LISTS:
        paths = []
        for index in range(len(slots)):
            tables = placed[..., index], matched[..., index]
            paths.append(_path(*tables, int(slots[index]), int(lengths[index])))
        return _padded(paths)
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


def _path(placed: Flags, matched: Flags, slot: int, at: int) -> list[tuple[int, int]]:
    """Return what `_aligned` returns, for one list, as pairs.

    Args:
        placed: (slots, words + 1) as `_tables` returns it.
        matched: (slots, words) as `_tables` returns it.
        slot: The number of slots.
        at: The number of words.
    """
    pairs = []
    while slot > 0 or at > 0:
        in_slot = slot > 0 and bool(placed[slot - 1, at])
        takes = at > 0
        if takes and in_slot:
            takes = bool(matched[slot - 1, at - 1])
        old = new = -1
        if in_slot:
            slot -= 1
            old = slot
        if takes:
            at -= 1
            new = at
        pairs.append((old, new))
    return pairs[::-1]


def _padded(
    paths: Sequence[Sequence[tuple[int, int]]],
) -> tuple[npt.NDArray[np.intp], Numbers, npt.NDArray[np.intp]]:
    """Return the pairs of several lists as `_aligned` returns them."""
    counts = np.array([len(pairs) for pairs in paths], dtype=np.intp)
    old = np.full((len(paths), counts.max(initial=0)), -1, dtype=np.intp)
    new = np.full(old.shape, -1, dtype=np.int32)
    for row, pairs in enumerate(paths):
        if pairs:
            old[row, : len(pairs)], new[row, : len(pairs)] = zip(*pairs, strict=True)
    return old, new, counts


def _slot_times(positions: Numbers, clock: Floats) -> Floats:
    """Return the earliest start and the latest end of the words of each slot, (lists,
    slots, 2); NaN without times.

    Args:
        positions: (lists, slots, hypotheses) the positions of words, -1 for none.
        clock: (lists, hypotheses, words, 2) the times of words.
    """
    lists = np.arange(len(positions))[:, None, None]
    hypotheses = np.arange(positions.shape[2])
    times = clock[lists, hypotheses, np.maximum(positions, 0)]
    times = np.where(positions[..., None] < 0, np.nan, times)
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
    slot_times = slots.transpose(1, 0, 2)[:, None]
    word_times = words.transpose(1, 0, 2)[None]
    begin = np.maximum(slot_times[..., 0], word_times[..., 0])
    end = np.minimum(slot_times[..., 1], word_times[..., 1])
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
    wanted = np.where(words < 0, most - 1, words).T
    # (words + 1, lists): the cost of the words so far without slots
    beside = mass * np.arange(length + 1.0)[:, None]
    # (words + 1, lists): the least cost of the slots up to here with the words so far
    above = beside
    block = max(1, BLOCK // max(1, number * max(most, length + 1)))
    for begin in range(0, count, block):
        end = min(begin + block, count)
        none, itself = _posteriors(
            numbers[:, begin:end], shares[:, begin:end], wanted, most
        )
        # A word in a slot costs OTHER_WORD for other words, 1 for no word and 0 for
        # itself, by their posteriors: OTHER_WORD * (mass - none - itself) + none.
        others = OTHER_WORD * mass - (OTHER_WORD - 1.0) * none
        less = OTHER_WORD * itself
        empty = mass - none
        best = np.empty((end - begin, length + 1, number))
        match = np.empty((end - begin, length, number))
        least = np.empty_like(best)
        for row in range(end - begin):
            np.add(above[:-1], others[row], out=match[row])
            match[row] -= less[row]
            if apart is not None:
                other = apart[begin + row, :length] & (itself[row] == 0.0)
                match[row] += np.where(other, 2 * mass, 0.0)
            np.add(above, empty[row], out=best[row])
            np.minimum(best[row, 1:], match[row], out=best[row, 1:])
            above = least[row]
            np.subtract(best[row], beside, out=above)
            np.minimum.accumulate(above, axis=0, out=above)
            above += beside
        limit = least + NEARLY
        np.less_equal(best, limit, out=placed[begin:end])
        np.less_equal(match, limit[:, 1:], out=matched[begin:end])
    return placed, matched


def _posteriors(
    numbers: Numbers, shares: Floats, wanted: npt.NDArray[np.intp], most: int
) -> tuple[Floats, Floats]:
    """Return the posteriors of words in slots.

    Args:
        numbers: (lists, slots, hypotheses) the numbers of words in the slots.
        shares: (lists, slots, hypotheses) their posteriors.
        wanted: (words, lists) the numbers of words.
        most: The numbers of words are below it.

    Returns:
        (slots, lists) the posterior of no word; (slots, words, lists) the posterior of
        each of the wanted words.
    """
    number, count, _ = numbers.shape
    # flat: the place of word 0 of each slot and list
    starts = most * np.arange(count * number).reshape(count, number)
    posteriors = np.zeros(count * number * most)
    heard = starts[..., None] + numbers.transpose(1, 0, 2)
    posteriors[heard] = shares.transpose(1, 0, 2)
    return posteriors[starts], posteriors[starts[:, None] + wanted]
