"""What decides about corrections beside the shipped model: a threshold tuned on dev, and a language model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from rescore.asr.correct import Corrector, choose, log_odds
from rescore.asr.formats.documents import kind_of, parts, replaced
from rescore.asr.term_metrics import F1
from rescore.errors import UserError, counted
from rescore.formats.references import read_references
from rescore.formats.source import Source
from rescore.metrics.listed import OtherErrorRate, WordList
from rescore.metrics.normalise import Normaliser
from rescore.metrics.wer import REFERENCE, ErrorRate

GRID = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Thresholds that are tried, as probabilities."""
SIGNIFICANT = 1.645
"""Standard errors from which on a rise of the U-WER counts as harm: one-sided, p = 0.05."""
LM_WEIGHT = 0.03
"""Weight of a language model's log-probability ratio beside the log-odds."""


def tuned(corrector: Corrector, words: WordList, dev: str, dev_ref: str, normaliser: Normaliser) -> str:
    """Set the threshold with the best F1 of the terms on dev among those that do no harm; a note about it.

    A threshold does no harm if the WER does not rise, and the WER of the other words does not rise significantly. If
    no threshold improves F1 without harm, nothing is corrected.

    Raises:
        UserError: an utterance has no reference.
    """
    source = Source(dev)
    kind = kind_of(source)
    if kind in ("ctm", "srt", "vtt"):
        raise UserError(
            f"{dev}: dev texts are plain lines, Kaldi text, trn or STM, with a reference for each utterance"
        )
    texts = [text for part in parts(source, kind) for text in part.texts]
    by_id = read_references(dev_ref, [text.id for text in texts])
    references = [by_id[text.id] for text in texts]
    candidates = corrector.candidates(texts)
    listed = WordList(tuple(words.entries), words.path)
    metrics = (
        F1(listed, normaliser),
        ErrorRate(normaliser=normaliser),
        OtherErrorRate(listed, normaliser),
    )
    before = [metric.statistics([text.text for text in texts], references) for metric in metrics]
    best = (float(metrics[0].values(before[0].sum(axis=0)[None])[0]), math.inf)
    for probability in GRID:
        threshold = log_odds(probability)
        after = [rows.copy() for rows in before]
        for place, (text, own) in enumerate(zip(texts, candidates, strict=True)):
            if changes := choose(own, threshold):
                new = replaced(text.text, [change.replacement for change in changes])
                for metric, rows in zip(metrics, after, strict=True):
                    rows[place] = metric.statistics([new], [references[place]])[0]
        errors = [(new - old)[:, :REFERENCE].sum(axis=1) for new, old in zip(after[1:], before[1:], strict=True)]
        rise = errors[1].sum() / max(1.0, float(np.sqrt((errors[1] ** 2).sum())))
        f1 = float(metrics[0].values(after[0].sum(axis=0)[None])[0])
        if errors[0].sum() <= 0 and rise < SIGNIFICANT and f1 > best[0]:
            best = (f1, threshold)
    corrector.threshold = best[1]
    if math.isinf(best[1]):
        return (
            f"no threshold improves the terms of {counted(len(texts), 'dev text')} without harm; nothing is corrected"
        )
    return f"--threshold {1 / (1 + math.exp(-best[1])):.2f} (F1 of the terms on dev: {best[0]:.1f})"


def language_model(spec: str) -> Callable[[Sequence[tuple[str, str]]], list[float]]:
    """A function that gives what a language model adds to the log-odds of corrections.

    Raises:
        UserError: the model cannot be loaded.
    """
    from rescore.lms import load
    from rescore.lms.base import Public

    model = Public(load(spec))

    def opinion(pairs: Sequence[tuple[str, str]]) -> list[float]:
        scores = [scored.sum for scored in model.score([text for pair in pairs for text in pair])]
        return [LM_WEIGHT * (after - before) for before, after in zip(scores[::2], scores[1::2], strict=True)]

    return opinion
