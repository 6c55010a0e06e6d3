"""How well sentence vectors show similarity: STS-B, SICK, pairs in TSV."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.formats.source import Source
from rescore.reports.styles import text
from rescore.scoring import LanguageModel, origin
from rescore.signature import Signature

if TYPE_CHECKING:
    from rescore.scoring.vectors import VectorOptions

SEED, TRIALS = 12345, 1_000
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
            pairs.append(RatedPair(first, second, float(score)))
        except (IndexError, ValueError):
            raise UserError(
                f"{path}: pair {number}: expected score, sentence, sentence with tabs between (or STS-B, SICK)"
            ) from None
    return pairs


def cosines(one: npt.NDArray[Any], other: npt.NDArray[Any], centre: bool = False) -> Floats:
    """(pairs,) cosines of rows; `centre`: after the mean of all rows is taken away, as vectors share a direction."""
    one, other = one.astype(np.float64), other.astype(np.float64)
    if centre:
        mean = np.concatenate([one, other]).mean(axis=0)
        one, other = one - mean, other - mean
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    return np.divide((one * other).sum(axis=1), norms, out=np.zeros(len(one)), where=norms > 0)


def measure_pairs(
    pairs: Sequence[RatedPair], lms: Sequence[LanguageModel], options: VectorOptions, centre: bool = False
) -> Correlations:
    """Correlations of cosines of sentence vectors with people's scores; vectors of several models are joined."""
    from rescore.scoring.vectors import Embedder  # torch, where it is used

    embedder = Embedder(lms, options)
    one, other = (embedder.sentences(texts) for texts in ([p.first for p in pairs], [p.second for p in pairs]))
    signature = str(signed("r", lms, options, centre))
    return correlate(_name(lms), cosines(one, other, centre), [pair.score for pair in pairs], signature)


def _name(lms: Sequence[LanguageModel]) -> str:
    return " + ".join(lm.name for lm in lms)


def signed(metric: str, lms: Sequence[LanguageModel], options: VectorOptions, centre: bool) -> Signature:
    settings = {
        "kind": options.kind,
        "layer": options.layers,
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


def pearson(one: Floats, other: Floats) -> float:
    """Pearson's correlation of two columns of numbers, from -1 to 1; 0 where one does not vary."""
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def spearman(one: Floats, other: Floats) -> float:
    """Pearson's correlation of ranks."""
    return pearson(ranks(one), ranks(other))


def ranks(values: Floats) -> Floats:
    """Equal values have the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return np.asarray((ends - (counts - 1) / 2)[inverse], dtype=np.float64)


def render(found: Sequence[Correlations]) -> str:
    """One row per model, then the signatures."""
    rows = [["", "Pearson", "95 % CI", "Spearman", "95 % CI"]]
    for one in found:
        bounds = ["{:.1f}-{:.1f}".format(*interval) for interval in (one.pearson_interval, one.spearman_interval)]
        rows.append([one.name, f"{one.pearson:.1f}", bounds[0], f"{one.spearman:.1f}", bounds[1]])
    return "\n".join(
        [text(rows), "", f"{found[0].pairs:,} pairs; correlations times 100", *(x.signature for x in found)]
    )
