"""Sentence and token vectors of a network (Shin et al. 2020, section 5.4): hidden
vectors, or input embeddings.

The context vector of a token is the hidden vector that predicts it: at its position in
a T-TA, at its masked position in a masked model, at the position before it in a causal
model, h(x_<i). It does not depend on the token itself. The hidden vector of a token is
computed where the network sees the token. The vector of a sentence is the mean of its
tokens' vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from rescore.errors import UserError
from rescore.lms import LanguageModel, capabilities_of, without_context
from rescore.lms.scorers import Encoded, NetworkScorer, batches, padded, windows
from rescore.lms.scorers import Network as ScoredNetwork
from rescore.research.kinds import VectorOptions

Vectors = npt.NDArray[np.float32]

MASKED_TOGETHER = 200
"""Sentences whose masked copies are made together."""


class VectorNetwork(ScoredNetwork, Protocol):
    """A network whose vectors are taken."""

    layers: int

    def vectors(self, tokens: Tensor, lengths: Tensor, layer: int) -> Tensor:
        """Sequences (batch, n) and their lengths -> hidden vectors (batch, n, d) behind
        a layer.
        """
        ...

    def embeddings(self, tokens: Tensor, lengths: Tensor, positions: bool) -> Tensor:
        """The same before the first layer: of the tokens alone, or with all that the
        first layer is given.
        """
        ...


def vectors_of(lm: NetworkScorer) -> VectorNetwork:
    """The network of a model that has vectors."""
    return cast(VectorNetwork, lm.network)


class Embedder:
    """Vectors of one or several networks; the vectors of several networks are
    concatenated.
    """

    def __init__(
        self, lms: Sequence[LanguageModel], options: VectorOptions | None = None
    ) -> None:
        self._options = options or VectorOptions()
        self.lms = [network_of(lm) for lm in lms]
        for lm in self.lms:
            layers, layer = vectors_of(lm).layers, self._options.layer
            if layer is not None and not 0 <= layer <= layers:
                raise UserError(
                    f"{lm.name}: layer {layer} is not between 0 and {layers}"
                )

    @torch.inference_mode()
    def sentences(self, sentences: Sequence[str]) -> Vectors:
        """(sentences, d) the vectors of sentences; zeros for a sentence without
        tokens.
        """
        if not sentences:
            return np.zeros((0, 0), np.float32)
        questions = without_context(sentences)
        vectors = [
            self._vectors_of(lm, lm.network.encode(questions)) for lm in self.lms
        ]
        return torch.cat(
            [torch.stack([mean(own) for own in every]) for every in vectors], dim=1
        ).numpy()

    @torch.inference_mode()
    def tokens(self, sentences: Sequence[str]) -> list[tuple[list[str], Vectors]]:
        """The tokens of each sentence and their vectors (tokens, d). In a causal model
        without [BOS] nothing predicts the first token, so it has no context vector and
        is left out.
        """
        lm = self._only()
        encoded = lm.network.encode(without_context(sentences))
        return [
            (
                lm.network.strings(sentence.ids[len(sentence.ids) - len(vectors) :]),
                vectors.numpy(),
            )
            for sentence, vectors in zip(
                encoded, self._vectors_of(lm, encoded), strict=True
            )
        ]

    def _only(self) -> NetworkScorer:
        if len(self.lms) > 1:
            raise UserError(
                "token vectors of several models cannot be joined; give one --lm"
            )
        return self.lms[0]

    def _vectors_of(
        self, lm: NetworkScorer, encoded: Sequence[Encoded]
    ) -> list[Tensor]:
        """(tokens, d) of each sentence; equal sentences are computed once."""
        rank = {
            sentence: index for index, sentence in enumerate(dict.fromkeys(encoded))
        }
        masked = lm.masks and self._options.kind == "context"
        by_rank = dict(
            self._masked(lm, list(rank))
            if masked
            else self._in_one_pass(lm, list(rank))
        )
        if len(by_rank) < len(rank):  # sentences without tokens
            width = self._layer(lm, *padded([[lm.network.pad]], lm.network.pad)).shape[
                -1
            ]
            by_rank = {
                index: torch.zeros(0, width) for index in range(len(rank))
            } | by_rank
        return [by_rank[rank[sentence]] for sentence in encoded]

    def _layer(self, lm: NetworkScorer, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Sequences (batch, n), lengths (batch,) -> (batch, n, d)."""
        network, kind, layer = vectors_of(lm), self._options.kind, self._options.layer
        if kind in ("embed", "token"):
            return network.embeddings(tokens, lengths, positions=kind == "embed")
        return network.vectors(
            tokens, lengths, network.layers if layer is None else layer
        )

    def _in_one_pass(
        self, lm: NetworkScorer, sentences: Sequence[Encoded]
    ) -> Iterator[tuple[int, Tensor]]:
        """Sentences longer than the network's positions are read in overlapping
        windows.
        """
        network = lm.network
        before, after = network.before, [] if lm.behind else network.after
        frame = len(before) + len(after)
        shift = len(before) - (lm.behind if self._options.kind == "context" else 0)
        rows = [
            (index, *window)
            for index, sentence in enumerate(sentences)
            for window in windows(len(sentence.ids), network.positions - frame)
        ]
        rows.sort(key=lambda row: row[2] - row[1])
        parts: dict[int, dict[int, Tensor]] = {}
        for batch in batches(
            rows, lambda row: row[2] - row[1] + frame, network.batch_tokens
        ):
            sequences = []
            for index, start, stop, *_ in batch:
                ids = sentences[index].ids[start:stop]
                sequences.append(
                    [*before, *(ids[::-1] if lm.backwards else ids), *after]
                )
            hidden = self._layer(lm, *padded(sequences, network.pad)).cpu()
            for row, (index, start, stop, first, last) in enumerate(batch):
                inner = hidden[row, max(shift, 0) : shift + stop - start]
                if lm.backwards:
                    inner = inner.flip(0)
                # without a token before the sentence, its first has no context
                missing = stop - start - len(inner)
                kept = inner[max(first - start - missing, 0) : last - start - missing]
                parts.setdefault(index, {})[start] = kept.clone()
        for index, pieces in parts.items():
            yield index, torch.cat([pieces[start] for start in sorted(pieces)])

    def _masked(
        self, lm: NetworkScorer, sentences: Sequence[Encoded]
    ) -> Iterator[tuple[int, Tensor]]:
        """The vector of each token at its masked position."""
        for begin in range(0, len(sentences), MASKED_TOGETHER):
            group = sentences[begin : begin + MASKED_TOGETHER]
            masked_vectors: list[dict[int, Tensor]] = [{} for _ in group]
            for batch, rows, _, spans in lm.requests(group):
                hidden = self._layer(lm, batch.tokens, batch.lengths).flatten(0, 1)
                values = hidden[batch.at.to(hidden.device)].cpu()
                for span in spans:
                    for offset, value in enumerate(values[rows[span.values]]):
                        masked_vectors[span.sentence][span.first + offset] = value
            for index, vectors in enumerate(masked_vectors, begin):
                if vectors:
                    yield (
                        index,
                        torch.stack([vectors[place] for place in sorted(vectors)]),
                    )


def mean(vectors: Tensor) -> Tensor:
    """(tokens, d) -> (d,), zeros without tokens."""
    return vectors.mean(dim=0) if len(vectors) else vectors.sum(dim=0)


def network_of(lm: LanguageModel) -> NetworkScorer:
    """The model, checked to have vectors."""
    capabilities = capabilities_of(lm)
    if any(capabilities.context) or capabilities.source:
        raise UserError(
            f"{lm.name}: vectors are for single sentences; leave out context and"
            " sources"
        )
    if not capabilities.vectors:
        raise UserError(
            f"{lm.name}: has no vectors; give a network, and leave out --cache, a case"
            " and --engine ray"
        )
    return cast(NetworkScorer, lm)
