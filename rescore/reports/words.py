"""Words that reranking changed, and words that were respelled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from rapidfuzz.distance import Levenshtein

from rescore.metrics import Metric
from rescore.metrics.alignment import Edit, align, edits_between
from rescore.metrics.base import losses_of
from rescore.metrics.normalise import Normaliser
from rescore.nbest import FIRST_PASS, RECOGNISED, NbestList, Origin

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


@dataclass(frozen=True, slots=True)
class Respelled:
    """One word (or more) in all utterances."""

    heard: str
    written: str
    times: int
    effects: tuple[int, int, int] | None
    """Number of changes that, on their own, are better, worse or neutral; None without references."""


def respellings(metric: Metric, lists: Sequence[NbestList], texts: Sequence[str]) -> list[Respelled]:
    """The respelled words of the chosen texts, the most frequent first.

    The effect is measured on the utterance's errors (by the metric) when only this word changes in the original
    hypothesis.
    """
    changes = [(nbest, *change) for nbest, text in zip(lists, texts, strict=True) for change in _changes(nbest, text)]
    with_references = bool(changes) and all(nbest.references for nbest, *_ in changes)
    effects: Counter[tuple[tuple[str, str], int]] = Counter()
    if with_references:
        lists = [nbest for nbest, *_ in changes]
        before = losses_of(metric, lists, [" ".join(words) for _, words, _ in changes])
        edited = ([*words[: edit.start], *edit.words, *words[edit.end :]] for _, words, edit in changes)
        after = losses_of(metric, lists, list(map(" ".join, edited)))
        for (_, words, edit), change in zip(changes, np.sign(after - before).tolist(), strict=True):
            effects[_sides(words, edit), change] += 1
    times = Counter(_sides(words, edit) for _, words, edit in changes)
    return [
        Respelled(
            *sides, number, (effects[sides, -1], effects[sides, 1], effects[sides, 0]) if with_references else None
        )
        for sides, number in sorted(times.items(), key=lambda item: (-item[1], item[0]))
    ]


def heard(nbest: NbestList, text: str) -> str | None:
    """The hypothesis that a respelled text of the list came from; None for other texts."""
    chosen = next((hypothesis for hypothesis in nbest.hypotheses if hypothesis.text == text), None)
    if chosen is None or chosen.origin is not Origin.RESPELLED:
        return None
    words, first = text.split(), chosen.scores[FIRST_PASS]
    old = [hypothesis for hypothesis in nbest.hypotheses if hypothesis.origin in RECOGNISED]
    sources = [hypothesis for hypothesis in old if hypothesis.scores[FIRST_PASS] == first] or old  # --s2s rank
    texts = [hypothesis.text for hypothesis in sources]
    return min(texts, key=lambda source: Levenshtein.distance(source.split(), words), default=None)


def _changes(nbest: NbestList, text: str) -> Iterator[tuple[list[str], Edit]]:
    """The words of the hypothesis that a respelled text came from, with each change; nothing for other texts."""
    source = heard(nbest, text)
    if source is not None:
        words = source.split()
        for edit in edits_between(words, text.split()):
            yield words, edit


def _sides(words: Sequence[str], edit: Edit) -> tuple[str, str]:
    return " ".join(words[edit.start : edit.end]).lower(), " ".join(edit.words).lower()
