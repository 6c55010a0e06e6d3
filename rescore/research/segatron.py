"""The networks of Segatron (Bai's thesis, section 2.3.2), their training examples and
their reading of neighbours.

The input of a token is the sum of four embeddings, x = E + P^t + P^s + P^p: of the
token, of its index in its sentence, of its sentence's index in the paragraph, and of
its paragraph's index in the window. All indexes start from 0, and [BOS] and [EOS] have
the indexes of their sentence. Without positions of sentences, tokens are numbered
through the paragraph; without positions of paragraphs, sentences are numbered through
the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from rescore.errors import UserError
from rescore.lms.base import ComputeOptions, Question
from rescore.lms.config import NetworkConfig
from rescore.lms.networks import BiLM, Transformer, UniLM
from rescore.lms.own import OwnNetwork
from rescore.lms.scorers import Encoded
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.objectives import ContextObjective, Example, Objective
from rescore.research.segatron_config import MARK, SegatronConfig

# --- networks ------------------------------------------------------------------------


class SegmentPositions(Transformer):
    """A Transformer whose tokens have the positions of their sentence and paragraph.

    Sentence s of paragraph p is segment p * config.sentences + s. A token of segment g
    has the number `id + g * vocab_size`.
    """

    def __init__(self, config: NetworkConfig) -> None:
        super().__init__(config)
        self.paragraph_embedding = nn.Embedding(config.sentences, config.d_model)
        # As sentence positions, they have no effect at first.
        nn.init.zeros_(self.paragraph_embedding.weight)

    def embed_tokens(self, tokens: Tensor) -> Tensor:
        """Return the embeddings of tokens without their own positions: tokens of any
        shape -> (..., d).
        """
        size = self.config.sentences * self.config.vocab_size
        sentences = super().embed_tokens(tokens % size)
        paragraphs: Tensor = self.paragraph_embedding(tokens // size)
        return sentences + paragraphs


class Segatron(SegmentPositions, UniLM):
    """The causal network."""


class SegaBert(SegmentPositions, BiLM):
    """The masked network."""


# --- segments ------------------------------------------------------------------------


class Segments:
    """Numbers the sentences of windows, as a configuration says."""

    def __init__(self, tokenizer: Tokenizer, config: NetworkConfig) -> None:
        """Make the numbering.

        Args:
            tokenizer: The tokenizer.
            config: The configuration of the network, a `SegatronConfig`.
        """
        assert isinstance(config, SegatronConfig)
        self.longest = config.max_positions
        self._positions = config.positions
        self._sentences = config.sentences
        self._size = config.vocab_size
        self._bos = tokenizer.bos
        self._eos = tokenizer.eos
        (marks,) = tokenizer.encode([MARK])
        self._mark = marks[0] if marks else tokenizer.unk
        self._has_mark = self._mark != tokenizer.unk

    def check_mark(self) -> None:
        """See that a text can tell the paragraphs that are to be learned.

        Raises:
            UserError: The network has positions of paragraphs, and the tokenizer has no
                token for their ends.
        """
        if not self._has_mark and self._positions in ("both", "paragraph"):
            raise UserError(
                f"the tokenizer has no {MARK}, the end of a paragraph; end the last"
                f" line of each paragraph with {MARK}, and keep it with --normalize"
                " folded or text, or give --positions sentence"
            )

    def numbered(self, tokens: Tensor, shown: Tensor) -> Tensor:
        """Return tokens with the numbers of their segments: `id + g * vocab_size`.

        Args:
            tokens: (batch, n) windows [BOS] first [EOS] [BOS] second [EOS].
            shown: (batch, n), what the network reads: the tokens, or masks.
        """
        return shown % self._size + self.of(tokens) * self._size

    def of(self, tokens: Tensor) -> Tensor:
        """Return the segment p * sentences + s of each token of windows (batch, n).

        With two sentences, the first of which ends a paragraph, and one more::

            tokens     [BOS] a P [EOS] [BOS] b [EOS] [BOS] c [EOS]
            sentence     0   0 0   0     1   1   1     2   2   2
            ended        0   0 0   0     1   1   1     1   1   1
            starts       -   - -   -     x   -   -     -   -   -
            paragraph    0   0 0   0     1   1   1     1   1   1
            first        0   0 0   0     1   1   1     1   1   1

        `ended` counts the paragraphs that ended before the sentence, `starts` is true
        where a paragraph starts, and `first` is the first sentence of the paragraph.
        """
        begins = tokens == self._bos
        sentence = begins.cumsum(dim=1) - 1
        if self._positions == "none":
            return torch.zeros_like(tokens)
        if self._positions == "sentence":
            return sentence
        # A mark in the middle of a sentence is a character as any other. The mark at
        # the end of a sentence takes effect at the next [BOS].
        at_end = (tokens == self._mark) & (tokens.roll(-1, dims=1) == self._eos)
        marks = at_end.cumsum(dim=1)
        ended = torch.where(begins, marks, 0).cummax(dim=1).values
        starts = ended != ended.roll(1, dims=1)
        starts[:, 0] = False
        paragraph = starts.cumsum(dim=1)
        if self._positions == "paragraph":
            return paragraph * self._sentences
        first = torch.where(starts, sentence, 0).cummax(dim=1).values
        return paragraph * self._sentences + sentence - first


class SegmentObjective(ContextObjective):
    """Another objective on windows of sentences with their paragraphs."""

    def __init__(
        self, inner: Objective, tokenizer: Tokenizer, segments: Segments
    ) -> None:
        """Make an objective.

        Args:
            inner: The objective of single sentences.
            tokenizer: The tokenizer.
            segments: The numbering of sentences.
        """
        super().__init__(inner, tokenizer)
        self._segments = segments

    def __call__(self, tokens: Tensor, lengths: Tensor, seed: Sequence[int]) -> Example:
        """Return the example of a batch of windows; long windows are cut at the end."""
        tokens = tokens[:, : self._segments.longest]
        lengths = lengths.clamp_max(self._segments.longest)
        example = super().__call__(tokens, lengths, seed)
        return replace(example, tokens=self._segments.numbered(tokens, example.tokens))


# --- scoring -------------------------------------------------------------------------


class SegmentReader(OwnNetwork):
    """A network that reads a text in a window of its neighbours."""

    def __init__(self, folder: Path, kind: str, computing: ComputeOptions) -> None:
        super().__init__(folder, kind, computing)
        tokenizer = Tokenizer.load(folder / "tokenizer.json")
        self._segments = Segments(tokenizer, self.network.config)

    def encode(self, questions: Sequence[Question]) -> list[Encoded]:
        """Return the window of each text. The farthest neighbours are left out where a
        window has more tokens than the network has positions.
        """
        return [self._window(encoded) for encoded in super().encode(questions)]

    def _window(self, encoded: Encoded) -> Encoded:
        """Return a text among its neighbours, with the numbers of segments."""
        if not encoded.whole:
            return encoded
        ids = [token % self.vocabulary for token in encoded.ids]
        begins = [place for place, token in enumerate(ids) if token == self.before[0]]
        own = sum(begin < encoded.scored.start for begin in begins) - 1
        begins.append(len(ids))
        first = 0
        last = len(begins) - 2
        while begins[last + 1] - begins[first] > self.positions:
            if own - first >= last - own:
                first += 1
            else:
                last -= 1
        kept = slice(begins[first], begins[last + 1])
        tokens = torch.tensor([ids[kept]])
        numbered = self._segments.numbered(tokens, tokens)[0].tolist()
        return Encoded(tuple(numbered), encoded.words[kept], whole=True)
