"""The best texts of a graph of words: of a lattice, or of alternatives in a row.

`best_paths` takes any acyclic graph; `best_texts` makes a graph of places that have
alternatives each, such as the words or letters of a line.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

SIZE = 100
"""Hypotheses of a list, by default."""


class Link(NamedTuple):
    """A link between two nodes, with a word."""

    source: str
    target: str
    word: str
    """Empty for silence."""
    scores: dict[str, float]
    """The score of each column, as a natural log."""


class Path(NamedTuple):
    """A path from the start of a graph to a node."""

    score: float
    words: int
    """The number of its word sequence: paths with the same words have the same
    number.
    """
    link: Link | None
    before: Path | None
    """The path without its last link."""

    def links(self) -> list[Link]:
        """Return the links from the start to the node."""
        links = []
        path = self
        while path.link is not None and path.before is not None:
            links.append(path.link)
            path = path.before
        return links[::-1]


ScoredLinks = Mapping[str, Sequence[tuple[Link, float]]]
"""The links into each node, with the score that each adds to a path."""


def best_paths(
    nodes: Iterable[str], into: ScoredLinks, start: str, end: str, size: int
) -> list[Path]:
    """Return the best paths with different words, the best first.

    Each node gets its `size` best paths with different words, from the nodes before it.
    This is exact: a path through a worse beginning has `size` better paths with other
    words beside it.

    Args:
        nodes: The nodes, each after all nodes that lead to it.
        into: The links into each node.
        start: The node where all paths start.
        end: The node where the paths end.
        size: The number of paths, at most.

    Returns:
        The paths; none if no path leads to the end.
    """
    paths = _Paths({start: [Path(0.0, 0, None, None)]})
    for node in nodes:
        if node != start:
            paths.reach(node, into.get(node, ()), size)
    return paths.best.get(end, [])


@dataclass(slots=True)
class _Paths:
    """The best paths with different words from the start of a graph."""

    best: dict[str, list[Path]]
    """The paths to each node, the best first."""
    sequences: dict[tuple[int, str], int] = field(default_factory=dict)
    """The number of each word sequence, by its beginning and its last word."""

    def reach(self, node: str, links: Sequence[tuple[Link, float]], size: int) -> None:
        """Find the best paths to a node, after all nodes that lead to it.

        Args:
            node: The node.
            links: The links into the node, with their scores.
            size: The number of paths, at most.
        """
        ways = [self._extended(link, score) for link, score in links]
        merged = heapq.merge(*ways, key=lambda path: -path.score)
        self.best[node] = list(islice(_different(merged), size))

    def _extended(self, link: Link, score: float) -> Iterator[Path]:
        """Yield the paths through a link, the best first."""
        for path in self.best.get(link.source, []):
            words = path.words
            if link.word:
                new = len(self.sequences) + 1
                words = self.sequences.setdefault((words, link.word), new)
            yield Path(path.score + score, words, link, path)


def _different(paths: Iterator[Path]) -> Iterator[Path]:
    """Yield the paths whose words no path before them has."""
    seen = set()
    for path in paths:
        if path.words not in seen:
            seen.add(path.words)
            yield path


# --- alternatives in a row -----------------------------------------------------------

Slot = Mapping[str, float]
"""The alternatives of one place, and the score of each as a natural log."""


def best_texts(slots: Sequence[Slot], size: int) -> list[tuple[str, float]]:
    """Return the best different texts of places with alternatives, the best first.

    Args:
        slots: The places in the order of the text. Blanks between words are part of the
            alternatives, or places of their own.
        size: The number of texts, at most.

    Returns:
        Each text with the sum of the scores of its alternatives.

    Example:
        >>> best_texts([{"o": -0.5, "e": -1.0}, {"dd": 0.0}], size=2)
        [('odd', -0.5), ('edd', -1.0)]
    """
    into = {}
    merged = _with_fixed_merged(slots)
    for place, slot in enumerate(merged):
        links = []
        for text, score in slot.items():
            links.append((Link(str(place), str(place + 1), text, {}), score))
        into[str(place + 1)] = links
    end = str(len(merged))
    texts: dict[str, float] = {}
    for path in best_paths(into, into, "0", end, size):
        # "c" + "l" and "cl" + "" are one text
        texts.setdefault("".join(link.word for link in path.links()), path.score)
    return list(texts.items())


def _with_fixed_merged(slots: Iterable[Slot]) -> list[Slot]:
    """Return the places; neighbours without a choice are one place."""
    merged: list[Slot] = []
    for slot in slots:
        if merged and len(slot) == len(merged[-1]) == 1:
            ((before, first),) = merged[-1].items()
            ((text, score),) = slot.items()
            merged[-1] = {before + text: first + score}
        else:
            merged.append(slot)
    return merged
