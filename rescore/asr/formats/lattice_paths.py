"""Word lattices as acyclic graphs: the N best word sequences, and the fewest errors of any path.

Both are exact. The score of a word sequence is the score of its best path; scores are natural logs.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush, heappushpop
from itertools import count

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.formats.text import as_number

_SILENT = frozenset(
    ("<eps>", "<epsilon>", "<s>", "</s>", "!NULL", "!SENT_START", "!SENT_END", "!SIL", "<sil>", "<SIL>", "-pau-")
)
NO_WORD = 0
"""The number of the empty word, which epsilon arcs carry."""
ROUNDING = 1e-9
"""Relative error of sums of scores."""

Trace = tuple[int, "Trace"] | None
"""The last arc of a path, and the path before it."""
Reached = dict[int, tuple[float, Trace]]
"""For each state that a word sequence leads to, the score of its best path, and the path."""


def is_silent(word: str) -> bool:
    """Whether a word is not part of the text; paths that differ only in such words are equal."""
    return word in _SILENT


def state_number(text: str, place: str) -> int:
    """The number of a state as a file has it."""
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:
        raise UserError(f"{place}: expected the number of a state, found {text[:40]!r}")
    return int(text)


def as_score(text: str, place: str, factor: float = 1.0) -> float:
    """A number times a factor; a score may be minus infinity."""
    score = factor * as_number(text, place)
    if math.isnan(score) or score == math.inf:
        raise UserError(f"{place}: score is {text}; decode it again or remove it")
    return score


@dataclass(slots=True)
class Arcs:
    """The arcs of a lattice in the order of the file."""

    sources: array[int] = field(default_factory=lambda: array("q"))
    targets: array[int] = field(default_factory=lambda: array("q"))
    words: array[int] = field(default_factory=lambda: array("q"))
    columns: dict[str, array[float]] = field(default_factory=dict)
    """The scores of each column; arcs beyond the end of an array have the score 0."""
    numbers: dict[str, int] = field(default_factory=lambda: {"": NO_WORD})
    """The number of each word."""

    def __len__(self) -> int:
        return len(self.sources)

    def add(self, source: int, target: int, word: str, scores: Mapping[str, float]) -> None:
        """Add an arc; an empty word is an epsilon."""
        for name, score in scores.items():
            values = self.columns.setdefault(name, array("d"))
            values.extend([0.0] * (len(self.sources) - len(values)))
            values.append(score)
        self.sources.append(source)
        self.targets.append(target)
        self.words.append(self.numbers.setdefault(word, len(self.numbers)))

    def require(self, *names: str) -> None:
        """Add columns that the file does not have, with the score 0."""
        for name in names:
            self.columns.setdefault(name, array("d"))

    def column(self, name: str) -> npt.NDArray[np.float64]:
        """One score of each arc."""
        values = np.zeros(len(self))
        known = self.columns.get(name, array("d"))
        values[: len(known)] = known
        return values


@dataclass(frozen=True, slots=True)
class WordSequence:
    """The words of a path, its score, and the sums of its columns."""

    words: tuple[str, ...]
    score: float
    columns: dict[str, float]


class Lattice:
    """The arcs that a path may take, by source; states are numbered in topological order."""

    def __init__(
        self, place: str, arcs: Arcs, start: int, end: int, scales: Mapping[str, float], word_score: float = 0.0
    ) -> None:
        """
        Args:
            place: the name of the lattice in errors. arcs: arcs with an infinite cost are left out. start, end: states.
            scales: the weight of each column in the score; word_score: added to it for each word.
        """
        words = np.asarray(arcs.words)
        scores = np.where(words == NO_WORD, 0.0, word_score)
        for name in (name for name in arcs.columns if scales.get(name)):
            scores = scores + scales[name] * arcs.column(name)
        states, ends = np.unique(np.concatenate([arcs.sources, arcs.targets, [start, end]]), return_inverse=True)
        sources, targets = ends[: len(arcs)], ends[len(arcs) : -2]
        position = _topological(states, sources, targets, place)
        sources, targets = position[sources], position[targets]
        self.start, self.end = position[ends[-2:]].tolist()
        possible = np.flatnonzero(np.isfinite(scores))
        order = possible[np.argsort(sources[possible], kind="stable")]
        self.vocabulary = list(arcs.numbers)
        self.sources: list[int] = sources[order].tolist()
        self.targets: list[int] = targets[order].tolist()
        self.words: list[int] = words[order].tolist()
        self.scores: list[float] = scores[order].tolist()
        self.first: list[int] = np.searchsorted(sources[order], np.arange(len(states) + 1)).tolist()
        """The arcs of a state are those from its entry here to the next one."""
        self._columns = {name: arcs.column(name)[order] for name in arcs.columns}
        self.remaining = [-math.inf] * len(states)
        """For each state, the score of the best path to the end."""
        self.remaining[self.end] = 0.0
        for arc in reversed(range(len(order))):
            state, total = self.sources[arc], self.scores[arc] + self.remaining[self.targets[arc]]
            self.remaining[state] = max(self.remaining[state], total)
        if self.remaining[self.start] == -math.inf:
            raise UserError(f"{place}: no path from the start to a final state; is the file whole?")

    def best(self, size: int) -> list[WordSequence]:
        """The `size` best different word sequences, the best first; fewer where the lattice has fewer."""
        return list(_Search(self, size).run())

    def sequence(self, trace: Trace, score: float) -> WordSequence:
        """The words and the columns of a path."""
        arcs = []
        while trace is not None:
            arc, trace = trace
            arcs.append(arc)
        arcs.reverse()
        words = tuple(self.vocabulary[self.words[arc]] for arc in arcs if self.words[arc] != NO_WORD)
        return WordSequence(words, score, {name: float(values[arcs].sum()) for name, values in self._columns.items()})

    def fewest_errors(self, reference: Sequence[str], normalise: Callable[[str], Sequence[str]]) -> int:
        """The smallest edit distance between a reference and the words of any path.

        Args:
            reference: normalised words. normalise: the words that a word of the lattice is compared as.
        """
        spelled = [list(normalise(word)) if word else [] for word in self.vocabulary]
        different = {
            word: np.array([word != spoken for spoken in reference], dtype=np.int32)
            for words in spelled
            for word in words
        }
        deletions = np.arange(len(reference) + 1, dtype=np.int32)
        rows: dict[int, npt.NDArray[np.int32]] = {self.start: deletions}
        for state in range(self.start, self.end):
            if state not in rows:
                continue
            row = rows.pop(state)
            after: dict[int, npt.NDArray[np.int32]] = {}
            for arc in range(self.first[state], self.first[state + 1]):
                word, target = self.words[arc], self.targets[arc]
                if word not in after:
                    after[word] = row
                    for spelling in spelled[word]:
                        after[word] = _row_after(after[word], different[spelling], deletions)
                rows[target] = np.minimum(rows[target], after[word]) if target in rows else after[word]
        return int(rows[self.end][-1])


def _row_after(
    row: npt.NDArray[np.int32], different: npt.NDArray[np.int32], deletions: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    """The edit distances to each beginning of the reference, one word later."""
    following = row + 1
    np.minimum(following[1:], row[:-1] + different, out=following[1:])
    # A deletion costs 1 for each place to the right, so that the running minimum is over distances less places.
    return np.minimum.accumulate(following - deletions) + deletions


def _topological(
    states: npt.NDArray[np.int64], sources: npt.NDArray[np.int64], targets: npt.NDArray[np.int64], place: str
) -> npt.NDArray[np.int64]:
    """The position of each state in an order in which all arcs lead forward."""
    if bool((sources < targets).all()):
        return np.arange(len(states))
    graph = TopologicalSorter[int](dict.fromkeys(range(len(states)), ()))
    for source, target in zip(sources.tolist(), targets.tolist(), strict=True):
        graph.add(target, source)
    try:
        order = list(graph.static_order())
    except CycleError as error:
        state = states[error.args[1][1]]
        raise UserError(f"{place}: there is a cycle through state {state}; lattices are acyclic") from None
    position = np.empty(len(states), dtype=np.int64)
    position[order] = np.arange(len(states))
    return position


class _Search:
    """A* over word sequences: a prefix stands for all its paths, which makes sequences different by construction.

    The priority of a prefix is the score of its best completion. This is known exactly, so prefixes come off the queue
    in the order of their best completions. Prefixes in the queue have different completions: the N-th best priority is
    a lower bound of the N-th best score, and states and prefixes below it are left out.
    """

    def __init__(self, lattice: Lattice, size: int) -> None:
        self._lattice, self._size = lattice, size
        self._bounds: list[float] = []
        """A heap of the `size` best priorities."""

    def run(self) -> Iterator[WordSequence]:
        lattice, numbers, yielded = self._lattice, count(), 0
        root: Reached = {lattice.start: (0.0, None)}
        queue: list[tuple[float, int, int, Reached | None, Trace]] = []
        priority = lattice.remaining[lattice.start]
        self._is_among_best(priority)
        heappush(queue, (-priority, 0, next(numbers), root, None))
        while queue and yielded < self._size:
            negative, depth, _, reached, trace = heappop(queue)
            if reached is None:
                yielded += 1
                yield lattice.sequence(trace, -negative)
                continue
            for rank, (priority, following, path) in enumerate(self._extended(reached)):
                # The best extension inherits the place of the prefix. Of equal priorities, the longest comes first, so
                # that a lattice without scores is not searched in its breadth.
                if not rank or self._is_among_best(priority):
                    heappush(queue, (-priority, depth - 1, next(numbers), following, path))

    def _is_among_best(self, priority: float) -> bool:
        if len(self._bounds) < self._size:
            heappush(self._bounds, priority)
            return True
        return heappushpop(self._bounds, priority) <= priority

    def _extended(self, reached: Reached) -> list[tuple[float, Reached | None, Trace]]:
        """The prefix with each possible next word, and its end if it is a whole sequence; the best first."""
        lattice, remaining = self._lattice, self._lattice.remaining
        first, targets, words, scores = lattice.first, lattice.targets, lattice.words, lattice.scores
        bound = self._bounds[0] if len(self._bounds) == self._size else -np.inf
        bound -= ROUNDING * (1 + abs(bound)) if bound > -np.inf else 0
        following: dict[int, Reached] = {}
        priorities: dict[int, float] = {}
        pending = list(reached)
        heapify(pending)
        while pending:  # in topological order: a state comes after all epsilon arcs into it
            state = heappop(pending)
            score, trace = reached[state]
            for arc in range(first[state], first[state + 1]):
                target, word = targets[arc], words[arc]
                total = score + scores[arc]
                best = total + remaining[target]
                if best < bound or best == -math.inf:
                    continue
                if word == NO_WORD:
                    group = reached
                    if target not in reached:
                        heappush(pending, target)
                else:
                    group = following.setdefault(word, {})
                    if best > priorities.get(word, -np.inf):
                        priorities[word] = best
                if target not in group or total > group[target][0]:
                    group[target] = (total, (arc, trace))
        extensions: list[tuple[float, Reached | None, Trace]] = [
            (priority, following[word], None) for word, priority in priorities.items()
        ]
        if lattice.end in reached:
            score, trace = reached[lattice.end]
            extensions.append((score, None, trace))
        return sorted(extensions, key=lambda extension: -extension[0])
