"""Errors word by word: at what place of the sentence, which word for which, and of which kinds of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rescore.metrics.alignment import align
from rescore.metrics.normalise import Normaliser

POSITIONS = 40
"""Places beyond count with this one."""
PAIRS = 20
"""How many word pairs are listed."""
NUMBERS = frozenset(
    [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
        "thirty",
        "forty",
        "fifty",
        "sixty",
        "seventy",
        "eighty",
        "ninety",
        "hundred",
        "thousand",
        "million",
        "billion",
    ]
)
"""English number words; whatever has a digit is a number, too."""


@dataclass(frozen=True, slots=True)
class Position:
    """Word errors at one place of the reference (from 1; insertions count with the word before), and how many words."""

    position: int
    words: int
    """References that have a word there; of two readings the longer."""
    first_pass: int
    """Its errors there."""
    reranked: int
    """Its errors there."""


@dataclass(frozen=True, slots=True)
class Confusion:
    """A word of the reference and what stood for it in the wrong output (empty: nothing); how often."""

    reference: str
    hypothesis: str
    count: int


@dataclass(frozen=True, slots=True)
class ClassErrors:
    """The word errors of one kind of words: of the reference's, and those inserted."""

    name: str
    """`numbers`, `names` (with a capital within a sentence, where the references have both cases), `rare` (once in all
    references)."""
    words: int
    """In the references."""
    first_pass: float
    """Errors in a hundred of them."""
    reranked: float


def by_position(
    normaliser: Normaliser, references: Sequence[str], first: Sequence[str], reranked: Sequence[str]
) -> list[Position]:
    words, errors = Counter[int](), (Counter[int](), Counter[int]())
    for reference, *outputs in zip(references, first, reranked, strict=True):
        pairs = [normaliser.nearest(reference, output) for output in outputs]
        longest = max(len(expected) for expected, _ in pairs)
        words.update(min(place, POSITIONS) for place in range(1, longest + 1))
        for counter, pair in zip(errors, pairs, strict=True):
            place = 0
            for word, hypothesis_word in align(*pair):
                place += word is not None
                if word != hypothesis_word:
                    counter[min(max(place, 1), POSITIONS)] += 1
    return [Position(place, words[place], errors[0][place], errors[1][place]) for place in sorted(words)]


def pairs_of(
    normaliser: Normaliser, references: Sequence[str], wrong: Sequence[str], right: Sequence[str]
) -> list[Confusion]:
    """The most frequent errors of one output at words that the other has right."""
    found: Counter[tuple[str, str]] = Counter()
    for reference, *outputs in zip(references, wrong, right, strict=True):
        if outputs[0] == outputs[1]:
            continue
        # One reading of the reference for both: that in which the wrong output has the fewest errors.
        expected = normaliser.nearest(reference, outputs[0])[0]
        bad, good = (
            [pair for pair in align(*normaliser.nearest(expected, output)) if pair[0] is not None] for output in outputs
        )
        for (word, in_wrong), (_, in_right) in zip(bad, good, strict=True):
            if word is not None and in_wrong != word == in_right:
                found[word, in_wrong or ""] += 1
    ordered = sorted(found.items(), key=lambda item: (-item[1], item[0]))
    return [Confusion(word, in_wrong, count) for (word, in_wrong), count in ordered[:PAIRS]]


def by_class(
    normaliser: Normaliser, references: Sequence[str], first: Sequence[str], reranked: Sequence[str]
) -> list[ClassErrors]:
    """The error rates of kinds of words; those that the references do not have are left out."""
    counts = Counter(word for reference in references for word in normaliser.reference(reference))
    kinds = {
        "numbers": {word for word in counts if word in NUMBERS or any(map(str.isdigit, word))},
        "names": _names(normaliser, references),
        "rare": {word for word, count in counts.items() if count == 1},
    }
    errors = [_errors(normaliser, references, output) for output in (first, reranked)]
    found = []
    for name, kind in kinds.items():
        words = sum(counts[word] for word in kind)
        if words:
            rates = (100 * sum(one[word] for word in kind) / words for one in errors)
            found.append(ClassErrors(name, words, *rates))
    return found


def _names(normaliser: Normaliser, references: Sequence[str]) -> set[str]:
    """Words that begin with a capital within a sentence and go on in lower case."""
    words = {word for reference in references for word in reference.split()[1:] if word.istitle()}
    return {one for word in words for one in normaliser.reference(word)}


def _errors(normaliser: Normaliser, references: Sequence[str], output: Sequence[str]) -> Counter[str]:
    """How often each word was wrong: the reference's, or one that was inserted."""
    found = Counter[str]()
    for reference, text in zip(references, output, strict=True):
        expected, words = normaliser.nearest(reference, text)
        if expected != words:
            pairs = align(expected, words)
            found.update(str(other if word is None else word) for word, other in pairs if word != other)
    return found


def class_rows(found: Iterable[ClassErrors]) -> list[list[str]]:
    """The cells of a table."""
    head = ["errors in a hundred", "words", "first pass", "reranked"]
    return [head, *([one.name, f"{one.words:,}", f"{one.first_pass:.2f}", f"{one.reranked:.2f}"] for one in found)]


def pairs_line(name: str, pairs: list[Confusion]) -> str:
    shown = (f"{pair.hypothesis or '(nothing)'} for {pair.reference} {pair.count}" for pair in pairs[:8])
    return f"{name}: {', '.join(shown)}"
