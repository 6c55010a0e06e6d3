"""A network that is trained together with a classifier (dissertation, section 5.4.4).

The classifier reads the features of `rescore.research.probe`, u, v, |u - v| and u * v,
and is a linear map with a softmax. Each test part has its own copy of the network; the
model itself does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rescore.errors import UserError
from rescore.lms import LanguageModel
from rescore.lms.own import OwnNetwork
from rescore.research.probe import Probed, as_probed
from rescore.research.probe_tasks import Examples, Flags, Side
from rescore.research.vector_options import FineTuning, VectorOptions
from rescore.research.vectors import Embedder, network_of

Numbers = npt.NDArray[np.int64]


class PairClassifier(nn.Module):
    """A softmax over classes of the features of a pair.

    The features are scaled to mean 0 and variance 1 as they are before training, so
    that the first gradients have the size that they have for a probe.
    """

    mean: Tensor
    spread: Tensor

    def __init__(self, features: Tensor, classes: int) -> None:
        """
        Args:
            features: Features of the training pairs before training, of shape (pairs,
                4 d).
            classes: Number of classes.
        """
        super().__init__()
        spread = features.std(dim=0, correction=0)
        self.register_buffer("mean", features.mean(dim=0))
        self.register_buffer("spread", torch.where(spread > 0, spread, 1.0))
        self.linear = nn.Linear(features.shape[1], classes)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, features: Tensor) -> Tensor:
        """Return logits (pairs, classes) of features (pairs, 4 d)."""
        return cast(Tensor, self.linear((features - self.mean) / self.spread))


def fine_tuned(
    name: str,
    examples: Examples,
    lm: LanguageModel,
    options: VectorOptions,
    training: FineTuning,
    report: Callable[[int], object] = lambda pairs: None,
) -> Probed:
    """Train a copy of a network together with a classifier, test them, and return their
    accuracy.

    Args:
        name: The name of the task.
        examples: The examples of the task.
        lm: The model, which does not change.
        options: The kind, layers and pooling of the vectors.
        training: How to train.
        report: Called with the number of pairs of each batch when it is done.

    Raises:
        UserError: `rescore train` does not make networks of this kind, or the loss is
            not finite.
    """
    labels, classes = np.unique(examples.labels, return_inverse=True)
    right = []
    for tested in examples.parts():
        embedder = Embedder([trainable(lm)], options)
        found = train_and_classify(
            embedder, examples, classes, len(labels), tested, training, report
        )
        right.append(found == classes[tested])
    settings = {
        "fine-tuned": f"{training.epochs} epochs",
        "rate": f"{training.learning_rate:g}",
    }
    return as_probed(name, examples, embedder, np.concatenate(right), "torch", settings)


def trainable(lm: LanguageModel) -> LanguageModel:
    """Return a copy of a model whose weights can be trained.

    Raises:
        UserError: `rescore train` does not make networks of this kind.
    """
    scorer = network_of(lm)
    if not isinstance(scorer.network, OwnNetwork):
        raise UserError(
            f"{lm.name}: --fine-tune is for networks that `rescore train` makes; leave"
            " it out"
        )
    copied = copy(scorer)
    copied.network = scorer.network.trainable()
    return copied


def train_and_classify(
    embedder: Embedder,
    examples: Examples,
    classes: Numbers,
    number_of_classes: int,
    tested: Flags,
    training: FineTuning,
    report: Callable[[int], object] = lambda pairs: None,
) -> Numbers:
    """Train the network of an embedder and a classifier on training pairs, and return
    the classes of the test pairs.

    Args:
        embedder: Has one model, from `trainable`.
        examples: The pairs.
        classes: The class of each pair, numbered from 0, of shape (pairs,).
        number_of_classes: Number of classes.
        tested: Flags of the test pairs, of shape (pairs,).
        training: How to train.
        report: Called with the number of pairs of each batch when it is done.

    Returns:
        Classes of shape (test pairs,).

    Raises:
        UserError: The loss is not finite.
    """
    network = cast(OwnNetwork, embedder.lms[0].network).network
    ours = np.flatnonzero(~tested)
    theirs = np.flatnonzero(tested)
    with torch.random.fork_rng():
        torch.manual_seed(training.seed)
        with torch.no_grad():
            before = [
                batch_features(embedder, examples, batch)
                for batch in in_batches(ours, training.batch_pairs)
            ]
        classifier = PairClassifier(torch.cat(before), number_of_classes)
        network.set_dropout(training.dropout)
        network.train()
        parameters = [*network.parameters(), *classifier.parameters()]
        optimizer = torch.optim.AdamW(
            parameters, lr=0.0, weight_decay=training.weight_decay, fused=True
        )
        steps = training.epochs * len(in_batches(ours, training.batch_pairs))
        for step, batch in enumerate(shuffled_batches(ours, training)):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, steps, training)
            logits = classifier(batch_features(embedder, examples, batch))
            loss = F.cross_entropy(logits, torch.from_numpy(classes[batch]))
            if not loss.isfinite():
                raise UserError(
                    f"{embedder.name}: the loss is {loss.item()}; give a lower"
                    " --learning-rate"
                )
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, training.largest_gradient)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            report(len(batch))
        network.eval()
        found = []
        with torch.inference_mode():
            for batch in in_batches(theirs, training.batch_pairs):
                logits = classifier(batch_features(embedder, examples, batch))
                found.append(logits.argmax(dim=1).numpy())
    return np.concatenate(found)


def learning_rate(step: int, steps: int, training: FineTuning) -> float:
    """Return the learning rate of a step, counted from 0: it rises over the warm-up,
    and then falls to 0 (both linear).
    """
    rising = (step + 1) / max(1.0, training.warmup * steps)
    falling = (steps - step) / ((1 - training.warmup) * steps)
    return training.learning_rate * min(rising, falling, 1.0)


def batch_features(embedder: Embedder, examples: Examples, pairs: Numbers) -> Tensor:
    """Return u, v, |u - v| and u * v (batch, 4 d) of the pairs with these numbers
    (batch,); with gradients if torch records them.
    """
    first = side_tensors(embedder, examples.first, pairs)
    second = side_tensors(embedder, examples.second, pairs)
    difference = (first - second).abs()
    return torch.cat([first, second, difference, first * second], dim=1)


def side_tensors(embedder: Embedder, side: Side, pairs: Numbers) -> Tensor:
    """Return the vectors (batch, d) of one side of the pairs with these numbers
    (batch,).
    """
    texts = [side.texts[number] for number in pairs]
    if side.places is None:
        return embedder.sentence_tensors(texts)
    return embedder.word_tensors(texts, [side.places[number] for number in pairs])


def in_batches(pairs: Numbers, size: int) -> list[Numbers]:
    """Return the numbers of pairs (n,), cut into batches."""
    return [pairs[start : start + size] for start in range(0, len(pairs), size)]


def shuffled_batches(pairs: Numbers, training: FineTuning) -> Iterator[Numbers]:
    """Yield the batches of all epochs, each epoch in another order."""
    random = np.random.default_rng(training.seed)
    for _ in range(training.epochs):
        yield from in_batches(random.permutation(pairs), training.batch_pairs)
