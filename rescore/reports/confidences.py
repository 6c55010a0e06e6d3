"""Words of decided texts with the probability that they are right, and the quality of these confidences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rescore.decision import Decision
from rescore.decision.confidence import Word, networks
from rescore.errors import UserError, counted
from rescore.metrics import Metric
from rescore.nbest import NbestList
from rescore.tuning import Weights
from rescore.tuning.calibration import UNCALIBRATED, Calibration, Quality, calibrate, measure
from rescore.tuning.folds import warn_of_overlap


@dataclass(frozen=True, slots=True)
class Confidences:
    """Of the decided texts of a set."""

    words: list[list[Word]]
    """One list for each N-best list."""
    calibration: Calibration
    plain: Quality | None
    """Quality of the uncalibrated posteriors; None without references."""
    calibrated: Quality | None
    """Quality of the confidences in `words`; None without references, or without dev lists."""


def check(metric: Metric) -> None:
    """See that words have confidences under a metric, before anything is computed.

    Raises:
        UserError: it knows no word errors.
    """
    if metric.words is None:
        raise UserError(f"{metric.name} has no word errors; confidences need --metric wer")


def confidences(
    metric: Metric,
    lists: Sequence[NbestList],
    texts: Sequence[str],
    weights: Weights,
    decide: Decision,
    dev: Sequence[NbestList] | None = None,
    alternatives: int = 0,
    scale: float | None = None,
) -> Confidences:
    """The confidence of each decided word.

    Args:
        texts: what was decided for each list. dev: lists with references and the same columns, to calibrate on.
        alternatives: most other words for each place. scale: of the posteriors, without dev lists; None for 1.

    Raises:
        UserError: the metric knows no word errors, or confidences cannot be calibrated on the dev lists.
    """
    check(metric)
    assert metric.words is not None
    calibration = UNCALIBRATED if scale is None else Calibration(scale)
    if dev:
        warn_of_overlap(lists, dev)
        calibration = calibrate(dev, decide.texts(metric, dev, weights.of), weights, metric.words)
    decided = networks(lists, texts, weights.of, metric.words)
    plain = calibrated = None
    if all(nbest.references for nbest in lists):
        plain = measure(UNCALIBRATED if dev else calibration, lists, decided, metric.words)
        calibrated = measure(calibration, lists, decided, metric.words) if dev else None
    words = [calibration.words(network, alternatives) for network in decided]
    return Confidences(words, calibration, plain, calibrated)


def render(quality: Confidences) -> str:
    """The quality, in lines for the terminal; nothing without references."""
    lines = []
    if quality.plain:
        lines += [f"{counted(quality.plain.words, 'word')}, {quality.plain.correct:.1%} right"]
        lines += [f"not calibrated     {quality.plain}"]
    if quality.calibrated:
        lines += [f"calibrated on dev  {quality.calibrated}  ({quality.calibration.signature})"]
    return "\n".join(lines)
