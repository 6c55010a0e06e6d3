"""Left to right and right to left: how a causal language model reads sentences, as
trees of their prefixes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch

from rescore.lms.base import Capabilities, TokenScores, Values
from rescore.lms.fast import Batch, Tree
from rescore.lms.scorers import (
    Encoded,
    NetworkScorer,
    Request,
    Span,
    Window,
    batches,
    padded,
)

LARGEST_TREE = 512
"""Nodes of a tree; attention grows with their square."""
ATTENTION_COST = 1000
"""In a tree of n nodes, m more attend to n instead of few: as costly as the projections
of n m / ATTENTION_COST.
"""


class CausalScorer(NetworkScorer):
    """log p(sentence): each token given the tokens before it, and the end if the
    network has a token for it.

    Without a token in front of the sentence, its first token is context only and not
    scored.

    An N-best list is read as a tree, so sequences share the computation of a common
    beginning.
    """

    capabilities = Capabilities(vectors=True)
    behind = 1

    @property
    def frame(self) -> tuple[list[int], list[int]]:
        return self.network.before, []

    def scored(self, sentence: Encoded) -> slice:
        own = sentence.scored
        return slice(max(0 if self.network.before else 1, own.start), own.stop)

    def in_order(self, sentence: Encoded) -> Encoded:
        end = [] if sentence.whole else self.network.end
        return sentence._replace(
            ids=(*sentence.ids, *end), words=(*sentence.words, *[-1] * len(end))
        )

    def requests(self, sentences: Sequence[Encoded]) -> Iterator[Request]:
        yield from self.read(
            sorted(self.windows(sentences), key=lambda path: path.tokens)
        )

    def read(
        self, paths: Sequence[Window], past: tuple[int, ...] = ()
    ) -> Iterator[Request]:
        """Requests for sorted paths; their network reads the tokens of `past` before
        them.
        """
        network = self.network
        trees = list(prefix_trees(paths, network.reads_trees, self.largest, len(past)))
        trees.sort(key=lambda tree: tree.size)
        for together in batches(trees, lambda tree: tree.size, network.batch_tokens):
            yield as_request(together, network.pad, network.reads_trees, past)

    @property
    def largest(self) -> int:
        """Nodes of a tree, at most."""
        return min(LARGEST_TREE, self.network.batch_tokens)


class BackwardScorer(CausalScorer):
    """`CausalScorer` on the reversed sentence: each token and the sentence's beginning,
    given the tokens after it.
    """

    backwards = True

    def in_order(self, sentence: Encoded) -> Encoded:
        return super().in_order(Encoded(sentence.ids[::-1], sentence.words[::-1]))

    def _result(self, sentence: Encoded, log_probs: Values) -> TokenScores:
        return super()._result(
            Encoded(sentence.ids[::-1], sentence.words[::-1]), log_probs[::-1]
        )


class PrefixTree:
    """Sequences as a tree: every node but the root is predicted by its parent, and only
    parents are read.

    The windows [BOS] a b and [BOS] a c, added in this order, make four nodes; the root
    and `a` are read:

        node     0      1   2   3
        tokens   [BOS]  a   b   c
        parents  -1     0   1   1
        depths   0      1   2   2
        read     {0: 0, 1: 1}       sequence  [BOS] a      visible  [[1, 0], [1, 1]]
    """

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.depths: list[int] = []
        self.read: dict[int, int] = {}
        """The nodes that are read, each behind its parent, and their number in this
        order.
        """
        self.scored: list[tuple[Window, list[int]]] = []
        """Of each path, the nodes whose values it takes."""
        self._last: list[int] = []  # the nodes of the sequence that was added last

    @property
    def size(self) -> int:
        """Number of tokens that the network reads."""
        return len(self.read)

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
        """(size, size), True where a node that is read sees itself or an ancestor."""
        seen = np.zeros((size, size), dtype=np.bool_)
        for node, rank in self.read.items():
            if node:
                seen[rank] = seen[self.read[self.parents[node]]]
            seen[rank, rank] = True
        return seen


def prefix_trees(
    paths: Sequence[Window], share: bool, largest: int, past: int = 0
) -> Iterator[PrefixTree]:
    """Cut sorted paths into trees, at places where sharing a common beginning no longer
    pays.

    Args:
        past: number of tokens before all trees that the network has read already; each
            tree attends to them again.
    """
    tree = PrefixTree()
    for path in paths:
        shared = tree.shared(path)
        more = len(path.tokens) - shared
        fits = share and tree.size + more <= largest
        if not (fits and (past + shared) * ATTENTION_COST > tree.size * more):
            if tree.scored:
                yield tree
            tree = PrefixTree()
        tree.add(path)
    if tree.scored:
        yield tree


def as_request(
    trees: Sequence[PrefixTree], pad: int, share: bool, past: tuple[int, ...] = ()
) -> Request:
    """A batch of trees behind the tokens of `past`; without `share` these are
    sequences.
    """
    tokens, lengths = padded(
        [[tree.tokens[node] for node in tree.read] for tree in trees], pad
    )
    at: list[int] = []
    rows: list[int] = []
    targets: list[int] = []
    spans = []
    for row, tree in enumerate(trees):
        # nodes before it are context only
        first = min(nodes[0] for _, nodes in tree.scored)
        parents = [tree.read[parent] for parent in tree.parents[first:]]
        lowest = min(parents)
        for path, nodes in tree.scored:
            spans.append(
                Span(
                    path.sentence,
                    path.first,
                    [len(targets) + node - first for node in nodes],
                )
            )
        rows += [len(at) + parent - lowest for parent in parents]
        targets += tree.tokens[first:]
        begin = row * tokens.shape[1]
        at += range(begin + lowest, begin + tree.size)
    structure = None
    if share:
        depth, _ = padded(
            [[tree.depths[node] for node in tree.read] for tree in trees], 0
        )
        structure = Tree(
            depth,
            torch.from_numpy(
                np.stack([tree.visible(tokens.shape[1]) for tree in trees])
            ),
        )
    batch = Batch(tokens, lengths, torch.tensor(at), structure, past)
    return Request(batch, torch.tensor(rows), torch.tensor(targets), spans)
