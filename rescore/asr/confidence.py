"""Confidences: the probability that each word of a decided text is right, their
quality, and their calibration.

The decided text is the pivot of a confusion network (Mangu et al. 2000): each
hypothesis is aligned with it. The confidence of a word is the posterior of the
hypotheses that have it, calibrated on dev lists.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import IO, NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from rescore.asr.written import Piece, pieces_of, tokens_of
from rescore.border import as_weights, checked_lists
from rescore.config import RunConfig
from rescore.deciding import decide
from rescore.decision.rules import WeightsOf, combine, posteriors
from rescore.errors import UserError, counted
from rescore.formats.audio import RecordingSegment
from rescore.formats.times import spread
from rescore.metrics.alignment import align
from rescore.metrics.normalise import EXACT, Normaliser
from rescore.nbest import NbestList, without_copies
from rescore.pipeline import expand
from rescore.plan import Plan, resolve
from rescore.tuning import Weights, suited
from rescore.tuning.folds import warn_of_overlap
from rescore.tuning.scale import scale_grid, warn_at_end

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Word(NamedTuple):
    """A word of a decided text."""

    text: str
    confidence: float
    """The probability that it is right."""


class ConfusionNetwork:
    """Which hypotheses of a list have the decided words in their places; posteriors
    come later.
    """

    def __init__(
        self,
        text: str,
        hypotheses: Sequence[str],
        scores: Floats,
        normaliser: Normaliser = EXACT,
    ) -> None:
        """
        Args:
            scores: (hypotheses,) combined, natural log. normaliser: says which words
                are the same.
        """
        self.text = text
        pieces = pieces_of(text, normaliser)
        self.words = [word for piece in pieces for word in piece.written]
        self.scores = scores
        own = tokens_of(text, normaliser)
        rows = [
            _of_written(pieces, _in_place(own, tokens_of(other, normaliser)))
            for other in hypotheses
        ]
        self._same = np.array(rows, dtype=np.float64).reshape(
            len(hypotheses), len(self.words)
        )

    def confidences(self, scale: float) -> Floats:
        """(words,) the sum of the posteriors exp(scale * score) of the hypotheses that
        have the word in its place.
        """
        return np.asarray(
            np.minimum(posteriors([self.scores], scale)[0] @ self._same, 1.0)
        )


def _in_place(words: Sequence[str], others: Sequence[str]) -> list[bool]:
    """For each word, whether `others` has the same word in its place."""
    same = [False] * len(words)
    for block in Levenshtein.opcodes(words, others).as_matching_blocks():
        same[block.a : block.a + block.size] = [True] * block.size
    return same


def _of_written(pieces: Sequence[Piece], flags: Sequence[bool]) -> list[bool]:
    """For each written word, whether all words that its piece is compared as have the
    flag.

    Args:
        flags: one for each word as it is compared. A piece without such words does not
            count, and has the flag.
    """
    ends = accumulate((len(piece.words) for piece in pieces), initial=0)
    places = zip(pieces, pairwise(ends), strict=True)
    return [
        all(flags[begin:end]) for piece, (begin, end) in places for _ in piece.written
    ]


def networks(
    lists: Sequence[NbestList],
    texts: Sequence[str],
    weights: WeightsOf,
    normaliser: Normaliser = EXACT,
) -> list[ConfusionNetwork]:
    """One per list, for the text that was decided on; `normaliser` says which words are
    the same.
    """
    return [
        ConfusionNetwork(
            text,
            [hypothesis.text for hypothesis in nbest.hypotheses],
            combine(nbest, weights),
            normaliser,
        )
        for nbest, text in zip(map(without_copies, lists), texts, strict=True)
    ]


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
    """Normalised cross entropy (NIST): 1 for perfect confidences, 0 for confidences
    equal to the share of right words.
    """
    ece: float
    """Expected calibration error: mean distance of confidence and share of right words,
    over 10 bins.
    """

    def __str__(self) -> str:
        return f"NCE {self.nce:.3f}  ECE {self.ece:.3f}"


def quality(confidences: Floats, correct: Flags) -> Quality:
    """confidences, correct: (words,). Measures that are not defined, as where all words
    are right, are NaN.
    """
    number, right = len(correct), int(correct.sum())
    wrong = number - right
    nce = ece = math.nan
    if number:
        bins = np.minimum((confidences * BINS).astype(int), BINS - 1)
        ece = float(
            np.abs(np.bincount(bins, confidences - correct, BINS)).sum() / number
        )
    if right and wrong:
        # (H_max + sum of log2 c over right words + sum of log2 (1 - c) over wrong ones)
        # / H_max
        most = -right * math.log2(right / number) - wrong * math.log2(
            1 - right / number
        )
        clipped = confidences.clip(NEAREST, 1 - NEAREST)
        nce = float(
            (most + np.log2(np.where(correct, clipped, 1 - clipped)).sum()) / most
        )
    return Quality(number, right / number if number else math.nan, nce, ece)


@dataclass(frozen=True, slots=True)
class Calibration:
    """Posteriors exp(scale * score), and where `levels` are given, a rising step
    function of the word's posterior.
    """

    scale: float = 1.0
    starts: tuple[float, ...] = ()
    """The lowest posterior of each level."""
    levels: tuple[float, ...] = ()
    """The probability that a word is right."""

    def confidences(self, network: ConfusionNetwork) -> Floats:
        """(words,) the probability that each word is right."""
        posteriors = network.confidences(self.scale)
        if not self.levels:
            return posteriors
        place = np.searchsorted(self.starts, posteriors, side="right") - 1
        return np.asarray(self.levels)[place.clip(min=0)]

    def words(self, network: ConfusionNetwork) -> list[Word]:
        """The words of a decided text with their confidences."""
        return list(map(Word, network.words, self.confidences(network).tolist()))

    @property
    def signature(self) -> str:
        return f"scale={self.scale:g}" + (
            f",isotonic={len(self.levels)}" if self.levels else ""
        )


def uncalibrated(plan: Plan) -> Calibration:
    """Posteriors as they are, with the scale of the plan's decision, where the decision
    has a scale.
    """
    return Calibration(plan.decision_with(plan.weights).scale or 1.0)


def correct(
    network: ConfusionNetwork, references: Sequence[str], normaliser: Normaliser
) -> Flags:
    """(words,) whether each word of a decided text is right, by sclite's alignment with
    the nearest reference.

    A word that is compared as several words is right if all of these are right; a word
    that does not count is no error.
    """
    pieces = pieces_of(network.text, normaliser)
    heard = [word for piece in pieces for word in piece.words]
    best: list[bool] = [False] * len(heard)
    for reference in references:
        pairs = align(normaliser(reference), heard)
        flags = [expected == spoken for expected, spoken in pairs if spoken is not None]
        best = flags if sum(flags) >= sum(best) else best
    return np.array(_of_written(pieces, best), dtype=bool)


def calibrate(
    lists: Sequence[NbestList],
    texts: Sequence[str],
    weights: Weights,
    normaliser: Normaliser,
) -> Calibration:
    """The scale with the best normalised cross entropy, with isotonic regression.

    Args:
        texts: the decided text of each list. Lists need references.

    Raises:
        UserError: a list has no reference, or the words are all right or all wrong.
    """
    for nbest in lists:
        if not nbest.references:
            raise UserError(
                f"utterance {nbest.id}: no reference; confidences are calibrated on"
                " lists with references"
            )
    decided = networks(lists, texts, weights.of, normaliser)
    right = _flags(lists, decided, normaliser)
    if right.all() or not right.any():
        raise UserError(
            "all words of the dev lists are right, or all wrong; confidences cannot be"
            " calibrated on them"
        )
    grid = scale_grid([network.scores for network in decided])
    raw = [
        _joined([network.confidences(scale) for network in decided]) for scale in grid
    ]
    best = int(np.argmax([quality(confidences, right).nce for confidences in raw]))
    warn_at_end(grid[best], grid, "confidences")
    return _isotonic(grid[best], raw[best], right)


def _flags(
    lists: Sequence[NbestList],
    decided: Sequence[ConfusionNetwork],
    normaliser: Normaliser,
) -> Flags:
    """(words,) whether each word of the decided texts is right."""
    flags = [
        correct(network, nbest.references, normaliser)
        for network, nbest in zip(decided, lists, strict=True)
    ]
    return np.concatenate([*flags, np.empty(0, dtype=bool)])


def _joined(parts: Sequence[Floats]) -> Floats:
    return np.concatenate([*parts, np.empty(0)])


def _isotonic(scale: float, posteriors: Floats, right: Flags) -> Calibration:
    """The rising step function nearest to the flags (pool adjacent violators; Zadrozny
    and Elkan 2002).

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
    levels = np.maximum.accumulate(
        [(total + 1) / (count + 2) for _, total, count in blocks]
    )
    return Calibration(
        scale,
        tuple(start for start, _, _ in blocks),
        tuple(float(level) for level in levels),
    )


@dataclass(frozen=True, slots=True)
class Confidences:
    """Of the decided texts of a set."""

    words: list[list[Word]]
    """One list for each N-best list."""
    calibration: Calibration
    plain: Quality | None
    """Quality of the uncalibrated posteriors; None without references."""
    calibrated: Quality | None
    """Quality of the confidences in `words`; None without references, or without dev
    lists.
    """

    def __str__(self) -> str:
        """The quality, in lines for the terminal; nothing without references."""
        lines = []
        if self.plain:
            lines += [
                f"{counted(self.plain.words, 'word')}, {self.plain.correct:.1%} right"
            ]
            lines += [f"not calibrated     {self.plain}"]
        if self.calibrated:
            lines += [
                f"calibrated on dev  {self.calibrated}  ({self.calibration.signature})"
            ]
        return "\n".join(lines)


def same_words(plan: Plan) -> Normaliser:
    """What the metric of a plan counts as the same word.

    Raises:
        UserError: the metric knows no word errors.
    """
    if plan.metric.words is None:
        raise UserError(
            f"{plan.metric.name} has no word errors; confidences need --metric wer"
        )
    return plan.metric.words


def decided_texts(plan: Plan, lists: Sequence[NbestList]) -> list[str]:
    """Return the text of each list that the plan and its weights decide on."""
    rule = plan.decision_with(plan.weights)
    force = plan.force_weights
    return decide(plan.metric, lists, plan.weights, rule, force=force).texts


def calibrated(plan: Plan, dev: Sequence[NbestList]) -> Calibration:
    """How the confidences of words are calibrated on dev lists with references.

    Raises:
        UserError: the metric knows no word errors, or confidences cannot be calibrated
        on these lists.
    """
    return calibrate(dev, decided_texts(plan, dev), plan.weights, same_words(plan))


def words_of(
    plan: Plan, nbest: NbestList, text: str, calibration: Calibration | None = None
) -> list[Word]:
    """The words of the text that was decided on, with their confidences."""
    (network,) = networks([nbest], [text], plan.weights.of, plan.metric.words or EXACT)
    return (calibration or uncalibrated(plan)).words(network)


def confidences(
    plan: Plan, lists: Sequence[NbestList], dev: Sequence[NbestList] = ()
) -> Confidences:
    """The confidence of each word that the plan and its weights decide on.

    Args:
        dev: lists with references and the same columns, to calibrate on.

    Raises:
        UserError: the metric knows no word errors, or confidences cannot be calibrated
        on the dev lists.
    """
    same = same_words(plan)
    if dev:
        warn_of_overlap(lists, dev)
    lists, dev = list(expand(plan, lists)), list(expand(plan, dev))
    as_they_are = uncalibrated(plan)
    calibration = calibrated(plan, dev) if dev else as_they_are
    decided = networks(lists, decided_texts(plan, lists), plan.weights.of, same)
    plain = after = None
    if all(nbest.references for nbest in lists):
        right = _flags(lists, decided, same)
        plain = quality(
            _joined([as_they_are.confidences(network) for network in decided]), right
        )
        after = (
            quality(
                _joined([calibration.confidences(network) for network in decided]),
                right,
            )
            if dev
            else None
        )
    return Confidences(
        [calibration.words(network) for network in decided], calibration, plain, after
    )


def confidence(
    lists: Iterable[NbestList],
    weights: Weights | Mapping[str, float] | float,
    dev: Iterable[NbestList] = (),
) -> list[list[Word]]:
    """The words of the text that is chosen for each list, each with the probability
    that it is right.

    Args:
        weights: as in `rerank`. dev: lists with references and the same columns, to
            calibrate on; without such lists a confidence is the posterior as it is.

    Raises:
        UserError: a column is missing or comes from another model, or dev lists do not
        suit the calibration.
    """
    every, dev_lists = (
        checked_lists("confidence", lists),
        checked_lists("confidence", dev),
    )
    fitting = as_weights(weights, every)
    suited(fitting, [*every, *dev_lists])
    plan = resolve(RunConfig(), dev_lists or every, weights=fitting)
    return confidences(plan, every, dev_lists).words


ENDINGS = (".ctm", ".jsonl")


def check_file(path: str, has_segments: bool) -> None:
    """Check, before anything is computed, that the file can be written.

    Raises:
        UserError: the ending is not in `ENDINGS`, or a CTM has no segments.
    """
    if not path.endswith(ENDINGS):
        raise UserError(f"{path}: its ending is none of {', '.join(ENDINGS)}")
    if path.endswith(".ctm") and not has_segments:
        raise UserError(
            f"{path}: a CTM has times; give --segments FILE (Kaldi's), or write .jsonl"
        )


def write(
    path: str,
    file: IO[str],
    lists: Sequence[NbestList],
    words: Sequence[Sequence[Word]],
    segments: Mapping[str, RecordingSegment] | None = None,
) -> None:
    """Write the words of each list, in the form that the ending of `path` names.

    Lists have no times of words: in a CTM, each word takes a part of its utterance in
    proportion to its letters.

    Args:
        segments: for a CTM, the recording and place of each utterance.

    Raises:
        UserError: an utterance is not in the segments.
    """
    for nbest, decided in zip(lists, words, strict=True):
        if segments is not None and path.endswith(".ctm"):
            if nbest.id not in segments:
                raise UserError(
                    f"utterance {nbest.id}: not in the segments; they need a line for"
                    " each utterance"
                )
            segment = segments[nbest.id]
            if segment.end is None:
                raise UserError(
                    f"utterance {nbest.id}: its segment has no end; give the end in"
                    " seconds instead of -1"
                )
            times = spread(
                [word.text for word in decided], (segment.start, segment.end)
            )
            for word, (start, end) in zip(decided, times, strict=True):
                place = f"{segment.recording} 1 {start:.2f} {end - start:.2f}"
                file.write(f"{place} {word.text} {word.confidence:.4f}\n")
        else:
            rows = [
                {"word": word.text, "confidence": round(word.confidence, 4)}
                for word in decided
            ]
            file.write(
                json.dumps({"id": nbest.id, "words": rows}, ensure_ascii=False) + "\n"
            )
