"""New tokenizers: WordPieces of a text, and its normalisation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers import Tokenizer as HuggingFaceTokenizer

from rescore.errors import UserError
from rescore.lms.options import NORMALISATIONS
from rescore.lms.tokenizer import SPECIAL, UNK, Tokenizer
from rescore.nbest import in_parts

# How text is normalised before it is cut into WordPieces.
#   english: as LibriSpeech transcripts are: lower case, no accents, no punctuation but
#     the apostrophe within a word
#   speech:  the same, but accents stay: for languages where they matter
#   text:    compatibility forms only; case is kept, punctuation marks are tokens
#   folded:  the same in lower case
LONGEST_WORD = 100
BATCH = 10_000
"""Lines that are normalised together."""


def train_wordpiece(
    lines: Iterable[str], vocab_size: int, normalisation: str = "english"
) -> Tokenizer:
    """Train a WordPiece vocabulary (Wu et al. 2016) on an iterator of sentences; memory
    holds the counts of words.

    Equal texts give equal vocabularies with equal ids. Characters beyond the most
    frequent third of the vocabulary, and words of more than 100 characters, are left to
    [UNK].
    """
    counts = _word_counts(lines, normalisation)
    letters: Counter[str] = Counter()
    for word, count in counts.items():
        letters.update(dict.fromkeys(word, count))
    frequent = sorted(letters, key=lambda letter: (-letters[letter], letter))[
        : max(1, vocab_size // 3)
    ]
    alphabet = sorted(frequent)
    known = set(alphabet)
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
    usable = (
        (word, count)
        for word, count in sorted(counts.items())
        if known.issuperset(word)
    )
    plain.train_from_iterator(_repeated(usable), trainer=trainer)
    entries = sorted(plain.get_vocab().items(), key=lambda item: item[1])
    vocabulary = {token: index for index, (token, _) in enumerate(entries)}
    tokenizer = _normalising(normalisation, models.WordPiece(vocabulary, unk_token=UNK))
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens([token for token in SPECIAL if token in vocabulary])
    return Tokenizer(tokenizer)


def _word_counts(lines: Iterable[str], normalisation: str) -> Counter[str]:
    cut = word_tokenizer(normalisation)
    counts: Counter[str] = Counter()
    for batch in in_parts(lines, BATCH):
        for words in cut.words(batch):
            counts.update(word for word in words if len(word) <= LONGEST_WORD)
    return counts


def _repeated(counts: Iterable[tuple[str, int]], size: int = 1 << 16) -> Iterator[str]:
    """Texts that contain each word as often as it was counted."""
    for word, count in counts:
        most = max(1, size // (len(word) + 1))
        for start in range(0, count, most):
            yield f"{word} " * min(most, count - start)


def word_tokenizer(normalisation: str = "english") -> Tokenizer:
    """A tokenizer for its `words` only: it normalises and cuts text, and knows no
    WordPieces.
    """
    vocabulary = {token: index for index, token in enumerate(SPECIAL)}
    return Tokenizer(
        _normalising(normalisation, models.WordPiece(vocabulary, unk_token=UNK))
    )


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
                normalizers.Replace(
                    Regex(r"(?<![\p{L}\p{M}\p{N}])'|'(?![\p{L}\p{M}\p{N}])"), " "
                ),
            ]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    elif normalisation in ("text", "folded"):
        folding = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
        tokenizer.normalizer = (
            folding if normalisation == "folded" else normalizers.NFKC()
        )
        tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    else:
        raise UserError(
            f"normalisation {normalisation!r} is not one of {', '.join(NORMALISATIONS)}"
        )
    return tokenizer
