"""Words in context (WiC): whether a word means the same in two sentences, decided by
the cosine of its two vectors (Pilehvar and Camacho-Collados 2019; dissertation,
sections 5.3.4 and 5.3.5).

The dissertation tunes the threshold of the cosine on WiC's training set in steps of
0.1. Here each of ten folds is decided with the threshold that is best on the other
nine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError, counted
from rescore.formats.source import Source
from rescore.metrics.significance import SEED
from rescore.research.similarity import cosines
from rescore.signature import Signature
from rescore.styles import text

if TYPE_CHECKING:
    from rescore.research.vectors import Embedder

FOLDS = 10
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class WordPair:
    """A word in two sentences, and whether it means the same in both."""

    first: str
    second: str
    places: tuple[int, int]
    """The place of the word in each sentence, counted in words from 0."""
    same: bool


@dataclass(frozen=True, slots=True)
class WordAccuracy:
    """How often the cosine of a word's two vectors tells whether its meaning is the
    same.
    """

    name: str
    pairs: int
    accuracy: float
    """Percent; each of ten folds is decided with the best threshold of the others."""
    best: float
    """Percent with the threshold that is best on the set itself: an upper bound."""
    signature: str


def read_word_pairs(path: str | Path, gold: str | Path) -> list[WordPair]:
    """Return the pairs of a WiC data file, with their answers.

    Args:
        path: Lines of word, part of speech, places (such as 3-1) and two sentences,
            with tabs between.
        gold: The answers: a line of T (the same meaning) or F for each pair.

    Raises:
        UserError: A line has another form, there are more lines in one file than in
            the other, or fewer pairs than folds.
    """
    rows = list(Source(path).filled())
    answers = list(Source(gold).filled())
    if len(rows) != len(answers):
        raise UserError(
            f"{gold}: {counted(len(answers), 'answer')} for"
            f" {counted(len(rows), 'pair')} of {path}"
        )
    pairs = []
    for (place, row), (answer_place, answer) in zip(rows, answers, strict=True):
        if answer.strip() not in ("T", "F"):
            raise UserError(f"{answer_place}: expected T or F, found {answer.strip()}")
        pairs.append(_parse(place, row, answer.strip() == "T"))
    if len(pairs) < FOLDS:
        raise UserError(
            f"{path}: {counted(len(pairs), 'pair')}; at least {FOLDS} are needed for"
            " ten folds"
        )
    return pairs


def _parse(place: str, row: str, same: bool) -> WordPair:
    """The pair of a line of the data; `place` is named in errors."""
    try:
        _, _, places, first, second = row.split("\t")
        first_place, second_place = map(int, places.split("-"))
    except ValueError:
        raise UserError(
            f"{place}: expected word, part of speech, places such as 3-1, and two"
            " sentences, with tabs between"
        ) from None
    for number, sentence in ((first_place, first), (second_place, second)):
        words = len(sentence.split())
        if not 0 <= number < words:
            raise UserError(
                f"{place}: the sentence {sentence!r} has {counted(words, 'word')}, and"
                f" no word number {number} (counted from 0)"
            )
    return WordPair(first, second, (first_place, second_place), same)


def measure_words(
    pairs: Sequence[WordPair], embedder: Embedder, centre: bool = False
) -> WordAccuracy:
    """Return how often the cosine of a word's vectors tells whether its meaning is the
    same.

    Args:
        pairs: The pairs and their answers.
        embedder: Makes the vectors, with one model.
        centre: Whether the mean of all vectors is subtracted first.

    Raises:
        UserError: The embedder has several models.
    """
    first = embedder.words(
        [pair.first for pair in pairs], [pair.places[0] for pair in pairs]
    )
    second = embedder.words(
        [pair.second for pair in pairs], [pair.places[1] for pair in pairs]
    )
    values = cosines(first, second, centre)
    same = np.array([pair.same for pair in pairs])
    settings = embedder.options.settings
    if centre:
        settings["centre"] = "yes"
    return WordAccuracy(
        embedder.name,
        len(pairs),
        100 * float(decided_in_folds(values, same).mean()),
        100 * float(((values >= best_threshold(values, same)) == same).mean()),
        str(Signature("acc", settings, columns=embedder.columns)),
    )


def folds(size: int) -> list[Flags]:
    """Return ten random parts of a set, each as flags (size,) of its members."""
    fold = np.random.default_rng(SEED).permutation(size) % FOLDS
    return [fold == part for part in range(FOLDS)]


def decided_in_folds(values: Floats, same: Flags) -> Flags:
    """Return whether each pair (pairs,) is decided rightly, with the threshold that is
    best on the nine folds without it.

    Args:
        values: Cosines of shape (pairs,).
        same: The answers, of shape (pairs,).
    """
    right = np.zeros(len(values), dtype=np.bool_)
    for fold in folds(len(values)):
        threshold = best_threshold(values[~fold], same[~fold])
        right[fold] = (values[fold] >= threshold) == same[fold]
    return right


def best_threshold(values: Floats, same: Flags) -> float:
    """Return the threshold from which on values mean "same" that decides most pairs
    rightly; the lowest of several.

    Args:
        values: Cosines of shape (pairs,), at least one.
        same: The answers, of shape (pairs,).
    """
    distinct = np.unique(values)
    middles = (distinct[1:] + distinct[:-1]) / 2
    thresholds = [-np.inf, *middles, np.inf]
    right = [int(((values >= limit) == same).sum()) for limit in thresholds]
    return float(thresholds[int(np.argmax(right))])


def render(results: Sequence[WordAccuracy]) -> str:
    """Return a table with one row per model, and the signatures."""
    about = (
        f"{counted(results[0].pairs, 'pair')}; percent, with thresholds tuned in ten"
        " folds, and on the set itself"
    )
    signatures = [result.signature for result in results]
    return "\n".join([text(cells(results)), "", about, *signatures])


def cells(results: Sequence[WordAccuracy]) -> list[list[str]]:
    """Return the head of the table, and a row for each model."""
    rows = [["", "accuracy", "best threshold"]]
    for result in results:
        rows.append([result.name, f"{result.accuracy:.1f}", f"{result.best:.1f}"])
    return rows
