"""Is rescoring worth it? What a perfect language model could gain, what this one does, and what would help next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rescore import decision
from rescore.decision import Decision
from rescore.decision.rules import candidates
from rescore.metrics import Metric, list_statistics, oracle, total, value
from rescore.metrics.alignment import align
from rescore.metrics.base import Counts
from rescore.metrics.normalise import Normaliser, paired_words
from rescore.metrics.significance import PairedTest, paired_interval, split
from rescore.nbest import COUNTS, FIRST_PASS, NbestList, content_hash, first_pass_indices, ranking
from rescore.reports.results import choose, measured, oracle_places
from rescore.styles import p_value
from rescore.tuning.folds import tuned_in_folds
from rescore.tuning.tune import TuningOptions
from rescore.tuning.weights import Weights

FOLDS = 5
FEWEST = 4
"""Depths that a curve of three parameters needs."""
BEYOND = (2, 4)
"""To how many times their depth lists are extrapolated."""
CERTAIN = 0.05  # the p-value below which a gain is called so
LOW_SHARE, MANY_ABSENT, STEEP = 1 / 3, 0.5, 0.05
"""What makes another LM, new words or deeper lists the next step: a share of the possible gain that is lower, of words
that is higher, and a relative change of the oracle at twice the depth that is larger."""


@dataclass(frozen=True, slots=True)
class Depth:
    """How good a list of so many hypotheses can be."""

    n: int
    """The first so many of each list, by first-pass score."""
    oracle: float
    """The metric of the best of them, in percent."""


@dataclass(frozen=True, slots=True)
class WrongWords:
    """The words of the references that the first pass has wrong."""

    words: int
    """All words of the references."""
    wrong: int
    """Of these, those that the first pass has not, or has another word for."""
    absent: int
    """Of these, those that no hypothesis of the list has right: no choice from it can mend them."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What rescoring gains on lists with references, and could. Values are percentages."""

    metric: str
    has_lm: bool
    """Whether a language model's scores have a weight."""
    first_pass: float
    reranked: float
    """Of the texts chosen; in folds where the weights were tuned on these very lists."""
    in_folds: bool
    """Whether it is so: each fold with weights tuned on the others."""
    gain: float
    """By how much reranked is better than the first pass, in points; below 0 where it is worse."""
    interval: tuple[float, float]
    """95 % confidence interval of the gain, by bootstrap over utterances."""
    p_value: float
    """Two-sided, of the gain, by paired approximate randomisation."""
    oracle: float
    """What a language model would reach that always chose best."""
    beyond: list[Depth]
    """The oracle of deeper lists, extrapolated; empty where lists are too short for a curve."""
    words: WrongWords | None
    """For WER only."""
    next: list[str]
    """What would help, the most pressing first."""

    @property
    def possible(self) -> float:
        """What a perfect choice would gain, in points."""
        return abs(self.oracle - self.first_pass)

    @property
    def share(self) -> float:
        """How much of the possible gain is realised; 0 where nothing is possible."""
        return self.gain / self.possible if self.possible else 0.0

    @property
    def certain(self) -> bool:
        """Whether the gain is more than chance."""
        return self.gain > 0 and self.p_value < CERTAIN


def outlook(metric: Metric, lists: Sequence[NbestList], weights: Weights) -> Outlook:
    """Look at lists with references, best those that weights are tuned on.

    Weights flatter themselves on the lists they were tuned on: there each fold is decided with those of the others,
    which predicts the gain on other lists.
    """
    statistics = list_statistics(metric, lists)
    texts = _held_out(metric, lists, weights)
    chosen = measured(metric, lists, texts or weights.decision.texts(metric, lists, weights.of))
    first = choose(lists, statistics, decision.best(lists, {FIRST_PASS: 1.0}))
    sums = [np.sum([one.counts for one in choice], axis=0) for choice in (first, chosen)]
    before, after = (value(metric, counts) for counts in sums)
    sign = 1.0 if metric.higher_is_better else -1.0
    ends = paired_interval(metric, [one.counts for one in first], [one.counts for one in chosen])
    depths = by_depth(metric, statistics, lists)
    found = Outlook(
        metric=metric.name,
        has_lm=bool(weights.language_models),
        first_pass=before,
        reranked=after,
        in_folds=texts is not None,
        gain=sign * (after - before) + 0.0,  # never minus nothing
        interval=(min(sign * end for end in ends) + 0.0, max(sign * end for end in ends) + 0.0),
        p_value=PairedTest().p_value(metric, lists, first, chosen),
        oracle=value(metric, total(statistics, oracle_places(metric, lists, statistics))),
        beyond=extrapolated(depths),
        words=_wrong_words(metric.words, lists, [one.text for one in first])
        if metric.words is not None and metric.unit == "word"
        else None,
        next=[],
    )
    found.next.extend(_advice(found))
    return found


def _held_out(metric: Metric, lists: Sequence[NbestList], weights: Weights) -> list[str] | None:
    """The texts chosen in folds; None where the weights come from elsewhere, or the lists are too few."""
    if weights.tuned != f"{len(lists)}@{content_hash(lists)}" or len(lists) < 2 * FOLDS:
        return None
    options = TuningOptions(
        bonuses=tuple(name for name in COUNTS if name in weights.weights),
        negative=tuple(name for name in weights.language_models if weights.weights[name] < 0),
        decide=Decision(weights.decision.name),
    )
    lists = [candidates(nbest, weights.excluded) for nbest in lists]
    parts = split([nbest.id for nbest in lists], FOLDS)
    return tuned_in_folds(parts, metric, lists, weights.language_models, options)


def by_depth(metric: Metric, statistics: Sequence[Counts], lists: Sequence[NbestList]) -> list[Depth]:
    """The oracle of the first N by first-pass score, not by place in the file, of what the toolkit gave."""
    ranked = []
    for rows, nbest in zip(statistics, lists, strict=True):
        own = set(first_pass_indices(nbest))
        ranked.append(rows[[place for place in ranking(nbest, nbest.column(FIRST_PASS)) if place in own]])
    depths = []
    for n in range(1, max(map(len, ranked)) + 1):
        cut = [rows[:n] for rows in ranked]
        depths.append(Depth(n, value(metric, total(cut, oracle(metric, cut)))))
    return depths


def extrapolated(depths: Sequence[Depth]) -> list[Depth]:
    """The oracle of lists `BEYOND` times as deep, by the curve `limit + a n^-b` that fits the known depths best.

    The curve is moved to go through the deepest one. From 5 hypotheses, it foretold the oracle of 10 within 0.1 points
    on four sets of LibriSpeech (docs/tuning.md).
    """
    if len(depths) < FEWEST:
        return []
    n = np.array([one.n for one in depths], dtype=np.float64)
    known = np.array([one.oracle for one in depths])
    exponents = np.linspace(0.02, 3.0, 150)
    fits = [_fit(n**-exponent, known) for exponent in exponents]
    best = int(np.argmin([error for error, _ in fits]))
    slope, exponent = fits[best][1], exponents[best]
    deeper = [round(times * n[-1]) for times in BEYOND]
    values = known[-1] + slope * (np.array(deeper) ** -exponent - n[-1] ** -exponent)
    return [Depth(to, float(min(max(one, 0.0), 100.0))) for to, one in zip(deeper, values, strict=True)]


def _fit(x: npt.NDArray[np.float64], y: npt.NDArray[np.float64]) -> tuple[float, float]:
    """The squared error of the best line through points, and its slope."""
    spread = x - x.mean()
    slope = float(spread @ y / (spread @ spread))
    return float(np.square(y - y.mean() - slope * spread).sum()), slope


def _wrong_words(normaliser: Normaliser, lists: Sequence[NbestList], first: Sequence[str]) -> WrongWords:
    words = wrong = absent = 0
    for nbest, text in zip(lists, first, strict=True):
        # One reference, and one reading of it, for all hypotheses: that nearest to the first pass.
        closest = normaliser.closest(nbest.references, text)
        reference, heard = normaliser.nearest(closest, text)
        words += len(reference)
        missing = _missing(reference, heard)
        wrong += len(missing)
        texts = list(dict.fromkeys(one.text for one in nbest.hypotheses)) if missing else []
        for own, found in zip(*paired_words([closest] * len(texts), texts, normaliser), strict=True):
            # Without an error in another reading it has all that is missing in this one.
            missing &= _missing(reference, found) if own != found else set()
        absent += len(missing)
    return WrongWords(words, wrong, absent)


def _missing(reference: Sequence[str], hypothesis: Sequence[str]) -> set[int]:
    """The places of the reference whose words a hypothesis has not."""
    pairs = [pair for pair in align(reference, hypothesis) if pair[0] is not None]
    return {place for place, (word, found) in enumerate(pairs) if word != found}


def _advice(found: Outlook) -> list[str]:
    advice = []
    if not found.has_lm:
        advice.append(f"score the lists with a language model: at most {found.possible:.2f} points are in them")
    elif found.gain <= 0:
        advice.append("another LM: this one does not help here")
    elif not found.certain:
        advice.append("another LM, or more lists to tune on: this gain may be chance")
    elif found.share < LOW_SHARE:
        advice.append(f"another LM, nearer to these texts: {100 * (1 - found.share):.0f} % of what is possible is left")
    drop = abs(found.beyond[0].oracle - found.oracle) if found.beyond else 0.0
    if drop > STEEP * found.oracle and drop > STEEP * found.possible:
        about = f", of which this LM would take {found.share * drop:.2f}" if found.certain else ""
        advice.append(f"deeper lists: {found.beyond[0].n} hypotheses hold {drop:.2f} points more{about}")
    if found.words and found.words.wrong and found.words.absent > MANY_ABSENT * found.words.wrong:
        share = f"{100 * found.words.absent / found.words.wrong:.0f} %"
        advice.append(
            f"new hypotheses (respelling, another recogniser): no hypothesis has {share} of the missing words"
        )
    return advice or ["nothing stands out: this LM takes most of what these lists hold"]


def rows(found: Outlook) -> list[tuple[str, str]]:
    """What each line is about, and what it says."""
    perfect = f"{found.metric} {found.first_pass:.2f} -> {found.oracle:.2f}, {found.possible:.2f} points"
    lines = _gain(found) if found.has_lm else []
    lines.append(
        ("perfect LM", perfect + (f"; this LM takes {100 * found.share:.0f} % of them" if found.has_lm else ""))
    )
    if found.beyond:
        deeper = ", ".join(f"{one.oracle:.2f} with {one.n} hypotheses" for one in found.beyond)
        lines.append(("deeper lists", f"oracle {deeper} (extrapolated)"))
    if found.words and found.words.wrong:
        wrong, absent = found.words.wrong, found.words.absent
        about = (
            f"{wrong:,} wrong in the first pass, {absent:,} ({100 * absent / wrong:.0f} %) in no hypothesis of the list"
        )
        lines.append(("words", about))
    return [*lines, *(("next", one) for one in found.next)]


def _gain(found: Outlook) -> list[tuple[str, str]]:
    low, high = found.interval
    p = f"p = {p_value(found.p_value)}".replace("= <", "< ")
    relative = f" ({100 * found.gain / found.first_pass:.1f} %)" if found.first_pass else ""
    lines = [
        ("gain", f"{found.metric} {found.first_pass:.2f} -> {found.reranked:.2f}, {found.gain:.2f} points{relative}")
    ]
    if found.in_folds:
        lines.append(("", f"each of {FOLDS} folds with weights tuned on the others: what to expect of other lists"))
    return [*lines, ("certain", f"{'yes' if found.certain else 'no'}: 95 % CI {low:.2f} to {high:.2f} points, {p}")]


def render(found: Outlook) -> str:
    """A few lines for a person."""
    return "\n".join(["Is it worth it?", *(f"{name:<14}{line}" for name, line in rows(found))])
