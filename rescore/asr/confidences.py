"""Words of decided texts with the probability that they are right, and the quality of these confidences; files of
both, as CTM or JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO

from rescore.asr.calibration import UNCALIBRATED, Calibration, Quality, calibrate, measure
from rescore.asr.confidence import Word, networks
from rescore.decision import Decision
from rescore.errors import UserError, counted
from rescore.formats.recordings import RecordingSegment
from rescore.metrics import Metric
from rescore.metrics.normalise import EXACT, Normaliser
from rescore.nbest import NbestList
from rescore.tuning import Weights
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


def check(metric: Metric) -> Normaliser:
    """What a metric counts as the same word.

    Raises:
        UserError: it knows no word errors.
    """
    if metric.words is None:
        raise UserError(f"{metric.name} has no word errors; confidences need --metric wer")
    return metric.words


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
    same = check(metric)
    calibration = UNCALIBRATED if scale is None else Calibration(scale)
    if dev:
        warn_of_overlap(lists, dev)
        calibration = calibrated(metric, weights, decide, dev)
    decided = networks(lists, texts, weights.of, same)
    plain = after = None
    if all(nbest.references for nbest in lists):
        plain = measure(UNCALIBRATED if dev else calibration, lists, decided, same)
        after = measure(calibration, lists, decided, same) if dev else None
    words = [calibration.words(network, alternatives) for network in decided]
    return Confidences(words, calibration, plain, after)


def calibrated(metric: Metric, weights: Weights, decide: Decision, dev: Sequence[NbestList]) -> Calibration:
    """How the confidences of words are calibrated on dev lists with references.

    Raises:
        UserError: the metric knows no word errors, or confidences cannot be calibrated on these lists.
    """
    return calibrate(dev, decide.texts(metric, dev, weights.of), weights, check(metric))


def words_of(
    metric: Metric,
    lists: Sequence[NbestList],
    texts: Sequence[str],
    weights: Weights,
    calibration: Calibration | None = None,
    alternatives: int = 0,
) -> list[list[Word]]:
    """The words of the text decided for each list, with at most `alternatives` others in their places."""
    decided = networks(lists, texts, weights.of, metric.words or EXACT)
    return [(calibration or UNCALIBRATED).words(network, alternatives) for network in decided]


def render(quality: Confidences) -> str:
    """The quality, in lines for the terminal; nothing without references."""
    lines = []
    if quality.plain:
        lines += [f"{counted(quality.plain.words, 'word')}, {quality.plain.correct:.1%} right"]
        lines += [f"not calibrated     {quality.plain}"]
    if quality.calibrated:
        lines += [f"calibrated on dev  {quality.calibrated}  ({quality.calibration.signature})"]
    return "\n".join(lines)


ENDINGS = (".ctm", ".jsonl")


def check_file(path: str, has_segments: bool) -> None:
    """Check, before anything is computed, that the file can be written.

    Raises:
        UserError: the ending is not in `ENDINGS`, or a CTM has no segments.
    """
    if not path.endswith(ENDINGS):
        raise UserError(f"{path}: its ending is none of {', '.join(ENDINGS)}")
    if path.endswith(".ctm") and not has_segments:
        raise UserError(f"{path}: a CTM has times; give --segments FILE (Kaldi's), or write .jsonl")


def write(
    path: str,
    file: IO[str],
    lists: Sequence[NbestList],
    words: Sequence[Sequence[Word]],
    segments: Mapping[str, RecordingSegment] | None = None,
) -> None:
    """Write the words of each list, in the form that the ending of `path` names.

    Args:
        segments: for a CTM, the recording and place of each utterance.

    Raises:
        UserError: as `check_file`, or an utterance is not in the segments.
    """
    check_file(path, segments is not None)
    for nbest, decided in zip(lists, words, strict=True):
        if segments is not None and path.endswith(".ctm"):
            if nbest.id not in segments:
                raise UserError(f"utterance {nbest.id}: not in the segments; they need a line for each utterance")
            file.writelines(_ctm_lines(segments[nbest.id], decided))
        else:
            rows = []
            for word in decided:
                alternatives = [[text, round(mass, 4)] for text, mass in word.alternatives]
                row = {"word": word.text, "confidence": round(word.confidence, 4)}
                rows.append(row | {"alternatives": alternatives} if alternatives else row)
            file.write(json.dumps({"id": nbest.id, "words": rows}, ensure_ascii=False) + "\n")


def _ctm_lines(segment: RecordingSegment, words: Sequence[Word]) -> Iterator[str]:
    """Lists have no times of words: each takes a part of its utterance in proportion to its letters."""
    per_letter = (segment.end - segment.start) / max(1, sum(len(word.text) for word in words))
    begin = segment.start
    for word in words:
        duration = per_letter * len(word.text)
        yield f"{segment.recording} 1 {begin:.2f} {duration:.2f} {word.text} {word.confidence:.4f}\n"
        begin += duration
