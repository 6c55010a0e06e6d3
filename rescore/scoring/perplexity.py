"""Perplexity of plain text: of a corpus, and the mean and the median over its sentences (the paper's table 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rescore.scoring.base import TokenScores


@dataclass(frozen=True, slots=True)
class Perplexity:
    """exp(-log p / units): of the corpus, and the mean and the median of the sentences' own.

    It is a pseudo-perplexity where the model's scores are a pseudo-log-likelihood.
    """

    corpus: float
    mean: float
    median: float


@dataclass(frozen=True, slots=True)
class TextScore:
    """What a language model says of a text. `log_prob` is in natural log."""

    lm: str
    fingerprint: str
    sentences: int
    words: int
    tokens: int
    unknown: int
    log_prob: float
    by_token: Perplexity
    by_word: Perplexity


def text_score(lm: str, fingerprint: str, sentences: Sequence[str], scores: Sequence[TokenScores]) -> TextScore:
    """Sum up the scores of sentences.

    Tokens count where they are scored, the end of a sentence with them if the model predicts it. Words are what stands
    between blanks, the end not among them, so that models with different tokenizers can be compared. Sentences without
    a unit are left out of mean and median.
    """
    log_probs = np.array([found.sum for found in scores])
    tokens = np.array([len(found.tokens) for found in scores])
    words = np.array([len(sentence.split()) for sentence in sentences])
    return TextScore(
        lm,
        fingerprint,
        len(sentences),
        int(words.sum()),
        int(tokens.sum()),
        sum(len(found.unknown) for found in scores),
        float(log_probs.sum()),
        _perplexity(log_probs, tokens),
        _perplexity(log_probs, words),
    )


def _perplexity(log_probs: np.ndarray, units: np.ndarray) -> Perplexity:
    some = units > 0
    if not some.any():
        return Perplexity(float("nan"), float("nan"), float("nan"))
    each = np.exp(-log_probs[some] / units[some])
    return Perplexity(float(np.exp(-log_probs.sum() / units.sum())), float(each.mean()), float(np.median(each)))
