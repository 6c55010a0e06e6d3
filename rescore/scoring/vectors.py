"""Sentence and token vectors of a network (Shin et al. 2020, section 5.4): hidden vectors, or input embeddings.

A token's vector is the hidden vector at its own position: of a T-TA, and of a masked model where the token is masked,
it does not depend on the token itself; of a causal model it depends on it and those before. With `intact` a masked
model sees the token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from rescore.errors import UserError
from rescore.scoring import LanguageModel, alone
from rescore.scoring.cache import Cached
from rescore.scoring.case import Recased
from rescore.scoring.causal import BackwardScorer, CausalScorer
from rescore.scoring.context import context_of
from rescore.scoring.masked import MaskedScorer
from rescore.scoring.one_pass import Encoded, OnePassScorer, batches, padded, windows

Vectors = npt.NDArray[np.float32]

POOLINGS: dict[str, Callable[[Vectors], Vectors]] = {
    "mean": lambda vectors: vectors.mean(axis=0),
    "max": lambda vectors: vectors.max(axis=0),
    "sum": lambda vectors: vectors.sum(axis=0),
}
KINDS = ("context", "embed")
MASKED_TOGETHER = 200
"""Sentences whose masked copies are made together."""


@dataclass(frozen=True, slots=True)
class VectorOptions:
    """Which vectors are wanted.

    Raises:
        UserError: there is no such kind or pooling.
    """

    kind: str = "context"
    """`context`: hidden vectors; `embed`: input embeddings of the tokens."""
    layer: int | None = None
    """Behind so many layers; None for the last."""
    pooling: str = "mean"
    """From the vectors of tokens to that of the sentence."""
    special: bool = False
    """Whether the special tokens around a sentence count as tokens; not of causal models and masked copies."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UserError(f"kind {self.kind!r} is not one of {', '.join(KINDS)}")
        if self.pooling not in POOLINGS:
            raise UserError(f"pooling {self.pooling!r} is not one of {', '.join(POOLINGS)}")


class Embedder:
    """Vectors of one or several networks; those of several are joined, one behind another."""

    def __init__(self, lms: Sequence[LanguageModel], options: VectorOptions | None = None) -> None:
        """
        Raises:
            UserError: a model has no vectors, or not so many layers.
        """
        self._options = options or VectorOptions()
        self.lms = [_network_of(lm) for lm in lms]
        for lm in self.lms:
            layers = lm.network.layers
            if self._options.layer is not None and not 0 <= self._options.layer <= layers:
                raise UserError(f"{lm.name}: layer {self._options.layer} is not between 0 and {layers}")
            if self._options.special and (isinstance(lm, CausalScorer | MaskedScorer)):
                raise UserError(f"{lm.name}: has no vectors of special tokens; leave out --special-tokens")
            if isinstance(lm, CausalScorer) and not lm.network.end:
                lm.network.end = [lm.network.pad]  # read, so that the last token has a vector; never scored here

    def sentences(self, sentences: Sequence[str]) -> Vectors:
        """(sentences, d) the pooled vectors; zeros for a sentence without tokens."""
        pool = POOLINGS[self._options.pooling]
        parts = []
        for lm in self.lms:
            every = [vectors for _, vectors in self._tokens_of(lm, sentences)]
            parts.append([pool(vectors) if len(vectors) else vectors.sum(axis=0) for vectors in every])
        return np.concatenate([np.stack(part) for part in parts], axis=1) if sentences else np.zeros((0, 0), np.float32)

    def tokens(self, sentences: Sequence[str]) -> list[tuple[list[str], Vectors]]:
        """Of each sentence its tokens and their vectors (tokens, d).

        Raises:
            UserError: there are several networks: their tokens may differ.
        """
        if len(self.lms) > 1:
            raise UserError("token vectors of several models cannot be joined; give one --lm")
        return self._tokens_of(self.lms[0], sentences)

    @torch.inference_mode()
    def _tokens_of(self, lm: OnePassScorer, sentences: Sequence[str]) -> list[tuple[list[str], Vectors]]:
        encoded = lm.network.encode(alone(sentences))
        rank = {sentence: index for index, sentence in enumerate(dict.fromkeys(encoded))}
        distinct = list(rank)
        found: list[Vectors | None] = [None] * len(distinct)
        masked = isinstance(lm, MaskedScorer) and self._options.kind == "context"
        for index, vectors in self._masked(lm, distinct) if masked else self._plain(lm, distinct):
            found[index] = vectors
        none = np.zeros((0, self._width(lm)), np.float32)
        results = []
        for sentence in encoded:
            mine = found[rank[sentence]]
            ids = list(sentence.ids)
            if self._options.special:
                ids = [*lm.network.before, *ids, *lm.network.after]
            results.append((lm.network.strings(ids), none if mine is None else mine))
        return results

    def _width(self, lm: OnePassScorer) -> int:
        """Of this network's vectors: looked at, as the networks of Hugging Face do not all say it in one way."""
        one = padded([[lm.network.pad]], lm.network.pad)
        return int(lm.network.vectors(*one, self._layer(lm)).shape[-1])

    def _layer(self, lm: OnePassScorer) -> int | None:
        if self._options.kind == "embed":
            return None
        return lm.network.layers if self._options.layer is None else self._options.layer

    def _plain(self, lm: OnePassScorer, sentences: Sequence[Encoded]) -> Iterator[tuple[int, Vectors]]:
        """One pass; what is longer than the network's positions is read in overlapping windows."""
        network, layer = lm.network, self._layer(lm)
        before = network.before
        after = [] if isinstance(lm, CausalScorer) else network.after
        frame = len(before) + len(after)
        rows = [
            (index, *window)
            for index, sentence in enumerate(sentences)
            for window in windows(len(sentence.ids), network.positions - frame)
        ]
        rows.sort(key=lambda row: row[2] - row[1])
        parts: dict[int, list[tuple[int, Vectors]]] = {}
        for some in batches(rows, lambda row: row[2] - row[1] + frame, network.batch_tokens):
            sequences = []
            for index, start, stop, *_ in some:
                ids = sentences[index].ids[start:stop]
                sequences.append([*before, *(ids[::-1] if isinstance(lm, BackwardScorer) else ids), *after])
            hidden = network.vectors(*padded(sequences, network.pad), layer).cpu().numpy()
            for row, (index, start, stop, first, last) in enumerate(some):
                inner = hidden[row, len(before) : len(before) + stop - start]
                if isinstance(lm, BackwardScorer):
                    inner = inner[::-1]
                kept = inner[first - start : last - start]
                if self._options.special and start == 0 and stop == len(sentences[index].ids):
                    kept = hidden[row, : len(sequences[row])]
                parts.setdefault(index, []).append((start, np.array(kept)))
        for index, pieces in parts.items():
            yield index, np.concatenate([vectors for _, vectors in sorted(pieces, key=lambda piece: piece[0])])

    def _masked(self, lm: OnePassScorer, sentences: Sequence[Encoded]) -> Iterator[tuple[int, Vectors]]:
        """Mask and predict: each token's vector where it is masked."""
        layer = self._layer(lm)
        for begin in range(0, len(sentences), MASKED_TOGETHER):
            some = sentences[begin : begin + MASKED_TOGETHER]
            found: list[Vectors | None] = [None] * len(some)
            for batch, rows, _, spans in lm.requests(some):
                hidden = lm.network.vectors(batch.tokens, batch.lengths, layer).flatten(0, 1)
                values = hidden[batch.at.to(hidden.device)].cpu().numpy()
                for span in spans:
                    for offset, value in enumerate(values[rows.numpy()[span.values]]):
                        place = found[span.sentence]
                        if place is None:
                            place = found[span.sentence] = np.zeros(
                                (len(some[span.sentence].ids), len(value)), np.float32
                            )
                        place[span.first + offset] = value
            yield from ((begin + index, vectors) for index, vectors in enumerate(found) if vectors is not None)


def _network_of(lm: LanguageModel) -> OnePassScorer:
    if any(context_of(lm)):
        raise UserError(f"{lm.name}: vectors are those of single sentences; leave out --context")
    if isinstance(lm, OnePassScorer):
        return lm
    if isinstance(lm, Cached | Recased):
        raise UserError(f"{lm.name}: --cache and --case do not apply to vectors")
    raise UserError(f"{lm.name}: has no vectors; an n-gram model knows no hidden ones")
