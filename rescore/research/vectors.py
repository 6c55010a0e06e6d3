"""Sentence and token vectors of a network (Shin et al. 2020, section 5.4): hidden vectors, or input embeddings.

The context vector of a token is the hidden vector that predicts it: at its position in a T-TA, at its masked position
in a masked model, at the position before it in a causal model, h(x_<i). It does not depend on the token itself. The
hidden vector of a token is computed where the network sees the token.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.errors import UserError
from rescore.lms import LanguageModel, capabilities_of, without_context
from rescore.lms.networks import Network
from rescore.lms.scorers import Encoded, NetworkScorer, batches, padded, windows

Vectors = npt.NDArray[np.float32]

POOLINGS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda vectors: vectors.mean(dim=0),
    "max": lambda vectors: vectors.amax(dim=0),
    "sum": lambda vectors: vectors.sum(dim=0),
    "first": lambda vectors: vectors[0],
    "last": lambda vectors: vectors[-1],
}
KINDS = {
    "context": "hidden vectors that predict the tokens and do not depend on them",
    "hidden": "hidden vectors at the tokens, which causal and masked models then see",
    "embed": "what the first layer reads: embeddings of token and position",
    "token": "token embeddings",
}
"""Kinds of token vectors. The paper uses the first and the third."""
MASKED_TOGETHER = 200
"""Sentences whose masked copies are made together."""


@dataclass(frozen=True, slots=True)
class VectorOptions:
    """The kind, layer and pooling of vectors.

    Raises:
        UserError: the kind or pooling is unknown, or a mix of layers has no weight.
    """

    kind: str = "context"
    """One of `KINDS`."""
    layer: int | Mapping[int, float] | None = None
    """Number of layers below the vectors; None for all; or the weight of each layer in a mix, scaled to sum to 1 (ELMo,
    equation 2.6 of the dissertation, where the weights are a softmax)."""
    pooling: str = "mean"
    """The pooling of token vectors into the sentence vector."""
    special: bool = False
    """Whether the special tokens around a sentence count as tokens; not of causal models and masked copies."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UserError(f"kind {self.kind!r} is not one of {', '.join(KINDS)}")
        if self.layer is not None and self.kind in ("embed", "token"):
            raise UserError(f"layer {self.layers} selects hidden vectors; {self.kind} is the input of the first layer")
        if self.pooling not in POOLINGS:
            raise UserError(f"pooling {self.pooling!r} is not one of {', '.join(POOLINGS)}")
        if isinstance(self.layer, Mapping) and not (
            all(0 <= weight < np.inf for weight in self.layer.values()) and 0 < sum(self.layer.values()) < np.inf
        ):
            raise UserError(f"layers {self.layers}: expected weights of 0 or more, with at least one above 0")

    def mix(self, last: int) -> dict[int, float]:
        """The weight of each layer; they sum to 1."""
        if not isinstance(self.layer, Mapping):
            return {last if self.layer is None else self.layer: 1.0}
        total = sum(self.layer.values())
        return {layer: weight / total for layer, weight in self.layer.items()}

    @property
    def layers(self) -> str:
        """The layers as signatures show them: `last`, `2`, or `1:0.5+2:0.5`."""
        if isinstance(self.layer, Mapping):
            return "+".join(f"{layer}:{weight:g}" for layer, weight in self.layer.items())
        return "last" if self.layer is None else str(self.layer)


class Embedder:
    """Vectors of one or several networks; the vectors of several networks are concatenated."""

    def __init__(self, lms: Sequence[LanguageModel], options: VectorOptions | None = None) -> None:
        """
        Raises:
            UserError: a model has no vectors, or too few layers.
        """
        self._options = options or VectorOptions()
        self.lms = [network_of(lm) for lm in lms]
        for lm in self.lms:
            layers = lm.network.layers
            for layer in self._options.mix(layers):
                if not 0 <= layer <= layers:
                    raise UserError(f"{lm.name}: layer {layer} is not between 0 and {layers}")
            if self._options.kind == "context" and not lm.capabilities.predicts_tokens:
                raise UserError(f"{lm.name}: sees the scored token, so it has no context vectors; give --kind hidden")
            if self._options.special and (lm.behind or lm.masks):
                raise UserError(f"{lm.name}: has no vectors of special tokens; leave out --special-tokens")

    @torch.inference_mode()
    def sentences(self, sentences: Sequence[str]) -> Vectors:
        """(sentences, d) the pooled vectors; zeros for a sentence without tokens."""
        if not sentences:
            return np.zeros((0, 0), np.float32)
        pool = POOLINGS[self._options.pooling]
        parts = []
        for lm in self.lms:
            every = self._tensors_of(lm, lm.network.encode(without_context(sentences)))
            parts.append(torch.stack([pool(vectors) if len(vectors) else vectors.sum(dim=0) for vectors in every]))
        return torch.cat(parts, dim=1).numpy()

    @torch.inference_mode()
    def tokens(self, sentences: Sequence[str]) -> list[tuple[list[str], Vectors]]:
        """The tokens of each sentence and their vectors (tokens, d). In a causal model without [BOS] nothing predicts
        the first token, so it has no context vector and is left out.

        Raises:
            UserError: there are several networks: their tokens may differ.
        """
        network = self._only().network
        results = []
        for sentence, mine in zip(network.encode(without_context(sentences)), self.tensors(sentences), strict=True):
            ids = list(sentence.ids)
            if len(mine) > len(ids):  # the special tokens with them
                ids = [*network.before, *ids, *network.after]
            results.append((network.strings(ids[len(ids) - len(mine) :]), mine.numpy()))
        return results

    def tensors(self, sentences: Sequence[str]) -> list[Tensor]:
        """The vectors without the tokens; with gradients if torch records them (`fine_tuning`).

        Raises:
            UserError: there are several networks: their tokens may differ.
        """
        lm = self._only()
        return self._tensors_of(lm, lm.network.encode(without_context(sentences)))

    def _only(self) -> NetworkScorer:
        if len(self.lms) > 1:
            raise UserError("token vectors of several models cannot be joined; give one --lm")
        return self.lms[0]

    def _tensors_of(self, lm: NetworkScorer, encoded: Sequence[Encoded]) -> list[Tensor]:
        """(tokens, d) of each sentence; equal sentences are computed once."""
        rank = {sentence: index for index, sentence in enumerate(dict.fromkeys(encoded))}
        distinct = list(rank)
        masked = lm.masks and self._options.kind == "context"
        by_rank = dict(self._masked(lm, distinct) if masked else self._plain(lm, distinct))
        width = next((vectors.shape[1] for vectors in by_rank.values()), None)
        none = torch.zeros(0, self._width(lm) if width is None else width)
        return [by_rank.get(rank[sentence], none) for sentence in encoded]

    def _width(self, lm: NetworkScorer) -> int:
        """Of this network's vectors: looked at, as the networks of Hugging Face do not all say it in one way."""
        return int(self._vectors(lm, *padded([[lm.network.pad]], lm.network.pad)).shape[-1])

    def _vectors(self, lm: NetworkScorer, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Sequences (batch, n), lengths (batch,) -> (batch, n, d)."""
        options, network = self._options, lm.network
        if options.kind in ("embed", "token"):
            return network.embeddings(tokens, lengths, positions=options.kind == "embed")
        parts = [
            weight * network.vectors(tokens, lengths, layer) for layer, weight in options.mix(network.layers).items()
        ]
        return torch.stack(parts).sum(dim=0) if len(parts) > 1 else parts[0]

    def _plain(self, lm: NetworkScorer, sentences: Sequence[Encoded]) -> Iterator[tuple[int, Tensor]]:
        """A single pass; sentences longer than the network's positions are read in overlapping windows."""
        network = lm.network
        before = network.before
        behind = lm.behind if self._options.kind == "context" else 0
        after = [] if lm.behind else network.after
        frame = len(before) + len(after)
        rows = [
            (index, *window)
            for index, sentence in enumerate(sentences)
            for window in windows(len(sentence.ids), network.positions - frame)
        ]
        rows.sort(key=lambda row: row[2] - row[1])
        parts: dict[int, list[tuple[int, Tensor]]] = {}
        for batch in batches(rows, lambda row: row[2] - row[1] + frame, network.batch_tokens):
            sequences = []
            for index, start, stop, *_ in batch:
                ids = sentences[index].ids[start:stop]
                sequences.append([*before, *(ids[::-1] if lm.backwards else ids), *after])
            hidden = self._vectors(lm, *padded(sequences, network.pad)).cpu()
            for row, (index, start, stop, first, last) in enumerate(batch):
                shift = len(before) - behind
                inner = hidden[row, max(shift, 0) : shift + stop - start]
                if lm.backwards:
                    inner = inner.flip(0)
                missing = stop - start - len(inner)  # without a token before the sentence, its first has no context
                kept = inner[max(first - start - missing, 0) : last - start - missing]
                if self._options.special and start == 0 and stop == len(sentences[index].ids):
                    kept = hidden[row, : len(sequences[row])]
                parts.setdefault(index, []).append((start, kept.clone()))
        for index, pieces in parts.items():
            yield index, torch.cat([vectors for _, vectors in sorted(pieces, key=lambda piece: piece[0])])

    def _masked(self, lm: NetworkScorer, sentences: Sequence[Encoded]) -> Iterator[tuple[int, Tensor]]:
        """The vector of each token at its masked position."""
        for begin in range(0, len(sentences), MASKED_TOGETHER):
            group = sentences[begin : begin + MASKED_TOGETHER]
            masked_vectors: list[dict[int, Tensor]] = [{} for _ in group]
            for batch, rows, _, spans in lm.requests(group):
                hidden = self._vectors(lm, batch.tokens, batch.lengths).flatten(0, 1)
                values = hidden[batch.at.to(hidden.device)].cpu()
                for span in spans:
                    for offset, value in enumerate(values[rows[span.values]]):
                        masked_vectors[span.sentence][span.first + offset] = value
            for index, vectors in enumerate(masked_vectors, begin):
                if vectors:
                    yield index, torch.stack([vectors[place] for place in sorted(vectors)])


def network_of(lm: LanguageModel) -> NetworkScorer:
    """The model, checked to have vectors.

    Raises:
        UserError: the model has no vectors, or not in its current use.
    """
    capabilities = capabilities_of(lm)
    if any(capabilities.context) or capabilities.source:
        raise UserError(f"{lm.name}: vectors are for single sentences; leave out context and sources")
    if not capabilities.vectors:
        raise UserError(f"{lm.name}: has no vectors; give a network, and leave out --cache, --case and --engine ray")
    return cast(NetworkScorer, lm)


Pooling = Callable[[Tensor], Tensor]
Flags = npt.NDArray[np.bool_]
Classes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FineTuning:
    """How a network is trained on. The dissertation has 3 epochs at 2e-5, for networks of ten times as many weights."""

    epochs: int = 3
    learning_rate: float = 5e-4
    """The highest: it rises over the first tenth of the steps, and then falls to 0."""
    pairs: int = 32
    """In a batch."""
    dropout: float = 0.1
    weight_decay: float = 0.01
    clip: float = 1.0
    seed: int = 12345


@dataclass(frozen=True, slots=True)
class Side:
    """The first or the second texts of all pairs, and the function that pools each text's token vectors."""

    texts: Sequence[str]
    poolings: Sequence[Pooling]


class PairClassifier(nn.Module):
    """Softmax over classes of u, v, |u - v| and u * v, scaled to the mean and variance they have at first."""

    mean: Tensor
    spread: Tensor

    def __init__(self, features: Tensor, classes: int) -> None:
        """features: (pairs, 4 d) of the training part before any training."""
        super().__init__()
        spread = features.std(dim=0, correction=0)
        self.register_buffer("mean", features.mean(dim=0))
        self.register_buffer("spread", torch.where(spread > 0, spread, 1.0))
        self.linear = nn.Linear(features.shape[1], classes)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, features: Tensor) -> Tensor:
        """(pairs, 4 d) -> logits (pairs, classes)."""
        scaled: Tensor = self.linear((features - self.mean) / self.spread)
        return scaled


def trainable(lm: LanguageModel) -> LanguageModel:
    """A copy whose weights can be trained; the model stays as it is.

    Raises:
        UserError: the network is of a kind that `rescore train` does not make.
    """
    network = network_of(lm).network.trainable()
    if network is None:
        raise UserError(f"{lm.name}: --fine-tune is for networks that `rescore train` makes; leave it out")
    copied = copy(lm)
    vars(copied)["network"] = network
    return copied


def fine_tune(
    embedder: Embedder,
    sides: tuple[Side, Side],
    classes: Classes,
    tested: Flags,
    how: FineTuning,
    report: Callable[[int], object] = lambda pairs: None,
) -> Classes:
    """Train a classifier and the network of an embedder (from `trainable`) on the training pairs; returns the
    predictions for the test pairs.

    Args:
        classes: (pairs,), numbered from 0. tested: (pairs,). report: is given the size of each batch when it is done.

    Raises:
        UserError: the loss is not finite.
    """
    (lm,) = embedder.lms
    network = cast(Network, vars(lm.network)["network"])
    ours, theirs = (~tested).nonzero()[0], tested.nonzero()[0]
    with torch.random.fork_rng():
        torch.manual_seed(how.seed)
        with torch.no_grad():
            before = torch.cat([features(embedder, sides, batch) for batch in _cut(ours, how.pairs)])
        classifier = PairClassifier(before, int(classes.max()) + 1)
        network.set_dropout(how.dropout)
        network.train()
        parameters = [*network.parameters(), *classifier.parameters()]
        optimizer = torch.optim.AdamW(parameters, lr=0.0, weight_decay=how.weight_decay, fused=True)
        steps = how.epochs * -(-len(ours) // how.pairs)
        for step, batch in enumerate(_batches(ours, how)):
            rate = how.learning_rate * min((step + 1) / max(1.0, 0.1 * steps), (steps - step) / (0.9 * steps), 1.0)
            for group in optimizer.param_groups:
                group["lr"] = rate
            loss = F.cross_entropy(classifier(features(embedder, sides, batch)), torch.from_numpy(classes[batch]))
            if not loss.isfinite():
                raise UserError(f"{lm.name}: the loss is {loss.item()}; give a lower --learning-rate")
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, how.clip)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            report(len(batch))
        network.eval()
        with torch.inference_mode():
            predictions = [
                classifier(features(embedder, sides, batch)).argmax(dim=1) for batch in _cut(theirs, how.pairs)
            ]
    return torch.cat(predictions).numpy()


def features(embedder: Embedder, sides: tuple[Side, Side], numbers: Classes) -> Tensor:
    """u, v, |u - v| and u * v (pairs, 4 d) of the pairs with these numbers (pairs,)."""
    first, second = (_pooled(embedder, side, numbers) for side in sides)
    return torch.cat([first, second, (first - second).abs(), first * second], dim=1)


def _pooled(embedder: Embedder, side: Side, numbers: Classes) -> Tensor:
    every = embedder.tensors([side.texts[place] for place in numbers])
    pooled = [
        side.poolings[place](vectors) if len(vectors) else vectors.sum(dim=0)
        for place, vectors in zip(numbers, every, strict=True)
    ]
    return torch.stack(pooled)


def _cut(pairs: Classes, size: int) -> list[Classes]:
    return [pairs[start : start + size] for start in range(0, len(pairs), size)]


def _batches(pairs: Classes, how: FineTuning) -> Iterator[Classes]:
    """Epoch after epoch, each in another order."""
    random = np.random.default_rng(how.seed)
    for _ in range(how.epochs):
        yield from _cut(random.permutation(pairs), how.pairs)
