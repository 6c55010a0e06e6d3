"""A network of ours as the scorers see it: its folder, the windows of its context, its
loader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, cast

from torch import Tensor

from rescore.errors import UserError
from rescore.files import sha256
from rescore.lms import checkpoint
from rescore.lms.base import ComputeOptions, Question, Spec
from rescore.lms.config import network_kind
from rescore.lms.devices import choose_device, choose_precision, token_budget
from rescore.lms.fast import Batch, TiedSoftmax, convert, predict, reads_trees
from rescore.lms.folders import tokens_per_word
from rescore.lms.scorers import CONTEXT_TOKEN, Encoded, NetworkScorer


class OwnNetwork:
    """A model folder of ours (rescore/lms/checkpoint.py) as a `Network`."""

    context: tuple[int, int] = (0, 0)
    """How many neighbours it reads before and after a text."""
    source: str = ""
    """`source` if it reads the source before a text, `channel` if it reads a text
    before its source, which is scored (dissertation, chapter 6).
    """
    scores_end: bool
    """Whether [EOS] of a text among others is scored, as causal networks do."""

    def __init__(self, folder: Path, kind: str, computing: ComputeOptions) -> None:
        self._folder, self._kind = folder, kind
        network, self._tokenizer = checkpoint.load(folder, kind)
        self._device = choose_device(computing.device)
        self.precision = choose_precision(computing.precision, self._device)
        self.network = network.to(self._device)
        self.reads_trees = reads_trees(self.network)
        self._softmax = convert(self.network, self.precision)
        self.before, self.after = [self._tokenizer.bos], [self._tokenizer.eos]
        self.end = self.after
        self.scores_end = not network_kind(kind).capabilities.context[1]
        self.vocabulary = network.config.vocab_size
        self.mask, self.pad = self._tokenizer.mask, self._tokenizer.pad
        self.unknown: int | None = self._tokenizer.unk
        self.positions = network.config.max_positions
        # Of a layer's input, query, key, value, context and the feed-forward layer, in
        # float32.
        bytes_a_token = 4 * (5 * network.config.d_model + network.config.d_ff)
        self.batch_tokens = computing.batch_tokens or token_budget(
            self._device, bytes_a_token
        )

    def encode(self, questions: Sequence[Question]) -> list[Encoded]:
        if self.source:
            pairs = [question.pair(self.source == "channel") for question in questions]
            questions = [Question(text, before=(shown,)) for shown, text in pairs]
        most, most_after = self.context
        split = [
            (
                question.before[-most:] if most else (),
                question.text,
                question.after[:most_after],
            )
            for question in questions
        ]
        texts = list(
            dict.fromkeys(
                text for before, own, after in split for text in (*before, own, *after)
            )
        )
        known = dict(zip(texts, self.encode_texts(texts), strict=True))
        return [
            self._among(
                [known[text] for text in before],
                known[own],
                [known[text] for text in after],
            )
            for before, own, after in split
        ]

    def _among(
        self, before: Sequence[Encoded], own: Encoded, after: Sequence[Encoded]
    ) -> Encoded:
        """A text among others, [BOS] first [EOS] [BOS] second [EOS], where a token of
        sentence s is `id + s * vocabulary`. Only the text is scored, and its [EOS] if
        the network is causal. A text without neighbours, or a long text, stands alone.

        With a vocabulary of 100, [BOS] 1 and [EOS] 2, the text 7 8 behind the neighbour
        9 of a causal network is

            tokens  1  9  2  101  107  108  102
            words   c  c  c    c    0    1   -1

        where c is `CONTEXT_TOKEN`, which is not scored, and -1 is no word's token.
        """
        longest = self.positions - len(self.before) - len(self.after)
        if not (before or after) or len(own.ids) > longest:
            return own
        ids: list[int] = []
        words: list[int] = []
        for number, sentence in enumerate([*before, own, *after]):
            inner = sentence.ids[:longest]
            ids += [
                token + number * self.vocabulary
                for token in (*self.before, *inner, *self.after)
            ]
            is_own = number == len(before)
            words += [CONTEXT_TOKEN] * len(self.before)
            words += sentence.words if is_own else [CONTEXT_TOKEN] * len(inner)
            words += [-1 if is_own and self.scores_end else CONTEXT_TOKEN] * len(
                self.after
            )
        return Encoded(tuple(ids), tuple(words), whole=True)

    def encode_texts(self, texts: Sequence[str]) -> list[Encoded]:
        return [
            Encoded(tuple(ids), tuple(words))
            for ids, words in self._tokenizer.encode_words(texts)
        ]

    def strings(self, ids: Sequence[int]) -> list[str]:
        return self._tokenizer.tokens([token % self.vocabulary for token in ids])

    def log_probs(self, batch: Batch, rows: Tensor, targets: Tensor) -> Tensor:
        hidden = predict(self.network, batch.to(self._device))
        return self._softmax.log_probs(
            hidden, rows.to(self._device), targets.to(self._device) % self.vocabulary
        )

    def best(self, batch: Batch) -> Tensor:
        """The most probable token (k,) at each of the positions `batch.at`."""
        return self._softmax.best(predict(self.network, batch.to(self._device)))

    @property
    def layers(self) -> int:
        return self.network.config.layers

    def vectors(self, tokens: Tensor, lengths: Tensor, layer: int) -> Tensor:
        return cast(
            Tensor,
            self.network(
                tokens.to(self._device), lengths.to(self._device), layer
            ).float(),
        )

    def embeddings(self, tokens: Tensor, lengths: Tensor, positions: bool) -> Tensor:
        tokens = tokens.to(self._device)
        if positions:
            return self.network.embed(tokens).float()
        return cast(
            Tensor, self.network.token_embedding(tokens % self.vocabulary).float()
        )

    def trainable(self) -> Self:
        """Return a copy whose weights can be trained: those of the folder, in float32.

        `convert` packs the weights of this network for speed, and packed weights have
        no gradients.
        """
        network, _ = checkpoint.load(self._folder, self._kind)
        copied = copy(self)
        copied.precision = "float32"
        copied.network = network.to(self._device)
        copied._softmax = TiedSoftmax(
            network.token_embedding.weight, network.output_bias
        )
        return copied

    def digest(self) -> bytes:
        files = ("config.json", "tokenizer.json", "model.safetensors")
        contents = b"".join(sha256(self._folder / file) for file in files)
        return contents + (
            b"" if self.precision == "float32" else self.precision.encode()
        )


def load(
    spec: Spec,
    computing: ComputeOptions,
    make: Callable[[OwnNetwork], NetworkScorer],
    reader: type[OwnNetwork] = OwnNetwork,
) -> NetworkScorer:
    """A network's scorer, of sentences alone, among neighbours or behind sources.

    Args:
        make: the scorer of a network.
        reader: how the network reads a question.
    """
    network = reader(spec.path, spec.kind, computing)
    config, channel = network.network.config, "channel" in spec.options
    scorer = make(network)
    # a channel scores the source
    usual = 0.0 if channel else tokens_per_word(spec.path)
    scorer.capabilities = replace(scorer.capabilities, tokens_per_word=usual)
    if spec.context:
        if channel:
            raise UserError(f"--lm {spec.name}: channel and context exclude each other")
        before, after = config.neighbours
        if spec.context > before:
            learned = (
                f"was trained with --context {before}"
                if before
                else "was trained on single sentences"
            )
            raise UserError(
                f"{spec.name}: context={spec.context}, but it {learned}; train one with"
                f" --context {spec.context}"
            )
        network.context = (spec.context, min(spec.context, after))
        scorer.reads, scorer.beside = str(network.context), "their neighbours"
        read: dict[str, Any] = {"context": network.context}
    elif config.source:
        network.context, network.source = (1, 0), "channel" if channel else "source"
        scorer.reads, scorer.beside = "source", "the other side"
        read = {"source": True}
    elif channel:
        raise UserError(
            f"--lm {spec.name}: {spec.path} reads no source; train one with --pairs"
        )
    else:
        return scorer
    scorer.capabilities = replace(scorer.capabilities, vectors=False, **read)
    return scorer
