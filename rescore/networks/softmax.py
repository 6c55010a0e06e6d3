"""The softmax over the vocabulary, for the few tokens whose probability is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

ROWS = 4096  # of hidden vectors, at most: with a slice of the vocabulary they bound memory
CPU_SLICE, GPU_SLICE = 2048, 16384  # on a CPU a slice's logits stay in the cache; whole, memory traffic costs half more

Linear = Callable[[Tensor], Tensor]


class TiedSoftmax:
    """log softmax(hidden @ embeddings.T), natural log, without the matrix of all logits.

    The log-sum-exp is taken over slices of the vocabulary, each with its own largest logit taken out, and then over
    these: it cannot overflow.
    """

    def __init__(self, embeddings: Tensor, slices: Sequence[Linear] | None = None, bias: Tensor | None = None) -> None:
        """
        Args:
            embeddings: (vocabulary, d). bias: (vocabulary,), added to the logits.
            slices: maps of hidden vectors to the logits of parts of the vocabulary, where these are not to be plain
                products with `split(embeddings)`.
        """
        self._embeddings = embeddings
        self._parts = split(embeddings)
        self._slices, self._bias = slices, bias

    def log_probs(self, hidden: Tensor, rows: Tensor, targets: Tensor) -> Tensor:
        """The log-probability of each target (k,) given the hidden vector in its row (k,) of (m, d); float32 (k,)."""
        total = torch.cat([self._log_sum_exp(some) for some in hidden.split(ROWS)])
        chosen = (hidden.float()[rows] * self._embeddings[targets].float()).sum(-1)
        if self._bias is not None:
            chosen = chosen + self._bias[targets].float()
        return chosen - total[rows]

    def most_probable(self, hidden: Tensor) -> Tensor:
        """The token with the largest logit for each hidden vector of (m, d): (m,)."""
        return torch.cat([self._largest(some) for some in hidden.split(ROWS)])

    def _largest(self, hidden: Tensor) -> Tensor:
        values, tokens, start = [], [], 0
        for number, part in enumerate(self._parts):
            logits = self._slices[number](hidden) if self._slices else hidden @ part.T
            if self._bias is not None and not self._slices:  # a slice's map has its part of the bias
                logits = logits + self._bias[start : start + len(part)]
            value, token = logits.float().max(-1)
            values.append(value)
            tokens.append(token + start)
            start += len(part)
        return torch.stack(tokens).gather(0, torch.stack(values).argmax(0)[None])[0]

    def _log_sum_exp(self, hidden: Tensor) -> Tensor:
        if self._slices:
            parts = [log_sum_exp_(linear(hidden)) for linear in self._slices]
        elif self._bias is not None:
            biases = split(self._bias)
            parts = [log_sum_exp_(hidden @ part.T + bias) for part, bias in zip(self._parts, biases, strict=True)]
        else:  # into the same memory each time: asking the system for more costs as much as the exponentials
            memory = hidden.new_empty(len(hidden) * len(self._parts[0]))
            parts = []
            for part in self._parts:
                logits = memory[: len(hidden) * len(part)].view(len(hidden), len(part))
                parts.append(log_sum_exp_(torch.mm(hidden, part.T, out=logits)))
        return torch.stack(parts).logsumexp(0)


def log_sum_exp_(logits: Tensor) -> Tensor:
    """Of each row, in float32; the logits are overwritten."""
    logits = logits.float()
    peak = logits.amax(-1, keepdim=True)
    return logits.sub_(peak).exp_().sum(-1).log_().add_(peak.squeeze(-1))


def split(embeddings: Tensor) -> Sequence[Tensor]:
    """The slices of the vocabulary."""
    return embeddings.split(CPU_SLICE if embeddings.device.type == "cpu" else GPU_SLICE)
