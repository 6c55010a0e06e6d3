"""A model folder of the package as a network that scorers read: its loader, and the
text among its neighbours or behind its source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Self

from torch import Tensor

from rescore.errors import UserError
from rescore.files import sha256
from rescore.lms import checkpoint
from rescore.lms.base import ComputeOptions, Question, Spec
from rescore.lms.config import network_kind
from rescore.lms.devices import choose_device, choose_precision, token_budget
from rescore.lms.fast import Batch, TiedSoftmax, convert, predict, reads_trees
from rescore.lms.folders import tokens_per_word
from rescore.lms.scorers import ANY_DEPTH, CONTEXT_TOKEN, Encoded, NetworkScorer


class OwnNetwork:
    """A model folder (rescore/lms/checkpoint.py), as scorers need it."""

    context: tuple[int, int] = (0, 0)
    """The number of neighbours that it reads before and after a text."""
    source: str = ""
    """`source` if it reads the source before a text, `channel` if it reads a text
    before its source, which is scored (dissertation, chapter 6); else empty.
    """
    scores_end: bool
    """Whether [EOS] of a text among others is scored, as causal networks do."""

    def __init__(self, folder: Path, kind: str, computing: ComputeOptions) -> None:
        """Load a network.

        Args:
            folder: The model folder.
            kind: The kind that the network must have.
            computing: Where and how the network computes.

        Raises:
            UserError: The folder or an option is not valid.
        """
        self._folder = folder
        self._kind = kind
        network, self._tokenizer = checkpoint.load(folder, kind)
        self._device = choose_device(computing.device)
        self.precision = choose_precision(computing.precision, self._device)
        self.network = network.to(self._device)
        self.deepest_tree = ANY_DEPTH if reads_trees(self.network) else 0
        self._softmax = convert(self.network, self.precision)
        self.before = [self._tokenizer.bos]
        self.after = [self._tokenizer.eos]
        self.end = self.after
        self.scores_end = not network_kind(kind).capabilities.context[1]
        self.vocabulary = network.config.vocab_size
        self.mask = self._tokenizer.mask
        self.pad = self._tokenizer.pad
        self.unknown: int | None = self._tokenizer.unk
        self.positions = network.config.max_positions
        # a layer's input, query, key, value, context and feed-forward layer, in float32
        bytes_a_token = 4 * (5 * network.config.d_model + network.config.d_ff)
        self.batch_tokens = computing.batch_tokens or token_budget(
            self._device, bytes_a_token
        )

    def encode(self, questions: Sequence[Question]) -> list[Encoded]:
        """Return the tokens of each question's text, among the neighbours or behind the
        source that the network reads.

        Args:
            questions: The questions.

        Raises:
            UserError: The network reads a source, and a question has none.
        """
        if self.source:
            pairs = [question.pair(self.source == "channel") for question in questions]
            questions = [Question(text, before=(shown,)) for shown, text in pairs]
        most_before, most_after = self.context
        split = []
        texts: dict[str, None] = {}
        for question in questions:
            before = question.before[-most_before:] if most_before else ()
            after = question.after[:most_after]
            split.append((before, question.text, after))
            texts.update(dict.fromkeys((*before, question.text, *after)))
        encoded = dict(zip(texts, self.encode_texts(list(texts)), strict=True))
        sentences = []
        for before, text, after in split:
            encoded_before = [encoded[other] for other in before]
            encoded_after = [encoded[other] for other in after]
            sentences.append(self._among(encoded_before, encoded[text], encoded_after))
        return sentences

    def _among(
        self, before: Sequence[Encoded], own: Encoded, after: Sequence[Encoded]
    ) -> Encoded:
        """Return a text among others, [BOS] first [EOS] [BOS] second [EOS], where a
        token of sentence s is `id + s * vocabulary`.

        Only the text is scored, and its [EOS] if the network is causal. A text without
        neighbours, or a long text, stands alone. With a vocabulary of 100, [BOS] 1 and
        [EOS] 2, the text 7 8 behind the neighbour 9 of a causal network is

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
            shift = number * self.vocabulary
            ids += [token + shift for token in (*self.before, *inner, *self.after)]
            words += [CONTEXT_TOKEN] * len(self.before)
            if number == len(before):
                words += sentence.words
                words += [-1 if self.scores_end else CONTEXT_TOKEN] * len(self.after)
            else:
                words += [CONTEXT_TOKEN] * (len(inner) + len(self.after))
        return Encoded(tuple(ids), tuple(words), whole=True)

    def encode_texts(self, texts: Sequence[str]) -> list[Encoded]:
        """Return the tokens of texts without a frame.

        Args:
            texts: The texts.
        """
        return [
            Encoded(tuple(ids), tuple(words))
            for ids, words in self._tokenizer.encode_words(texts)
        ]

    def strings(self, ids: Sequence[int]) -> list[str]:
        """Return tokens as text.

        Args:
            ids: The ids of the tokens, of any sentence in a sequence.
        """
        return self._tokenizer.tokens([token % self.vocabulary for token in ids])

    def log_probs(self, batch: Batch, rows: Tensor, targets: Tensor) -> Tensor:
        """Return log-probabilities of tokens, natural log.

        Args:
            batch: The sequences.
            rows: Indices into `batch.at` of shape (k,): the positions that predict the
                targets.
            targets: Tokens of shape (k,).

        Returns:
            Log-probabilities of shape (k,).
        """
        hidden = predict(self.network, batch.to(self._device))
        return self._softmax.log_probs(
            hidden, rows.to(self._device), targets.to(self._device) % self.vocabulary
        )

    def best(self, batch: Batch) -> Tensor:
        """Return the most probable token at each of the positions `batch.at`.

        Args:
            batch: The sequences, with k positions.

        Returns:
            Tokens of shape (k,).
        """
        return self._softmax.best(predict(self.network, batch.to(self._device)))

    @property
    def layers(self) -> int:
        """The number of layers."""
        return self.network.config.layers

    def vectors(self, tokens: Tensor, lengths: Tensor, layer: int) -> Tensor:
        """Return the hidden vectors of a layer.

        Args:
            tokens: Tokens of shape (batch, n), padded behind.
            lengths: Lengths of shape (batch,).
            layer: The number of layers that are computed.

        Returns:
            Vectors of shape (batch, n, d), in float32.
        """
        hidden: Tensor = self.network(
            tokens.to(self._device), lengths.to(self._device), layer
        )
        return hidden.float()

    def embeddings(self, tokens: Tensor, lengths: Tensor, positions: bool) -> Tensor:
        """Return the embeddings of tokens.

        Args:
            tokens: Tokens of shape (batch, n), padded behind.
            lengths: Lengths of shape (batch,).
            positions: Whether position embeddings are added, and a LayerNorm where the
                network has one.

        Returns:
            Vectors of shape (batch, n, d), in float32.
        """
        tokens = tokens.to(self._device)
        if positions:
            return self.network.embed(tokens).float()
        embedded: Tensor = self.network.token_embedding(tokens % self.vocabulary)
        return embedded.float()

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
        """Return the content hash of weights, tokenizer, configuration and
        precision.
        """
        files = ("config.json", "tokenizer.json", "model.safetensors")
        contents = b"".join(sha256(self._folder / file) for file in files)
        if self.precision != "float32":
            contents += self.precision.encode()
        return contents + network_kind(self._kind).version.encode()


def load(
    spec: Spec,
    computing: ComputeOptions,
    make: Callable[[OwnNetwork], NetworkScorer],
    reader: type[OwnNetwork] = OwnNetwork,
) -> NetworkScorer:
    """Return the scorer of a network, for sentences alone, among neighbours or behind
    sources.

    Args:
        spec: The value of --lm.
        computing: Where and how the network computes.
        make: Returns the scorer of a network.
        reader: The class of the network, which decides how it reads a question.

    Raises:
        UserError: The folder is not valid, or the network cannot read what the options
            ask for.
    """
    network = reader(spec.path, spec.kind, computing)
    scorer = make(network)
    channel = "channel" in spec.options
    # a channel scores the source, and the card is about the text
    per_word = 0.0 if channel else tokens_per_word(spec.path)
    scorer.capabilities = replace(scorer.capabilities, tokens_per_word=per_word)
    if spec.context:
        if channel:
            raise UserError(f"--lm {spec.name}: channel and context exclude each other")
        _read_neighbours(spec, network, scorer)
    elif network.network.config.source:
        _read_source(channel, network, scorer)
    elif channel:
        raise UserError(
            f"--lm {spec.name}: {spec.path} reads no source; train one with --pairs"
        )
    return scorer


def _read_neighbours(spec: Spec, network: OwnNetwork, scorer: NetworkScorer) -> None:
    """Make a scorer read the neighbours of texts, as the option `context=N` says."""
    before, after = network.network.config.neighbours
    if spec.context > before:
        if before:
            learned = f"was trained with --context {before}"
        else:
            learned = "was trained on single sentences"
        raise UserError(
            f"{spec.name}: context={spec.context}, but it {learned}; train one with"
            f" --context {spec.context}"
        )
    network.context = (spec.context, min(spec.context, after))
    scorer.reads = str(network.context)
    scorer.beside = "their neighbours"
    scorer.capabilities = replace(
        scorer.capabilities, vectors=False, context=network.context
    )


def _read_source(channel: bool, network: OwnNetwork, scorer: NetworkScorer) -> None:
    """Make a scorer read the source before a text, or a text before its source."""
    network.context = (1, 0)
    network.source = "channel" if channel else "source"
    scorer.reads = "source"
    scorer.beside = "the other side"
    scorer.capabilities = replace(scorer.capabilities, vectors=False, source=True)
