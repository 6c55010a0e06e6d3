"""Tokenizers of WordPieces or words. Normalisation is defined in tokenizer.json
alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Encoding, pre_tokenizers
from tokenizers import Tokenizer as HuggingFaceTokenizer

from rescore.errors import UserError
from rescore.files import write_text

PAD, UNK, BOS, EOS, MASK = "[PAD]", "[UNK]", "[BOS]", "[EOS]", "[MASK]"
SPECIAL = (PAD, UNK, BOS, EOS, MASK)
MASK_ID = SPECIAL.index(MASK)
"""In every vocabulary that is trained here."""

PROBE = "a \u9f98 \ue000"
"""Letters that no vocabulary has completely: a tokenizer that fails on these fails on
any unknown word.
"""


class Tokenizer:
    """A tokenizer.json with the five special tokens a network here needs."""

    def __init__(
        self, tokenizer: HuggingFaceTokenizer, source: str = "tokenizer"
    ) -> None:
        self._tokenizer, self._source = tokenizer, source
        tokenizer.no_truncation()
        tokenizer.no_padding()
        ids = []
        for token in SPECIAL:
            index = tokenizer.token_to_id(token)
            if index is None:
                raise UserError(
                    f"{source}: no token {token}; add it to the vocabulary or train a"
                    " new tokenizer"
                )
            ids.append(index)
        known = tokenizer.get_vocab().values()
        if max(known) >= len(known):
            raise UserError(
                f"{source}: ids are not 0 to {len(known) - 1} (there is {max(known)})"
            )
        self._batch([PROBE])
        self.pad, self.unk, self.bos, self.eos, self.mask = ids

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read a tokenizer.json."""
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
        write_text(path, self._tokenizer.to_str(pretty=True))

    @property
    def vocab_size(self) -> int:
        return self._tokenizer.get_vocab_size()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the tokenizer's JSON, in hexadecimal."""
        return hashlib.sha256(self._tokenizer.to_str().encode()).hexdigest()

    def _batch(self, sentences: Sequence[str]) -> list[Encoding]:
        """Encodings; a tokenizer that can be read, but not used, is an error of the
        user.
        """
        try:
            return self._tokenizer.encode_batch(sentences, add_special_tokens=False)
        except BaseException as error:
            raise _user_error(
                error, f"{self._source}: cannot cut text into tokens"
            ) from None

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Token ids of each sentence, without [BOS] and [EOS].

        A text that spells a special token, such as [BOS], has [UNK] in its place: the
        frame and the masks of a sequence are never from a text.
        """
        return [self._plain(encoding.ids) for encoding in self._batch(sentences)]

    def _plain(self, ids: list[int]) -> list[int]:
        """Token ids without those of the frame, of masks and of padding."""
        special = {self.bos, self.eos, self.mask, self.pad}
        if special.isdisjoint(ids):
            return ids
        return [self.unk if token in special else token for token in ids]

    def encode_words(
        self, sentences: Sequence[str]
    ) -> list[tuple[list[int], list[int]]]:
        """Token ids of each sentence as `encode` has them, and for each token the
        number of its word.
        """
        encodings = self._batch(sentences)
        numbered = []
        for encoding in encodings:
            words = [-1 if word is None else word for word in encoding.word_ids]
            numbered.append((self._plain(encoding.ids), words))
        return numbered

    def words(self, sentences: Sequence[str]) -> list[list[str]]:
        """The normalised words of each sentence, before they are cut into
        WordPieces.
        """
        normalizer, cut = self._tokenizer.normalizer, self._tokenizer.pre_tokenizer
        normal = (
            normalizer.normalize_str(text) if normalizer else text for text in sentences
        )
        if cut is None or isinstance(cut, pre_tokenizers.WhitespaceSplit):
            return [text.split() for text in normal]
        return [[word for word, _ in cut.pre_tokenize_str(text)] for text in normal]

    def pieces(self, sentences: Sequence[str]) -> list[list[str]]:
        """The WordPieces of each sentence, as text."""
        return [encoding.tokens for encoding in self._batch(sentences)]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [str(self._tokenizer.id_to_token(index)) for index in ids]


def _user_error(error: BaseException, what: str) -> BaseException:
    """A `UserError` for an error of the library; errors that end the program are raised
    again.
    """
    if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
        return error
    return UserError(f"{what} ({' '.join(str(error).split())[:200]})")
