"""The errors of an output word by word: which words are wrong, and which utterances
have the most errors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rescore.dataset import Dataset
from rescore.metrics import Normaliser
from rescore.metrics.alignment import align

PAIRS = 20
"""Number of word pairs, and of utterances with errors, in the record."""
WordPairs = list[tuple[str, str]]
"""Words of a reference, each with the word of an output in its place; an empty word
stands for a missing partner.
"""


@dataclass(frozen=True, slots=True)
class Confusion:
    """An error of an output."""

    reference: str
    """The word of the references; empty for an insertion."""
    hypothesis: str
    """The word in its place; empty for a deletion."""
    count: int


@dataclass(frozen=True, slots=True)
class WithErrors:
    """An utterance whose output has errors."""

    id: str
    errors: int
    """Wrong, missing and additional words."""
    words: int
    """Words of the reference."""


def confused(
    normaliser: Normaliser,
    lists: Dataset,
    wrong: Sequence[str],
    right: Sequence[str],
) -> Counter[tuple[str, str]]:
    """Return the errors of an output at words that another output has right.

    Args:
        normaliser: Cuts texts into words.
        lists: The lists, with their references.
        wrong: The output with the errors, one text per list.
        right: The other output.

    Returns:
        The number of each pair of a word of the references and the word in its place,
        which is empty for a deletion.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for nbest, wrong_text, right_text in zip(lists, wrong, right, strict=True):
        if wrong_text == right_text:
            continue
        # Both outputs are compared with the reference in which the wrong output has the
        # fewest errors.
        reference = normaliser.closest(nbest.references, wrong_text)
        in_wrong = without_insertions(word_pairs(normaliser, reference, wrong_text))
        in_right = without_insertions(word_pairs(normaliser, reference, right_text))
        for (word, wrong_word), (_, right_word) in zip(in_wrong, in_right, strict=True):
            if wrong_word != word and right_word == word:
                counts[word, wrong_word] += 1
    return counts


def aligned(
    normaliser: Normaliser, lists: Dataset, texts: Sequence[str]
) -> Iterator[WordPairs]:
    """Yield the words of the closest reference of each list, each with the word of an
    output in its place, in sclite's alignment.

    Args:
        normaliser: Cuts texts into words.
        lists: The lists, with their references.
        texts: The output, one text per list.

    Yields:
        Pairs of a word of the reference, which is empty for an insertion, and the word
        in its place, which is empty for a deletion.
    """
    for nbest, text in zip(lists, texts, strict=True):
        reference = normaliser.closest(nbest.references, text)
        yield word_pairs(normaliser, reference, text)


def word_errors(alignments: Iterable[WordPairs]) -> Counter[tuple[str, str]]:
    """Return the errors of an output. Their sum is the number of errors in the WER.

    Args:
        alignments: The words of each list, as `aligned` yields them.

    Returns:
        The number of each pair of different words.
    """
    counts: Counter[tuple[str, str]] = Counter()
    for pairs in alignments:
        counts.update(_errors_of(pairs))
    return counts


def most_errors(lists: Dataset, alignments: Iterable[WordPairs]) -> list[WithErrors]:
    """Return the utterances with the most errors; of utterances with equally many
    errors, the first of the lists.

    Args:
        lists: The lists.
        alignments: The words of each list, as `aligned` yields them.
    """
    utterances = []
    for nbest, pairs in zip(lists, alignments, strict=True):
        errors = len(_errors_of(pairs))
        words = len(without_insertions(pairs))
        if errors:
            utterances.append(WithErrors(nbest.id, errors, words))
    utterances.sort(key=lambda utterance: -utterance.errors)
    return utterances[:PAIRS]


def _errors_of(pairs: WordPairs) -> WordPairs:
    """Return the pairs of different words."""
    return [(word, heard) for word, heard in pairs if word != heard]


def word_pairs(normaliser: Normaliser, reference: str, output: str) -> WordPairs:
    """Return the words of a reference, each with the word of an output in its place; an
    empty word stands for a missing partner.
    """
    pairs = align(*normaliser.pair([reference], output))
    return [(expected or "", word or "") for expected, word in pairs]


def without_insertions(pairs: WordPairs) -> WordPairs:
    """Return the pairs that have a word of the reference."""
    return [pair for pair in pairs if pair[0]]


def most_frequent(counts: Counter[tuple[str, str]]) -> list[Confusion]:
    """Return the most frequent errors; equally frequent errors in the order of the
    alphabet.
    """
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Confusion(*words, count) for words, count in ordered[:PAIRS]]
