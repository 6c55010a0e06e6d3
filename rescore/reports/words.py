"""Words that reranking changed, and words that were respelled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rescore.metrics.alignment import align
from rescore.metrics.normalise import Normaliser

POSITIONS = 40
"""Places beyond count with this one."""
PAIRS = 20
"""How many word pairs are listed."""

References = Sequence[Sequence[str]]
"""Of each utterance one or more."""


@dataclass(frozen=True, slots=True)
class Position:
    """Word errors at one place of the reference (from 1; insertions count with the word before), and how many words."""

    position: int
    words: int
    """References that have a word there; of two references the longer."""
    first_pass: int
    """Its errors there."""
    reranked: int
    """Its errors there."""


@dataclass(frozen=True, slots=True)
class Confusion:
    """A word of the reference, its replacement in the wrong output (empty for a deletion), and the count."""

    reference: str
    hypothesis: str
    count: int


def by_position(
    normaliser: Normaliser, references: References, first: Sequence[str], reranked: Sequence[str]
) -> list[Position]:
    words, errors = Counter[int](), (Counter[int](), Counter[int]())
    for texts, *outputs in zip(references, first, reranked, strict=True):
        pairs = [normaliser.pair(texts, output) for output in outputs]
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
    normaliser: Normaliser, references: References, wrong: Sequence[str], right: Sequence[str]
) -> list[Confusion]:
    """The most frequent errors of an output at words that the other output has right."""
    counts: Counter[tuple[str, str]] = Counter()
    for texts, *outputs in zip(references, wrong, right, strict=True):
        if outputs[0] == outputs[1]:
            continue
        # Both outputs are compared with the reference in which the wrong output has the fewest errors.
        expected = normaliser(normaliser.closest(texts, outputs[0]))
        bad, good = (
            [pair for pair in align(expected, normaliser(output)) if pair[0] is not None] for output in outputs
        )
        for (word, in_wrong), (_, in_right) in zip(bad, good, strict=True):
            if word is not None and in_wrong != word == in_right:
                counts[word, in_wrong or ""] += 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [Confusion(word, in_wrong, count) for (word, in_wrong), count in ordered[:PAIRS]]


def pairs_line(name: str, pairs: list[Confusion], broken: bool = False) -> str:
    """The most frequent pairs: the word of the first pass, the word after reranking, and how often.

    Args:
        broken: the word of the first pass is the reference; else the word after reranking is.
    """
    shown = []
    for pair in pairs[:8]:
        wrong, right = pair.hypothesis or "(nothing)", pair.reference or "(nothing)"
        shown.append(f"{right if broken else wrong} -> {wrong if broken else right} {pair.count}")
    return f"{name}: {', '.join(shown)}"
