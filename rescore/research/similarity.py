"""How well the cosines of sentence vectors agree with people's scores of similarity."""

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
    """STS-B csv (seven columns with tabs between, the last three: score, two
    sentences), SICK.txt (with its head line), or lines of score, sentence, sentence
    with tabs between.

    Raises:
        UserError: a line has another form.
    """
    lines = [line.split("\t") for line in Source(path).lines() if line.strip()]
    if not lines:
        raise UserError(f"{path}: no pair in it")
    places = [0, 1, 2]
    if "sentence_A" in lines[0]:
        head = lines.pop(0)
        places = [
            head.index(name)
            for name in ("relatedness_score", "sentence_A", "sentence_B")
        ]
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
                f"{path}: pair {number}: expected score, sentence, sentence with tabs"
                " between (or STS-B, SICK)"
            ) from None
    return pairs


def cosines(
    first: npt.NDArray[Any], second: npt.NDArray[Any], centre: bool = False
) -> Floats:
    """(pairs,) cosines of rows; `centre`: after the mean of all rows is taken away, as
    vectors share a direction.
    """
    first, second = first.astype(np.float64), second.astype(np.float64)
    if centre:
        mean = np.concatenate([first, second]).mean(axis=0)
        first, second = first - mean, second - mean
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.divide(
        (first * second).sum(axis=1), norms, out=np.zeros(len(first)), where=norms > 0
    )


def measure_pairs(
    pairs: Sequence[RatedPair],
    lms: Sequence[LanguageModel],
    options: VectorOptions,
    centre: bool = False,
) -> Correlations:
    """Correlations of cosines of sentence vectors with people's scores; vectors of
    several models are joined.
    """
    embedder = Embedder(lms, options)
    first, second = (
        embedder.sentences(texts)
        for texts in ([p.first for p in pairs], [p.second for p in pairs])
    )
    values, scores = (
        cosines(first, second, centre),
        np.array([pair.score for pair in pairs]),
    )
    draws = np.random.default_rng(SEED).integers(0, len(values), (TRIALS, len(values)))
    linear, ranked = (
        (
            100 * correlation(values, scores),
            interval([correlation(values[draw], scores[draw]) for draw in draws]),
        )
        for correlation in (pearson, spearman)
    )
    name = " + ".join(lm.name for lm in lms)
    return Correlations(
        name, len(pairs), *linear, *ranked, str(signed("r", lms, options, centre))
    )


def interval(trials: Sequence[float] | Floats) -> tuple[float, float]:
    """The 95 % confidence interval of a figure from its values in 1,000 trials,
    times 100.
    """
    ordered = np.sort(trials)
    return 100 * float(ordered[25]), 100 * float(ordered[-26])


def signed(
    metric: str, lms: Sequence[LanguageModel], options: VectorOptions, centre: bool
) -> Signature:
    """The signature of a figure from vectors."""
    settings = {
        "kind": options.kind,
        "layer": "last" if options.layer is None else str(options.layer),
        "pooling": "mean",
        **({"centre": "yes"} if centre else {}),
    }
    return Signature(
        metric, settings, columns={lm.name: origin(lm, "none") for lm in lms}
    )


def render(results: Sequence[Correlations]) -> str:
    """One row per model, then the signatures."""
    rows = [["", "Pearson", "95 % CI", "Spearman", "95 % CI"]]
    for result in results:
        bounds = [
            "{:.1f}-{:.1f}".format(*ends)
            for ends in (result.pearson_interval, result.spearman_interval)
        ]
        rows.append(
            [
                result.name,
                f"{result.pearson:.1f}",
                bounds[0],
                f"{result.spearman:.1f}",
                bounds[1],
            ]
        )
    about = f"{counted(results[0].pairs, 'pair')}; correlations times 100"
    return "\n".join([text(rows), "", about, *(result.signature for result in results)])


def pearson(first: Floats, second: Floats) -> float:
    """Pearson's correlation of two columns of numbers, from -1 to 1; 0 where one does
    not vary.
    """
    if np.ptp(first) == 0 or np.ptp(second) == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def spearman(first: Floats, second: Floats) -> float:
    """Pearson's correlation of ranks."""
    return pearson(ranks(first), ranks(second))


def ranks(values: Floats) -> Floats:
    """(n,), the place of each value among all, from 1; equal values have the mean of
    their ranks.
    """
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[inverse], dtype=np.float64)
