"""What a linear classifier learns from vectors (dissertation, section 5.4.3).

A pair of vectors u, v is classified by u, v, |u - v| and u * v (Conneau et al. 2017).
Each of these features is scaled to mean 0 and variance 1 on the training part. The
classifier is a multinomial logistic regression (scikit-learn) whose penalty is the best
of `STRENGTHS` on a held-out fifth of the training part. The network stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError, counted
from rescore.metrics.significance import SEED
from rescore.research.probe_tasks import Examples, Flags, Side
from rescore.research.similarity import TRIALS, interval
from rescore.signature import Signature
from rescore.styles import text
from rescore.version import VERSION

if TYPE_CHECKING:
    from rescore.research.vectors import Embedder

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1)
"""Weights of the data against the penalty: scikit-learn's C."""
HELD_OUT = 5
"""One of this number of training examples is held out to choose the strength."""
MOST_STEPS = 1_000
"""Steps of the optimizer of a logistic regression, at most."""
Floats = npt.NDArray[np.float64]
Labels = npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Probed:
    """How often a classifier is right."""

    name: str
    fine_tuned: bool
    """Whether the network was trained together with the classifier."""
    tested: int
    accuracy: float
    """Percent; higher is better."""
    interval: tuple[float, float]
    """95 % confidence interval by bootstrap over the tested examples."""
    majority: float
    """Percent of the tested examples that have the most frequent class."""
    signature: str


def probe(name: str, examples: Examples, embedder: Embedder) -> Probed:
    """Train a classifier on vectors, test it, and return its accuracy.

    Args:
        name: The name of the task.
        examples: The examples of the task.
        embedder: Makes the vectors.

    Raises:
        UserError: scikit-learn is not installed.
    """
    features = pair_features(
        side_vectors(embedder, examples.first), side_vectors(embedder, examples.second)
    )
    labels = np.array(examples.labels)
    right = [
        classify(features[~tested], labels[~tested], features[tested]) == labels[tested]
        for tested in examples.parts()
    ]
    return as_probed(
        name, examples, embedder, np.concatenate(right), program="scikit-learn"
    )


def side_vectors(embedder: Embedder, side: Side) -> Floats:
    """Return the vectors (pairs, d) of the sentences, or of the words, of a side."""
    if side.places is None:
        return embedder.sentences(side.texts).astype(np.float64)
    return embedder.words(side.texts, side.places).astype(np.float64)


def pair_features(first: Floats, second: Floats) -> Floats:
    """Return u, v, |u - v| and u * v of each pair, of shape (pairs, 4 d).

    Args:
        first: The vectors u, of shape (pairs, d).
        second: The vectors v, of shape (pairs, d).
    """
    difference = np.abs(first - second)
    return np.concatenate([first, second, difference, first * second], axis=1)


def classify(features: Floats, labels: Labels, tested: Floats) -> Labels:
    """Return the classes that a logistic regression gives to examples.

    Args:
        features: Training examples of shape (n, k).
        labels: The classes of the training examples, of shape (n,).
        tested: Examples of shape (m, k).

    Returns:
        Classes of shape (m,).

    Raises:
        UserError: scikit-learn is not installed.
    """
    mean = features.mean(axis=0)
    spread = features.std(axis=0)
    spread[spread == 0] = 1.0
    scaled = (features - mean) / spread
    strength = best_strength(scaled, labels)
    classes: Labels = fit(strength, scaled, labels).predict((tested - mean) / spread)
    return classes


def best_strength(scaled: Floats, labels: Labels) -> float:
    """Return the first of `STRENGTHS` that is best on a held-out fifth of the training
    examples.
    """
    held_out = np.random.default_rng(SEED).permutation(len(scaled)) % HELD_OUT == 0
    if len(np.unique(labels[~held_out])) < 2:
        return STRENGTHS[0]
    accuracies = []
    for strength in STRENGTHS:
        model = fit(strength, scaled[~held_out], labels[~held_out])
        found = model.predict(scaled[held_out])
        accuracies.append((found == labels[held_out]).mean())
    return STRENGTHS[int(np.argmax(accuracies))]


def fit(strength: float, scaled: Floats, labels: Labels) -> Any:
    """Return a logistic regression of scikit-learn, fitted to scaled features (n, k)
    and classes (n,).
    """
    try:
        from sklearn.linear_model import LogisticRegression
    except ImportError:
        raise UserError(
            "probe needs scikit-learn; install it: pip install scikit-learn"
        ) from None
    return LogisticRegression(C=strength, max_iter=MOST_STEPS).fit(scaled, labels)


def as_probed(
    name: str,
    examples: Examples,
    embedder: Embedder,
    right: Flags,
    program: str,
    training: Mapping[str, str] | None = None,
) -> Probed:
    """Return the accuracy of a classifier with its interval and signature.

    Args:
        name: The name of the task.
        examples: The examples of the task.
        embedder: Made the vectors.
        right: Whether each tested example was classified rightly, in the order of
            `Examples.parts`.
        program: The package that trained the classifier.
        training: Settings of the training of a network; None if it was not trained.
    """
    labels = np.array(examples.labels)
    tested = np.concatenate([labels[part] for part in examples.parts()])
    _, counts = np.unique(tested, return_counts=True)
    size = len(right)
    draws = np.random.default_rng(SEED).integers(0, size, (TRIALS, size))
    settings = {"examples": str(len(labels)), **embedder.options.settings}
    signature = Signature(
        f"acc:{name}",
        settings | dict(training or {}),
        columns=embedder.columns,
        versions={"rescore": VERSION, program: version(program)},
    )
    return Probed(
        embedder.name,
        training is not None,
        size,
        100 * float(right.mean()),
        interval(right[draws].mean(axis=1)),
        100 * int(counts.max()) / size,
        str(signature),
    )


def render(results: Sequence[Probed]) -> str:
    """Return a table with one row per classifier, and the signatures."""
    about = (
        f"{counted(results[0].tested, 'pair')} tested; percent; the most frequent class"
        f" {results[0].majority:.1f}"
    )
    signatures = [probed.signature for probed in results]
    return "\n".join([text(cells(results)), "", about, *signatures])


def cells(results: Sequence[Probed]) -> list[list[str]]:
    """Return the head of the table, and a row for each classifier."""
    rows = [["", "accuracy", "95 % CI"]]
    for probed in results:
        name = probed.name
        if probed.fine_tuned:
            name += ", fine-tuned"
        bounds = "{:.1f}-{:.1f}".format(*probed.interval)
        rows.append([name, f"{probed.accuracy:.1f}", bounds])
    return rows
