"""How well the cosines of sentence vectors agree with people's scores of similarity
(Shin et al. 2020, section 5.4; dissertation, sections 5.3.2 and 5.3.3).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rescore.correlations import pearson, spearman
from rescore.errors import UserError, counted
from rescore.formats.source import Source
from rescore.metrics.significance import SEED
from rescore.signature import Signature
from rescore.styles import text

if TYPE_CHECKING:
    from rescore.research.vectors import Embedder

TRIALS = 1_000
"""Samples of a bootstrap."""
SICK_COLUMNS = ("relatedness_score", "sentence_A", "sentence_B")
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RatedPair:
    """Two sentences and how similar people find them."""

    first: str
    second: str
    score: float


@dataclass(frozen=True, slots=True)
class Correlations:
    """Correlations of cosines with people's scores."""

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
    """Return the pairs of a file with tabs between its columns.

    Args:
        path: STS-B csv (seven columns or more; the fifth to seventh are the score and
            the sentences), SICK.txt (with its header line), or lines of score,
            sentence, sentence.

    Raises:
        UserError: A line has another form.
    """
    rows = [(place, line.split("\t")) for place, line in Source(path).filled()]
    if not rows:
        raise UserError(f"{path}: is empty; expected pairs of sentences")
    head = rows[0][1]
    columns = [0, 1, 2]
    if set(SICK_COLUMNS) <= set(head):
        columns = [head.index(name) for name in SICK_COLUMNS]
        rows = rows[1:]
    elif len(head) >= 7:
        columns = [4, 5, 6]
    pairs = []
    for place, fields in rows:
        try:
            score, first, second = (fields[column] for column in columns)
            rating = float(score)
        except (IndexError, ValueError):
            rating = math.nan
        if not math.isfinite(rating):
            raise UserError(
                f"{place}: expected score, sentence, sentence with tabs between (or"
                " STS-B, SICK); for WiC also give --gold"
            )
        pairs.append(RatedPair(first, second, rating))
    return pairs


def measure_pairs(
    pairs: Sequence[RatedPair], embedder: Embedder, centre: bool = False
) -> Correlations:
    """Return the correlations of cosines of sentence vectors with people's scores.

    Args:
        pairs: The sentences and their scores.
        embedder: Makes the vectors.
        centre: Whether the mean of all vectors is subtracted first.
    """
    first = embedder.sentences([pair.first for pair in pairs])
    second = embedder.sentences([pair.second for pair in pairs])
    values = cosines(first, second, centre)
    scores = np.array([pair.score for pair in pairs])
    pearson_value, pearson_interval = with_interval(pearson, values, scores)
    spearman_value, spearman_interval = with_interval(spearman, values, scores)
    settings = embedder.options.settings
    if centre:
        settings["centre"] = "yes"
    return Correlations(
        embedder.name,
        len(pairs),
        pearson_value,
        pearson_interval,
        spearman_value,
        spearman_interval,
        str(Signature("r", settings, columns=embedder.columns)),
    )


def cosines(
    first: npt.NDArray[Any], second: npt.NDArray[Any], centre: bool = False
) -> Floats:
    """Return the cosine of each row of one matrix with the same row of another.

    Args:
        first: Vectors of shape (pairs, d).
        second: Vectors of shape (pairs, d).
        centre: Whether the mean of the rows of both is subtracted first: vectors of a
            network share a direction.

    Returns:
        Cosines of shape (pairs,); 0 where a vector is 0.
    """
    first = first.astype(np.float64)
    second = second.astype(np.float64)
    if centre:
        mean = np.concatenate([first, second]).mean(axis=0)
        first = first - mean
        second = second - mean
    products = (first * second).sum(axis=1)
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return np.divide(products, norms, out=np.zeros(len(first)), where=norms > 0)


def with_interval(
    correlation: Callable[[Floats, Floats], float], values: Floats, scores: Floats
) -> tuple[float, tuple[float, float]]:
    """Return a correlation of values with scores (pairs,), and its 95 % confidence
    interval by bootstrap over pairs; both times 100.
    """
    size = len(values)
    draws = np.random.default_rng(SEED).integers(0, size, (TRIALS, size))
    trials = [correlation(values[draw], scores[draw]) for draw in draws]
    return 100 * correlation(values, scores), interval(trials)


def interval(trials: Sequence[float] | Floats) -> tuple[float, float]:
    """Return the 95 % confidence interval of a figure, times 100.

    Args:
        trials: The figure in each of `TRIALS` samples.
    """
    ordered = np.sort(trials)
    return 100 * float(ordered[25]), 100 * float(ordered[-26])


def render(results: Sequence[Correlations]) -> str:
    """Return a table with one row per model, and the signatures."""
    about = f"{counted(results[0].pairs, 'pair')}; correlations times 100"
    signatures = [result.signature for result in results]
    return "\n".join([text(cells(results)), "", about, *signatures])


def cells(results: Sequence[Correlations]) -> list[list[str]]:
    """Return the head of the table, and a row for each model."""
    rows = [["", "Pearson", "95 % CI", "Spearman", "95 % CI"]]
    for result in results:
        rows.append(
            [
                result.name,
                f"{result.pearson:.1f}",
                "{:.1f}-{:.1f}".format(*result.pearson_interval),
                f"{result.spearman:.1f}",
                "{:.1f}-{:.1f}".format(*result.spearman_interval),
            ]
        )
    return rows
