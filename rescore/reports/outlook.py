"""Is rescoring worth it? The possible gain of a perfect language model, the gain of this model, and advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from rescore import decision
from rescore.decision.rules import candidates
from rescore.errors import UserError
from rescore.metrics import Metric, list_statistics, total, value
from rescore.metrics.alignment import align
from rescore.metrics.base import Counts
from rescore.metrics.normalise import Normaliser, paired_words
from rescore.metrics.significance import PairedTest, paired_interval, split
from rescore.nbest import FIRST_PASS, NbestList, Origin, columns_for, content_hash, first_pass_indices, ranking
from rescore.reports.results import choose, measured, oracle_places, summed
from rescore.styles import p_phrase
from rescore.tuning.folds import tuned_in_folds
from rescore.tuning.weights import FORCED, TuningOptions, Weights

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
    """The best possible value with lists of `n` hypotheses."""

    n: int
    """The number of hypotheses of each list, the best by first-pass score."""
    oracle: float
    """The metric of the best of them, in percent."""


@dataclass(frozen=True, slots=True)
class WrongWords:
    """The words of the references that the first pass has wrong."""

    words: int
    """All words of the references."""
    wrong: int
    """Words that the first pass lacks or has wrong."""
    absent: int
    """Wrong words that no hypothesis of the list has right, so no choice corrects them."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """The actual and the possible gain of rescoring on lists with references. Values are percentages."""

    metric: str
    has_lm: bool
    """Whether a language model's scores have a weight."""
    first_pass: float
    reranked: float
    """Of the texts chosen; in folds where the weights were tuned on these very lists."""
    folds: int
    """Number of folds, each decided with weights tuned on the other folds; 0 if the lists were decided together."""
    on_dev: bool
    """Whether the lists are the dev lists of an output, not the lists of the output itself."""
    flatters: bool
    """Whether the weights were tuned on these very lists, without folds."""
    respelled: bool
    """Whether lists have respelled hypotheses, or had them before tuning refused them."""
    gain: float
    """The improvement of the reranked output over the first pass, in points; below 0 if it is worse."""
    interval: tuple[float, float]
    """95 % confidence interval of the gain, by bootstrap over utterances."""
    p_value: float
    """Two-sided, of the gain, by paired approximate randomisation."""
    oracle: float
    """The value that a language model with perfect choices would reach."""
    beyond: list[Depth]
    """The oracle of deeper lists, extrapolated; empty where lists are too short for a curve."""
    words: WrongWords | None
    """For WER only."""
    next: list[str]
    """Advice, the most pressing first."""

    @property
    def title(self) -> str:
        return "Is it worth it? On the dev lists" if self.on_dev else "Is it worth it?"

    @property
    def possible(self) -> float:
        """The gain of perfect choices, in points."""
        return abs(self.oracle - self.first_pass)

    @property
    def share(self) -> float:
        """How much of the possible gain is realised; 0 where nothing is possible."""
        return self.gain / self.possible if self.possible else 0.0

    @property
    def certain(self) -> bool:
        """Whether the gain is more than chance."""
        return self.gain > 0 and self.p_value < CERTAIN


def outlook(
    metric: Metric,
    lists: Sequence[NbestList],
    weights: Weights,
    texts: Sequence[str] | None = None,
    on_dev: bool = False,
) -> Outlook:
    """Look at lists with references, best those that weights are tuned on.

    Weights overfit the lists they were tuned on. On these lists, each fold is therefore decided with weights tuned on
    the other folds with the same options, which predicts the gain on other lists.

    Args:
        texts: the choice from each list, if it was made in folds already. on_dev: whether the lists are the dev lists
            of an output.
    """
    respelled = any(hypothesis.origin is Origin.RESPELLED for nbest in lists for hypothesis in nbest.hypotheses)
    own = tuned_on_these(weights, lists)
    options = weights.options if own else None
    folds = (options.folds or FOLDS) if options else 0
    if weights.exclusions:  # excluded hypotheses are no possible gain
        lists = [candidates(nbest, weights.of(nbest).excluded) for nbest in lists]
        left = {hypothesis.origin for nbest in lists for hypothesis in nbest.hypotheses}
        options = options and replace(options, bonuses=tuple(columns_for(options.bonuses, left)))
    statistics = list_statistics(metric, lists)
    if texts is None and options:
        texts = _held_out(metric, lists, weights.language_models, options, folds)
    held_out = bool(folds and texts is not None)
    chosen = measured(metric, lists, texts or weights.decision.texts(metric, lists, weights.of))
    first = choose(lists, statistics, decision.best(lists, {FIRST_PASS: 1.0}))
    before, after = (value(metric, summed(choice)) for choice in (first, chosen))
    sign = 1.0 if metric.higher_is_better else -1.0
    ends = paired_interval(
        metric, [chosen_text.counts for chosen_text in first], [chosen_text.counts for chosen_text in chosen]
    )
    depths = by_depth(metric, statistics, lists)
    result = Outlook(
        metric=metric.name,
        has_lm=bool(weights.language_models),
        first_pass=before,
        reranked=after,
        folds=folds if held_out else 0,
        on_dev=on_dev,
        flatters=own and not held_out,
        respelled=respelled,
        gain=sign * (after - before) + 0.0,  # never minus nothing
        interval=(min(sign * end for end in ends) + 0.0, max(sign * end for end in ends) + 0.0),
        p_value=PairedTest().p_value(metric, lists, first, chosen),
        oracle=value(metric, total(statistics, oracle_places(metric, lists, statistics))),
        beyond=extrapolated(depths),
        words=_wrong_words(metric.words, lists, [chosen_text.text for chosen_text in first])
        if metric.words is not None and metric.unit == "word"
        else None,
        next=[],
    )
    result.next.extend(_advice(result, depths[-1].oracle))
    return result


def tuned_on_these(weights: Weights, lists: Sequence[NbestList]) -> bool:
    """Whether weights were tuned on these very lists, together or in folds."""
    return weights.tuned.removesuffix(FORCED).split(",")[-1] == f"{len(lists)}@{content_hash(lists)}"


def _held_out(
    metric: Metric, lists: Sequence[NbestList], columns: Sequence[str], options: TuningOptions, folds: int
) -> list[str] | None:
    """The texts chosen in folds, each with weights tuned on the other folds; None if the lists do not allow it."""
    if len(lists) < 2 * folds:
        return None
    try:
        parts = split([nbest.id for nbest in lists], folds, options.speaker)
        return tuned_in_folds(parts, metric, lists, columns, options)[0]
    except UserError:  # a speaker whose lists are all in one fold
        return None


def by_depth(metric: Metric, statistics: Sequence[Counts], lists: Sequence[NbestList]) -> list[Depth]:
    """The oracle of the toolkit's first N hypotheses by first-pass score, not by place in the file."""
    ranked = []
    for rows, nbest in zip(statistics, lists, strict=True):
        own = set(first_pass_indices(nbest))
        ranked.append(rows[[place for place in ranking(nbest, nbest.column(FIRST_PASS)) if place in own]])
    changes = np.zeros((max(map(len, ranked)), statistics[0].shape[1]), dtype=np.int64)
    for rows in ranked:
        values = metric.sentence_values(rows) * (-1.0 if metric.higher_is_better else 1.0)
        better = np.append(True, values[1:] < np.minimum.accumulate(values)[:-1])
        changes[: len(rows)][better] += np.diff(rows[better], axis=0, prepend=np.zeros_like(rows[:1]))
    return [Depth(n, value(metric, sums)) for n, sums in enumerate(changes.cumsum(axis=0), 1)]


def extrapolated(depths: Sequence[Depth]) -> list[Depth]:
    """The oracle of lists `BEYOND` times as deep, by the curve `limit + a n^-b` that fits the known depths best.

    The curve is moved to go through the deepest one. From 5 hypotheses, it foretold the oracle of 10 within 0.1 points
    on four sets of LibriSpeech (docs/tuning.md).
    """
    if len(depths) < FEWEST:
        return []
    n = np.array([depth.n for depth in depths], dtype=np.float64)
    known = np.array([depth.oracle for depth in depths])
    exponents = np.linspace(0.02, 3.0, 150)
    fits = [_fit(n**-exponent, known) for exponent in exponents]
    best = int(np.argmin([error for error, _ in fits]))
    slope, exponent = fits[best][1], exponents[best]
    deeper = [round(times * n[-1]) for times in BEYOND]
    values = known[-1] + slope * (np.array(deeper) ** -exponent - n[-1] ** -exponent)
    return [Depth(to, float(min(max(value, 0.0), 100.0))) for to, value in zip(deeper, values, strict=True)]


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
        texts = list(dict.fromkeys(hypothesis.text for hypothesis in nbest.hypotheses)) if missing else []
        for own, words_of_text in zip(*paired_words([closest] * len(texts), texts, normaliser), strict=True):
            # Without an error in another reading it has all that is missing in this one.
            missing &= _missing(reference, words_of_text) if own != words_of_text else set()
        absent += len(missing)
    return WrongWords(words, wrong, absent)


def _missing(reference: Sequence[str], hypothesis: Sequence[str]) -> set[int]:
    """The places of the reference whose words a hypothesis has not."""
    pairs = [pair for pair in align(reference, hypothesis) if pair[0] is not None]
    return {place for place, (word, heard) in enumerate(pairs) if word != heard}


def _advice(outlook: Outlook, toolkit_oracle: float) -> list[str]:
    """Advice; `toolkit_oracle` is the oracle of the toolkit's own hypotheses, which deeper lists continue."""
    advice = []
    if not outlook.has_lm:
        advice.append(
            f"score the lists with a language model: the largest possible gain is {outlook.possible:.2f} points"
        )
    elif outlook.gain <= 0:
        advice.append("another LM: this LM does not help here")
    elif not outlook.certain:
        advice.append("more lists to tune on, then another LM: the gain may be due to chance")
    elif outlook.share < LOW_SHARE:
        advice.append(
            f"another LM, closer to these texts: {100 * (1 - outlook.share):.0f} % of the possible gain is left"
        )
    drop = abs(outlook.beyond[0].oracle - toolkit_oracle) if outlook.beyond else 0.0
    if drop > STEEP * toolkit_oracle and drop > STEEP * outlook.possible:
        about = f", of which this LM would take {outlook.share * drop:.2f}" if outlook.certain else ""
        advice.append(f"deeper lists: {outlook.beyond[0].n} hypotheses hold {drop:.2f} points more{about}")
    if outlook.words and outlook.words.wrong and outlook.words.absent > MANY_ABSENT * outlook.words.wrong:
        share = f"{100 * outlook.words.absent / outlook.words.wrong:.0f} %"
        how = "another recogniser" if outlook.respelled else "respelling, another recogniser"
        advice.append(f"new hypotheses ({how}): {share} of the missing words are in no hypothesis")
    return advice or ["nothing stands out: this LM reaches most of the possible gain"]


def rows(outlook: Outlook) -> list[tuple[str, str]]:
    """The title of each line, and its text."""
    perfect = f"{outlook.metric} {outlook.first_pass:.2f} -> {outlook.oracle:.2f}, {outlook.possible:.2f} points"
    lines = _gain(outlook) if outlook.has_lm else []
    lines.append(
        ("perfect LM", perfect + (f"; this LM takes {100 * outlook.share:.0f} % of them" if outlook.has_lm else ""))
    )
    if outlook.beyond:
        deeper = ", ".join(f"{depth.oracle:.2f} with {depth.n} hypotheses" for depth in outlook.beyond)
        lines.append(("deeper lists", f"oracle {deeper} (extrapolated)"))
    if outlook.words and outlook.words.wrong:
        wrong, absent = outlook.words.wrong, outlook.words.absent
        about = (
            f"{wrong:,} wrong in the first pass, {absent:,} ({100 * absent / wrong:.0f} %) in no hypothesis of the list"
        )
        lines.append(("words", about))
    return [*lines, *(("next", advice) for advice in outlook.next)]


def _gain(outlook: Outlook) -> list[tuple[str, str]]:
    low, high = outlook.interval
    relative = f" ({100 * outlook.gain / outlook.first_pass:.1f} %)" if outlook.first_pass else ""
    lines = [
        (
            "gain",
            f"{outlook.metric} {outlook.first_pass:.2f} -> {outlook.reranked:.2f}, {outlook.gain:.2f} points{relative}",
        )
    ]
    if outlook.folds:
        lines.append(
            ("", f"each of {outlook.folds} folds has weights tuned on the other folds: expect this gain on other lists")
        )
    elif outlook.flatters:
        lines.append(("", "the weights were tuned on these very lists, so the gain on other lists is smaller"))
    sure = "yes" if outlook.certain else "no"
    interval = f"95 % CI {low:.2f} to {high:.2f} points, {p_phrase(outlook.p_value)}"
    return [*lines, ("certain", f"{sure}: {interval}")]


def render(outlook: Outlook) -> str:
    """A few lines for a person."""
    return "\n".join([outlook.title, *(f"{name:<14}{line}" for name, line in rows(outlook))])
