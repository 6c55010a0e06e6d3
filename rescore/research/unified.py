"""UniLM (Dong et al. 2019): one Transformer that reads from both sides, from left to
right, from right to left, or a target behind its source.

The segment of a token decides which positions see it. Sentences, pairs, prefix trees
and masked copies have the same form as for other networks, and their tokens say how
they are read: the core's objectives and scorers serve every reading.

Two things differ from the paper. [MASK] always stands at a masked token, because
scoring always masks (the paper keeps a tenth of the tokens and swaps a tenth). Each
segment counts its positions from 0, and a target begins with a [BOS] of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from rescore.errors import UserError
from rescore.lms.base import (
    Capabilities,
    ComputeOptions,
    Question,
    Spec,
    without_context,
)
from rescore.lms.causal import (
    BackwardScorer,
    CausalScorer,
    PrefixTree,
    as_request,
    prefix_trees,
)
from rescore.lms.fast import Batch, Tree
from rescore.lms.folders import tokens_per_word
from rescore.lms.masked import masked_scorer
from rescore.lms.networks import Transformer, padding_mask
from rescore.lms.own import OwnNetwork
from rescore.lms.scorers import (
    CONTEXT_TOKEN,
    Encoded,
    NetworkScorer,
    Request,
    Window,
    batches,
    windows,
)
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.objectives import (
    BackwardLanguageModelling,
    CausalLanguageModelling,
    ContextObjective,
    Example,
    MaskedLanguageModelling,
    Objective,
    SourceObjective,
    Task,
    WrappedObjective,
    mirrored,
)
from rescore.lms.training.options import TrainingData
from rescore.research.unified_kind import (
    PAIRED,
    READINGS,
    Segment,
    UnifiedConfig,
    UnifiedOptions,
)

SEEN_BY_ALL = (Segment.BOTH, Segment.SECOND, Segment.SOURCE)
"""Segments that all positions of a sequence see; those of other segments are seen by
themselves and the positions behind them.
"""


# --- the network ---------------------------------------------------------------------


class Unified(Transformer):
    """A Transformer whose mask depends on the segments (equation 2 of the paper: M_ij
    is 0 where position i sees position j).
    """

    def visible(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        size = tokens.shape[1]
        segments = tokens // self.config.vocab_size
        seen_by_all = torch.isin(
            segments, torch.tensor(SEEN_BY_ALL, device=tokens.device)
        )
        past = torch.ones(size, size, dtype=torch.bool, device=tokens.device).tril()
        return padding_mask(lengths, size)[:, None, :] & (
            past | seen_by_all[:, None, :]
        )


# --- training ------------------------------------------------------------------------


class InSegment(WrappedObjective):
    """Another objective, in other segments: the first sentence of a sequence moves from
    segment 0 to a segment, and the second sentence to the segment behind it.
    """

    def __init__(
        self, inner: Objective, segment: Segment, tokenizer: Tokenizer
    ) -> None:
        super().__init__(inner)
        self._shift = segment * tokenizer.vocab_size

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        example = self.inner(tokens, lengths, seed)
        return replace(example, tokens=example.tokens + self._shift)


class Cloze(MaskedLanguageModelling):
    """The cloze task of a sentence, or of a pair, that is read in one direction: masked
    tokens are predicted at their places, and so is the last [EOS], which ends a
    sentence when it is scored.

    Both sides of a pair have masks. [BOS], and the [EOS] of a source, are never masked.
    """

    predicts_end = True

    def __init__(
        self,
        tokenizer: Tokenizer,
        rate: float = 0.15,
        cap: int | None = None,
        backwards: bool = False,
    ) -> None:
        """Make the objective.

        Args:
            tokenizer: The tokenizer of the network.
            rate: Share of the tokens that are masked.
            cap: The most masked tokens of a sequence.
            backwards: Whether sentences are read from right to left.
        """
        super().__init__(tokenizer, rate, cap)
        self.perplexity = self.perplexity.removeprefix("pseudo-")
        self._tokenizer = tokenizer
        self._backwards = backwards

    def maskable(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        bos, eos = self._tokenizer.bos, self._tokenizer.eos
        frame = (tokens == bos) | (tokens == eos)
        last = torch.arange(tokens.shape[1]) == lengths[:, None] - 1
        return padding_mask(lengths, tokens.shape[1]) & (~frame | last)

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        if self._backwards:
            tokens = mirrored(tokens, lengths)
        example = super().__call__(tokens, lengths, seed)
        number = (tokens == self._tokenizer.bos).cumsum(dim=1) - 1
        shift = number * self._tokenizer.vocab_size
        return replace(example, tokens=example.tokens + shift)


def objectives(
    tokenizer: Tokenizer,
    cloze: bool = False,
    rate: float = 0.15,
    cap: int | None = None,
) -> dict[str, Objective]:
    """Return the objective of each reading.

    Args:
        tokenizer: The tokenizer of the network.
        cloze: Whether all readings predict masked tokens; without it `l2r`, `r2l` and
            `seq2seq` predict next tokens, and so learn from every token.
        rate: Share of the tokens that are masked.
        cap: The most masked tokens of a sequence.
    """
    masked = MaskedLanguageModelling(tokenizer, rate, cap)
    forward: Objective = CausalLanguageModelling()
    backward: Objective = BackwardLanguageModelling()
    behind_source: Objective = SourceObjective(CausalLanguageModelling(), tokenizer)
    if cloze:
        forward = behind_source = Cloze(tokenizer, rate, cap)
        backward = Cloze(tokenizer, rate, cap, backwards=True)
    return {
        "bi": masked,
        "bi:source": ContextObjective(masked, tokenizer),
        "l2r": InSegment(forward, Segment.FORWARD, tokenizer),
        "r2l": InSegment(backward, Segment.BACKWARD, tokenizer),
        "seq2seq": InSegment(behind_source, Segment.SOURCE, tokenizer),
    }


def tasks(data: TrainingData) -> list[Task]:
    """Return the tasks of the batches in turn.

    Raises:
        UserError: There are no pairs, and no consecutive lines in their place.
    """
    options, config, tokenizer = data.options, data.config, data.tokenizer
    assert isinstance(options, UnifiedOptions)
    assert isinstance(config, UnifiedConfig)
    pairs = data.pairs
    if pairs is None and options.uses_pairs:
        pairs = data.text.windows([tokenizer.eos, tokenizer.bos], least=2)
    of_readings = objectives(
        tokenizer, config.cloze, options.mask_rate, options.mask_cap
    )
    schedule = []
    for name in options.readings:
        corpus = data.text
        if name in PAIRED:
            assert pairs is not None
            corpus = pairs
        schedule.append(Task(name, corpus, of_readings[name]))
    return schedule


# --- scores --------------------------------------------------------------------------


class UnifiedNetwork(OwnNetwork):
    """A unified network that reads sentences in a segment; a second sentence is in the
    segment behind it.
    """

    def __init__(
        self, folder: Path, computing: ComputeOptions, segment: Segment
    ) -> None:
        """Load a network.

        Args:
            folder: The folder of the model.
            computing: Where and how it computes.
            segment: The segment of a sentence.
        """
        super().__init__(folder, "unified", computing)
        config = self.network.config
        assert isinstance(config, UnifiedConfig)
        self.config = config
        self._shift = segment * self.vocabulary
        self.before = self._moved(self.before)
        self.after = self._moved(self.after)
        self.end = self.after

    def _moved(self, ids: Sequence[int]) -> list[int]:
        return [token + self._shift for token in ids]

    def encode_texts(self, texts: Sequence[str]) -> list[Encoded]:
        encoded = super().encode_texts(texts)
        return [text._replace(ids=tuple(self._moved(text.ids))) for text in encoded]

    def log_probs(self, batch: Batch, rows: Tensor, targets: Tensor) -> Tensor:
        return super().log_probs(self._asked(batch), rows, targets)

    def best(self, batch: Batch) -> Tensor:
        return super().best(self._asked(batch))

    def _asked(self, batch: Batch) -> Batch:
        """Return a batch as the network reads it: trees with sources that see
        themselves, and with masks in a network that predicts masked tokens.
        """
        batch = with_open_sources(batch, self.vocabulary)
        if not self.config.cloze:
            return batch
        return with_masks(batch, self.mask, self.vocabulary)


def with_open_sources(batch: Batch, vocabulary: int) -> Batch:
    """Return a batch of trees in which each token of a source sees the whole source.

    Args:
        batch: A batch; each of its trees has one source at most.
        vocabulary: Number of tokens.
    """
    if batch.tree is None:
        return batch
    source = batch.tokens // vocabulary == Segment.SOURCE
    visible = batch.tree.visible | (source[:, :, None] & source[:, None, :])
    return batch._replace(tree=batch.tree._replace(visible=visible))


def with_masks(batch: Batch, mask: int, vocabulary: int) -> Batch:
    """Return a batch of trees in which a [MASK] behind each node, which sees the node
    and what the node sees, predicts in its place.

    Args:
        batch: A batch; without trees it is returned as it is.
        mask: The token [MASK].
        vocabulary: Number of tokens.
    """
    if batch.tree is None:
        return batch
    segments = batch.tokens // vocabulary
    tokens = torch.stack([batch.tokens, mask + segments * vocabulary], dim=2)
    depth = torch.stack([batch.tree.depth, batch.tree.depth + 1], dim=2)
    rows, size = batch.tokens.shape
    # Node i has the position 2 i, and its mask 2 i + 1; masks are seen by themselves.
    visible = torch.zeros(rows, 2 * size, 2 * size, dtype=torch.bool)
    visible[:, :, 0::2] = batch.tree.visible.repeat_interleave(2, dim=1)
    masks = torch.arange(1, 2 * size, 2)
    visible[:, masks, masks] = True
    return Batch(
        tokens.flatten(1),
        2 * batch.lengths,
        2 * batch.at + 1,
        Tree(depth.flatten(1), visible),
    )


class SourceScorer(CausalScorer):
    """log p(hypothesis given source) with its [EOS], or log p(source given hypothesis).

    The hypotheses of a source form a tree, so the source and common beginnings are read
    once. A source is cut to the positions of the network; a longer target is read in
    overlapping windows, each behind the source.
    """

    capabilities = Capabilities(source=True)

    def __init__(self, name: str, network: UnifiedNetwork, channel: bool) -> None:
        """Make a scorer.

        Args:
            name: The name of its column.
            network: A network that reads sentences as `Segment.SOURCE`.
            channel: Whether the source is scored given the hypothesis.
        """
        super().__init__(name, network)
        self._channel = channel

    def encoded(self, questions: Sequence[Question]) -> list[Encoded]:
        pairs = [question.pair(self._channel) for question in questions]
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        encoded = self.network.encode(without_context(texts))
        known = dict(zip(texts, encoded, strict=True))
        return [self._behind(known[source], known[target]) for source, target in pairs]

    def _behind(self, source: Encoded, target: Encoded) -> Encoded:
        """Return [BOS] source [EOS] [BOS] target [EOS], where the target is scored."""
        network = self.network
        before, after = network.before, network.after
        room = network.positions - len(before) - len(after)
        first = (*before, *source.ids[:room], *after)
        second = (*before, *target.ids, *after)
        context = [CONTEXT_TOKEN] * (len(first) + len(before))
        return Encoded(
            (*first, *(token + network.vocabulary for token in second)),
            (*context, *target.words, *[-1] * len(after)),
            whole=len(target.ids) <= room,
        )

    def windows(self, sentences: Sequence[Encoded]) -> Iterator[Window]:
        room = self.network.positions - len(self.network.before)
        for number, sentence in enumerate(sentences):
            begin = self.scored(sentence).start
            context, target = sentence.ids[:begin], sentence.ids[begin:]
            for start, stop, first, last in windows(len(target), room):
                scored = slice(begin + first - start, begin + last - start)
                tokens = (*context, *target[start:stop])
                yield Window(tokens, scored, number, begin + first)

    def requests(self, sentences: Sequence[Encoded]) -> Iterator[Request]:
        network = self.network
        by_source: dict[tuple[int, ...], list[Window]] = {}
        for path in self.windows(sentences):
            sentence = sentences[path.sentence]
            source = sentence.ids[: self.scored(sentence).start]
            by_source.setdefault(source, []).append(path)
        trees: list[PrefixTree] = []
        for paths in by_source.values():
            paths.sort(key=lambda path: path.tokens)
            trees += prefix_trees(paths, True, self.largest)
        trees.sort(key=lambda tree: tree.size)
        for together in batches(trees, lambda tree: tree.size, network.batch_tokens):
            yield as_request(together, network.pad, True)


def load(spec: Spec, computing: ComputeOptions) -> NetworkScorer:
    """Return the scorer that --lm names.

    Raises:
        UserError: No reading is named, or the network did not learn it; the files of
            the model are missing or damaged.
    """
    reading = reading_of(spec)
    channel = "channel" in spec.options
    scorer: NetworkScorer
    if reading == "l2r":
        network = UnifiedNetwork(spec.path, computing, Segment.FORWARD)
        scorer = CausalScorer(spec.name, network)
    elif reading == "r2l":
        network = UnifiedNetwork(spec.path, computing, Segment.BACKWARD)
        scorer = BackwardScorer(spec.name, network)
    elif reading in ("seq2seq", "channel"):
        network = UnifiedNetwork(spec.path, computing, Segment.SOURCE)
        scorer = SourceScorer(spec.name, network, channel)
    else:
        network = UnifiedNetwork(spec.path, computing, Segment.BOTH)
        scorer = masked_scorer(spec, network)
    if reading in ("bi:source", "bi:channel"):
        network.context, network.source = (1, 0), "channel" if channel else "source"
        network.scores_end = False
        scorer.beside = "the other side"
        scorer.capabilities = replace(scorer.capabilities, source=True, vectors=False)
    learned = network.config.readings.split()
    if learned and READINGS[reading] not in learned:
        raise UserError(
            f"--lm {spec.name}: {spec.path} learned to read {', '.join(learned)} only;"
            f" train it with --reading {READINGS[reading]}"
        )
    if network.config.cloze and isinstance(scorer, CausalScorer):
        # A token is predicted at a [MASK], not by the vector before it.
        scorer.capabilities = replace(scorer.capabilities, vectors=False)
    # A channel scores the source.
    usual = 0.0 if channel else tokens_per_word(spec.path)
    scorer.capabilities = replace(scorer.capabilities, tokens_per_word=usual)
    return scorer


def reading_of(spec: Spec) -> str:
    """Return the reading that --lm names, a key of `READINGS`.

    Raises:
        UserError: The options name no reading.
    """
    words = {word for reading in READINGS for word in reading.split(":")}
    reading = ":".join(option for option in spec.options if option in words)
    if reading not in READINGS:
        found = f"found {reading}" if reading else "found none"
        raise UserError(
            f"--lm {spec.name}: expected a reading, {', '.join(READINGS)}, as in"
            f" unified:seq2seq:DIR; {found}"
        )
    if "intact" in spec.options and not reading.startswith("bi"):
        raise UserError(
            f"--lm {spec.name}: intact is for the readings bi, bi:source and bi:channel"
        )
    return reading
