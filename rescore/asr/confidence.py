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
from typing import IO, NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from rescore.asr.written import WrittenPiece, pieces_of, tokens_of
from rescore.border import as_weights, checked_lists
from rescore.config import RunConfig
from rescore.dataset import NO_LISTS, Dataset
from rescore.deciding import decide
from rescore.decision import Choice, combine, posteriors
from rescore.errors import UserError, counted
from rescore.files import ending_of
from rescore.formats import best
from rescore.formats.audio import Segments
from rescore.formats.times import TIMED, part_times
from rescore.metrics.alignment import align
from rescore.metrics.normalise import EXACT, Normaliser
from rescore.nbest import NbestList, without_copies
from rescore.pipeline import expand
from rescore.plan import Plan, resolve
from rescore.styles import figure
from rescore.tuning import Weights, suited
from rescore.tuning.lists import warn_of_overlap
from rescore.tuning.scale import scale_grid, warn_at_end

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


DIGITS = 12
"""Decimal places of sums of posteriors. A word that all hypotheses have is certain in
each list; without rounding, its sum may be 1 or just below, on another level of the
calibration.
"""


class DecidedWord(NamedTuple):
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
        """Align the hypotheses with the decided text.

        Args:
            text: The decided text.
            hypotheses: The texts of the list.
            scores: Combined scores of shape (hypotheses,), natural log.
            normaliser: Says which words are the same.
        """
        order = _best_first(hypotheses, scores)
        self.text = text
        self.scores = scores[order]
        """Combined scores, the best first."""
        self.words: list[str] = []
        pieces = pieces_of(text, normaliser)
        for piece in pieces:
            self.words += piece.written
        own = tokens_of(text, normaliser)
        self._same = np.zeros((len(hypotheses), len(self.words)))
        for row, place in zip(self._same, order, strict=True):
            same = _in_place(own, tokens_of(hypotheses[place], normaliser))
            row[:] = _of_written(pieces, same)

    def confidences(self, scale: float) -> Floats:
        """Return the sum of the posteriors exp(scale * score) of the hypotheses that
        have a word in its place.

        Args:
            scale: The scale of the posteriors.

        Returns:
            Confidences of shape (words,).
        """
        sums = posteriors([self.scores], scale)[0] @ self._same
        return np.asarray(np.minimum(sums.round(DIGITS), 1.0))


def _best_first(hypotheses: Sequence[str], scores: Floats) -> list[int]:
    """Return the places of hypotheses in an order that does not depend on the file, for
    sums that do not, either: by score, then by text. Impossible hypotheses keep their
    order: the first of them may be the choice.
    """

    def rank(place: int) -> tuple[float, str]:
        is_possible = scores[place] > -math.inf
        return -scores[place], hypotheses[place] if is_possible else ""

    return sorted(range(len(hypotheses)), key=rank)


def _in_place(words: Sequence[str], others: Sequence[str]) -> list[bool]:
    """Return for each word whether `others` has the same word in its place."""
    same = [False] * len(words)
    for block in Levenshtein.opcodes(words, others).as_matching_blocks():
        same[block.a : block.a + block.size] = [True] * block.size
    return same


def _of_written(pieces: Sequence[WrittenPiece], flags: Sequence[bool]) -> list[bool]:
    """Return for each written word whether all words that its piece is compared as
    have the flag.

    Args:
        pieces: The pieces of a text.
        flags: A flag for each word as it is compared. A piece without such words does
            not count, and has the flag.
    """
    written = []
    begin = 0
    for piece in pieces:
        end = begin + len(piece.words)
        written += [all(flags[begin:end])] * len(piece.written)
        begin = end
    return written


def networks(
    lists: Iterable[NbestList],
    texts: Sequence[str],
    choice: Choice,
    normaliser: Normaliser = EXACT,
) -> list[ConfusionNetwork]:
    """Return the network of each list, for the text that was decided on.

    Args:
        lists: The lists.
        texts: The decided text of each list.
        choice: What decided.
        normaliser: Says which words are the same.
    """
    decided = []
    for every, text in zip(lists, texts, strict=True):
        nbest = without_copies(every, choice.weighted)
        hypotheses = [hypothesis.text for hypothesis in nbest.hypotheses]
        scores = combine(nbest, choice)
        decided.append(ConfusionNetwork(text, hypotheses, scores, normaliser))
    return decided


# --- quality -------------------------------------------------------------------------


BINS = 10
"""Bins of the expected calibration error."""
NEAREST = 1e-6
"""The least distance from 0 and 1; a confidence of 0 for a right word would cost
infinitely much.
"""


@dataclass(frozen=True, slots=True)
class Quality:
    """The quality of confidences of words whose correctness is known."""

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
        nce, ece = (figure(value, 3) for value in (self.nce, self.ece))
        return f"NCE {nce}  ECE {ece}"


def quality(confidences: Floats, correct: Flags) -> Quality:
    """Return the quality of confidences.

    Measures that are not defined, as where all words are right, are NaN.

    Args:
        confidences: The confidence of each word (words,).
        correct: Whether each word is right (words,).
    """
    number = len(correct)
    if not number:
        return Quality(0, math.nan, math.nan, math.nan)
    right = int(correct.sum())
    bins = np.minimum((confidences * BINS).astype(int), BINS - 1)
    errors = np.bincount(bins, confidences - correct, BINS)
    ece = float(np.abs(errors).sum() / number)
    nce = math.nan
    if 0 < right < number:
        # (H_max + sum of log2 c over right words + sum of log2 (1 - c) over wrong ones)
        # / H_max
        share = right / number
        wrong = number - right
        most = -right * math.log2(share) - wrong * math.log2(1 - share)
        clipped = confidences.clip(NEAREST, 1 - NEAREST)
        logs = np.log2(np.where(correct, clipped, 1 - clipped))
        nce = float((most + logs.sum()) / most)
    return Quality(number, right / number, nce, ece)


# --- calibration ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Calibration:
    """Posteriors exp(scale * score); with levels, a rising step function of the
    posterior of the word.
    """

    scale: float = 1.0
    starts: tuple[float, ...] = ()
    """The lowest posterior of each level."""
    levels: tuple[float, ...] = ()
    """The probability that a word is right."""

    def confidences(self, network: ConfusionNetwork) -> Floats:
        """Return the probability that each word is right.

        Args:
            network: The network of a decided text.

        Returns:
            Probabilities of shape (words,).
        """
        posteriors = network.confidences(self.scale)
        if not self.levels:
            return posteriors
        place = np.searchsorted(self.starts, posteriors, side="right") - 1
        return np.asarray(self.levels)[place.clip(min=0)]

    def words(self, network: ConfusionNetwork) -> list[DecidedWord]:
        """Return the words of a decided text with their confidences."""
        return list(map(DecidedWord, network.words, self.confidences(network).tolist()))

    @property
    def signature(self) -> str:
        """The settings, for messages."""
        signature = f"scale={self.scale:g}"
        if self.levels:
            signature += f",isotonic={len(self.levels)}"
        return signature


def uncalibrated(plan: Plan) -> Calibration:
    """Return posteriors as they are, with the scale of the plan's decision, or 1 where
    the decision has no scale.
    """
    return Calibration(plan.applied(plan.weights).decision.scale or 1.0)


def correct(
    network: ConfusionNetwork, references: Sequence[str], normaliser: Normaliser
) -> Flags:
    """Return whether each word of a decided text is right, by sclite's alignment with
    the nearest reference.

    A word that is compared as several words is right if all of these are right; a word
    that does not count is no error.

    Args:
        network: The network of the decided text.
        references: The references of the utterance.
        normaliser: Says which words are the same.

    Returns:
        Flags of shape (words,).
    """
    pieces = pieces_of(network.text, normaliser)
    heard: list[str] = []
    for piece in pieces:
        heard += piece.words
    best = [False] * len(heard)
    for reference in references:
        pairs = align(normaliser(reference), heard)
        flags = [expected == spoken for expected, spoken in pairs if spoken is not None]
        if sum(flags) >= sum(best):
            best = flags
    return np.array(_of_written(pieces, best), dtype=bool)


def calibrate(
    lists: Dataset,
    texts: Sequence[str],
    weights: Weights,
    normaliser: Normaliser,
) -> Calibration:
    """Return the scale with the best normalised cross entropy, with isotonic
    regression.

    Args:
        lists: Lists with references.
        texts: The decided text of each list.
        weights: The weights of the columns.
        normaliser: Says which words are the same.

    Raises:
        UserError: A list has no reference, or the words are all right or all wrong.
    """
    for nbest in lists:
        if not nbest.references:
            raise UserError(
                f"utterance {nbest.id}: no reference; confidences are calibrated on"
                " lists with references"
            )
    decided = networks(lists, texts, weights, normaliser)
    right = _flags(lists, decided, normaliser)
    if right.all() or not right.any():
        raise UserError(
            "all words of the dev lists are right, or all wrong; confidences cannot be"
            " calibrated on them"
        )
    grid = scale_grid([network.scores for network in decided])
    every = []
    entropies = []
    for scale in grid:
        confidences = _confidences(Calibration(scale), decided)
        every.append(confidences)
        entropies.append(quality(confidences, right).nce)
    best = int(np.argmax(entropies))
    warn_at_end(grid[best], grid, "confidences")
    return _isotonic(grid[best], every[best], right)


def _flags(
    lists: Dataset,
    decided: Sequence[ConfusionNetwork],
    normaliser: Normaliser,
) -> Flags:
    """Return whether each word of the decided texts is right (words,)."""
    flags = [np.empty(0, dtype=bool)]
    for network, nbest in zip(decided, lists, strict=True):
        flags.append(correct(network, nbest.references, normaliser))
    return np.concatenate(flags)


def _confidences(
    calibration: Calibration, decided: Sequence[ConfusionNetwork]
) -> Floats:
    """Return the confidence of each word of the decided texts (words,)."""
    parts = [np.empty(0)]
    for network in decided:
        parts.append(calibration.confidences(network))
    return np.concatenate(parts)


def _isotonic(scale: float, posteriors: Floats, right: Flags) -> Calibration:
    """Return the rising step function nearest to the flags (pool adjacent violators;
    Zadrozny and Elkan 2002).

    A level of n words, k of them right, is (k + 1) / (n + 2): never 0 or 1.
    """
    order = np.argsort(posteriors, kind="stable")
    values, begins = np.unique(posteriors[order], return_index=True)
    sums = np.add.reduceat(right[order].astype(float), begins)
    counts = np.diff([*begins, len(order)]).astype(float)
    blocks: list[_Level] = []
    for start, total, count in zip(values, sums, counts, strict=True):
        block = _Level(float(start), float(total), float(count))
        while (
            blocks and blocks[-1].right * block.words >= block.right * blocks[-1].words
        ):
            block = blocks.pop().merged(block)
        blocks.append(block)
    levels = [(block.right + 1) / (block.words + 2) for block in blocks]
    rising = np.maximum.accumulate(levels).tolist()
    return Calibration(scale, tuple(block.start for block in blocks), tuple(rising))


class _Level(NamedTuple):
    """A stretch of posteriors with one level."""

    start: float
    """The lowest posterior."""
    right: float
    """The number of right words."""
    words: float
    """The number of words."""

    def merged(self, behind: _Level) -> _Level:
        """Return the stretch together with the stretch behind it."""
        return _Level(self.start, self.right + behind.right, self.words + behind.words)


# --- decided texts -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Confidences:
    """The confidences of the decided texts of a set, and their quality."""

    words: list[list[DecidedWord]]
    """One list for each N-best list."""
    texts: list[str]
    """The decided text of each list."""
    calibration: Calibration
    plain: Quality | None
    """Quality of the uncalibrated posteriors; None without references."""
    calibrated: Quality | None
    """Quality of the confidences in `words`; None without references, or without dev
    lists.
    """

    def __str__(self) -> str:
        """Return the quality, in lines for the terminal; nothing without references."""
        lines = []
        if self.plain:
            words = counted(self.plain.words, "word")
            share = figure(100 * self.plain.correct, 1)
            lines.append(f"{words}, {share}% right")
            lines.append(f"not calibrated     {self.plain}")
        if self.calibrated:
            settings = self.calibration.signature
            lines.append(f"calibrated on dev  {self.calibrated}  ({settings})")
        return "\n".join(lines)


def same_words(plan: Plan) -> Normaliser:
    """Return what the metric of a plan counts as the same word.

    Raises:
        UserError: The metric knows no word errors.
    """
    if plan.metric.words is None:
        raise UserError(
            f"{plan.metric.name} has no word errors; confidences need --metric wer"
        )
    return plan.metric.words


def decided_texts(plan: Plan, lists: Dataset) -> list[str]:
    """Return the text of each list that the plan and its weights decide on."""
    applied = plan.applied(plan.weights)
    return decide(plan.metric, lists, applied, force=plan.force_weights).texts


def calibrated(plan: Plan, dev: Dataset) -> Calibration:
    """Return the calibration of confidences on dev lists.

    Args:
        plan: The plan, with weights.
        dev: Lists with references.

    Raises:
        UserError: The metric knows no word errors, or confidences cannot be calibrated
            on these lists.
    """
    return calibrate(dev, decided_texts(plan, dev), plan.weights, same_words(plan))


def words_of(
    plan: Plan, nbest: NbestList, text: str, calibration: Calibration | None = None
) -> list[DecidedWord]:
    """Return the words of the text that was decided on, with their confidences.

    Args:
        plan: The plan, with weights.
        nbest: The list.
        text: The text that was decided on.
        calibration: The calibration; None for posteriors as they are.
    """
    (network,) = networks([nbest], [text], plan.weights, plan.metric.words or EXACT)
    return (calibration or uncalibrated(plan)).words(network)


def confidences(plan: Plan, lists: Dataset, dev: Dataset = NO_LISTS) -> Confidences:
    """Return the confidence of each word that the plan and its weights decide on.

    Args:
        plan: The plan, with weights.
        lists: The lists.
        dev: Lists with references and the same columns, to calibrate on.

    Raises:
        UserError: The metric knows no word errors, or confidences cannot be calibrated
            on the dev lists.
    """
    same = same_words(plan)
    if dev:
        warn_of_overlap(lists, dev)
    lists = Dataset(expand(plan, lists))
    dev = Dataset(expand(plan, dev))
    as_they_are = uncalibrated(plan)
    calibration = calibrated(plan, dev) if dev else as_they_are
    texts = decided_texts(plan, lists)
    decided = networks(lists, texts, plan.weights, same)
    before = None
    after = None
    if all(nbest.references for nbest in lists):
        right = _flags(lists, decided, same)
        before = quality(_confidences(as_they_are, decided), right)
        if dev:
            after = quality(_confidences(calibration, decided), right)
    words = [calibration.words(network) for network in decided]
    return Confidences(words, texts, calibration, before, after)


def confidence(
    lists: Iterable[NbestList],
    weights: Weights | Mapping[str, float] | float,
    dev: Iterable[NbestList] = (),
) -> list[list[DecidedWord]]:
    """Return the words of the text that is chosen for each list, each with the
    probability that it is right.

    Args:
        lists: The lists.
        weights: As in `rerank`.
        dev: Lists with references and the same columns, to calibrate on; without such
            lists a confidence is the posterior as it is.

    Raises:
        UserError: A column is missing or comes from another model, or dev lists do not
            suit the calibration.
    """
    every = checked_lists("confidence", lists)
    dev_lists = checked_lists("confidence", dev)
    fitting = as_weights(weights, every)
    suited(fitting, [*every, *dev_lists])
    plan = resolve(RunConfig(), dev_lists or every, weights=fitting)
    return confidences(plan, every, dev_lists).words


# --- files ---------------------------------------------------------------------------

ENDINGS = (*TIMED, ".jsonl")
"""Endings of files of confidences."""


def check_ending(path: str) -> None:
    """Check, before lists are read, that the file can be written.

    Args:
        path: The file.

    Raises:
        UserError: The ending is not in `ENDINGS`.
    """
    if ending_of(path) not in ENDINGS:
        raise UserError(f"{path}: its ending is none of {', '.join(ENDINGS)}")


def check_times(path: str, lists: Dataset, segments: Segments | None) -> None:
    """Check, before anything is computed, that times are known if the file has times.

    Args:
        path: The file.
        lists: The lists.
        segments: The recording and place of each utterance.

    Raises:
        UserError: Words have no times, and there are no segments, or a segment has no
            end.
    """
    if ending_of(path) not in TIMED:
        return
    best.check(path, segments, lists, instead=".jsonl")
    if segments is None:
        return
    for nbest in lists:
        is_timed = any(hypothesis.times for hypothesis in nbest.hypotheses)
        if not is_timed and segments.of(nbest.id).end is None:
            raise UserError(
                f"utterance {nbest.id}: its segment has no end; give the end in seconds"
                " instead of -1"
            )


def write(
    path: str,
    file: IO[str],
    lists: Dataset,
    confident: Confidences,
    segments: Segments | None = None,
) -> None:
    """Write the words of each list, in the form that the ending of `path` names.

    Words have the times of the lists. Where a list has none, each word takes a part of
    its utterance in proportion to its letters. Subtitles have no confidences.

    Args:
        path: The path of the file.
        file: The file.
        lists: The lists.
        confident: The words of each list.
        segments: The recording and place of each utterance; None if times of words
            count from the start of the recording.

    Raises:
        UserError: An utterance is not in the segments, or subtitles have two
            recordings.
    """
    decided = zip(lists, confident.texts, confident.words, strict=True)
    if ending_of(path) in TIMED:
        writer = best.BestWriter(path, file, segments)
        for nbest, text, words in decided:
            writer.write(nbest, text, words)
        writer.close()
        return
    for nbest, text, words in decided:
        entry = {"id": nbest.id, "words": _entries(nbest, text, words)}
        file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _entries(
    nbest: NbestList, text: str, words: Sequence[DecidedWord]
) -> list[dict[str, str | float]]:
    """Return the words of a list, with their times if the list has times."""
    entries: list[dict[str, str | float]] = []
    for word in words:
        confidence = round(word.confidence, 4)
        entries.append({"word": word.text, "confidence": confidence})
    timed = best.word_times(nbest, text)
    if not timed or not words:
        return entries
    pieces = [(piece, (start, end)) for piece, start, end in timed]
    spans = part_times([word.text for word in words], pieces)
    for entry, (start, end) in zip(entries, spans, strict=True):
        entry |= {"start": round(start, 3), "end": round(end, 3)}
    return entries
