"""How well vectors tell similarity: of sentences, and of words in context (WiC)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError, counted
from rescore.formats.source import Source
from rescore.lms import LanguageModel, origin
from rescore.metrics.significance import SEED
from rescore.research.kinds import VectorOptions
from rescore.research.vectors import Embedder
from rescore.signature import Signature
from rescore.styles import text

TRIALS = 1_000
FOLDS = 10
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RatedPair:
    """Two sentences and how similar people find them."""

    first: str
    second: str
    score: float


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


def read_pairs(path: str | Path) -> list[RatedPair]:
    """STS-B csv (seven columns with tabs between, the last three: score, two sentences), SICK.txt (with its head line),
    or lines of score, sentence, sentence with tabs between.

    Raises:
        UserError: a line has another form.
    """
    lines = [line.split("\t") for line in Source(path).lines() if line.strip()]
    if not lines:
        raise UserError(f"{path}: no pair in it")
    places = [0, 1, 2]
    if "sentence_A" in lines[0]:
        head = lines.pop(0)
        places = [head.index(name) for name in ("relatedness_score", "sentence_A", "sentence_B")]
    elif len(lines[0]) >= 7:
        places = [4, 5, 6]
    pairs = []
    for number, fields in enumerate(lines, 1):
        try:
            score, first, second = (fields[place] for place in places)
            if not math.isfinite(float(score)):
                raise ValueError
            pairs.append(RatedPair(first, second, float(score)))
        except (IndexError, ValueError):
            raise UserError(
                f"{path}: pair {number}: expected score, sentence, sentence with tabs between (or STS-B, SICK)"
            ) from None
    return pairs


def cosines(first: npt.NDArray[Any], second: npt.NDArray[Any], centre: bool = False) -> Floats:
    """(pairs,) cosines of rows; `centre`: after the mean of all rows is taken away, as vectors share a direction."""
    first, second = first.astype(np.float64), second.astype(np.float64)
    if centre:
        mean = np.concatenate([first, second]).mean(axis=0)
        first, second = first - mean, second - mean
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.divide((first * second).sum(axis=1), norms, out=np.zeros(len(first)), where=norms > 0)


def measure_pairs(
    pairs: Sequence[RatedPair], lms: Sequence[LanguageModel], options: VectorOptions, centre: bool = False
) -> Correlations:
    """Correlations of cosines of sentence vectors with people's scores; vectors of several models are joined."""
    embedder = Embedder(lms, options)
    first, second = (embedder.sentences(texts) for texts in ([p.first for p in pairs], [p.second for p in pairs]))
    values, scores = cosines(first, second, centre), np.array([pair.score for pair in pairs])
    draws = np.random.default_rng(SEED).integers(0, len(values), (TRIALS, len(values)))
    linear, ranked = (
        (100 * correlation(values, scores), interval([correlation(values[draw], scores[draw]) for draw in draws]))
        for correlation in (pearson, spearman)
    )
    name = " + ".join(lm.name for lm in lms)
    return Correlations(name, len(pairs), *linear, *ranked, str(signed("r", lms, options, centre)))


def interval(trials: Sequence[float] | Floats) -> tuple[float, float]:
    """The 95 % confidence interval of a figure from its values in 1,000 trials, times 100."""
    ordered = np.sort(trials)
    return 100 * float(ordered[25]), 100 * float(ordered[-26])


def signed(metric: str, lms: Sequence[LanguageModel], options: VectorOptions, centre: bool) -> Signature:
    """The signature of a figure from vectors."""
    settings = {
        "kind": options.kind,
        "layer": "last" if options.layer is None else str(options.layer),
        "pooling": "mean",
        **({"centre": "yes"} if centre else {}),
    }
    return Signature(metric, settings, columns={lm.name: origin(lm, "none") for lm in lms})


def render(results: Sequence[Correlations]) -> str:
    """One row per model, then the signatures."""
    rows = [["", "Pearson", "95 % CI", "Spearman", "95 % CI"]]
    for result in results:
        bounds = ["{:.1f}-{:.1f}".format(*ends) for ends in (result.pearson_interval, result.spearman_interval)]
        rows.append([result.name, f"{result.pearson:.1f}", bounds[0], f"{result.spearman:.1f}", bounds[1]])
    about = f"{counted(results[0].pairs, 'pair')}; correlations times 100"
    return "\n".join([text(rows), "", about, *(result.signature for result in results)])


@dataclass(frozen=True, slots=True)
class WordPair:
    """A word in two contexts, and whether both have the same meaning."""

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
    """In percent; each of ten parts is tested with the best threshold of the other parts."""
    best: float
    """Percent, with the threshold that is best on the set itself: an upper bound."""
    signature: str


def read_words(path: str | Path, gold: str | Path) -> list[WordPair]:
    """WiC: lines of word, part of speech, places (3-1), two sentences; and a file of T and F.

    Raises:
        UserError: a line has another form, or the files do not fit each other.
    """
    lines = [line.split("\t") for line in Source(path).lines() if line.strip()]
    marks = [line.strip() for line in Source(gold).lines() if line.strip()]
    if len(lines) != len(marks) or not lines:
        raise UserError(f"{gold}: {counted(len(marks), 'line')} for {counted(len(lines), 'pair')} of {path}")
    pairs = []
    for number, (fields, mark) in enumerate(zip(lines, marks, strict=True), 1):
        try:
            _, _, places, first, second = fields
            first_place, second_place = map(int, places.split("-"))
            if first_place >= len(first.split()) or second_place >= len(second.split()) or mark not in ("T", "F"):
                raise ValueError
        except ValueError:
            raise UserError(f"{path}: line {number}: expected word, part of speech, places, two sentences") from None
        pairs.append(WordPair(first, second, (first_place, second_place), mark == "T"))
    return pairs


def measure_words(
    pairs: Sequence[WordPair], lm: LanguageModel, options: VectorOptions, centre: bool = False
) -> WordAccuracy:
    """The accuracy of deciding by the cosine of a word's two vectors whether its meaning is equal in both contexts."""
    embedder = Embedder([lm], options)
    first = embedder.words([pair.first for pair in pairs], [pair.places[0] for pair in pairs])
    second = embedder.words([pair.second for pair in pairs], [pair.places[1] for pair in pairs])
    signature = str(signed("acc", [lm], options, centre))
    return classify(lm.name, cosines(first, second, centre), [pair.same for pair in pairs], signature)


def classify(name: str, values: Floats, same: Sequence[bool], signature: str) -> WordAccuracy:
    """Whether cosines are above a threshold."""
    wanted = np.array(same)
    fold = np.random.default_rng(SEED).permutation(len(values)) % FOLDS
    right = 0
    for part in range(FOLDS):
        mine = fold == part
        right += int(((values[mine] >= _threshold(values[~mine], wanted[~mine])) == wanted[mine]).sum())
    best = ((values >= _threshold(values, wanted)) == wanted).mean()
    return WordAccuracy(name, len(values), 100 * right / len(values), 100 * float(best), signature)


def _threshold(cosine_values: Floats, same: npt.NDArray[np.bool_]) -> float:
    """The threshold with the most right answers, half-way between two cosines."""
    order = np.argsort(cosine_values)
    values, marks = cosine_values[order], same[order]
    right = np.concatenate([[marks.sum()], marks.sum() + np.cumsum(np.where(marks, -1, 1))])  # those below are "not"
    right[1:-1][np.diff(values) == 0] = -1  # no threshold parts equal cosines
    place = int(right.argmax())
    if place == 0:
        return float(values[0]) - 1e-9
    return float(values[place - 1] + values[place]) / 2 if place < len(values) else float(values[-1]) + 1e-9


def render_word_accuracies(accuracies: Sequence[WordAccuracy]) -> str:
    """One row per model, then the signatures."""
    rows = [["", "accuracy", "best threshold"]]
    rows += [[result.name, f"{result.accuracy:.1f}", f"{result.best:.1f}"] for result in accuracies]
    about = f"{counted(accuracies[0].pairs, 'pair')}; percent, thresholds tuned in ten folds, and on the set itself"
    return "\n".join([text(rows), "", about, *(result.signature for result in accuracies)])


def pearson(first: Floats, second: Floats) -> float:
    """Pearson's correlation of two columns of numbers, from -1 to 1; 0 where one does not vary."""
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def spearman(first: Floats, second: Floats) -> float:
    """Pearson's correlation of ranks."""
    return pearson(ranks(first), ranks(second))


def ranks(values: Floats) -> Floats:
    """(n,), the place of each value among all, from 1; equal values have the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[inverse], dtype=np.float64)
