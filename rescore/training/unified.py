"""What a `unified` network learns: its readings in turn (Dong et al. 2019, UniLM)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch
from torch import Tensor

from rescore.networks.tokenizer import Tokenizer
from rescore.networks.transformer import padding_mask
from rescore.networks.unified import Segment
from rescore.training.objectives import (
    USUAL,
    BackwardLanguageModelling,
    CausalLanguageModelling,
    Example,
    MaskedLanguageModelling,
    Objective,
    ObjectiveOptions,
    inner_positions,
    mirrored,
)

MIXTURE = ("bi", "l2r", "seq2seq", "bi:source", "r2l", "seq2seq")
"""Which of them each batch is for, in turn: a third from both sides, a third with a source, a sixth in each direction
(Dong et al. 2019, section 2.3). There, what is read from both sides is two sentences; here every second time."""
PAIRED = ("bi:source", "seq2seq")
"""Those that are learned from pairs."""


def needs_second(readings: Sequence[str]) -> bool:
    """Whether a network that learns these readings (none: all) needs `NetworkConfig.bi_source`."""
    return "bi:source" in (readings or MIXTURE)


def objectives(tokenizer: Tokenizer, options: ObjectiveOptions = USUAL) -> dict[str, Objective]:
    """The objectives of a `unified` network, by the reading that they train."""
    masked = MaskedLanguageModelling(tokenizer, options)
    directed: tuple[Objective, Objective, Objective] = (
        (Cloze(masked), Cloze(masked, backwards=True), ClozeOfPairs(masked, tokenizer))
        if options.cloze
        else (CausalLanguageModelling(tokenizer), BackwardLanguageModelling(tokenizer), SequenceToSequence(tokenizer))
    )
    forward, backward, pairs = directed
    return {
        "bi": SegmentObjective(masked, Segment.BOTH, tokenizer),
        "l2r": SegmentObjective(forward, Segment.FORWARD, tokenizer),
        "r2l": SegmentObjective(backward, Segment.BACKWARD, tokenizer),
        "seq2seq": pairs,
        "bi:source": MaskedPairs(masked, tokenizer),
    }


class SegmentObjective:
    """Another objective, for a `unified` network: all tokens in one segment."""

    def __init__(self, objective: Objective, segment: Segment, tokenizer: Tokenizer) -> None:
        self.perplexity, self.predicts_end = objective.perplexity, objective.predicts_end
        self._objective, self._shift = objective, segment * tokenizer.vocab_size

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        example = self._objective(tokens, lengths, seed)
        return replace(example, tokens=example.tokens + self._shift)


class Cloze:
    """Masked tokens are predicted at their places, as `bi` does it; where a position sees only what is before it, from
    that. [EOS] is one of them. All masked ones are [MASK], where the paper keeps a tenth and swaps a tenth: scoring
    always masks.
    """

    predicts_end: ClassVar[bool] = True

    def __init__(self, masked: MaskedLanguageModelling, backwards: bool = False) -> None:
        self.perplexity = masked.perplexity.removeprefix("pseudo-")
        self._masked, self._backwards = masked, backwards

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        maskable = padding_mask(lengths, tokens.shape[1]) & (torch.arange(tokens.shape[1]) > 0)
        tokens = mirrored(tokens, lengths) if self._backwards else tokens
        return self._masked.masked(tokens, lengths, maskable, seed)


def _sides(tokens: Tensor, eos: int, first: Segment = Segment.SOURCE, second: Segment = Segment.TARGET) -> Tensor:
    """Segments (batch, n) of [BOS] source [EOS] target [EOS]."""
    ends = (tokens == eos).cumsum(dim=1)
    source = (ends == 0) | ((ends == 1) & (tokens == eos))
    return torch.where(source, int(first), int(second))


class MaskedPairs:
    """Masked tokens of two sentences are predicted from all of both; their [EOS] are context.

    A pair comes as [BOS] one [EOS] other [EOS].
    """

    predicts_end: ClassVar[bool] = False

    def __init__(self, masked: MaskedLanguageModelling, tokenizer: Tokenizer) -> None:
        self.perplexity = masked.perplexity
        self._masked, self._eos, self._size = masked, tokenizer.eos, tokenizer.vocab_size

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        maskable = inner_positions(tokens, lengths) & (tokens != self._eos)
        example = self._masked.masked(tokens, lengths, maskable, seed)
        segments = _sides(tokens, self._eos, Segment.BOTH, Segment.SECOND)
        return replace(example, tokens=example.tokens + segments * self._size)


class ClozeOfPairs:
    """The same of pairs: in both sides tokens are masked; those of the source are predicted from all of the source,
    those of the target, its [EOS] with them, from the source and the target before them.

    A pair comes as [BOS] source [EOS] target [EOS]. The first [EOS] tells where the target begins, and stays.
    """

    predicts_end: ClassVar[bool] = True

    def __init__(self, masked: MaskedLanguageModelling, tokenizer: Tokenizer) -> None:
        self.perplexity = masked.perplexity.removeprefix("pseudo-")
        self._masked, self._eos, self._size = masked, tokenizer.eos, tokenizer.vocab_size

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        segments = _sides(tokens, self._eos)
        border = (tokens == self._eos) & (segments == int(Segment.SOURCE))
        maskable = padding_mask(lengths, tokens.shape[1]) & (torch.arange(tokens.shape[1]) > 0) & ~border
        example = self._masked.masked(tokens, lengths, maskable, seed)
        return replace(example, tokens=example.tokens + segments * self._size)


class SequenceToSequence:
    """The target's tokens, and its [EOS], are predicted from the source and the target before them (UniLM).

    A pair comes as [BOS] source [EOS] target [EOS].
    """

    perplexity: ClassVar[str] = "perplexity"
    predicts_end: ClassVar[bool] = True

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._eos, self._size = tokenizer.eos, tokenizer.vocab_size

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        ends = (tokens == self._eos).cumsum(dim=1)
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        predicted = (ends > 0) & (positions < lengths[:, None] - 1)
        segments = _sides(tokens, self._eos)
        return Example(tokens + segments * self._size, lengths, predicted, tokens.roll(-1, dims=1)[predicted])
