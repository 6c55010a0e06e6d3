"""What a linear classifier learns from vectors (dissertation, section 5.4): entailment in SICK.

A pair of vectors u, v is classified by u, v, |u - v| and u * v (Conneau et al. 2017), each scaled to mean 0 and
variance 1 on the training part, by multinomial logistic regression (scikit-learn). Its penalty is the best of
`STRENGTHS` on a held-out fifth of the training part. The network stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError, counted
from rescore.formats.source import Source
from rescore.lms import LanguageModel
from rescore.metrics.significance import SEED
from rescore.research.kinds import VectorOptions
from rescore.research.similarity import TRIALS, Floats, interval, signed
from rescore.research.vectors import Embedder
from rescore.styles import text

FOLDS = 10
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1)
"""Of the data against the penalty: scikit-learn's C."""
TRAINING_SETS = ("TRAIN", "TRIAL")
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Examples:
    """Pairs of sentences, and their classes."""

    first: list[str]
    second: list[str]
    labels: list[str]
    tested: Flags | None = None
    """Flags of the test examples, the other examples are trained on; None for ten folds."""

    def parts(self) -> list[Flags]:
        """The test parts in turn: the part that the file names, or each of ten folds."""
        if self.tested is not None:
            return [self.tested]
        fold = np.random.default_rng(SEED).permutation(len(self.labels)) % FOLDS
        return [fold == part for part in range(FOLDS)]


@dataclass(frozen=True, slots=True)
class Probed:
    """How often a linear classifier is right."""

    name: str
    tested: int
    accuracy: float
    """Percent; higher is better."""
    interval: tuple[float, float]
    """95 % confidence interval by bootstrap over the examples that are tested."""
    majority: float
    """Percent, of always saying the class that is most frequent among those."""
    signature: str


def read(path: str | Path) -> Examples:
    """SICK.txt: entailment, neutral or contradiction; tested on its test part, or in folds if it has no parts.

    Raises:
        UserError: a line has another form, or examples are too few, or all of one class.
    """
    lines = [line.split("\t") for line in Source(path).lines() if line.strip()]
    head = lines.pop(0) if lines else []
    wanted = ("sentence_A", "sentence_B", "entailment_label")
    if not lines or not set(wanted) <= set(head):
        raise UserError(f"{path}: expected SICK with a header line that has {', '.join(wanted)}")
    columns = {name: head.index(name) for name in (*wanted, "SemEval_set") if name in head}
    if short := next((place for place, line in enumerate(lines, 2) if len(line) <= max(columns.values())), None):
        raise UserError(f"{path}: line {short}: has too few columns")
    part = columns.get("SemEval_set")
    tested = None if part is None else np.array([line[part] not in TRAINING_SETS for line in lines])
    has_parts = tested is not None and 0 < tested.sum() < len(lines)
    first, second, names = ([line[columns[name]] for line in lines] for name in wanted)
    examples = Examples(first, second, names, tested if has_parts else None)
    if not has_parts and len(lines) < FOLDS:
        raise UserError(
            f"{path}: {counted(len(lines), 'pair')}, and no test part; at least {FOLDS} are needed for ten folds"
        )
    labels = np.array(names)
    if any(len(set(labels[~tested])) < 2 for tested in examples.parts()):
        raise UserError(f"{path}: all training examples have the same class")
    return examples


def probe(examples: Examples, lm: LanguageModel, options: VectorOptions) -> Probed:
    """Train a classifier on the vectors of a model, and test it."""
    embedder = Embedder([lm], options)
    first, second = (embedder.sentences(texts).astype(np.float64) for texts in (examples.first, examples.second))
    right = classify(features(first, second), examples)
    labels = np.concatenate([np.array(examples.labels)[part] for part in examples.parts()]).tolist()
    draws = np.random.default_rng(SEED).integers(0, len(right), (TRIALS, len(right)))
    signature = signed("acc:sick", [lm], options, centre=False)
    signature = replace(
        signature,
        settings={"examples": str(len(examples.labels)), **signature.settings},
        versions={**signature.versions, "scikit-learn": version("scikit-learn")},
    )
    return Probed(
        lm.name,
        len(right),
        100 * float(right.mean()),
        interval(right[draws].mean(axis=1)),
        100 * max(map(labels.count, set(labels))) / len(labels),
        str(signature),
    )


def features(first: Floats, second: Floats) -> Floats:
    """(pairs, d) of each side -> (pairs, 4 d)."""
    return np.concatenate([first, second, np.abs(first - second), first * second], axis=1)


def classify(x: Floats, examples: Examples) -> Flags:
    """Whether the classifier is right, (tested,), of the examples that are tested."""
    labels = np.array(examples.labels)
    return np.concatenate(
        [_fitted(x[~tested], labels[~tested])(x[tested]) == labels[tested] for tested in examples.parts()]
    )


def _fitted(x: Floats, labels: npt.NDArray[np.str_]) -> Any:
    """A function from features to classes, fitted with the best of `STRENGTHS`."""
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise UserError("probe needs scikit-learn; install it: pip install scikit-learn") from None
    mean, spread = x.mean(axis=0), x.std(axis=0)
    scaled = (x - mean) / np.where(spread > 0, spread, 1.0)
    held_out = np.random.default_rng(SEED).permutation(len(x)) % 5 == 0

    def fit(strength: float, which: Flags) -> Any:
        return LogisticRegression(C=strength, max_iter=1_000).fit(scaled[which], labels[which])

    def score(strength: float) -> float:
        if len(set(labels[~held_out])) < 2:
            return 0.0
        return float((fit(strength, ~held_out).predict(scaled[held_out]) == labels[held_out]).mean())

    best = fit(max(STRENGTHS, key=score), np.ones(len(x), dtype=np.bool_))
    return lambda rows: best.predict((rows - mean) / np.where(spread > 0, spread, 1.0))


def render(probes: Sequence[Probed]) -> str:
    """One row for each model, then the signatures."""
    rows = [["", "accuracy", "95 % CI"]]
    for probed in probes:
        rows.append([probed.name, f"{probed.accuracy:.1f}", "{:.1f}-{:.1f}".format(*probed.interval)])
    about = f"{counted(probes[0].tested, 'pair')} tested; percent; the most frequent class {probes[0].majority:.1f}"
    return "\n".join([text(rows), "", about, *(probed.signature for probed in probes)])
