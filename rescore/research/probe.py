"""What a linear classifier learns from vectors (dissertation, section 5.4): entailment, and words in context.

A pair of vectors u, v is classified by u, v, |u - v| and u * v (Conneau et al. 2017), each scaled to mean 0 and
variance 1 on the training part, by multinomial logistic regression (scikit-learn). Its penalty is the best of
`STRENGTHS` on a held-out fifth of the training part. The network stays as it is, or (`fine_tuned`) is trained together
with a classifier of the same form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from rescore.research.fine_tuning import FineTuning, Flags, Side, fine_tune, trainable
from rescore.research.kinds import VectorOptions
from rescore.research.similarity import FOLDS, TRIALS, interval, read_words, signed
from rescore.research.vectors import Embedder
from rescore.styles import text

STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1)
"""Of the data against the penalty: scikit-learn's C."""
TRAINING_SETS = ("TRAIN", "TRIAL")
Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Examples:
    """Pairs of texts, and their classes."""

    sides: tuple[Side, Side]
    labels: list[str]
    tested: Flags | None = None
    """Flags of the test examples, the other examples are trained on; None for ten folds."""


@dataclass(frozen=True, slots=True)
class Probed:
    """How often a linear classifier is right."""

    name: str
    fine_tuned: bool
    """Whether the network was trained on with it."""
    tested: int
    accuracy: float
    """Percent; higher is better."""
    interval: tuple[float, float]
    """95 % confidence interval by bootstrap over the examples that are tested."""
    majority: float
    """Percent, of always saying the class that is most frequent among those."""
    signature: str


def sick(path: Path) -> Examples:
    """SICK.txt: entailment, neutral or contradiction; tested on its test part, or in folds if it has no parts.

    Raises:
        UserError: a line has another form.
    """
    lines = [line.split("\t") for line in Source(path).lines() if line.strip()]
    head = lines.pop(0) if lines else []
    wanted = ("sentence_A", "sentence_B", "entailment_label")
    if not lines or not set(wanted) <= set(head):
        raise UserError(f"{path}: expected SICK with a header line that has {', '.join(wanted)}")
    columns = {name: head.index(name) for name in (*wanted, "SemEval_set") if name in head}
    if short := next((place for place, line in enumerate(lines, 2) if len(line) <= max(columns.values())), None):
        raise UserError(f"{path}: line {short}: has too few columns")
    first, second, labels = ([line[columns[name]] for line in lines] for name in wanted)
    part = columns.get("SemEval_set")
    tested = None if part is None else np.array([line[part] not in TRAINING_SETS for line in lines])
    has_parts = tested is not None and 0 < tested.sum() < len(lines)
    return Examples((Side(first), Side(second)), labels, tested if has_parts else None)


def wic(path: Path, gold: Path) -> Examples:
    """WiC: does a word mean the same in two sentences? Tested in folds.

    Raises:
        UserError: a line has another form.
    """
    pairs = read_words(path, gold)
    first = Side([pair.first for pair in pairs], [pair.places[0] for pair in pairs])
    second = Side([pair.second for pair in pairs], [pair.places[1] for pair in pairs])
    return Examples((first, second), ["T" if pair.same else "F" for pair in pairs])


def read(task: str, path: Path, gold: Path | None = None) -> Examples:
    """The examples of a task: `sick`, or `wic` with its answers in `gold`.

    Raises:
        UserError: the files do not fit the task, or examples are too few, or all of one class.
    """
    if task == "sick" and gold is not None:
        raise UserError("--gold does not apply to sick")
    if task == "wic" and gold is None:
        raise UserError(f"{path}: has no answers (T or F); give their file with --gold FILE")
    examples = sick(path) if gold is None else wic(path, gold)
    if examples.tested is None and len(examples.labels) < FOLDS:
        raise UserError(
            f"{path}: {counted(len(examples.labels), 'pair')}, and no test part; "
            f"at least {FOLDS} are needed for ten folds"
        )
    for tested in _parts(examples):
        if len({label for label, test in zip(examples.labels, tested, strict=True) if not test}) < 2:
            raise UserError(f"{path}: all training examples have the same class")
    return examples


def probe(task: str, examples: Examples, lm: LanguageModel, options: VectorOptions) -> Probed:
    """Train a classifier on the vectors of a model, which stay as they are, and test it."""
    embedder = Embedder([lm], options)
    first, second = (
        embedder.sentences(side.texts) if side.places is None else embedder.words(side.texts, side.places)
        for side in examples.sides
    )
    right = classify(features(first.astype(np.float64), second.astype(np.float64)), examples)
    return _probed(task, right, examples, lm, options, {}, "scikit-learn")


def fine_tuned(
    task: str,
    examples: Examples,
    lm: LanguageModel,
    options: VectorOptions,
    how: FineTuning,
    report: Callable[[int], object] = lambda pairs: None,
) -> Probed:
    """The same task with a trained network: a copy for each test part, so that the model does not change."""
    classes = np.unique(examples.labels, return_inverse=True)[1]
    right = [
        fine_tune(Embedder([trainable(lm)], options), examples.sides, classes, tested, how, report) == classes[tested]
        for tested in _parts(examples)
    ]
    settings = {"fine-tuned": f"{how.epochs} epochs", "rate": f"{how.learning_rate:g}"}
    return _probed(task, np.concatenate(right), examples, trainable(lm), options, settings, "torch")


def _probed(
    task: str,
    right: Flags,
    examples: Examples,
    lm: LanguageModel,
    options: VectorOptions,
    settings: dict[str, str],
    program: str,
) -> Probed:
    """The accuracy from the flags of right answers; `settings` of a fine-tuning, `program` that trained."""
    labels = [label for part in _parts(examples) for label, test in zip(examples.labels, part, strict=True) if test]
    draws = np.random.default_rng(SEED).integers(0, len(right), (TRIALS, len(right)))
    signature = signed(f"acc:{task}", [lm], options, centre=False)
    signature = replace(
        signature,
        settings={"examples": str(len(examples.labels)), **signature.settings, **settings},
        versions={**signature.versions, program: version(program)},
    )
    return Probed(
        lm.name,
        bool(settings),
        len(right),
        100 * float(right.mean()),
        interval(right[draws].mean(axis=1)),
        100 * max(map(labels.count, set(labels))) / len(labels),
        str(signature),
    )


def features(first: Matrix, second: Matrix) -> Matrix:
    """(pairs, d) of each side -> (pairs, 4 d)."""
    return np.concatenate([first, second, np.abs(first - second), first * second], axis=1)


def classify(x: Matrix, examples: Examples) -> Flags:
    """Whether the classifier is right, (tested,), of the examples that are tested."""
    labels = np.array(examples.labels)
    return np.concatenate(
        [_fitted(x[~tested], labels[~tested])(x[tested]) == labels[tested] for tested in _parts(examples)]
    )


def trained_on(examples: Examples) -> int:
    """How many pairs are trained on in one epoch, of all parts."""
    return sum(int((~tested).sum()) for tested in _parts(examples))


def _parts(examples: Examples) -> list[Flags]:
    """The test parts in turn: the part that the examples name, or each of ten folds."""
    if examples.tested is not None:
        return [examples.tested]
    fold = np.random.default_rng(SEED).permutation(len(examples.labels)) % FOLDS
    return [fold == part for part in range(FOLDS)]


def _fitted(x: Matrix, labels: npt.NDArray[np.str_]) -> Any:
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
    """One row for each training, then the signatures."""
    rows = [["", "accuracy", "95 % CI"]]
    for probed in probes:
        name = f"{probed.name}, fine-tuned" if probed.fine_tuned else probed.name
        rows.append([name, f"{probed.accuracy:.1f}", "{:.1f}-{:.1f}".format(*probed.interval)])
    about = f"{counted(probes[0].tested, 'pair')} tested; percent; the most frequent class {probes[0].majority:.1f}"
    return "\n".join([text(rows), "", about, *(probed.signature for probed in probes)])
