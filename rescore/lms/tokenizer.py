"""Tokenizers of WordPieces or words: training, loading, encoding. Normalisation is defined in tokenizer.json alone."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tokenizers import Encoding, Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as HuggingFaceTokenizer

from rescore.errors import UserError
from rescore.files import write_text
from rescore.lms.options import NORMALISATIONS

PAD, UNK, BOS, EOS, MASK = "[PAD]", "[UNK]", "[BOS]", "[EOS]", "[MASK]"
SPECIAL = (PAD, UNK, BOS, EOS, MASK)
MASK_ID = SPECIAL.index(MASK)
"""In every vocabulary that is trained here."""

# How text is normalised before it is cut into WordPieces.
#   english: as LibriSpeech transcripts are: lower case, no accents, no punctuation but the apostrophe within a word
#   speech:  the same, but accents stay: for languages where they matter
#   text:    compatibility forms only; case is kept, punctuation marks are tokens
#   folded:  the same in lower case
LONGEST_WORD = 100
PROBE = "a \u9f98 \ue000"
"""Letters that no vocabulary has completely: a tokenizer that fails on these fails on any unknown word."""


class Tokenizer:
    """A tokenizer.json with the five special tokens a network here needs."""

    def __init__(self, tokenizer: HuggingFaceTokenizer, source: str = "tokenizer") -> None:
        self._tokenizer, self._source = tokenizer, source
        tokenizer.no_truncation()
        tokenizer.no_padding()
        ids = []
        for token in SPECIAL:
            index = tokenizer.token_to_id(token)
            if index is None:
                raise UserError(f"{source}: no token {token}; add it to the vocabulary or train a new tokenizer")
            ids.append(index)
        known = tokenizer.get_vocab().values()
        if max(known) >= len(known):
            raise UserError(f"{source}: ids are not 0 to {len(known) - 1} (there is {max(known)})")
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
        except BaseException as error:  # the library raises plain Exception, or panics, for files that it cannot parse
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
        """Encodings; a tokenizer that can be read, but not used, is an error of the user."""
        try:
            return self._tokenizer.encode_batch(sentences, add_special_tokens=False)
        except BaseException as error:
            raise _user_error(error, f"{self._source}: cannot cut text into tokens") from None

    def encode(self, sentences: Sequence[str]) -> list[list[int]]:
        """Token ids of each sentence, without [BOS] and [EOS]."""
        return [encoding.ids for encoding in self._batch(sentences)]

    def encode_words(self, sentences: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """Token ids of each sentence as `encode` has them, and for each token the number of its word."""
        encodings = self._batch(sentences)
        return [(encoding.ids, [-1 if word is None else word for word in encoding.word_ids]) for encoding in encodings]

    def words(self, sentences: Sequence[str]) -> list[list[str]]:
        """The normalised words of each sentence, before they are cut into WordPieces."""
        normalizer, cut = self._tokenizer.normalizer, self._tokenizer.pre_tokenizer
        normal = (normalizer.normalize_str(text) if normalizer else text for text in sentences)
        if cut is None or isinstance(cut, pre_tokenizers.WhitespaceSplit):
            return [text.split() for text in normal]
        return [[word for word, _ in cut.pre_tokenize_str(text)] for text in normal]

    def pieces(self, sentences: Sequence[str]) -> list[list[str]]:
        """The WordPieces of each sentence, as text."""
        return [encoding.tokens for encoding in self._batch(sentences)]

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [str(self._tokenizer.id_to_token(index)) for index in ids]


def _user_error(error: BaseException, what: str) -> BaseException:
    """A `UserError` for an error of the library; errors that end the program are raised again."""
    if isinstance(error, KeyboardInterrupt | SystemExit | GeneratorExit):
        return error
    return UserError(f"{what} ({' '.join(str(error).split())[:200]})")


def train_wordpiece(lines: Iterable[str], vocab_size: int, normalisation: str = "english") -> Tokenizer:
    """Train a WordPiece vocabulary (Wu et al. 2016) on an iterator of sentences; memory holds the counts of words.

    Equal texts give equal vocabularies with equal ids. Characters beyond the most frequent third of the
    vocabulary, and words of more than 100 characters, are left to [UNK].
    """
    counts = _word_counts(lines, normalisation)
    letters: Counter[str] = Counter()
    for word, count in counts.items():
        letters.update(dict.fromkeys(word, count))
    frequent = sorted(letters, key=lambda letter: (-letters[letter], letter))[: max(1, vocab_size // 3)]
    alphabet = sorted(frequent)
    known = set(alphabet)
    # The library numbers characters in random order: they get their numbers beforehand, also as continuations.
    first = [*SPECIAL, *alphabet, *(f"##{letter}" for letter in alphabet)]
    plain = HuggingFaceTokenizer(models.WordPiece({UNK: 1}, unk_token=UNK))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=max(vocab_size, len(first)), special_tokens=first, show_progress=False, limit_alphabet=len(alphabet)
    )
    usable = ((word, count) for word, count in sorted(counts.items()) if known.issuperset(word))
    plain.train_from_iterator(_repeated(usable), trainer=trainer)
    entries = sorted(plain.get_vocab().items(), key=lambda item: item[1])
    vocabulary = {token: index for index, (token, _) in enumerate(entries)}
    tokenizer = _normalising(normalisation, models.WordPiece(vocabulary, unk_token=UNK))
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens([token for token in SPECIAL if token in vocabulary])
    return Tokenizer(tokenizer)


def train_words(lines: Iterable[str], vocab_size: int, normalisation: str = "english") -> Tokenizer:
    """A vocabulary of the most frequent words and the special tokens; other words are [UNK] (dissertation, chapter 3).

    Ties in frequency are broken alphabetically.
    """
    counts = _word_counts(lines, normalisation)
    frequent = sorted(counts, key=lambda word: (-counts[word], word))[: max(0, vocab_size - len(SPECIAL))]
    vocabulary = {token: index for index, token in enumerate([*SPECIAL, *frequent])}
    tokenizer = _normalising(normalisation, models.WordLevel(vocabulary, unk_token=UNK))
    tokenizer.add_special_tokens(list(SPECIAL))
    return Tokenizer(tokenizer)


def _word_counts(lines: Iterable[str], normalisation: str) -> Counter[str]:
    cut = word_tokenizer(normalisation)
    counts: Counter[str] = Counter()
    for batch in _batched(lines):
        for words in cut.words(batch):
            counts.update(word for word in words if len(word) <= LONGEST_WORD)
    return counts


VOCABULARIES: dict[str, Callable[[Iterable[str], int, str], Tokenizer]] = {
    "wordpiece": train_wordpiece,
    "words": train_words,
}
"""The kinds of vocabularies; each is made from a text, a number of tokens and a normalisation."""


def _repeated(counts: Iterable[tuple[str, int]], size: int = 1 << 16) -> Iterator[str]:
    """Texts that contain each word as often as it was counted."""
    for word, count in counts:
        most = max(1, size // (len(word) + 1))
        for start in range(0, count, most):
            yield f"{word} " * min(most, count - start)


def word_tokenizer(normalisation: str = "english") -> Tokenizer:
    """A tokenizer for its `words` only: it normalises and cuts text, and knows no WordPieces."""
    vocabulary = {token: index for index, token in enumerate(SPECIAL)}
    return Tokenizer(_normalising(normalisation, models.WordPiece(vocabulary, unk_token=UNK)))


def _normalising(normalisation: str, model: models.Model) -> HuggingFaceTokenizer:
    tokenizer = HuggingFaceTokenizer(model)
    if normalisation in ("english", "speech"):
        accents = [normalizers.NFD(), normalizers.Replace(Regex("[\u0300-\u036f]"), "")]
        tokenizer.normalizer = normalizers.Sequence(
            [
                *(accents if normalisation == "english" else []),
                normalizers.NFKC(),
                normalizers.Lowercase(),
                normalizers.Replace(Regex("[\u2018\u2019\u02bc]"), "'"),
                normalizers.Replace(Regex(r"[^\p{L}\p{M}\p{N}'\s]+"), " "),
                normalizers.Replace(Regex(r"(?<![\p{L}\p{M}\p{N}])'|'(?![\p{L}\p{M}\p{N}])"), " "),
            ]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    elif normalisation in ("text", "folded"):
        folding = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
        tokenizer.normalizer = folding if normalisation == "folded" else normalizers.NFKC()
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    else:
        raise UserError(f"normalisation {normalisation!r} is not one of {', '.join(NORMALISATIONS)}")
    return tokenizer


def _batched(lines: Iterable[str], size: int = 10_000) -> Iterator[list[str]]:
    batch: list[str] = []
    for line in lines:
        batch.append(line)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
