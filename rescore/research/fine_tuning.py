"""A network that is trained together with a classifier of pairs (dissertation, section 5.4.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.errors import UserError
from rescore.lms import LanguageModel
from rescore.lms.networks import Network
from rescore.research.vectors import Embedder, network_of, vectors_of

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
    """The first or the second texts of all pairs."""

    texts: Sequence[str]
    places: Sequence[int] | None = None
    """The place, from 0, of the word of each text whose vector is used; None for the vectors of sentences."""


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
    """A copy whose weights can be trained; the model stays as it is."""
    network = vectors_of(network_of(lm)).trainable()
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
            logits = [classifier(features(embedder, sides, batch)) for batch in _cut(theirs, how.pairs)]
    return torch.cat(logits).argmax(dim=1).numpy()


def features(embedder: Embedder, sides: tuple[Side, Side], numbers: Classes) -> Tensor:
    """u, v, |u - v| and u * v (pairs, 4 d) of the pairs with these numbers (pairs,)."""
    first, second = (
        embedder.pooled(
            [side.texts[n] for n in numbers], None if side.places is None else [side.places[n] for n in numbers]
        )
        for side in sides
    )
    return torch.cat([first, second, (first - second).abs(), first * second], dim=1)


def _cut(pairs: Classes, size: int) -> list[Classes]:
    return [pairs[start : start + size] for start in range(0, len(pairs), size)]


def _batches(pairs: Classes, how: FineTuning) -> Iterator[Classes]:
    """Epoch after epoch, each in another order."""
    random = np.random.default_rng(how.seed)
    for _ in range(how.epochs):
        yield from _cut(random.permutation(pairs), how.pairs)
