"""The training loop of both networks: AdamW, warm-up, linear decay."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from rescore.errors import UserError
from rescore.lms.base import Report
from rescore.lms.scorers import batches
from rescore.research.a3t.options import NetworkOptions

WARM_UP = 0.1
"""Share of the training in which the learning rate rises."""
LARGEST_GRADIENT = 1.0
"""The norm to which larger gradients are cut."""
LINE = 100
"""Batches from a line about the progress to the next."""


def fit(
    network: nn.Module,
    lengths: Sequence[int],
    loss_of: Callable[[list[int]], Tensor],
    options: NetworkOptions,
    report: Report,
) -> float:
    """Train a network, and return its mean loss on the last batches.

    Args:
        network: It is trained in place.
        lengths: The number of frames of each utterance.
        loss_of: Returns the loss on a batch, given the places of its utterances.
        options: Length, batches and learning rate of the training.
        report: Called with a line about the progress.

    Raises:
        UserError: The loss is no number.
    """
    randomness = random.Random(options.seed)
    optimizer = torch.optim.AdamW(network.parameters(), betas=(0.9, 0.98))
    network.train()
    waiting: list[list[int]] = []
    losses: list[float] = []
    for step in range(options.steps):
        if not waiting:
            waiting = shuffled_batches(lengths, options.batch_frames, randomness)
        loss = loss_of(waiting.pop())
        if not math.isfinite(loss.item()):
            raise UserError(
                f"the loss is {loss.item()} at step {step}; give a smaller"
                " --learning-rate"
            )
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), LARGEST_GRADIENT)
        done = step / options.steps
        rate = options.learning_rate * min((done + 1e-3) / WARM_UP, 1 - done)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if len(losses) % LINE == 0 or len(losses) == options.steps:
            recent = losses[-LINE:]
            mean = sum(recent) / len(recent)
            report(f"step {len(losses):,} of {options.steps:,}: loss {mean:.4f}")
    network.eval()
    recent = losses[-LINE:]
    return sum(recent) / len(recent)


def shuffled_batches(
    lengths: Sequence[int], frames: int, randomness: random.Random
) -> list[list[int]]:
    """Return places of utterances of similar length, in batches in random order.

    Args:
        lengths: The number of frames of each utterance.
        frames: Frames of a batch with padding, at most.
        randomness: Decides the order of batches and of utterances of one length.
    """
    order = sorted(
        range(len(lengths)), key=lambda place: (lengths[place], randomness.random())
    )
    result = list(batches(order, lambda place: lengths[place], frames))
    randomness.shuffle(result)
    return result
