"""Tokenizers of WordPieces or words. Their tokenizer.json alone defines how text is
normalised.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Encoding, pre_tokenizers
from tokenizers import Tokenizer as HuggingFaceTokenizer

from rescore.errors import UserError
from rescore.files import write_text

PAD = "[PAD]"
UNK = "[UNK]"
BOS = "[BOS]"
EOS = "[EOS]"
MASK = "[MASK]"
SPECIAL = (PAD, UNK, BOS, EOS, MASK)
MASK_ID = SPECIAL.index(MASK)
"""The id of [MASK] in every vocabulary that is trained here."""

PROBE = "a \u9f98 \ue000"
"""Letters that no vocabulary has completely: a tokenizer that fails on these fails on
any unknown word.
"""


class Tokenizer:
    """A tokenizer.json with the five special tokens a network here needs."""

    def __init__(
        self, tokenizer: HuggingFaceTokenizer, source: str = "tokenizer"
    ) -> None:
        """Check a tokenizer.

        Args:
            tokenizer: The tokenizer of Hugging Face's library.
            source: The file that it was read from, for messages.

        Raises:
            UserError: The tokenizer lacks a special token, has gaps among its ids, or
                cannot cut text.
        """
        self._tokenizer = tokenizer
        self._source = source
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self.pad = self._special(PAD)
        self.unk = self._special(UNK)
        self.bos = self._special(BOS)
        self.eos = self._special(EOS)
        self.mask = self._special(MASK)
        ids = tokenizer.get_vocab().values()
        if max(ids) >= len(ids):
            raise UserError(
                f"{source}: ids are not 0 to {len(ids) - 1} (there is {max(ids)})"
            )
        self._batch([PROBE])

    def _special(self, token: str) -> int:
        """Return the id of a special token."""
        index = self._tokenizer.token_to_id(token)
        if index is None:
            raise UserError(
                f"{self._source}: no token {token}; add it to the vocabulary or train a"
                " new tokenizer"
            )
        return index

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read a tokenizer.json.

        Args:
            path: The file.

        Raises:
            UserError: The file is absent, or is no usable tokenizer.
        """
        if not path.is_file():
            raise UserError(f"{path}: no such file")
        try:
            return cls(HuggingFaceTokenizer.from_file(str(path)), str(path))
        except UserError:
            raise
        except BaseException as error:
            # The library raises plain Exception, or panics, for files it cannot parse.
            raise _user_error(error, f"{path}: not a tokenizer.json") from None

    def save(self, path: Path) -> None:
        """Write a tokenizer.json.

        Args:
            path: The file.
        """
        write_text(path, self._tokenizer.to_str(pretty=True))

    @property
    def vocab_size(self) -> int:
        """Number of tokens, with the special tokens."""
        return self._tokenizer.get_vocab_size()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the tokenizer's JSON, in hexadecimal."""
        return hashlib.sha256(self._tokenizer.to_str().encode()).hexdigest()

    def _batch(self, sentences: Sequence[str]) -> list[Encoding]:
        """Return the encodings of sentences; a tokenizer that can be read, but not
        used, is an error of the user.
        """
        try:
            return self._tokenizer.encode_batch(sentences, add_special_tokens=False)
        except BaseException as error:
            raise _user_error(
                error, f"{self._source}: cannot cut text into tokens"
            ) from None

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Return the token ids of each sentence, without [BOS] and [EOS].

        A text that spells a special token, such as [BOS], has [UNK] in its place: the
        frame and the masks of a sequence are never from a text.

        Args:
            sentences: The sentences.
        """
        return [self._plain(encoding.ids) for encoding in self._batch(sentences)]

    def _plain(self, ids: list[int]) -> list[int]:
        """Return token ids with [UNK] instead of tokens of the frame, of masks and of
        padding.
        """
        special = {self.bos, self.eos, self.mask, self.pad}
        if special.isdisjoint(ids):
            return ids
        return [self.unk if token in special else token for token in ids]

    def encode_words(
        self, sentences: Sequence[str]
    ) -> list[tuple[list[int], list[int]]]:
        """Return the token ids of each sentence as `encode` has them, and the number of
        each token's word.

        Args:
            sentences: The sentences.
        """
        encodings = self._batch(sentences)
        numbered = []
        for encoding in encodings:
            words = [-1 if word is None else word for word in encoding.word_ids]
            numbered.append((self._plain(encoding.ids), words))
        return numbered

    def words(self, sentences: Sequence[str]) -> list[list[str]]:
        """Return the normalised words of each sentence, before they are cut into
        WordPieces. No word has a blank in it.

        Args:
            sentences: The sentences.
        """
        normalizer = self._tokenizer.normalizer
        normal: Iterable[str] = sentences
        if normalizer is not None:
            normal = map(normalizer.normalize_str, sentences)
        cut = self._tokenizer.pre_tokenizer
        if cut is None or isinstance(cut, pre_tokenizers.WhitespaceSplit):
            return [text.split() for text in normal]
        words = []
        for text in normal:
            pieces = [piece for piece, _ in cut.pre_tokenize_str(text)]
            words.append(" ".join(pieces).split())
        return words

    def pieces(self, sentences: Sequence[str]) -> list[list[str]]:
        """Return the WordPieces of each sentence, as text.

        Args:
            sentences: The sentences.
        """
        return [encoding.tokens for encoding in self._batch(sentences)]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return tokens as text.

        Args:
            ids: The ids of the tokens.
        """
        return [str(self._tokenizer.id_to_token(index)) for index in ids]


def _user_error(error: BaseException, what: str) -> BaseException:
    """Return a `UserError` for an error of the library, and the error itself if it ends
    the program.
    """
    if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
        return error
    return UserError(f"{what} ({' '.join(str(error).split())[:200]})")
