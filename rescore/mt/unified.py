"""The network of several readings, its scores and objectives: a position's segment decides which positions it sees.

A token of segment s has the number `id + s * vocab_size`: batches, trees and masked copies have the same form as for
other networks, and their tokens tell how to read them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from rescore.lms.base import Capabilities, ComputeOptions, Question, Spec
from rescore.lms.causal import BackwardScorer, CausalScorer
from rescore.lms.config import NetworkConfig
from rescore.lms.masked import masked_scorer
from rescore.lms.networks import Transformer, padding_mask
from rescore.lms.own import OwnNetwork
from rescore.lms.scorers import CONTEXT_TOKEN, Encoded, NetworkScorer, Window, log, windows
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.objectives import (
    BackwardLanguageModelling,
    CausalLanguageModelling,
    Example,
    MaskedLanguageModelling,
    Objective,
)


class Segment(IntEnum):
    """The segment of a token. As in the paper, the segment also tells the network the objective (section 2.2)."""

    BOTH = 0
    """A sentence read from both sides; predicted tokens are masked."""
    FORWARD = 1
    """A sentence read from left to right; each position predicts the next token."""
    BACKWARD = 2
    """A sentence in reversed order, read in the same way."""
    SOURCE = 3
    """[BOS] source [EOS], which sees itself from both sides."""
    TARGET = 4
    """target [EOS] behind it, which sees the source and its own past; the source's [EOS] predicts its first token."""


class Unified(Transformer):
    """A position sees all of a BOTH or SOURCE segment, and in other segments itself and the positions before it.

    The paper predicts masked tokens under all masks. Here only BOTH does so; other segments predict the next token, as
    uniLM does, and learn from all tokens instead of 15 %.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
        self.segment_embedding = nn.Embedding(len(Segment), config.d_model)
        nn.init.normal_(self.segment_embedding.weight, std=config.d_model**-0.5)

    def embed_tokens(self, tokens: Tensor) -> Tensor:
        size = self.config.vocab_size
        return self.token_embedding(tokens % size) + self.segment_embedding(tokens // size)

    def visible(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        size = tokens.shape[1]
        segments = tokens // self.config.vocab_size
        open_to_all = (segments == Segment.BOTH) | (segments == Segment.SOURCE)
        before = torch.ones(size, size, dtype=torch.bool, device=tokens.device).tril()
        return padding_mask(lengths, size)[:, None, :] & (before | open_to_all[:, None, :])


class UnifiedNetwork(OwnNetwork):
    """The network with all tokens in one segment (`rescore.mt.unified`)."""

    def __init__(self, folder: Path, computing: ComputeOptions, segment: Segment) -> None:
        super().__init__(folder, "unified", computing)
        self._shift = segment * self.vocabulary
        self.before, self.after, self.end = (self._shifted(ids) for ids in (self.before, self.after, self.end))

    def _shifted(self, ids: Sequence[int]) -> list[int]:
        return [token + self._shift for token in ids]

    def encode_texts(self, texts: Sequence[str]) -> list[Encoded]:
        return [text._replace(ids=tuple(self._shifted(text.ids))) for text in super().encode_texts(texts)]

    def sources(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """[BOS] text [EOS], in the segment of context that is not scored."""
        shift = Segment.SOURCE * self.vocabulary
        ids = self._tokenizer.encode(texts)
        return [
            tuple(token + shift for token in (self._tokenizer.bos, *sentence, self._tokenizer.eos)) for sentence in ids
        ]


def cut(source: tuple[int, ...], most: int) -> tuple[int, ...]:
    """The tokens cut to `most` tokens, with the last token kept."""
    return source if len(source) <= most else (*source[: most - 1], source[-1])


class SourceScorer(CausalScorer):
    """log p(hypothesis given source), including [EOS]; with `channel`, log p(source given hypothesis).

    Hypotheses of a source form a tree: the source and common beginnings are read once. A source that takes
    more than half of the network's positions is cut there; a longer target is read in overlapping windows.
    """

    capabilities = Capabilities(source=True)

    def __init__(self, name: str, network: UnifiedNetwork, channel: bool) -> None:
        super().__init__(name, network)
        self._network, self._channel = network, channel

    def encoded(self, questions: Sequence[Question]) -> list[Encoded]:
        """Source and target, concatenated."""
        pairs = [question.pair(self._channel) for question in questions]
        source_texts = list(dict.fromkeys(source for source, _ in pairs))
        sources = dict(zip(source_texts, self._network.sources(source_texts), strict=True))
        targets = map(self.in_order, self._network.encode_texts([target for _, target in pairs]))
        return [
            Encoded((*sources[source], *target.ids), (*[CONTEXT_TOKEN] * len(sources[source]), *target.words))
            for (source, _), target in zip(pairs, targets, strict=True)
        ]

    def _tell_once(self, sentences: Sequence[Encoded]) -> None:
        most = self._network.positions // 2
        long = [split for sentence in sentences if (split := self.scored(sentence).start) > most]
        if long and not self._reported:
            self._reported = True
            log.warning(
                "%s: a source has %d tokens, more than half of the model's %d positions; long sources are cut",
                self.name,
                long[0],
                self._network.positions,
            )

    def windows(self, sentences: Sequence[Encoded]) -> Iterator[Window]:
        """The source before each part of its target."""
        network = self._network
        for index, sentence in enumerate(sentences):
            split = self.scored(sentence).start
            source, target = cut(sentence.ids[:split], network.positions // 2), sentence.ids[split:]
            for start, stop, first, last in windows(len(target), network.positions - len(source)):
                shift = len(source) - start
                scored = slice(first + shift, last + shift)
                yield Window((*source, *target[start:stop]), scored, index, split + first, len(source))


def _both_sides(spec: Spec, computing: ComputeOptions) -> NetworkScorer:
    return masked_scorer(spec, UnifiedNetwork(spec.path, computing, Segment.BOTH))


def _one_side(spec: Spec, computing: ComputeOptions, make: type[CausalScorer], segment: Segment) -> NetworkScorer:
    return make(spec.name, UnifiedNetwork(spec.path, computing, segment))


def _behind_source(spec: Spec, computing: ComputeOptions) -> NetworkScorer:
    return SourceScorer(spec.name, UnifiedNetwork(spec.path, computing, Segment.TARGET), "channel" in spec.options)


READINGS: dict[str, Callable[[Spec, ComputeOptions], NetworkScorer]] = {
    "bi": _both_sides,
    "l2r": partial(_one_side, make=CausalScorer, segment=Segment.FORWARD),
    "r2l": partial(_one_side, make=BackwardScorer, segment=Segment.BACKWARD),
    "seq2seq": _behind_source,
    "channel": _behind_source,
}
"""The options that say how to read. With `seq2seq` the hypothesis is scored given its source, with `channel` the source
given the hypothesis."""


def objectives(tokenizer: Tokenizer, rate: float = 0.15, cap: int | None = None) -> dict[str, Objective]:
    """The objectives of a `unified` network, by the reading that they train.

    Args:
        rate, cap: as in `MaskedLanguageModelling`.
    """
    masked = MaskedLanguageModelling(tokenizer, rate, cap)
    return {
        "bi": SegmentObjective(masked, Segment.BOTH, tokenizer),
        "l2r": SegmentObjective(CausalLanguageModelling(), Segment.FORWARD, tokenizer),
        "r2l": SegmentObjective(BackwardLanguageModelling(), Segment.BACKWARD, tokenizer),
        "seq2seq": SequenceToSequence(tokenizer),
    }


class SegmentObjective(Objective):
    """Another objective, for a `unified` network: all tokens in one segment."""

    def __init__(self, objective: Objective, segment: Segment, tokenizer: Tokenizer) -> None:
        self.perplexity, self.predicts_end = objective.perplexity, objective.predicts_end
        self._objective, self._shift = objective, segment * tokenizer.vocab_size

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        example = self._objective(tokens, lengths, seed)
        return replace(example, tokens=example.tokens + self._shift)


class SequenceToSequence(Objective):
    """The target's tokens, and its [EOS], are predicted from the source and the target before them (UniLM).

    A pair comes as [BOS] source [EOS] target [EOS].
    """

    predicts_end = True

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._eos, self._size = tokenizer.eos, tokenizer.vocab_size

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        ends = (tokens == self._eos).cumsum(dim=1)
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        predicted = (ends > 0) & (positions < lengths[:, None] - 1)
        source = (ends == 0) | ((ends == 1) & (tokens == self._eos))
        segments = torch.where(source, int(Segment.SOURCE), int(Segment.TARGET))
        return Example(tokens + segments * self._size, lengths, predicted, tokens.roll(-1, dims=1)[predicted])
