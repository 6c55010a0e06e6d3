"""Training objectives on batches of sentences or pairs that several kinds share, and
their losses.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from rescore.lms.networks import Network, padding_mask
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.corpus import Corpus


@dataclass(frozen=True, slots=True)
class Example:
    """A batch as a network sees it, and its targets. An objective may add fields in a
    subclass, for a loss of its own.
    """

    tokens: Tensor
    """(batch, n), padded behind."""
    lengths: Tensor
    """(batch,)."""
    predicted: Tensor
    """(batch, n), True at the positions whose hidden vector predicts a token."""
    targets: Tensor
    """(targets,): the tokens of the predicted positions, in row-major order; or what
    else the loss of the objective reads.
    """

    def to(self, device: torch.device) -> Self:
        """Return the example with its tensors on a device.

        Args:
            device: The device.
        """
        moved = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            if isinstance(value, Tensor):
                moved[entry.name] = value.to(device, non_blocking=True)
        return replace(self, **moved)


class Objective:
    """Turns a batch of sentences into an example, and measures a network on it."""

    perplexity: str = "perplexity"
    """The name of exp(loss)."""
    predicts_end: bool = False
    """Whether [EOS] is predicted, too."""
    head: nn.Module | None = None
    """Parameters of the objective, such as a classifier. They are trained and resumed
    with the network; model folders do not have them.
    """

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        """Return the example of a batch.

        Args:
            tokens: (batch, n) sentences with [BOS] and [EOS], padded behind.
            lengths: (batch,) lengths with [BOS] and [EOS].
            seed: Decides all random choices.
        """
        raise NotImplementedError

    def at(self, done: float) -> Objective:
        """Return the objective at a point of the training, for a curriculum.

        Args:
            done: Share of the training that is done, from 0 to 1. Validation takes the
                objective at 1.
        """
        return self

    def hidden(self, network: Network, example: Example) -> Tensor:
        """Return the hidden vectors of an example (batch, n, d).

        By default the network reads the tokens as they are. An objective overrides this
        to read them in another way, such as with other embeddings.

        Args:
            network: The network; on a GPU, training gives its compiled form.
            example: What `__call__` returned, on the network's device.
        """
        hidden: Tensor = network(example.tokens, example.lengths)
        return hidden

    def loss(self, network: Network, hidden: Tensor, example: Example) -> Tensor:
        """Return the loss of an example: the sum over its targets, natural log.

        By default it is the cross entropy of the network's softmax at the predicted
        positions. A loss of several parts adds them.

        Args:
            network: The network, with what it has beside its softmax.
            hidden: Hidden vectors (batch, n, d), in bfloat16 where training computes in
                bfloat16.
            example: What `__call__` returned, on the network's device.
        """
        return tied_cross_entropy(
            hidden[example.predicted],
            network.output_weight,
            example.targets,
            bias=network.output_bias,
        )

    def right(
        self, network: Network, hidden: Tensor, example: Example
    ) -> Tensor | None:
        """Return how many targets are predicted right, for the accuracy in validation;
        None (the default) where it is not reported.

        Args:
            network: The network.
            hidden: Hidden vectors (batch, n, d).
            example: What `__call__` returned, on the network's device.
        """
        return None


class WrappedObjective(Objective):
    """Another objective on changed batches: a subclass changes the batch before, or the
    example behind it. In all else it is like the other objective.
    """

    def __init__(self, inner: Objective) -> None:
        """Wrap an objective.

        Args:
            inner: The other objective.
        """
        self.inner = inner
        self.perplexity = inner.perplexity
        self.predicts_end = inner.predicts_end
        self.head = inner.head

    def at(self, done: float) -> Objective:
        """Return a copy around the other objective at a point of the training."""
        inner = self.inner.at(done)
        if inner is self.inner:
            return self
        now = copy.copy(self)
        now.inner = inner
        return now

    def hidden(self, network: Network, example: Example) -> Tensor:
        """Return the hidden vectors of the other objective (batch, n, d)."""
        return self.inner.hidden(network, example)

    def loss(self, network: Network, hidden: Tensor, example: Example) -> Tensor:
        """Return the loss of the other objective, natural log."""
        return self.inner.loss(network, hidden, example)

    def right(
        self, network: Network, hidden: Tensor, example: Example
    ) -> Tensor | None:
        """Return how many targets are predicted right, if the other objective counts
        them.
        """
        return self.inner.right(network, hidden, example)


@dataclass(frozen=True, slots=True)
class Task:
    """An objective and its text; `name` tells it from a network's other tasks."""

    name: str
    corpus: Corpus
    objective: Objective


class LanguageAutoencoding(Objective):
    """LAE (section 4.1 of the T-TA paper): every token of the intact sentence is
    predicted.

    [BOS] and [EOS] are context: nothing that is scored depends on how well they are
    predicted.
    """

    perplexity = "pseudo-perplexity"

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        """Return an example whose targets are all tokens but the frame."""
        predicted = inner_positions(tokens, lengths)
        return Example(tokens, lengths, predicted, tokens[predicted])


class FramedAutoencoding(LanguageAutoencoding):
    """LAE as in the T-TA authors' code: [BOS] and [EOS] are predicted, too."""

    perplexity = "pseudo-perplexity (with [BOS] and [EOS])"

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        """Return an example whose targets are all tokens."""
        predicted = padding_mask(lengths, tokens.shape[1])
        return Example(tokens, lengths, predicted, tokens[predicted])


class MaskedLanguageModelling(Objective):
    """MLM as the dissertation trains the biLM (chapters 3 and 4).

    15 % of a sentence's tokens (or as options say), at least one, are replaced by
    [MASK], always: none is kept or swapped, since scoring always masks. Single
    sentences, no next-sentence objective.
    """

    def __init__(
        self, tokenizer: Tokenizer, rate: float = 0.15, cap: int | None = None
    ) -> None:
        """Make the objective.

        Args:
            tokenizer: The tokenizer, which has the token [MASK].
            rate: Share of a sentence's tokens that are masked, rounded, at least one
                token.
            cap: Masked tokens of a sentence, at most; the dissertation's chapter 3 has
                4. None for no limit.
        """
        self._mask = tokenizer.mask
        self._rate = rate
        self._cap = cap
        most = "" if cap is None else f", at most {cap}"
        self.perplexity = f"pseudo-perplexity (at {100 * rate:g} % masked{most})"

    def maskable(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Return the tokens that may be masked: all but the frame.

        Args:
            tokens: Sentences (batch, n) with [BOS] and [EOS], padded behind.
            lengths: Lengths (batch,) with [BOS] and [EOS].

        Returns:
            (batch, n), True at these tokens.
        """
        return inner_positions(tokens, lengths)

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        """Return an example whose targets are randomly chosen, masked tokens."""
        inner = self.maskable(tokens, lengths).numpy()
        numbers = np.rint(self._rate * inner.sum(axis=1)).clip(1, self._cap).astype(int)
        keys = np.random.default_rng(list(seed)).random(inner.shape)
        keys[~inner] = np.inf
        # the rank of each token's random key in its sentence
        ranks = keys.argsort(axis=1).argsort(axis=1)
        predicted = torch.from_numpy(inner & (ranks < numbers[:, None]))
        shown = tokens.masked_fill(predicted, self._mask)
        return Example(shown, lengths, predicted, tokens[predicted])


class CausalLanguageModelling(Objective):
    """CLM (section 3 of the T-TA paper): every token, and [EOS], is predicted from
    those before it.
    """

    predicts_end = True

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        """Return an example whose targets are the next tokens."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        predicted = positions < lengths[:, None] - 1
        return Example(tokens, lengths, predicted, tokens.roll(-1, dims=1)[predicted])


class BackwardLanguageModelling(CausalLanguageModelling):
    """CLM on reversed sentences: every token is predicted from those after it."""

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        """Return an example of reversed sentences, whose targets are the next
        tokens.
        """
        return super().__call__(mirrored(tokens, lengths), lengths, seed)


class ContextObjective(WrappedObjective):
    """An objective for windows of consecutive sentences, each read among its neighbours
    (Segatron).

    A window has the form [BOS] first [EOS] [BOS] second [EOS]. [BOS] is never
    predicted; [EOS] is predicted only by objectives that predict the next token.
    """

    def __init__(self, inner: Objective, tokenizer: Tokenizer) -> None:
        """Wrap an objective.

        Args:
            inner: The objective on single sentences.
            tokenizer: The tokenizer of the sentences.
        """
        super().__init__(inner)
        self._tokenizer = tokenizer

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        """Return the example of windows."""
        tokenizer = self._tokenizer
        example = self.inner(tokens, lengths, seed)
        frame = (tokens == tokenizer.bos) | (tokens == tokenizer.eos)
        shown = torch.where(frame, tokens, example.tokens)  # a frame is never masked
        kept = example.targets != tokenizer.bos
        if not self.predicts_end:
            kept &= example.targets != tokenizer.eos
        predicted = example.predicted.clone()
        predicted[example.predicted] = kept
        number = (tokens == tokenizer.bos).cumsum(dim=1) - 1
        return replace(
            example,
            tokens=shown + number * tokenizer.vocab_size,
            predicted=predicted,
            targets=example.targets[kept],
        )


class SourceObjective(WrappedObjective):
    """An objective for the second of two sentences; all positions see the first
    sentence, which is not predicted.

    A pair comes as [BOS] source [EOS] [BOS] target [EOS].
    """

    def __init__(self, inner: Objective, tokenizer: Tokenizer) -> None:
        """Wrap an objective.

        Args:
            inner: The objective on single sentences.
            tokenizer: The tokenizer of the sentences.
        """
        super().__init__(inner)
        self._bos = tokenizer.bos
        self._size = tokenizer.vocab_size

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        """Return the example of pairs."""
        number = (tokens == self._bos).cumsum(dim=1) - 1
        begins = (number == 0).sum(dim=1)
        columns = torch.arange(tokens.shape[1])
        ahead = (columns + begins[:, None]).clamp_max(tokens.shape[1] - 1)
        target = self.inner(tokens.gather(1, ahead), lengths - begins, seed)
        behind = (columns - begins[:, None]).clamp_min(0)
        shown = torch.where(number > 0, target.tokens.gather(1, behind), tokens)
        return replace(
            target,
            tokens=shown + number * self._size,
            lengths=lengths,
            predicted=(number > 0) & target.predicted.gather(1, behind),
        )


def mirrored(tokens: Tensor, lengths: Tensor) -> Tensor:
    """Return sentences with their tokens reversed within the frame.

    Args:
        tokens: Sentences (batch, n) with [BOS] and [EOS], padded behind.
        lengths: Lengths (batch,) with [BOS] and [EOS].

    Returns:
        Sentences of shape (batch, n).
    """
    positions = torch.arange(tokens.shape[1], device=tokens.device)
    inner = inner_positions(tokens, lengths)
    reversed_positions = lengths[:, None] - 1 - positions
    return tokens.gather(1, torch.where(inner, reversed_positions, positions))


def inner_positions(tokens: Tensor, lengths: Tensor) -> Tensor:
    """Return the places of the sentences' own tokens: neither [BOS] nor [EOS] nor
    padding.

    Args:
        tokens: Sentences (batch, n) with [BOS] and [EOS], padded behind.
        lengths: Lengths (batch,) with [BOS] and [EOS].

    Returns:
        (batch, n), True at these tokens.
    """
    positions = torch.arange(tokens.shape[1], device=tokens.device)
    return (positions > 0) & (positions < lengths[:, None] - 1)


class _TiedCrossEntropy(torch.autograd.Function):
    """Cross entropy of hidden @ embeddings.T, computed slice by slice so that the
    logits never exist as a whole.

    At a vocabulary of thousands the logits of a batch are tens of megabytes; going
    through them several times costs more than the matrix products. Both gradients are
    computed in the forward pass, while a slice is in the cache.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, embeddings: Tensor, targets: Tensor, rows: int
    ) -> Tensor:
        """Return the sum of the losses, and keep both gradients."""
        embeddings = embeddings.to(hidden.dtype)
        total = hidden.new_zeros((), dtype=torch.float32)
        # The gradient of one logit is its probability, less one at the target; the
        # second half needs no slices.
        grad_hidden = -embeddings[targets]
        grad_embeddings = torch.zeros_like(embeddings, dtype=torch.float32)
        grad_embeddings.index_add_(0, targets, hidden.float(), alpha=-1)
        for start in range(0, len(hidden), rows):
            part = hidden[start : start + rows]
            part_targets = targets[start : start + rows, None]
            probabilities = (part @ embeddings.T).softmax(-1)
            chosen = probabilities.gather(-1, part_targets).float()
            total -= chosen.clamp_min(torch.finfo(torch.float32).tiny).log().sum()
            grad_hidden[start : start + rows] += probabilities @ embeddings
            grad_embeddings += probabilities.T @ part
        ctx.save_for_backward(grad_hidden, grad_embeddings)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of the arguments of `forward`."""
        grad_hidden, grad_embeddings = ctx.saved_tensors
        return grad * grad_hidden, grad * grad_embeddings, None, None


def tied_cross_entropy(
    hidden: Tensor,
    embeddings: Tensor,
    targets: Tensor,
    rows: int = 1024,
    bias: Tensor | None = None,
) -> Tensor:
    """Return the sum over positions of -log softmax(hidden @ embeddings.T +
    bias)[target], natural log.

    Args:
        hidden: Hidden vectors of shape (positions, d).
        embeddings: The matrix of the softmax, of shape (vocabulary, d).
        targets: Tokens of shape (positions,).
        rows: Positions that are handled at a time.
        bias: The bias of the softmax, of shape (vocabulary,); None for none.
    """
    if bias is not None:  # a bias is the weight of a hidden unit that is always 1
        hidden = torch.cat([hidden, hidden.new_ones(len(hidden), 1)], dim=1)
        embeddings = torch.cat([embeddings, bias[:, None].to(embeddings.dtype)], dim=1)
    return _TiedCrossEntropy.apply(hidden, embeddings, targets, rows)
