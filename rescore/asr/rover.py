"""Voting word by word over an N-best list: a confusion network, as SRILM's
nbest-lattice and NIST's ROVER build it.

Mangu et al. 2000; Fiscus 1997. Hypotheses are aligned one after another, the most
probable first, with the network of the hypotheses before, and then each once more with
the network of all others. In each slot of the network the word (or none) with the
highest posterior wins. The result need not be one of the hypotheses. Hypotheses with
the same words are one hypothesis with the sum of their posteriors. Different words
whose times lie apart never share a slot.

Lists with equally many hypotheses are aligned together. A network is an array of word
numbers, (lists, slots, hypotheses), 0 where a hypothesis has no word in the slot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from statistics import median
from typing import ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from rescore.asr.written import Token, pieces_of, rewritten, tokens_of
from rescore.dataset import Dataset
from rescore.decision.rules import DecisionRule
from rescore.metrics.base import Metric
from rescore.metrics.normalise import EXACT, Normaliser
from rescore.nbest import NbestList
from rescore.options import Declared, option

Spans = tuple[tuple[float, float], ...]
"""Starts and ends of words, in seconds."""
Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
Number = TypeVar("Number", np.int32, np.float64)
CELLS = 1 << 21
"""Slots times words of the lists that are aligned together: bounds memory."""
TOGETHER = 512
"""Most lists that are aligned together: their rows stay in the processor's cache."""
CERTAIN = 2e-9
"""A hypothesis whose posterior exceeds that of all others by more wins in every slot:
nothing needs to be aligned.
"""
KEPT = 0.9
"""The usual factor of no word for several systems: a tie goes to the word."""
NO_WORD = (KEPT, 1.0, 1.1, 0.8, 0.7, 0.6, 0.5)
"""Factors of no word that are tried on dev lists, the usual one first."""
OTHER_WORD = 1.5
"""Cost of a word in the place of another word, where a word too many or too few costs
1. With a cost of 1, two wrong pairs are as cheap as a right pair between two words
without a partner; NIST's costs are 4 and 3.
"""
GAP = 0.1
"""Seconds between two different words from which on they stand in different slots: the
times of recognisers differ by as much.
"""
DIGITS = 9
"""Decimals of posteriors that are compared: sums of the same votes in another order are
equal.
"""
NEARLY = 1e-9
"""Costs that differ by less are equal: of equal alignments a word stands in a slot
rather than beside it.
"""


@dataclass(frozen=True, slots=True)
class Batch:
    """Lists with equally many hypotheses; hypotheses with the same words are one."""

    places: list[int]
    """(lists,) the place of each list among all"""
    words: Numbers
    """(lists, hypotheses, words) numbers from 1; -1 after the end"""
    lengths: npt.NDArray[np.intp]
    """(lists, hypotheses) numbers of words"""
    clock: Floats | None = None
    """(lists, hypotheses, words, 2) start and end of each word, in seconds; NaN where
    they are unknown, None if no word has times
    """


class HeldNetworks(NamedTuple):
    """The confusion networks of a batch, as `_networks` returns them, and the order in
    which their hypotheses were aligned (lists, hypotheses).
    """

    order: npt.NDArray[np.intp]
    spoken: Numbers
    numbers: Numbers


@dataclass(frozen=True, kw_only=True)
class RoverOptions(Declared):
    """The options of a vote word by word."""

    no_word: float | None = option(
        None,
        "rover: factor of the posterior of no word; below 1 words are kept more often."
        "  [default: 1; with several systems tuned on --dev, else 0.9]",
        metavar="NUMBER",
        low=0.0,
        high=1e6,
    )

    def factor(self, usual: float) -> float:
        """Return the factor of the posterior of no word.

        Args:
            usual: The factor if the option is not set.
        """
        return usual if self.no_word is None else self.no_word


class Ballots:
    """The words of all hypotheses of all lists, prepared once for all scales."""

    def __init__(
        self,
        every: Sequence[Sequence[str]],
        normaliser: Normaliser,
        options: RoverOptions | None = None,
        usual: float = 1.0,
        times: Sequence[Sequence[Spans]] | None = None,
    ) -> None:
        """Cut the texts into words.

        Args:
            every: For each list, the text of each hypothesis.
            normaliser: Says which words are the same.
            options: The options; None for the defaults.
            usual: The factor of no word if the options have none.
            times: For each list, the times of the pieces of each hypothesis
                (`Hypothesis.times`); None if no list has times.
        """
        self._every = every
        self._normaliser = normaliser
        self._usual = usual
        self._no_word = (options or RoverOptions()).factor(usual)
        words = []
        self._groups: list[npt.NDArray[np.intp]] = []
        """For each list, the number of the words of each hypothesis: hypotheses with
        the same words are aligned once, with the sum of their posteriors.
        """
        for texts in every:
            distinct: dict[tuple[str, ...], int] = {}
            groups = []
            for text in texts:
                own = tuple(normaliser(text))
                groups.append(distinct.setdefault(own, len(distinct)))
            words.append(list(distinct))
            self._groups.append(np.array(groups))
        clocks: dict[int, list[Spans]] = {}
        for place, own_times in enumerate(times or ()):
            if any(own_times):
                clocks[place] = self._clocks(place, words[place], own_times)
        self._batches = list(_batches(words, clocks))
        self._tokens: dict[tuple[int, int], list[Token]] = {}
        """The tokens of each list and hypothesis that won somewhere."""
        self._texts: dict[tuple[int, int | bytes], str] = {}
        """The text of each list and winner, or outcome of a vote."""
        self._networks: list[HeldNetworks] = []
        """The networks of each batch in which all votes are counted; empty if each vote
        aligns the hypotheses by its own posteriors.
        """

    def _clocks(
        self, place: int, words: Sequence[Sequence[str]], times: Sequence[Spans]
    ) -> list[Spans]:
        """Return the times of the words of the distinct hypotheses of a list, by the
        same clock; empty for a hypothesis without times.
        """
        clocks: list[Spans] = [()] * len(words)
        for rank, group in enumerate(self._groups[place].tolist()):
            if not clocks[group]:
                text = self._every[place][rank]
                clocks[group] = word_times(text, times[rank], self._normaliser)
        return synchronised(words, clocks)

    def near(self, preferences: Sequence[Floats]) -> Ballots:
        """Return ballots that count all votes in the networks of these posteriors."""
        held = copy(self)
        held._networks = []
        for batch in self._batches:
            shares, _ = self._joint(batch, preferences)
            order = _order(shares)
            rows = np.arange(len(order))[:, None]
            ordered = _ordered(batch, rows, order)
            spoken, numbers, _ = _networks(shares[rows, order], *ordered)
            held._networks.append(HeldNetworks(order, spoken, numbers))
        return held

    def under(self, options: RoverOptions) -> Ballots:
        """Return the same ballots with another factor for no word."""
        other = copy(self)
        other._no_word = options.factor(self._usual)
        return other

    def texts(self, preferences: Sequence[Floats]) -> list[str]:
        """Return the text that wins in each list.

        Args:
            preferences: The posteriors (hypotheses,) of each list.
        """
        factor = self._no_word
        winners = [""] * len(self._every)
        for number, batch in enumerate(self._batches):
            shares, leaders = self._joint(batch, preferences)
            most = shares.max(axis=1)
            others = (1.0 - most) * max(factor, 1.0)
            decided = most * min(factor, 1.0) > others + CERTAIN
            for row in np.flatnonzero(decided).tolist():
                place = batch.places[row]
                leader = leaders[row, shares[row].argmax()]
                winners[place] = self._text_of(place, int(leader))
            left = np.flatnonzero(~decided)
            if not len(left):
                continue
            order, spoken, numbers, totals = self._counted(number, shares, left)
            ranks, words = elected(spoken, numbers, totals, factor)
            leading = np.take_along_axis(leaders[left], order, axis=1)
            chosen = np.take_along_axis(leading, np.maximum(ranks, 0), axis=1)
            hypotheses = np.where(ranks < 0, -1, chosen)
            outcomes = np.stack([hypotheses, words], axis=1)
            for row, outcome in zip(left.tolist(), outcomes, strict=True):
                place = batch.places[row]
                winners[place] = self._text_of_vote(place, outcome)
        return winners

    def _joint(
        self, batch: Batch, preferences: Sequence[Floats]
    ) -> tuple[Floats, npt.NDArray[np.intp]]:
        """Return the posteriors of the distinct words of the lists of a batch.

        Args:
            batch: The batch.
            preferences: The posteriors (hypotheses,) of each list.

        Returns:
            (lists, hypotheses of the batch) posteriors; (lists, hypotheses of the
            batch) the most probable hypothesis with these words.
        """
        shares = np.zeros(batch.lengths.shape)
        leaders = np.zeros(batch.lengths.shape, dtype=np.intp)
        width = batch.lengths.shape[1]
        for row, place in enumerate(batch.places):
            groups = self._groups[place]
            own = preferences[place]
            shares[row] = np.bincount(groups, own, minlength=width)
            worst_first = np.argsort(-own, kind="stable")[::-1]
            leaders[row, groups[worst_first]] = worst_first  # the last one stays
        return shares, leaders

    def _counted(
        self, number: int, shares: Floats, rows: npt.NDArray[np.intp]
    ) -> tuple[npt.NDArray[np.intp], Numbers, Numbers, Floats]:
        """Return the votes in lists of a batch.

        Args:
            number: The number of the batch.
            shares: The posteriors of all lists of the batch (lists, hypotheses).
            rows: The lists.

        Returns:
            The order in which hypotheses were aligned (lists, hypotheses), and the
            three arrays of `_networks`.
        """
        batch = self._batches[number]
        own = rows[:, None]
        if self._networks:
            held = self._networks[number]
            order = held.order[rows]
            numbers = held.numbers[rows]
            totals = _shares(numbers, shares[own, order])
            return order, held.spoken[rows], numbers, totals
        order = _order(shares[rows])
        ordered = _ordered(batch, own, order)
        return order, *_networks(shares[own, order], *ordered)

    def _text_of(self, place: int, hypothesis: int) -> str:
        """Return the text of a hypothesis that wins in every slot."""
        key = place, hypothesis
        if key not in self._texts:
            self._texts[key] = rewritten(self._tokens_of(place, hypothesis))
        return self._texts[key]

    def _text_of_vote(self, place: int, outcome: Numbers) -> str:
        """Return the text of the words that win.

        Args:
            place: The list.
            outcome: (2, slots) the hypothesis of each slot, -1 for no word, and the
                place of its word.
        """
        key = place, outcome.tobytes()
        if key not in self._texts:
            chosen = []
            for hypothesis, word in outcome.T.tolist():
                if hypothesis >= 0:
                    chosen.append(self._tokens_of(place, hypothesis)[word])
            self._texts[key] = rewritten(chosen)
        return self._texts[key]

    def _tokens_of(self, place: int, hypothesis: int) -> list[Token]:
        """Return the words of a hypothesis, cut once."""
        key = place, hypothesis
        if key not in self._tokens:
            text = self._every[place][hypothesis]
            self._tokens[key] = tokens_of(text, self._normaliser)
        return self._tokens[key]


def _ordered(
    batch: Batch, rows: npt.NDArray[np.intp], order: npt.NDArray[np.intp]
) -> tuple[Numbers, npt.NDArray[np.intp], Floats | None]:
    """Return the words, lengths and times of lists of a batch in the order in which
    their hypotheses are aligned.

    Args:
        batch: The batch.
        rows: (lists, 1) the lists.
        order: (lists, hypotheses) the order.
    """
    clock = None if batch.clock is None else batch.clock[rows, order]
    return batch.words[rows, order], batch.lengths[rows, order], clock


def word_times(text: str, times: Spans, normaliser: Normaliser) -> Spans:
    """Return the start and the end of each compared word of a text; words that are
    normalised together share the time of their piece.

    Args:
        text: The text.
        times: The times of its `timed_pieces`.
        normaliser: Says how words are compared.

    Returns:
        A span for each word; empty if the pieces of text have no times of their own.
    """
    pieces = pieces_of(text, normaliser)
    if not times or sum(len(piece.written) for piece in pieces) != len(times):
        return ()
    spans: list[tuple[float, float]] = []
    begin = 0
    for piece in pieces:
        end = begin + len(piece.written)
        spans += [(times[begin][0], times[end - 1][1])] * len(piece.words)
        begin = end
    return tuple(spans)


def synchronised(words: Sequence[Sequence[str]], times: Sequence[Spans]) -> list[Spans]:
    """Return the times of hypotheses by the same clock: words that stand once in a
    hypothesis start at the same time as in the others, by their median.

    Args:
        words: The words of each hypothesis.
        times: The times of these words; empty for a hypothesis without times.
    """
    starts: list[dict[str, float]] = []
    together: dict[str, list[float]] = {}
    for own, spans in zip(words, times, strict=True):
        once = Counter(own)
        found = {}
        for word, (start, _) in zip(own, spans, strict=False):
            if once[word] == 1:
                found[word] = start
                together.setdefault(word, []).append(start)
        starts.append(found)
    common = {word: median(each) for word, each in together.items() if len(each) > 1}
    shifted: list[Spans] = []
    for found, spans in zip(starts, times, strict=True):
        late = [found[word] - common[word] for word in found if word in common]
        shift = median(late) if late else 0.0
        shifted.append(tuple((start - shift, end - shift) for start, end in spans))
    return shifted


def _order(shares: Floats) -> npt.NDArray[np.intp]:
    """Return the order in which hypotheses are aligned (lists, hypotheses): the most
    probable first, of equals the first.
    """
    return np.argsort(-shares.round(DIGITS), axis=1, kind="stable")


def _batches(
    lists: Sequence[Sequence[Sequence[str]]], clocks: Mapping[int, Sequence[Spans]]
) -> Iterator[Batch]:
    """Yield batches of lists with equally many hypotheses of about the same length."""
    sizes = [(len(hypotheses), max(map(len, hypotheses))) for hypotheses in lists]
    batch: list[int] = []
    for place in sorted(range(len(lists)), key=sizes.__getitem__):
        number, longest = sizes[place]
        full = len(batch) == TOGETHER or len(batch) * (longest + 1) ** 2 >= CELLS
        if batch and (full or sizes[batch[0]][0] != number):
            yield _batch(batch, lists, clocks)
            batch = []
        batch.append(place)
    if batch:
        yield _batch(batch, lists, clocks)


def _batch(
    places: list[int],
    lists: Sequence[Sequence[Sequence[str]]],
    clocks: Mapping[int, Sequence[Spans]],
) -> Batch:
    """Return some of the lists as a batch."""
    sizes = [list(map(len, lists[place])) for place in places]
    lengths = np.array(sizes, dtype=np.intp)
    # all texts may be empty
    words = np.full((*lengths.shape, max(1, lengths.max())), -1, dtype=np.int32)
    for row, place in enumerate(places):
        numbers: dict[str, int] = {}
        for rank, hypothesis in enumerate(lists[place]):
            own = [numbers.setdefault(word, len(numbers) + 1) for word in hypothesis]
            words[row, rank, : len(hypothesis)] = own
    clock = None
    if not clocks.keys().isdisjoint(places):
        clock = np.full((*words.shape, 2), np.nan)
        for row, place in enumerate(places):
            for rank, spans in enumerate(clocks.get(place, ())):
                if spans:
                    clock[row, rank, : len(spans)] = spans
    return Batch(places, words, lengths, clock)


def _networks(
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
    return network.spoken, network.numbers, _shares(network.numbers, posteriors)


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
        spoken: The places of words, as `_networks` returns them.
        numbers: The numbers of words, as `_networks` returns them.
        shares: The posteriors of words, as `_networks` returns them.
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


def _shares(numbers: Numbers, posteriors: Floats) -> Floats:
    """Return the shares of `_networks` for other posteriors in the same networks.

    Args:
        numbers: The numbers of words, as `_networks` returns them.
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


class Rover(DecisionRule):
    """The words with the highest posteriors, slot by slot."""

    Options = RoverOptions
    uses_posteriors = True
    varied: ClassVar = {"no_word": NO_WORD}

    def chooser(self, lists: Sequence[NbestList], metric: Metric | None) -> Ballots:
        """Return the ballots of lists: words are the same where the metric counts them
        as the same.
        """
        normaliser = (metric and metric.words) or EXACT
        texts = []
        for nbest in lists:
            texts.append([hypothesis.text for hypothesis in nbest.hypotheses])
        usual = KEPT if Dataset.of(lists).header.systems else 1.0
        times = []
        for nbest in lists:
            times.append([hypothesis.times for hypothesis in nbest.hypotheses])
        return Ballots(texts, normaliser, self.options, usual, times)
