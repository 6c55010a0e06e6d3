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
    TokenSpan,
    Window,
    batches,
    padded,
)

LARGEST_TREE = 512
"""Nodes of a tree, at most; attention grows with their square."""
ATTENTION_COST = 1000
"""Attention of m more nodes to all n nodes of a tree costs as much as the projections
of n m / ATTENTION_COST nodes.
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
        """The tokens before each sequence; no tokens stand after it."""
        return self.network.before, []

    def scored(self, sentence: Encoded) -> slice:
        """Return the place of the tokens that have a token before them."""
        own = sentence.scored
        first = 0 if self.network.before else 1
        return slice(max(first, own.start), own.stop)

    def in_order(self, sentence: Encoded) -> Encoded:
        """Return a sentence with its end, which is scored, too."""
        if sentence.whole:
            return sentence
        end = self.network.end
        return sentence._replace(
            ids=(*sentence.ids, *end), words=(*sentence.words, *[-1] * len(end))
        )

    def requests(self, sentences: Sequence[Encoded]) -> Iterator[Request]:
        """Yield the requests for all sentences as trees.

        Args:
            sentences: Different sentences, as `encoded` returns them.
        """
        paths = sorted(self.windows(sentences), key=lambda path: path.tokens)
        yield from self.read(paths)

    def read(
        self, paths: Sequence[Window], past: tuple[int, ...] = ()
    ) -> Iterator[Request]:
        """Yield the requests for sorted paths.

        Args:
            paths: The sequences, sorted by their tokens.
            past: Tokens that the network reads before all paths.
        """
        network = self.network
        shallow: list[Window] = []
        deep: list[Window] = []
        for path in paths:
            fits = len(past) + len(path.tokens) <= network.deepest_tree
            (shallow if fits else deep).append(path)
        for same_kind, share in ((shallow, True), (deep, False)):
            trees = list(prefix_trees(same_kind, share, self.largest, len(past)))
            trees.sort(key=lambda tree: tree.size)
            for batch in batches(trees, lambda tree: tree.size, network.batch_tokens):
                yield as_request(batch, network.pad, share, past)

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
        """Return the reversed sentence with its end, which is scored, too."""
        return super().in_order(Encoded(sentence.ids[::-1], sentence.words[::-1]))

    def _result(self, sentence: Encoded, log_probs: Values) -> TokenScores:
        """Return the scores in the order of the sentence."""
        in_own_order = Encoded(sentence.ids[::-1], sentence.words[::-1])
        return super()._result(in_own_order, log_probs[::-1])


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
        """Make a tree without nodes."""
        self.tokens: list[int] = []
        self.parents: list[int] = []
        self.depths: list[int] = []
        self.read: dict[int, int] = {}
        """The nodes that are read, each behind its parent, and their number in this
        order.
        """
        self.scored: list[tuple[Window, list[int]]] = []
        """Each path, and the nodes whose values it takes."""
        self._last: list[int] = []
        """The nodes of the path that was added last."""

    @property
    def size(self) -> int:
        """Number of tokens that the network reads."""
        return len(self.read)

    @property
    def first_predicted(self) -> int:
        """The first node that is predicted; nodes before it are context only."""
        return min(nodes[0] for _, nodes in self.scored)

    def of_read(self, values: Sequence[int]) -> list[int]:
        """Return the values of the nodes that are read.

        Args:
            values: A value for each node.
        """
        return [values[node] for node in self.read]

    def shared(self, path: Window) -> int:
        """Return the number of leading tokens that a path shares with the path added
        last.

        Args:
            path: The path.
        """
        common = 0
        for node, token in zip(self._last, path.tokens, strict=False):
            if self.tokens[node] != token:
                break
            common += 1
        return common

    def add(self, path: Window) -> None:
        """Add a path.

        Args:
            path: The path. Paths have to come sorted, so that each prefix is met once.
        """
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
        """Return a mask, True where a node that is read sees itself or an ancestor.

        Args:
            size: Rows and columns of the mask, at least the number of nodes that are
                read.

        Returns:
            The mask of shape (size, size).
        """
        seen = np.zeros((size, size), dtype=np.bool_)
        for node, rank in self.read.items():
            if node:
                seen[rank] = seen[self.read[self.parents[node]]]
            seen[rank, rank] = True
        return seen


def prefix_trees(
    paths: Sequence[Window], share: bool, largest: int, past: int = 0
) -> Iterator[PrefixTree]:
    """Yield sorted paths as trees, cut where sharing a common beginning no longer pays.

    Args:
        paths: The paths, sorted by their tokens.
        share: Whether paths share beginnings; otherwise each path is a tree.
        largest: Nodes of a tree, at most.
        past: Number of tokens before all trees that the network has read already; each
            tree attends to them again.
    """
    tree = PrefixTree()
    for path in paths:
        shared = tree.shared(path)
        more = len(path.tokens) - shared
        fits = share and tree.size + more <= largest
        pays = (past + shared) * ATTENTION_COST > tree.size * more
        if not (fits and pays):
            if tree.scored:
                yield tree
            tree = PrefixTree()
        tree.add(path)
    if tree.scored:
        yield tree


def as_request(
    trees: Sequence[PrefixTree], pad: int, share: bool, past: tuple[int, ...] = ()
) -> Request:
    """Return the request for a batch of trees.

    Args:
        trees: The trees.
        pad: The token that fills trees up.
        share: Whether paths share beginnings; otherwise trees are plain sequences.
        past: Tokens before all trees.
    """
    tokens, lengths = padded([tree.of_read(tree.tokens) for tree in trees], pad)
    width = tokens.shape[1]
    at: list[int] = []
    rows: list[int] = []
    targets: list[int] = []
    spans = []
    for row, tree in enumerate(trees):
        first = tree.first_predicted
        parents = [tree.read[parent] for parent in tree.parents[first:]]
        lowest = min(parents)
        for path, nodes in tree.scored:
            values = [len(targets) + node - first for node in nodes]
            spans.append(TokenSpan(path.sentence, path.first, values))
        rows += [len(at) + parent - lowest for parent in parents]
        targets += tree.tokens[first:]
        at += range(row * width + lowest, row * width + tree.size)
    structure = _structure(trees, width) if share else None
    batch = Batch(tokens, lengths, torch.tensor(at), structure, past)
    return Request(batch, torch.tensor(rows), torch.tensor(targets), spans)


def _structure(trees: Sequence[PrefixTree], width: int) -> Tree:
    """Return the depths and the masks of trees in rows of `width` nodes."""
    depth, _ = padded([tree.of_read(tree.depths) for tree in trees], 0)
    visible = np.stack([tree.visible(width) for tree in trees])
    return Tree(depth, torch.from_numpy(visible))
