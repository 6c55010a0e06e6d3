"""Connectionist temporal classification (Graves et al. 2006): the probability of a
text, its best alignment, and the search for the best texts.

A path has a label for each frame. The text of a path is what remains when equal
neighbours are joined and blanks are removed. The probability of a text is the sum over
its paths. Here `frames` are natural-log probabilities of labels, (frames, labels).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

BEAM = 16
"""Prefixes that the search keeps."""
UNLIKELY = math.log(1e-4)
"""The search does not follow labels that are less probable in a frame."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What a recogniser hears in a recording."""

    log_probs: Floats
    """Natural-log probabilities of labels, (frames, labels)."""
    seconds: float
    """From a frame to the next."""


def prefix_log_probs(
    frames: Floats, texts: Sequence[Sequence[int]], blank: int
) -> list[Floats]:
    """Return log p of each label of texts given the labels before it, and of the end.

    The values of a text add up to the log-probability of the text (forward algorithm).
    The probability of a prefix is that of all paths that enter its last label at some
    frame (Graves 2008, section 7.4).

    Args:
        frames: (frames, labels).
        texts: The labels of each text.
        blank: The label of silence.

    Returns:
        For each text (labels + 1,). A text that needs more frames than there are is
        impossible: its end has -inf, all else 0.
    """
    longest = max(len(text) for text in texts)
    labels = np.full((len(texts), longest), blank)
    for row, text in enumerate(texts):
        labels[row, : len(text)] = text
    prefixes, whole = _forward(frames, labels, blank)
    results = []
    for row, text in enumerate(texts):
        size = len(text)
        steps = np.zeros(size + 1)
        if np.isneginf(whole[row, size]):
            steps[size] = -np.inf
        else:
            steps[:size] = np.diff(prefixes[row, : size + 1])
            steps[size] = whole[row, size] - prefixes[row, size]
        results.append(steps)
    return results


def _forward(
    frames: Floats, labels: npt.NDArray[np.int64], blank: int
) -> tuple[Floats, Floats]:
    """Return log-probabilities of the prefixes of texts.

    Args:
        labels: (texts, longest).

    Returns:
        Twice (texts, longest + 1): that a text begins with the first labels, and that
        these labels are the whole text.
    """
    number, longest = labels.shape
    repeats = np.zeros(labels.shape, dtype=bool)
    repeats[:, 1:] = labels[:, 1:] == labels[:, :-1]
    # paths that have read the first n labels, and are in a blank or in the last label
    in_blank = np.full((number, longest + 1), -np.inf)
    in_blank[:, 0] = 0.0
    in_label = np.full((number, longest + 1), -np.inf)
    prefixes = np.full((number, longest + 1), -np.inf)
    prefixes[:, 0] = 0.0
    for frame in frames:
        emitted = frame[labels]
        from_label = np.where(repeats, -np.inf, in_label[:, :-1])
        entering = np.logaddexp(in_blank[:, :-1], from_label) + emitted
        prefixes[:, 1:] = np.logaddexp(prefixes[:, 1:], entering)
        in_blank = np.logaddexp(in_blank, in_label) + frame[blank]
        in_label[:, 1:] = np.logaddexp(entering, in_label[:, 1:] + emitted)
    return prefixes, np.logaddexp(in_blank, in_label)


def viterbi(
    frames: Floats, text: Sequence[int], blank: int
) -> list[tuple[int, int]] | None:
    """Return the frames of each label on the most probable path of a text.

    Args:
        frames: (frames, labels).
        text: The labels.
        blank: The label of silence.

    Returns:
        First frame and frame behind the last of each label; None if the text needs more
        frames than there are.
    """
    states = np.full(2 * len(text) + 1, blank)
    states[1::2] = text
    may_skip = np.zeros(len(states), dtype=bool)
    may_skip[3::2] = states[3::2] != states[1:-2:2]
    score = np.full(len(states), -np.inf)
    score[0] = 0.0
    steps = np.zeros((len(frames), len(states)), dtype=np.int64)
    for time, frame in enumerate(frames):
        ways = np.full((3, len(states)), -np.inf)
        ways[0] = score
        ways[1, 1:] = score[:-1]
        ways[2, 2:] = np.where(may_skip[2:], score[:-2], -np.inf)
        steps[time] = ways.argmax(axis=0)
        score = ways.max(axis=0) + frame[states]
    last = len(states) - 1
    if text and score[last - 1] > score[last]:
        last -= 1
    if np.isneginf(score[last]):
        return None
    spans: dict[int, tuple[int, int]] = {}
    state = last
    for time in range(len(frames) - 1, -1, -1):
        _, end = spans.get(state, (time, time + 1))
        spans[state] = (time, end)
        state -= int(steps[time, state])
    return [spans[2 * place + 1] for place in range(len(text))]


def prefix_beam_search(
    frames: Floats, blank: int, beam: int = BEAM
) -> list[tuple[tuple[int, ...], float]]:
    """Return the most probable texts and their log-probabilities (Hannun et al. 2014).

    Args:
        frames: (frames, labels).
        blank: The label of silence.
        beam: Prefixes that are kept after each frame.

    Returns:
        At most `beam` texts as labels, the best first. Probabilities are those of the
        paths that the search kept.
    """
    kept: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, -math.inf)}
    for frame in frames.tolist():
        following: dict[tuple[int, ...], tuple[float, float]] = {}
        likely = [label for label, value in enumerate(frame) if value > UNLIKELY]
        for prefix, (in_blank, in_label) in kept.items():
            whole = _log_add(in_blank, in_label)
            _add(following, prefix, whole + frame[blank], -math.inf)
            if prefix:
                _add(following, prefix, -math.inf, in_label + frame[prefix[-1]])
            for label in likely:
                if label == blank:
                    continue
                repeats = prefix[-1:] == (label,)
                before = in_blank if repeats else whole
                if before == -math.inf:
                    continue
                _add(following, (*prefix, label), -math.inf, before + frame[label])
        ranked = sorted(following.items(), key=_rank)
        kept = dict(ranked[:beam])
    return [(prefix, -_rank((prefix, both))) for prefix, both in kept.items()]


def _add(
    prefixes: dict[tuple[int, ...], tuple[float, float]],
    prefix: tuple[int, ...],
    in_blank: float,
    in_label: float,
) -> None:
    """Add log-probabilities of paths to a prefix."""
    blank_before, label_before = prefixes.get(prefix, (-math.inf, -math.inf))
    prefixes[prefix] = (
        _log_add(blank_before, in_blank),
        _log_add(label_before, in_label),
    )


def _log_add(first: float, second: float) -> float:
    """Return log(exp(first) + exp(second)): numpy's `logaddexp` of two numbers, which
    takes ten times as long.
    """
    low, high = sorted((first, second))
    if low == -math.inf:
        return high
    return high + math.log1p(math.exp(low - high))


def _rank(entry: tuple[tuple[int, ...], tuple[float, float]]) -> float:
    """Return minus the log-probability of a prefix."""
    _, (in_blank, in_label) = entry
    return -_log_add(in_blank, in_label)
