"""How well the vectors of a word show whether it means the same in two contexts (WiC)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.formats.source import Source
from rescore.reports.similarity import SEED, Floats, cosines, signed
from rescore.reports.styles import text
from rescore.scoring import LanguageModel, alone

if TYPE_CHECKING:
    from rescore.scoring.vectors import Embedder, VectorOptions

FOLDS = 10


@dataclass(frozen=True, slots=True)
class WordPair:
    """A word in two contexts, and whether its meaning is the same."""

    first: str
    second: str
    places: tuple[int, int]
    """The place of the word in each, counted in words from 0."""
    same: bool


@dataclass(frozen=True, slots=True)
class WordAccuracy:
    """Of telling whether a word has one meaning in two contexts by the cosine of its vectors."""

    name: str
    pairs: int
    accuracy: float
    """Percent; each part of ten with the threshold that is best on the others."""
    best: float
    """Percent, with the threshold that is best on the set itself: an upper bound."""
    signature: str


def read_words(path: str | Path, gold: str | Path) -> list[WordPair]:
    """WiC: lines of word, part of speech, places (3-1), two sentences; and a file of T and F.

    Raises:
        UserError: a line is not so, or the files do not fit each other.
    """
    lines = [line.split("\t") for line in Source(path).lines() if line.strip()]
    marks = [line.strip() for line in Source(gold).lines() if line.strip()]
    if len(lines) != len(marks) or not lines:
        raise UserError(f"{gold}: {len(marks)} lines for {len(lines)} pairs of {path}")
    found = []
    for number, (fields, mark) in enumerate(zip(lines, marks, strict=True), 1):
        try:
            _, _, places, first, second = fields
            one, other = map(int, places.split("-"))
            if one >= len(first.split()) or other >= len(second.split()) or mark not in ("T", "F"):
                raise ValueError
        except ValueError:
            raise UserError(f"{path}: line {number}: expected word, part of speech, places, two sentences") from None
        found.append(WordPair(first, second, (one, other), mark == "T"))
    return found


def measure_words(
    pairs: Sequence[WordPair], lm: LanguageModel, options: VectorOptions, centre: bool = False
) -> WordAccuracy:
    """How well the cosine of a word's vectors in two contexts shows whether its meaning is the same."""
    from rescore.scoring.vectors import Embedder

    embedder = Embedder([lm], options)
    sides = [
        words_vectors(
            embedder, [(pair.first, pair.second)[side] for pair in pairs], [pair.places[side] for pair in pairs]
        )
        for side in (0, 1)
    ]
    signature = str(signed("acc", [lm], options, centre))
    return classify(lm.name, cosines(sides[0], sides[1], centre), [pair.same for pair in pairs], signature)


def classify(name: str, found: Floats, same: Sequence[bool], signature: str) -> WordAccuracy:
    """Whether cosines are above a threshold."""
    wanted = np.array(same)
    fold = np.random.default_rng(SEED).permutation(len(found)) % FOLDS
    right = 0
    for part in range(FOLDS):
        mine = fold == part
        right += int(((found[mine] >= _threshold(found[~mine], wanted[~mine])) == wanted[mine]).sum())
    best = ((found >= _threshold(found, wanted)) == wanted).mean()
    return WordAccuracy(name, len(found), 100 * right / len(found), 100 * float(best), signature)


def _threshold(found: Floats, same: npt.NDArray[np.bool_]) -> float:
    order = np.argsort(found)
    values, marks = found[order], same[order]
    right = np.concatenate([[marks.sum()], marks.sum() + np.cumsum(np.where(marks, -1, 1))])  # those below are "not"
    place = int(right.argmax())
    if place == 0:
        return float(values[0]) - 1e-9
    return float(values[place - 1] + values[place]) / 2 if place < len(values) else float(values[-1]) + 1e-9


def words_vectors(embedder: Embedder, sentences: Sequence[str], places: Sequence[int]) -> Floats:
    """(sentences, d) the mean vector of the tokens of one word each; `places`: of the word, in words from 0."""
    words = word_poolings(embedder, sentences, places)
    found = [word(vectors) for word, (_, vectors) in zip(words, embedder.tokens(sentences), strict=True)]
    return np.stack(found).astype(np.float64)


def word_poolings(embedder: Embedder, sentences: Sequence[str], places: Sequence[int]) -> list[Callable[[Any], Any]]:
    """What makes the mean vector of one word of each sentence out of the vectors of its tokens (tokens, d), an array or
    a tensor; `places`: of the word, in words from 0."""
    network = embedder.lms[0].network
    cut = [sentence.split() for sentence in sentences]
    until = [
        network.encode(alone(" ".join(words[: place + more]) for words, place in zip(cut, places, strict=True)))
        for more in (0, 1)
    ]
    whole = network.encode(alone(sentences))
    return [
        partial(_word, size=len(sentence.ids), first=len(before.ids), last=len(through.ids))
        for sentence, before, through in zip(whole, *until, strict=True)
    ]


def _word(vectors: Any, size: int, first: int, last: int) -> Any:
    """The mean of the vectors of the tokens from `first` on, before `last`, of a sentence of `size` tokens."""
    missing = size - len(vectors)  # first tokens without a vector
    start = max(first - missing, 0)
    mine = vectors[start : max(last - missing, start + 1)]
    return (mine if len(mine) else vectors).mean(0)


def render(found: Sequence[WordAccuracy]) -> str:
    """One row per model, then the signatures."""
    rows = [["", "accuracy", "best threshold"]]
    rows += [[one.name, f"{one.accuracy:.1f}", f"{one.best:.1f}"] for one in found]
    about = f"{found[0].pairs:,} pairs; percent, thresholds tuned in ten folds, and on the set itself"
    return "\n".join([text(rows), "", about, *(one.signature for one in found)])
