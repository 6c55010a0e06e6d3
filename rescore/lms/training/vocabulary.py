"""New tokenizers: WordPieces of a text, and its normalisation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as HuggingFaceTokenizer

from rescore.errors import UserError
from rescore.lms.options import NORMALISATIONS
from rescore.lms.tokenizer import SPECIAL, UNK, Tokenizer
from rescore.nbest import in_parts

LONGEST_WORD = 100
"""Letters of a word, at most; longer words are [UNK]."""
BLANK = "\u2581"
"""The token of a blank between words, where characters are tokens."""
BATCH = 10_000
"""Lines that are normalised together."""


def train_wordpiece(
    lines: Iterable[str], vocab_size: int, normalisation: str = "english"
) -> Tokenizer:
    """Train a WordPiece vocabulary (Wu et al. 2016); memory holds the counts of words.

    Equal texts give equal vocabularies with equal ids. Characters beyond the most
    frequent third of the vocabulary, and words of more than 100 characters, are left to
    [UNK].

    Args:
        lines: The sentences.
        vocab_size: Number of WordPieces, with the special tokens; a small text may give
            fewer, and a large alphabet more.
        normalisation: One of `NORMALISATIONS`.

    Raises:
        UserError: There is no such normalisation.
    """
    counts = _word_counts(lines, normalisation)
    alphabet = _alphabet(counts, max(1, vocab_size // 3))
    # The library numbers characters in random order: they get their numbers beforehand,
    # also as continuations.
    first = [*SPECIAL, *alphabet, *(f"##{letter}" for letter in alphabet)]
    plain = HuggingFaceTokenizer(models.WordPiece({UNK: 1}, unk_token=UNK))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=max(vocab_size, len(first)),
        special_tokens=first,
        show_progress=False,
        limit_alphabet=len(alphabet),
    )
    letters = set(alphabet)
    usable = [item for item in sorted(counts.items()) if letters.issuperset(item[0])]
    plain.train_from_iterator(_repeated(usable), trainer=trainer)
    entries = sorted(plain.get_vocab().items(), key=lambda item: item[1])
    vocabulary = {token: index for index, (token, _) in enumerate(entries)}
    tokenizer = _normalising(normalisation, models.WordPiece(vocabulary, unk_token=UNK))
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens([token for token in SPECIAL if token in vocabulary])
    return Tokenizer(tokenizer)


def _alphabet(counts: Mapping[str, int], size: int) -> list[str]:
    """Return the letters that are in the most words, in order."""
    letters: Counter[str] = Counter()
    for word, count in counts.items():
        letters.update(dict.fromkeys(word, count))
    by_frequency = sorted(letters, key=lambda letter: (-letters[letter], letter))
    return sorted(by_frequency[:size])


def _word_counts(lines: Iterable[str], normalisation: str) -> Counter[str]:
    """Return how often each word occurs, without words that are too long."""
    cut = word_tokenizer(normalisation)
    counts: Counter[str] = Counter()
    for batch in in_parts(lines, BATCH):
        for words in cut.words(batch):
            counts.update(word for word in words if len(word) <= LONGEST_WORD)
    return counts


def _repeated(counts: Iterable[tuple[str, int]], size: int = 1 << 16) -> Iterator[str]:
    """Yield texts that contain each word as often as it was counted."""
    for word, count in counts:
        most = max(1, size // (len(word) + 1))
        for start in range(0, count, most):
            yield f"{word} " * min(most, count - start)


def word_tokenizer(normalisation: str = "english") -> Tokenizer:
    """Return a tokenizer for its method `words` only: it normalises and cuts text, and
    has no WordPieces.

    Args:
        normalisation: One of `NORMALISATIONS`.

    Raises:
        UserError: There is no such normalisation.
    """
    vocabulary = {token: index for index, token in enumerate(SPECIAL)}
    model = models.WordPiece(vocabulary, unk_token=UNK)
    return Tokenizer(_normalising(normalisation, model))


def character_tokenizer(normalisation: str = "english") -> Tokenizer:
    """Return a tokenizer for its method `words` only, whose words are the characters of
    normalised text. A blank between words is the character `BLANK`.

    Args:
        normalisation: One of `NORMALISATIONS`.

    Raises:
        UserError: There is no such normalisation.
    """
    vocabulary = {token: index for index, token in enumerate(SPECIAL)}
    tokenizer = _normalising(normalisation, models.WordPiece(vocabulary, unk_token=UNK))
    blanks = [normalizers.Strip(), normalizers.Replace(Regex(r"\s+"), BLANK)]
    tokenizer.normalizer = normalizers.Sequence([tokenizer.normalizer, *blanks])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    return Tokenizer(tokenizer)


def _normalising(normalisation: str, model: models.Model) -> HuggingFaceTokenizer:
    """Return a tokenizer that normalises text before it is cut into WordPieces.

    - english: as LibriSpeech transcripts are: lower case, no accents, no punctuation
      but the apostrophe within a word
    - speech: the same, but accents stay: for languages where they matter
    - text: compatibility forms only; case is kept, punctuation marks are tokens
    - folded: the same in lower case
    """
    tokenizer = HuggingFaceTokenizer(model)
    compatibility = normalizers.NFKC()
    lower_case = normalizers.Lowercase()
    if normalisation == "english":
        without_accents = [
            normalizers.NFD(),
            normalizers.Replace(Regex("[\u0300-\u036f]"), ""),
        ]
        steps = [*without_accents, compatibility, lower_case, *_without_punctuation()]
    elif normalisation == "speech":
        steps = [compatibility, lower_case, *_without_punctuation()]
    elif normalisation == "text":
        steps = [compatibility]
    elif normalisation == "folded":
        steps = [compatibility, lower_case]
    else:
        raise UserError(
            f"normalisation {normalisation!r} is not one of {', '.join(NORMALISATIONS)}"
        )
    # a sequence of a single step would be another tokenizer.json
    tokenizer.normalizer = normalizers.Sequence(steps) if len(steps) > 1 else steps[0]
    if normalisation in ("english", "speech"):
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _without_punctuation() -> list[normalizers.Normalizer]:
    """Return the steps that leave letters, marks, digits, and apostrophes in words."""
    letter = r"[\p{L}\p{M}\p{N}]"
    return [
        normalizers.Replace(Regex("[\u2018\u2019\u02bc]"), "'"),
        normalizers.Replace(Regex(r"[^\p{L}\p{M}\p{N}'\s]+"), " "),
        normalizers.Replace(Regex(rf"(?<!{letter})'|'(?!{letter})"), " "),
    ]
