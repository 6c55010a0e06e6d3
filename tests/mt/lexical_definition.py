"""Word translation models as the papers define them, in loops over dictionaries: slow,
and what arrays must equal.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence

Sentence = Sequence[str]
NULL = ""


def prior(
    i: int, j: int, n: int, m: int, tension: float | None, null: float = 0.08
) -> float:
    """Of a link from the i-th of n given words (0 is NULL) to the j-th of m predicted
    ones, counted from 1.
    """
    if tension is None:
        return 1 / (n + 1)
    if n == 0:
        return 1.0
    if i == 0:
        return null
    weights = [math.exp(-tension * abs(k / n - j / m)) for k in range(1, n + 1)]
    return (1 - null) * weights[i - 1] / sum(weights)


def estimate(
    pairs: Sequence[tuple[Sentence, Sentence]],
    plain: int,
    tensed: int,
    tension: float | None,
) -> tuple[dict[tuple[str, str], float], float | None, list[float]]:
    """Expected counts c(given word, predicted word) of the last of `plain` iterations
    of Model 1 and `tensed` with an alignment; its tension; and the log-likelihood
    before each iteration.
    """
    words = {word for pair in pairs for sentence in pair for word in sentence}
    t: dict[tuple[str, str], float] = defaultdict(lambda: 1 / (len(words) + 1))
    counts: dict[tuple[str, str], float] = {}
    likelihoods = []
    for iteration in range(plain + tensed):
        current = tension if iteration >= plain else None
        counts, totals = defaultdict(float), defaultdict(float)
        likelihood = observed = expected = variance = 0.0
        for given, predicted in pairs:
            several = [NULL, *given]
            n, m = len(given), len(predicted)
            for j, word in enumerate(predicted, 1):
                priors = [prior(i, j, n, m, current) for i in range(n + 1)]
                joint = [priors[i] * t[several[i], word] for i in range(n + 1)]
                likelihood += math.log(sum(joint))
                posterior = [one / sum(joint) for one in joint]
                for i, share in enumerate(posterior):
                    counts[several[i], word] += share
                    totals[several[i]] += share
                distances = [abs(i / n - j / m) for i in range(1, n + 1)]
                observed += sum(
                    share * d for share, d in zip(posterior[1:], distances, strict=True)
                )
                alone = [one / sum(priors[1:]) for one in priors[1:]]
                mean = sum(share * d for share, d in zip(alone, distances, strict=True))
                square = sum(
                    share * d * d for share, d in zip(alone, distances, strict=True)
                )
                expected += (1 - posterior[0]) * mean
                variance += (1 - posterior[0]) * (square - mean * mean)
        t = defaultdict(
            float, {pair: count / totals[pair[0]] for pair, count in counts.items()}
        )
        likelihoods.append(likelihood)
        if current is not None:
            tension = min(20.0, max(0.1, current + (expected - observed) / variance))
    return dict(counts), tension, likelihoods


def log_probs(
    given: Sentence,
    predicted: Sentence,
    counts: dict[tuple[str, str], float],
    frequencies: Counter[str],
    vocabulary: set[str],
    tension: float | None,
    strength: float,
    copied: float,
    totals: dict[str, float],
) -> list[tuple[float, float]]:
    """Of each predicted word ln p, and the share of p that is NULL's."""
    found = []
    words = [NULL, *given]
    for j, word in enumerate(predicted, 1):
        unigram = (frequencies[word] + 1) / (
            sum(frequencies.values()) + len(vocabulary) + 1
        )
        joint = []
        for i, one in enumerate(words):
            before = (1 - copied) * unigram + copied * (one == word)
            t = (counts.get((one, word), 0.0) + strength * before) / (
                totals[one] + strength
            )
            joint.append(prior(i, j, len(given), len(predicted), tension) * t)
        found.append((math.log(sum(joint)), joint[0] / sum(joint)))
    return found
