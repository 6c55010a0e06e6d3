"""How well sentence vectors tell similarity: STS-B, SICK, pairs in TSV; words in context (WiC)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.evaluation.correlation import Floats, pearson, spearman
from rescore.formats.source import Source
from rescore.scoring import LanguageModel, origin
from rescore.signature import Signature

if TYPE_CHECKING:
    from rescore.scoring.vectors import Embedder, VectorOptions

SEED, TRIALS = 12345, 1_000
FOLDS = 10


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sentences and how similar people find them."""

    first: str
    second: str
    score: float


@dataclass(frozen=True, slots=True)
class WordPair:
    """A word in two contexts, and whether its meaning is the same."""

    first: str
    second: str
    places: tuple[int, int]
    """The place of the word in each, counted in words from 0."""
    same: bool


@dataclass(frozen=True, slots=True)
class Correlations:
    """Of cosines with people's scores."""

    name: str
    pairs: int
    pearson: float
    """Times 100; higher is better."""
    pearson_interval: tuple[float, float]
    """95 % confidence interval by bootstrap over pairs."""
    spearman: float
    """Times 100; higher is better."""
    spearman_interval: tuple[float, float]
    signature: str


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


def read_pairs(path: str | Path) -> list[Pair]:
    """STS-B csv (seven columns with tabs between, the last three: score, two sentences), SICK.txt (with its head line),
    or lines of score, sentence, sentence with tabs between.

    Raises:
        UserError: a line is none of these.
    """
    source = Source(path)
    lines = [line.split("\t") for line in source.lines() if line.strip()]
    if not lines:
        raise UserError(f"{path}: no pair in it")
    places = (0, 1, 2)
    if "sentence_A" in lines[0]:
        head = lines.pop(0)
        places = tuple(head.index(name) for name in ("relatedness_score", "sentence_A", "sentence_B"))  # type: ignore[assignment]
    elif len(lines[0]) >= 7:
        places = (4, 5, 6)
    pairs = []
    for number, fields in enumerate(lines, 1):
        try:
            score, first, second = (fields[place] for place in places)
            if not math.isfinite(float(score)):
                raise ValueError
            pairs.append(Pair(first, second, float(score)))
        except (IndexError, ValueError):
            raise UserError(
                f"{path}: pair {number}: expected score, sentence, sentence with tabs between (or STS-B, SICK)"
            ) from None
    return pairs


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


def cosines(one: npt.NDArray[Any], other: npt.NDArray[Any], centre: bool = False) -> Floats:
    """(pairs,) cosines of rows; `centre`: after the mean of all rows is taken away, as vectors share a direction."""
    one, other = one.astype(np.float64), other.astype(np.float64)
    if centre:
        mean = np.concatenate([one, other]).mean(axis=0)
        one, other = one - mean, other - mean
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return np.divide((one * other).sum(axis=1), norms, out=np.zeros(len(one)), where=norms > 0)


def measure_pairs(
    pairs: Sequence[Pair], lms: Sequence[LanguageModel], options: VectorOptions, centre: bool = False
) -> Correlations:
    """Correlations of cosines of sentence vectors with people's scores; vectors of several models are joined."""
    from rescore.scoring.vectors import Embedder  # torch, where it is used

    embedder = Embedder(lms, options)
    one, other = (embedder.sentences(texts) for texts in ([p.first for p in pairs], [p.second for p in pairs]))
    signature = str(_signature("r", lms, options, centre))
    return correlate(_name(lms), cosines(one, other, centre), [pair.score for pair in pairs], signature)


def measure_words(
    pairs: Sequence[WordPair], lm: LanguageModel, options: VectorOptions, centre: bool = False
) -> WordAccuracy:
    """How well the cosine of a word's vectors in two contexts tells whether its meaning is the same."""
    from rescore.scoring.vectors import Embedder

    embedder = Embedder([lm], options)
    sides = [
        words_vectors(
            embedder, [(pair.first, pair.second)[side] for pair in pairs], [pair.places[side] for pair in pairs]
        )
        for side in (0, 1)
    ]
    signature = str(_signature("acc", [lm], options, centre))
    return classify(lm.name, cosines(sides[0], sides[1], centre), [pair.same for pair in pairs], signature)


def _name(lms: Sequence[LanguageModel]) -> str:
    return " + ".join(lm.name for lm in lms)


def _signature(metric: str, lms: Sequence[LanguageModel], options: VectorOptions, centre: bool) -> Signature:
    settings = {
        "kind": options.kind,
        "layer": "last" if options.layer is None else str(options.layer),
        "pooling": options.pooling,
        **({"special": "yes"} if options.special else {}),
        **({"centre": "yes"} if centre else {}),
    }
    return Signature(metric, settings, columns={lm.name: origin(lm, "none") for lm in lms})


def correlate(name: str, found: Floats, scores: Sequence[float], signature: str) -> Correlations:
    """Pearson's and Spearman's correlations of cosines with scores."""
    wanted = np.array(scores)
    draws = np.random.default_rng(SEED).integers(0, len(found), (TRIALS, len(found)))
    results: list[tuple[float, tuple[float, float]]] = []
    for correlation in (pearson, spearman):
        each = np.sort([correlation(found[draw], wanted[draw]) for draw in draws])
        interval = (100 * float(each[25]), 100 * float(each[-26]))
        results.append((100 * correlation(found, wanted), interval))
    (linear, one), (ranked, other) = results
    return Correlations(name, len(found), linear, one, ranked, other, signature)


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
    network = embedder.lms[0].network
    cut = [sentence.split() for sentence in sentences]
    until = [
        network.encode([" ".join(words[: place + more]) for words, place in zip(cut, places, strict=True)])
        for more in (0, 1)
    ]
    found = []
    for (_, vectors), before, through in zip(embedder.tokens(sentences), *until, strict=True):
        start = len(before.ids)
        mine = vectors[start : max(len(through.ids), start + 1)]
        found.append((mine if len(mine) else vectors).mean(axis=0))
    return np.stack(found).astype(np.float64)
