"""Left to right and right to left: how a causal language model reads sentences, as trees of their prefixes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from rescore.lms.base import Capabilities, TokenScores, Values
from rescore.lms.fast import Batch, Tree
from rescore.lms.scorers import Encoded, NetworkScorer, Request, Span, batches, padded, windows

LARGEST_TREE = 512
"""Nodes of a tree; attention grows with their square."""
SHORTEST_PAST = 32
"""Tokens that are kept rather than read with each tree, at least."""
ATTENTION_COST = 1000
"""In a tree of n nodes, m more attend to n instead of few: as costly as the projections of n m / ATTENTION_COST."""


class Window(NamedTuple):
    """A window of a sentence behind its frame; of its tokens `scored` go to the sentence's from `first` on."""

    tokens: tuple[int, ...]
    scored: slice
    sentence: int
    first: int

    @property
    def past(self) -> tuple[int, ...]:
        """The tokens before the first that predicts."""
        return self.tokens[: self.scored.start - 1]

    def without_past(self) -> Window:
        """The window from the first token that predicts on."""
        begin = self.scored.start - 1
        return self._replace(tokens=self.tokens[begin:], scored=slice(1, self.scored.stop - begin))


class CausalScorer(NetworkScorer):
    """log p(sentence): each token given the tokens before it, and the end if the network has a token for it.

    Without a token in front of the sentence, its first token is context only and not scored.

    An N-best list is read as a tree, so sequences share the computation of a common beginning. If the tokens before the
    hypotheses together with the hypotheses exceed a tree, a network that can keep its past reads these tokens once.
    """

    capabilities = Capabilities(vectors=True, predicts_tokens=True)
    behind = 1

    @property
    def _frame(self) -> int:
        return len(self.network.before)

    def scored(self, sentence: Encoded) -> slice:
        own = sentence.scored
        return slice(max(0 if self.network.before else 1, own.start), own.stop)

    def in_order(self, sentence: Encoded) -> Encoded:
        end = self.network.end
        return Encoded((*sentence.ids, *end), (*sentence.words, *[-1] * len(end)))

    def requests(self, sentences: Sequence[Encoded]) -> Iterator[Request]:
        network = self.network
        paths = []
        for index, sentence in enumerate(sentences):
            for start, stop, first, last in windows(len(sentence.ids), network.positions - self._frame):
                own = self.scored(sentence)
                first, last = max(first, own.start), min(last, own.stop)
                if first < last:
                    shift = len(network.before) - start
                    tokens = (*network.before, *sentence.ids[start:stop])
                    paths.append(Window(tokens, slice(first + shift, last + shift), index, first))
        paths.sort(key=lambda path: path.tokens)
        largest = min(LARGEST_TREE, network.batch_tokens)
        for past, group in behind_pasts(paths, largest) if network.keeps_past else [((), paths)]:
            trees = list(prefix_trees(group, network.reads_trees, largest, past=len(past)))
            trees.sort(key=lambda tree: tree.size)
            for together in batches(trees, lambda tree: tree.size, network.batch_tokens):
                yield as_request(together, network.pad, network.reads_trees, past)


class BackwardScorer(CausalScorer):
    """`CausalScorer` on the reversed sentence: each token and the sentence's beginning, given the tokens after it."""

    backwards = True

    def in_order(self, sentence: Encoded) -> Encoded:
        return super().in_order(Encoded(sentence.ids[::-1], sentence.words[::-1]))

    def _result(self, sentence: Encoded, log_probs: Values) -> TokenScores:
        return super()._result(Encoded(sentence.ids[::-1], sentence.words[::-1]), log_probs[::-1])


def behind_pasts(paths: Sequence[Window], largest: int) -> Iterator[tuple[tuple[int, ...], list[Window]]]:
    """Sorted paths, grouped by the past tokens worth keeping, without these tokens; paths without a past come last.

    Past tokens are worth keeping if they and all their continuations may exceed the largest tree.
    """
    others: list[Window] = []
    for past, group in groupby(paths, key=lambda path: path.past):
        same_past = list(group)
        size = len(past) + sum(len(path.tokens) - len(past) for path in same_past)
        if len(same_past) > 1 and len(past) >= SHORTEST_PAST and size > largest:
            yield past, [path.without_past() for path in same_past]
        else:
            others += same_past
    if others:
        yield (), others


class PrefixTree:
    """Sequences as a tree: every node but the root is predicted by its parent, and only parents are read.

    The windows [BOS] a b and [BOS] a c, added in this order, make four nodes; the root and `a` are read:

        node     0      1   2   3
        tokens   [BOS]  a   b   c
        parents  -1     0   1   1
        depths   0      1   2   2
        read     {0: 0, 1: 1}       sequence  [BOS] a      visible  [[1, 0], [1, 1]]
    """

    def __init__(self, stem: Sequence[int] = ()) -> None:
        """
        Args:
            stem: tokens before the root; they and the root see each other from both sides, and all nodes see them.
        """
        self.stem = tuple(stem)
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.depths: list[int] = []
        self.read: dict[int, int] = {}
        """The nodes that are read, each behind its parent, and their number in this order."""
        self.scored: list[tuple[Window, list[int]]] = []
        """Of each path, the nodes whose values it takes."""
        self._last: list[int] = []  # the nodes of the sequence that was added last

    @property
    def size(self) -> int:
        """Number of tokens that the network reads."""
        return len(self.stem) + len(self.read)

    @property
    def sequence(self) -> list[int]:
        """The tokens that are read."""
        return [*self.stem, *(self.tokens[node] for node in self.read)]

    @property
    def positions(self) -> list[int]:
        """The position of each."""
        return [*range(len(self.stem)), *(len(self.stem) + self.depths[node] for node in self.read)]

    def shared(self, path: Window) -> int:
        """Number of leading tokens that the path shares with the path added last."""
        common = 0
        for node, token in zip(self._last, path.tokens, strict=False):
            if self.tokens[node] != token:
                break
            common += 1
        return common

    def add(self, path: Window) -> None:
        """Paths have to come sorted, so that each prefix is met once."""
        nodes = self._last[: self.shared(path)]
        for depth in range(len(nodes), len(path.tokens)):
            if nodes:
                self.read.setdefault(nodes[-1], len(self.read))
            self.parents.append(nodes[-1] if nodes else -1)
            nodes.append(len(self.tokens))
            self.tokens.append(path.tokens[depth])
            self.depths.append(depth)
        self._last = nodes
        self.scored.append((path, nodes[path.scored]))

    def visible(self, size: int) -> npt.NDArray[np.bool_]:
        """(size, size), True where a node that is read sees itself or an ancestor, or the stem."""
        seen = np.zeros((size, size), dtype=np.bool_)
        stem = len(self.stem)
        seen[: stem + 1, : stem + 1] = True
        for node, rank in self.read.items():
            if node:
                seen[stem + rank] = seen[stem + self.read[self.parents[node]]]
                seen[stem + rank, stem + rank] = True
        return seen


def prefix_trees(
    paths: Sequence[Window],
    share: bool,
    largest: int,
    stem: Sequence[int] = (),
    past: int = 0,
) -> Iterator[PrefixTree]:
    """Cut sorted paths into trees, each behind the stem, at places where sharing a common beginning no longer pays.

    Args:
        past: number of tokens before all trees that the network has read already; each tree attends to them again.
    """
    tree = PrefixTree(stem)
    for path in paths:
        shared = tree.shared(path)
        more = len(path.tokens) - shared
        common = past + len(stem) + shared
        if tree.read and not (share and tree.size + more <= largest and common * ATTENTION_COST > tree.size * more):
            yield tree
            tree = PrefixTree(stem)
        tree.add(path)
    if tree.read:
        yield tree


def as_request(trees: Sequence[PrefixTree], pad: int, share: bool, past: tuple[int, ...] = ()) -> Request:
    """A batch of trees behind the tokens of `past`; without `share` these are sequences."""
    tokens, lengths = padded([tree.sequence for tree in trees], pad)
    at: list[int] = []
    rows: list[int] = []
    targets: list[int] = []
    spans = []
    for row, tree in enumerate(trees):
        for path, nodes in tree.scored:
            spans.append(Span(path.sentence, path.first, [len(targets) + node - 1 for node in nodes]))
        rows += [len(at) + tree.read[parent] for parent in tree.parents[1:]]
        targets += tree.tokens[1:]
        begin = row * tokens.shape[1]
        at += range(begin + len(tree.stem), begin + tree.size)
    structure = None
    if share:
        depth, _ = padded([tree.positions for tree in trees], 0)
        structure = Tree(depth, torch.from_numpy(np.stack([tree.visible(tokens.shape[1]) for tree in trees])))
    batch = Batch(tokens, lengths, torch.tensor(at), structure, past)
    return Request(batch, torch.tensor(rows), torch.tensor(targets), spans)
