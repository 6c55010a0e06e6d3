"""Voting word by word over an N-best list: a confusion network, as SRILM's
nbest-lattice and NIST's ROVER build it.

Mangu et al. 2000; Fiscus 1997. Hypotheses are aligned one after another, the most
probable first, with the network of the hypotheses before, and then each once more with
the network of all others. In each slot of the network the word (or none) with the
highest posterior wins. The result need not be one of the hypotheses. Hypotheses with
the same words are one hypothesis with the sum of their posteriors. Different words
whose times lie apart never share a slot. Only the words between the ends that all
hypotheses share are aligned.

`rescore.asr.slots` builds the networks; here hypotheses are cut into words, and votes
are counted.
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

from rescore.asr.slots import (
    Floats,
    Numbers,
    elected,
    networks,
    shares_of,
)
from rescore.asr.written import ComparedWord, pieces_of, rewritten, tokens_of
from rescore.dataset import Dataset
from rescore.decision.rules import DecisionRule
from rescore.metrics.base import Metric
from rescore.metrics.normalise import EXACT, Normaliser
from rescore.options import Declared, option

Item = TypeVar("Item")
Spans = tuple[tuple[float, float], ...]
"""Starts and ends of words, in seconds."""
CELLS = 1 << 21
"""Slots times words of the lists that are aligned together: bounds memory."""
TOGETHER = 512
"""Most lists that are aligned together: their rows stay in the processor's cache."""
PADDED = 2
"""The lists of a batch are padded to this multiple of their own length, at most."""
SHORT = 8
"""Words of a list up to which padding takes no time."""
CERTAIN = 2e-9
"""A hypothesis whose posterior exceeds that of all others by more wins in every slot:
nothing needs to be aligned.
"""
KEPT = 0.9
"""The usual factor of no word for several systems: a tie goes to the word."""
NO_WORD = (KEPT, 1.0, 1.1, 0.8, 0.7, 0.6, 0.5)
"""Factors of no word that are tried on dev lists, the usual one first."""
DIGITS = 9
"""Decimals of posteriors that are compared: sums of the same votes in another order are
equal.
"""


@dataclass(frozen=True, slots=True)
class ListsOfOneSize:
    """Lists with equally many hypotheses; hypotheses with the same words are one."""

    list_indices: list[int]
    """(lists,) the index of each list among all"""
    words: Numbers
    """(lists, hypotheses, words) numbers from 1; -1 after the end"""
    lengths: npt.NDArray[np.intp]
    """(lists, hypotheses) numbers of words"""
    clock: Floats | None = None
    """(lists, hypotheses, words, 2) start and end of each word, in seconds; NaN where
    they are unknown, None if no word has times
    """


class Ends(NamedTuple):
    """The words at both ends of the hypotheses of a list that are the same in all of
    them, and that every alignment pairs (`_common_ends`).
    """

    first: int
    """Number of words at the start."""
    last: int
    """Number of words at the end."""


class Cells(NamedTuple):
    """Where the posteriors of the hypotheses of a batch are added up."""

    places: npt.NDArray[np.intp]
    """(hypotheses of all lists,) the place of their words in an array (lists,
    hypotheses of the batch), counted row by row
    """
    hypotheses: npt.NDArray[np.intp]
    """(hypotheses of all lists,) the index of each hypothesis in its list"""


class HeldNetworks(NamedTuple):
    """The confusion networks of a batch, as `networks` returns them, and the order in
    which their hypotheses were aligned (lists, hypotheses).
    """

    order: npt.NDArray[np.intp]
    positions: Numbers
    numbers: Numbers


@dataclass(frozen=True, kw_only=True)
class RoverOptions(Declared):
    """The options of a vote word by word."""

    no_word: float | None = option(
        None,
        "rover: factor of the posterior of the empty word. A factor below 1 keeps more"
        " words.  [default: 1; for several systems, tuned on --dev or 0.9]",
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
    """The `Chooser` of `Rover`: the words of all hypotheses, cut and numbered once for
    all scales.
    """

    def __init__(
        self,
        texts_of_lists: Sequence[Sequence[str]],
        normaliser: Normaliser,
        options: RoverOptions | None = None,
        usual: float = 1.0,
        times: Sequence[Sequence[Spans]] | None = None,
    ) -> None:
        """Cut the texts into words.

        Args:
            texts_of_lists: For each list, the text of each hypothesis.
            normaliser: Says which words are the same.
            options: The options; None for the defaults.
            usual: The factor of no word if the options have none.
            times: For each list, the times of the pieces of each hypothesis
                (`Hypothesis.times`); None if no list has times.
        """
        self._texts_of_lists = texts_of_lists
        self._normaliser = normaliser
        self._usual = usual
        self._no_word = (options or RoverOptions()).factor(usual)
        words = []
        self._groups: list[npt.NDArray[np.intp]] = []
        """For each list, the number of the words of each hypothesis: hypotheses with
        the same words are aligned once, with the sum of their posteriors.
        """
        for texts in texts_of_lists:
            distinct: dict[tuple[str, ...], int] = {}
            groups = []
            for text in texts:
                text_words = tuple(normaliser(text))
                groups.append(distinct.setdefault(text_words, len(distinct)))
            words.append(list(distinct))
            self._groups.append(np.array(groups))
        self._ends = list(map(_common_ends, words))
        """For each list, the words that are not aligned: all hypotheses have them."""
        clocks: dict[int, list[Spans]] = {}
        for list_index, list_times in enumerate(times or ()):
            if any(list_times):
                clocks[list_index] = self._clocks(
                    list_index, words[list_index], list_times
                )
        between = list(map(_without_ends, words, self._ends))
        for list_index, spans in clocks.items():
            clocks[list_index] = _without_ends(spans, self._ends[list_index])
        self._batches = list(_batches(between, clocks))
        self._cells = list(map(self._cells_of, self._batches))
        self._tokens: dict[tuple[int, int], list[ComparedWord]] = {}
        """The tokens of each list and hypothesis that won somewhere."""
        self._texts: dict[tuple[int, int, bytes], str] = {}
        """The text of each list, hypothesis that gives the words of `Ends`, and outcome
        of a vote between them.
        """
        self._networks: list[HeldNetworks] = []
        """The networks of each batch in which all votes are counted; empty if each vote
        aligns the hypotheses by its own posteriors.
        """

    def _clocks(
        self, list_index: int, words: Sequence[Sequence[str]], times: Sequence[Spans]
    ) -> list[Spans]:
        """Return the times of the words of the distinct hypotheses of a list, by the
        same clock; empty for a hypothesis without times.
        """
        clocks: list[Spans] = [()] * len(words)
        for index, group in enumerate(self._groups[list_index].tolist()):
            if not clocks[group]:
                text = self._texts_of_lists[list_index][index]
                clocks[group] = word_times(text, times[index], self._normaliser)
        return synchronised(words, clocks)

    def near(self, preferences: Sequence[Floats]) -> Ballots:
        """Return ballots that count all votes in the networks of these posteriors."""
        held = copy(self)
        held._networks = []
        for number, batch in enumerate(self._batches):
            shares, _ = self._joint(number, preferences)
            order = _order(shares)
            rows = np.arange(len(order))[:, None]
            ordered = _ordered(batch, rows, order)
            positions, numbers, _ = networks(shares[rows, order], *ordered)
            held._networks.append(HeldNetworks(order, positions, numbers))
        return held

    def with_options(self, options: RoverOptions) -> Ballots:
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
        winners = [""] * len(self._texts_of_lists)
        for number, batch in enumerate(self._batches):
            shares, leaders = self._joint(number, preferences)
            most = shares.max(axis=1)
            others = (1.0 - most) * max(factor, 1.0)
            is_certain = most * min(factor, 1.0) > others + CERTAIN
            for row in np.flatnonzero(is_certain).tolist():
                list_index = batch.list_indices[row]
                leader = leaders[row, shares[row].argmax()]
                winners[list_index] = self._text_of(list_index, int(leader))
            left = np.flatnonzero(~is_certain)
            if not len(left):
                continue
            order, positions, numbers, totals = self._votes_in(number, shares, left)
            ranks, words = elected(positions, numbers, totals, factor)
            leading = np.take_along_axis(leaders[left], order, axis=1)
            chosen = np.take_along_axis(leading, np.maximum(ranks, 0), axis=1)
            hypotheses = np.where(ranks < 0, -1, chosen)
            outcomes = np.stack([hypotheses, words], axis=1)
            firsts = leading[:, 0].tolist()
            for row, first, outcome in zip(
                left.tolist(), firsts, outcomes, strict=True
            ):
                list_index = batch.list_indices[row]
                winners[list_index] = self._text_of_vote(list_index, first, outcome)
        return winners

    def _cells_of(self, batch: ListsOfOneSize) -> Cells:
        """Return where the posteriors of the hypotheses of a batch are added."""
        width = batch.lengths.shape[1]
        groups = [self._groups[list_index] for list_index in batch.list_indices]
        of_groups = [width * row + own for row, own in enumerate(groups)]
        hypotheses = [np.arange(len(own)) for own in groups]
        return Cells(np.concatenate(of_groups), np.concatenate(hypotheses))

    def _joint(
        self, number: int, preferences: Sequence[Floats]
    ) -> tuple[Floats, npt.NDArray[np.intp]]:
        """Return the posteriors of the distinct words of the lists of a batch.

        Args:
            number: The number of the batch.
            preferences: The posteriors (hypotheses,) of each list.

        Returns:
            (lists, hypotheses of the batch) posteriors; (lists, hypotheses of the
            batch) the most probable hypothesis with these words.
        """
        batch = self._batches[number]
        places, hypotheses = self._cells[number]
        shape = batch.lengths.shape
        size = batch.lengths.size
        of_lists = [preferences[list_index] for list_index in batch.list_indices]
        posteriors = np.concatenate(of_lists)
        sums = np.bincount(places, posteriors, minlength=size)
        shares = np.asarray(sums, dtype=np.float64)
        leaders = np.zeros(size, dtype=np.intp)
        worst_first = np.argsort(-posteriors, kind="stable")[::-1]
        # assigned last: the best of each group; of equals the first
        leaders[places[worst_first]] = hypotheses[worst_first]
        return shares.reshape(shape), leaders.reshape(shape)

    def _votes_in(
        self, number: int, shares: Floats, rows: npt.NDArray[np.intp]
    ) -> tuple[npt.NDArray[np.intp], Numbers, Numbers, Floats]:
        """Return the votes in lists of a batch.

        Args:
            number: The number of the batch.
            shares: The posteriors of all lists of the batch (lists, hypotheses).
            rows: The lists.

        Returns:
            The order in which hypotheses were aligned (lists, hypotheses), and the
            three arrays of `networks`.
        """
        batch = self._batches[number]
        list_rows = rows[:, None]
        if self._networks:
            held = self._networks[number]
            order = held.order[rows]
            numbers = held.numbers[rows]
            totals = shares_of(numbers, shares[list_rows, order])
            return order, held.positions[rows], numbers, totals
        order = _order(shares[rows])
        ordered = _ordered(batch, list_rows, order)
        return order, *networks(shares[list_rows, order], *ordered)

    def _text_of(self, list_index: int, hypothesis: int) -> str:
        """Return the text of a hypothesis that wins in every slot."""
        key = list_index, hypothesis, b""
        if key not in self._texts:
            self._texts[key] = rewritten(self._tokens_of(list_index, hypothesis))
        return self._texts[key]

    def _text_of_vote(self, list_index: int, first: int, outcome: Numbers) -> str:
        """Return the text of the words that win.

        Args:
            list_index: The index of the list.
            first: The most probable hypothesis, which gives the words at both ends.
            outcome: (2, slots) the hypothesis of each slot, -1 for no word, and the
                position of its word after the words at the start.
        """
        key = list_index, first, outcome.tobytes()
        if key not in self._texts:
            tokens = self._tokens_of(list_index, first)
            ends = self._ends[list_index]
            chosen = tokens[: ends.first]
            for hypothesis, word in outcome.T.tolist():
                if hypothesis >= 0:
                    words = self._tokens_of(list_index, hypothesis)
                    chosen.append(words[ends.first + word])
            chosen += tokens[len(tokens) - ends.last :]
            self._texts[key] = rewritten(chosen)
        return self._texts[key]

    def _tokens_of(self, list_index: int, hypothesis: int) -> list[ComparedWord]:
        """Return the words of a hypothesis, cut once."""
        key = list_index, hypothesis
        if key not in self._tokens:
            text = self._texts_of_lists[list_index][hypothesis]
            self._tokens[key] = tokens_of(text, self._normaliser)
        return self._tokens[key]


def _common_ends(hypotheses: Sequence[Sequence[str]]) -> Ends:
    """Return the words at both ends that need no alignment.

    The last words are paired with each other in one of the cheapest alignments, which
    is the one that `slots` takes. So are the first words, unless the last of them
    stands in a hypothesis again: then an alignment that is as cheap may pair it there.

    Args:
        hypotheses: The words of each hypothesis.
    """
    shortest = min(map(len, hypotheses))
    last = _number_of_equal([words[::-1] for words in hypotheses])
    first = min(_number_of_equal(hypotheses), shortest - last)
    start = hypotheses[0][:first]
    between = set[str]()
    for words in hypotheses:
        between.update(words[first : len(words) - last])
    while first and start[first - 1] in between:
        first -= 1
    return Ends(first, last)


def _number_of_equal(hypotheses: Sequence[Sequence[str]]) -> int:
    """Return the number of words at the start that are the same in all hypotheses."""
    number = 0
    for words in zip(*hypotheses, strict=False):
        if len(set(words)) > 1:
            break
        number += 1
    return number


def _without_ends(
    hypotheses: Sequence[tuple[Item, ...]], ends: Ends
) -> list[tuple[Item, ...]]:
    """Return the hypotheses, or their times, without the words at both ends; empty for
    a hypothesis without times.
    """
    return [own[ends.first : max(0, len(own) - ends.last)] for own in hypotheses]


def _ordered(
    batch: ListsOfOneSize, rows: npt.NDArray[np.intp], order: npt.NDArray[np.intp]
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
) -> Iterator[ListsOfOneSize]:
    """Yield batches of lists with equally many hypotheses of about the same length."""
    sizes = [(len(hypotheses), max(map(len, hypotheses))) for hypotheses in lists]
    batch: list[int] = []
    for list_index in sorted(range(len(lists)), key=sizes.__getitem__):
        number, longest = sizes[list_index]
        if batch:
            first_number, shortest = sizes[batch[0]]
            full = len(batch) == TOGETHER or len(batch) * (longest + 1) ** 2 >= CELLS
            too_long = longest > PADDED * max(shortest, SHORT)
            if full or too_long or first_number != number:
                yield _batch(batch, lists, clocks)
                batch = []
        batch.append(list_index)
    if batch:
        yield _batch(batch, lists, clocks)


def _batch(
    list_indices: list[int],
    lists: Sequence[Sequence[Sequence[str]]],
    clocks: Mapping[int, Sequence[Spans]],
) -> ListsOfOneSize:
    """Return some of the lists as a batch."""
    sizes = [list(map(len, lists[list_index])) for list_index in list_indices]
    lengths = np.array(sizes, dtype=np.intp)
    # all texts may be empty
    words = np.full((*lengths.shape, max(1, lengths.max())), -1, dtype=np.int32)
    for row, list_index in enumerate(list_indices):
        numbers: dict[str, int] = {}
        for rank, hypothesis in enumerate(lists[list_index]):
            for word in hypothesis:
                numbers.setdefault(word, len(numbers) + 1)
            numbered = [numbers[word] for word in hypothesis]
            words[row, rank, : len(hypothesis)] = numbered
    clock = None
    if not clocks.keys().isdisjoint(list_indices):
        clock = np.full((*words.shape, 2), np.nan)
        for row, list_index in enumerate(list_indices):
            for rank, spans in enumerate(clocks.get(list_index, ())):
                if spans:
                    clock[row, rank, : len(spans)] = spans
    return ListsOfOneSize(list_indices, words, lengths, clock)


class Rover(DecisionRule):
    """The words with the highest posteriors, slot by slot."""

    Options = RoverOptions
    uses_posteriors = True
    varied: ClassVar = {"no_word": NO_WORD}

    def misfit(self, metric: Metric) -> str:
        """Return why answers have no vote here: only their words do."""
        if metric.words is None or metric.words.answer is None:
            return ""
        return (
            "--answer: rover writes its texts word by word, and no answer can be taken"
            " out of them; give --decide mbr, which votes on answers"
        )

    def chooser(self, lists: Dataset, metric: Metric | None) -> Ballots:
        """Return the ballots of lists: words are the same where the metric counts them
        as the same.
        """
        normaliser = (metric and metric.words) or EXACT
        texts = []
        for nbest in lists:
            texts.append([hypothesis.text for hypothesis in nbest.hypotheses])
        usual = KEPT if lists.header.by_systems else 1.0
        times = []
        for nbest in lists:
            times.append([hypothesis.times for hypothesis in nbest.hypotheses])
        return Ballots(texts, normaliser, self.options, usual, times)
