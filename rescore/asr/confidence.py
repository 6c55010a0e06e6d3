"""Confidences: the probability that each word of a decided text is right, their quality, and their calibration.

The decided text is the pivot of a confusion network (Mangu et al. 2000): each hypothesis is aligned with it, and what a
hypothesis has in the place of a word is an alternative to that word. The confidence of a word is the posterior of the
hypotheses that have it, calibrated on dev lists.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import IO

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from rescore.asr.written import Token, pieces_of, tokens_of
from rescore.decision import Decision
from rescore.decision.rules import WeightsOf, combine, posteriors
from rescore.errors import UserError, counted
from rescore.formats.audio import RecordingSegment
from rescore.metrics import Metric
from rescore.metrics.alignment import align
from rescore.metrics.folds import Folds, split
from rescore.metrics.normalise import EXACT, Normaliser
from rescore.nbest import NbestList, without_copies
from rescore.tuning import Weights
from rescore.tuning.folds import warn_of_overlap
from rescore.tuning.scale import scale_grid, warn_at_end

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a decided text."""

    text: str
    confidence: float
    """The probability that it is right."""
    alternatives: tuple[tuple[str, float], ...] = ()
    """What other hypotheses have in its place, with posteriors, the most probable first; "" is no word."""


class ConfusionNetwork:
    """What the hypotheses of one list have in the places of the decided words; posteriors come later."""

    def __init__(self, text: str, hypotheses: Sequence[str], scores: Floats, normaliser: Normaliser = EXACT) -> None:
        """
        Args:
            scores: (hypotheses,) combined, natural log. normaliser: says which words are the same.
        """
        self.text = text
        pieces = pieces_of(text, normaliser)
        self.words = [word for piece in pieces for word in piece.written]
        self.scores = scores
        own = [token for piece in pieces for token in piece.tokens]
        rows = [_opposite(own, tokens_of(other, normaliser)) for other in hypotheses]
        ends = np.cumsum([0, *(len(piece.words) for piece in pieces)])
        # Each written word stands for all that its piece is compared as; a piece that does not count is in all texts.
        spans = [slice(*ends[place : place + 2]) for place, piece in enumerate(pieces) for _ in piece.written]
        self._places = [[row[span] for span in spans] for row in rows]
        same = [[row[span] == own[span] for span in spans] for row in rows]
        self._same = np.array(same, dtype=np.float64).reshape(len(hypotheses), len(self.words))

    def confidences(self, scale: float) -> Floats:
        """(words,) the sum of the posteriors exp(scale * score) of the hypotheses that have the word in its place."""
        return np.asarray(np.minimum(posteriors(self.scores, scale) @ self._same, 1.0))

    def alternatives(self, scale: float, number: int) -> list[tuple[tuple[str, float], ...]]:
        """For each word, at most `number` others in its place."""
        probabilities = posteriors(self.scores, scale)
        order = np.argsort(-probabilities, kind="stable").tolist()
        shown = []
        for place in range(len(self.words)):
            mass: dict[tuple[str, ...], float] = {}  # the words as the most probable hypothesis has them come first
            for index in order:
                if not self._same[index, place]:
                    other = tuple(self._places[index][place])
                    mass[other] = mass.get(other, 0.0) + float(probabilities[index])
            others = sorted(mass.items(), key=lambda item: -item[1])[:number]
            shown.append(tuple((_shown(words), probability) for words, probability in others))
        return shown


def networks(
    lists: Sequence[NbestList], texts: Sequence[str], weights: WeightsOf, normaliser: Normaliser = EXACT
) -> list[ConfusionNetwork]:
    """One per list, for the text that was decided on; `normaliser` says which words are the same."""
    return [
        ConfusionNetwork(
            text, [hypothesis.text for hypothesis in nbest.hypotheses], combine(nbest, weights), normaliser
        )
        for nbest, text in zip(map(without_copies, lists), texts, strict=True)
    ]


def _shown(words: Sequence[str]) -> str:
    """Words as they were written; "" for none."""
    return " ".join(word.written for word in words if isinstance(word, Token))


def _opposite(words: Sequence[Token], others: Sequence[Token]) -> list[str]:
    """What `others` has in the place of each word, "" for no word; words in between count for no place."""
    opposite: list[str] = [""] * len(words)
    for step in Levenshtein.opcodes(words, others):
        if step.tag in ("equal", "replace"):
            opposite[step.src_start : step.src_end] = others[step.dest_start : step.dest_end]
    return opposite


BINS = 10
NEAREST = 1e-6
"""To 0 or 1; a confidence of 0 for a right word would cost infinitely much."""


@dataclass(frozen=True, slots=True)
class Quality:
    """Of confidences of words whose correctness is known."""

    words: int
    correct: float
    """The share of right words."""
    nce: float
    """Normalised cross entropy (NIST): 1 for perfect confidences, 0 for confidences equal to the share of right
    words."""
    ece: float
    """Expected calibration error: mean distance of confidence and share of right words, over 10 bins."""
    auroc: float
    """Probability that a right word has a higher confidence than a wrong one."""

    def __str__(self) -> str:
        return f"NCE {self.nce:.3f}  ECE {self.ece:.3f}  AUROC {self.auroc:.3f}"


def quality(confidences: Floats, correct: Flags) -> Quality:
    """confidences, correct: (words,). Measures that are not defined, as where all words are right, are NaN."""
    number, right = len(correct), int(correct.sum())
    wrong = number - right
    nce = ece = auroc = math.nan
    if number:
        bins = np.minimum((confidences * BINS).astype(int), BINS - 1)
        ece = float(np.abs(np.bincount(bins, confidences - correct, BINS)).sum() / number)
    if right and wrong:
        # (H_max + sum of log2 c over right words + sum of log2 (1 - c) over wrong ones) / H_max
        most = -right * math.log2(right / number) - wrong * math.log2(1 - right / number)
        clipped = confidences.clip(NEAREST, 1 - NEAREST)
        nce = float((most + np.log2(np.where(correct, clipped, 1 - clipped)).sum()) / most)
        # The Mann-Whitney statistic; equal confidences count half.
        _, which, counts = np.unique(confidences, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(counts) - (counts - 1) / 2)[which]
        auroc = float((ranks[correct].sum() - right * (right + 1) / 2) / (right * wrong))
    return Quality(number, right / number if number else math.nan, nce, ece, auroc)


FOLDS = 5
FEW = 10
"""Number of lists from which a map is considered."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """Posteriors exp(scale * score), and where `levels` are given, a rising step function of the word's posterior."""

    scale: float = 1.0
    starts: tuple[float, ...] = ()
    """The lowest posterior of each level."""
    levels: tuple[float, ...] = ()
    """The probability that a word is right."""

    def confidences(self, network: ConfusionNetwork) -> Floats:
        """(words,)."""
        return self._mapped(network.confidences(self.scale))

    def _mapped(self, posteriors: Floats) -> Floats:
        if not self.levels:
            return posteriors
        place = np.searchsorted(self.starts, posteriors, side="right") - 1
        return np.asarray(self.levels)[place.clip(min=0)]

    def words(self, network: ConfusionNetwork, alternatives: int = 0) -> list[Word]:
        """The words of a decided text with their confidences, each with at most `alternatives` alternatives."""
        alternatives_of = network.alternatives(self.scale, alternatives) if alternatives else [()] * len(network.words)
        posteriors = network.confidences(self.scale)
        return [
            Word(word, confidence, self._shared(alternatives_of_word, posterior, confidence))
            for word, posterior, confidence, alternatives_of_word in zip(
                network.words, posteriors.tolist(), self._mapped(posteriors).tolist(), alternatives_of, strict=True
            )
        ]

    def _shared(
        self, alternatives: tuple[tuple[str, float], ...], posterior: float, confidence: float
    ) -> tuple[tuple[str, float], ...]:
        """Alternatives share the probability left by the word's confidence, in proportion to their posteriors."""
        if not self.levels or posterior >= 1:
            return alternatives
        factor = (1 - confidence) / (1 - posterior)
        return tuple((word, factor * probability) for word, probability in alternatives)

    @property
    def signature(self) -> str:
        return f"scale={self.scale:g}" + (f",isotonic={len(self.levels)}" if self.levels else "")


UNCALIBRATED = Calibration()


def correct(network: ConfusionNetwork, references: Sequence[str], normaliser: Normaliser) -> Flags:
    """(words,) whether each word of a decided text is right, by sclite's alignment with the nearest reference.

    A word that is compared as several words is right if all of these are right; a word that does not count is no error.
    """
    pieces = pieces_of(network.text, normaliser)
    heard = [word for piece in pieces for word in piece.words]
    best: list[bool] = [False] * len(heard)
    for reference in references:
        pairs = align(normaliser(reference), heard)
        flags = [expected == spoken for expected, spoken in pairs if spoken is not None]
        best = flags if sum(flags) >= sum(best) else best
    ends = np.cumsum([0, *(len(piece.words) for piece in pieces)])
    right = [all(best[begin:end]) for begin, end in pairwise(ends.tolist())]
    return np.repeat(np.array(right, dtype=bool), [len(piece.written) for piece in pieces])


def measure(
    calibration: Calibration, lists: Sequence[NbestList], decided: Sequence[ConfusionNetwork], normaliser: Normaliser
) -> Quality:
    """How good the confidences of decided texts are, on lists with references."""
    flags = [correct(network, nbest.references, normaliser) for network, nbest in zip(decided, lists, strict=True)]
    return quality(
        _joined([calibration.confidences(network) for network in decided]), np.concatenate([*flags, []]).astype(bool)
    )


def calibrate(
    lists: Sequence[NbestList], texts: Sequence[str], weights: Weights, normaliser: Normaliser
) -> Calibration:
    """The scale with the best normalised cross entropy; with isotonic regression on top if folds gain by it.

    Args:
        texts: the decided text of each list. Lists need references.

    Raises:
        UserError: a list has no reference, or the words are all right or all wrong.
    """
    for nbest in lists:
        if not nbest.references:
            raise UserError(f"utterance {nbest.id}: no reference; confidences are calibrated on lists with references")
    decided = networks(lists, texts, weights.of, normaliser)
    flags = [correct(network, nbest.references, normaliser) for network, nbest in zip(decided, lists, strict=True)]
    every = np.concatenate([*flags, np.empty(0, dtype=bool)])
    if every.all() or not every.any():
        raise UserError("all words of the dev lists are right, or all wrong; confidences cannot be calibrated on them")
    grid = scale_grid([network.scores for network in decided])
    values = [quality(_joined([network.confidences(scale) for network in decided]), every).nce for scale in grid]
    scale = grid[int(np.argmax(values))]
    warn_at_end(scale, grid, "confidences")
    raw = [network.confidences(scale) for network in decided]
    if len(lists) < FEW:
        return Calibration(scale)
    folds = split([nbest.id for nbest in lists], FOLDS)
    gains = quality(_in_folds(folds, raw, flags), every).nce > quality(_joined(raw), every).nce
    return _isotonic(scale, _joined(raw), every) if gains else Calibration(scale)


def _in_folds(folds: Folds, raw: Sequence[Floats], flags: Sequence[Flags]) -> Floats:
    """The confidences of each list by a map learned on the other folds."""
    result: list[Floats] = list(raw)
    for fold in range(folds.number):
        rest = [index for index, place in enumerate(folds.fold) if place != fold]
        learned = _isotonic(
            1.0, _joined([raw[index] for index in rest]), np.concatenate([flags[index] for index in rest])
        )
        for index, place in enumerate(folds.fold):
            if place == fold:
                result[index] = learned._mapped(raw[index])
    return _joined(result)


def _isotonic(scale: float, posteriors: Floats, right: Flags) -> Calibration:
    """The rising step function nearest to the flags (pool adjacent violators; Zadrozny and Elkan 2002).

    A level of n words, k of them right, is (k + 1) / (n + 2): never 0 or 1.
    """
    order = np.argsort(posteriors, kind="stable")
    values, begins = np.unique(posteriors[order], return_index=True)
    sums = np.add.reduceat(right[order].astype(float), begins)
    counts = np.diff([*begins, len(order)]).astype(float)
    blocks: list[tuple[float, float, float]] = []  # start, right words, words
    for start, total, count in zip(values, sums, counts, strict=True):
        block = (float(start), float(total), float(count))
        while blocks and blocks[-1][1] * block[2] >= block[1] * blocks[-1][2]:
            before = blocks.pop()
            block = (before[0], before[1] + block[1], before[2] + block[2])
        blocks.append(block)
    levels = np.maximum.accumulate([(total + 1) / (count + 2) for _, total, count in blocks])
    return Calibration(scale, tuple(start for start, _, _ in blocks), tuple(float(level) for level in levels))


def _joined(parts: Sequence[Floats]) -> Floats:
    return np.concatenate([*parts, np.empty(0)])


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
        UserError: an utterance is not in the segments.
    """
    for nbest, decided in zip(lists, words, strict=True):
        if segments is not None and path.endswith(".ctm"):
            if nbest.id not in segments:
                raise UserError(f"utterance {nbest.id}: not in the segments; they need a line for each utterance")
            file.writelines(_ctm_lines(segments[nbest.id], decided))
        else:
            rows: list[dict[str, object]] = []
            for word in decided:
                rows.append({"word": word.text, "confidence": round(word.confidence, 4)})
                if word.alternatives:
                    rows[-1]["alternatives"] = [[text, round(mass, 4)] for text, mass in word.alternatives]
            file.write(json.dumps({"id": nbest.id, "words": rows}, ensure_ascii=False) + "\n")


def _ctm_lines(segment: RecordingSegment, words: Sequence[Word]) -> Iterator[str]:
    """Lists have no times of words: each takes a part of its utterance in proportion to its letters."""
    per_letter = (segment.end - segment.start) / max(1, sum(len(word.text) for word in words))
    begin = segment.start
    for word in words:
        duration = per_letter * len(word.text)
        yield f"{segment.recording} 1 {begin:.2f} {duration:.2f} {word.text} {word.confidence:.4f}\n"
        begin += duration
