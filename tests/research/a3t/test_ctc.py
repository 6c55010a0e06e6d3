"""The algorithms of CTC beside sums over all paths."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from rescore.research.a3t.ctc import (
    Floats,
    prefix_beam_search,
    prefix_log_probs,
    viterbi,
)

BLANK = 0
LABELS = 3
FRAMES = 5
Path = tuple[int, ...]
Text = tuple[int, ...]


def text_of(path: Path) -> Text:
    """The definition: join equal neighbours, remove blanks."""
    joined = [label for label, _ in itertools.groupby(path)]
    return tuple(label for label in joined if label != BLANK)


def paths() -> list[Path]:
    return list(itertools.product(range(LABELS), repeat=FRAMES))


def random_frames(seed: int, frames: int = FRAMES, labels: int = LABELS) -> Floats:
    values = np.random.default_rng(seed).normal(size=(frames, labels))
    log_probs: Floats = values - np.logaddexp.reduce(values, axis=1, keepdims=True)
    return log_probs


def log_prob(frames: Floats, path: Path) -> float:
    return sum(float(frame[label]) for frame, label in zip(frames, path, strict=True))


def texts_by_probability(frames: Floats) -> dict[Text, float]:
    """The probability of each text, summed over its paths."""
    sums: dict[Text, float] = {}
    for path in paths():
        text = text_of(path)
        sums[text] = sums.get(text, 0.0) + math.exp(log_prob(frames, path))
    return sums


@pytest.mark.parametrize("seed", range(3))
def test_the_forward_algorithm_sums_over_all_paths(seed: int) -> None:
    frames = random_frames(seed)
    sums = texts_by_probability(frames)
    assert sum(sums.values()) == pytest.approx(1)
    texts = sorted(sums)
    for text, steps in zip(texts, prefix_log_probs(frames, texts, BLANK), strict=True):
        assert steps.shape == (len(text) + 1,)
        assert steps.sum() == pytest.approx(math.log(sums[text]))
        for size in range(len(text) + 1):
            beginning = [
                probability
                for other, probability in sums.items()
                if other[:size] == text[:size]
            ]
            assert steps[:size].sum() == pytest.approx(
                math.log(sum(beginning)), abs=1e-9
            )


def test_texts_that_need_more_frames_are_impossible() -> None:
    """Equal neighbours need a blank between them."""
    frames = random_frames(1)
    texts = [(1,) * 3, (1,) * 4, (1, 2) * 3, ()]
    scores = [steps.sum() for steps in prefix_log_probs(frames, texts, BLANK)]
    assert np.isfinite(scores).tolist() == [True, False, False, True]
    assert viterbi(frames, (1,) * 4, BLANK) is None
    assert viterbi(frames, (1,) * 3, BLANK) == [(0, 1), (2, 3), (4, 5)]
    assert viterbi(frames, (), BLANK) == []
    assert prefix_log_probs(frames, [()], BLANK)[0] == pytest.approx(
        [frames[:, BLANK].sum()]
    )


def test_long_texts_have_the_loss_of_pytorch() -> None:
    frames = random_frames(4, 60, 8)
    texts = [
        np.random.default_rng(seed).integers(1, 8, 20).tolist() for seed in (1, 2, 3)
    ]
    expected = torch.nn.functional.ctc_loss(
        torch.tensor(frames)[:, None].expand(-1, 3, -1),
        torch.tensor(texts),
        torch.tensor([60] * 3),
        torch.tensor([20] * 3),
        reduction="none",
    )
    scores = [steps.sum() for steps in prefix_log_probs(frames, texts, BLANK)]
    assert scores == pytest.approx((-expected).tolist())


@pytest.mark.parametrize("seed", range(3))
def test_viterbi_finds_the_best_path(seed: int) -> None:
    frames = random_frames(seed)
    for text in texts_by_probability(frames):
        own = [path for path in paths() if text_of(path) == text]
        best = max(own, key=lambda path: log_prob(frames, path))
        spans = viterbi(frames, text, BLANK)
        assert spans is not None
        path = [BLANK] * FRAMES
        for label, (start, end) in zip(text, spans, strict=True):
            path[start:end] = [label] * (end - start)
        assert log_prob(frames, tuple(path)) == pytest.approx(log_prob(frames, best))


def test_the_search_finds_all_texts_in_order() -> None:
    frames = random_frames(2)
    sums = texts_by_probability(frames)
    found = prefix_beam_search(frames, BLANK, beam=1_000)
    assert dict(found) == pytest.approx({text: math.log(sums[text]) for text in sums})
    assert [score for _, score in found] == sorted(dict(found).values(), reverse=True)
    few = prefix_beam_search(frames, BLANK, beam=4)
    assert len(few) == 4 and few[0][0] == found[0][0]
