"""What rescoring is worth on lists with references: the actual gain, the possible gain, and the next step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rescore.decision.rules import candidates
from rescore.errors import UserError
from rescore.metrics import Metric, value
from rescore.metrics.base import Counts
from rescore.metrics.significance import paired_interval, split
from rescore.nbest import FIRST_PASS, RECOGNISED, NbestList, columns_for, content_hash, first_pass_indices, ranking
from rescore.reports.figures import SIGNIFICANT, Figures
from rescore.styles import p_phrase
from rescore.tuning.folds import tuned_in_folds
from rescore.tuning.weights import FORCED, TuningOptions, Weights

FOLDS = 5
LOW_SHARE = 1 / 3
"""The share of the possible gain below which another LM is the next step."""


@dataclass(frozen=True, slots=True)
class Depth:
    """The best possible value with lists of `n` hypotheses."""

    n: int
    """The number of hypotheses of each list, the best by first-pass score."""
    oracle: float
    """The metric of the best of them, in percent."""


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
    flatters: bool
    """Whether the weights were tuned on these very lists, without folds."""
    gain: float
    """The improvement of the reranked output over the first pass, in points; below 0 if it is worse."""
    interval: tuple[float, float]
    """95 % confidence interval of the gain, by bootstrap over utterances."""
    p_value: float
    """Two-sided, of the gain, by paired approximate randomisation."""
    oracle: float
    """The value that a language model with perfect choices would reach."""
    next: str = ""
    """The next step."""

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
        return self.gain > 0 and self.p_value < SIGNIFICANT


def outlook(
    metric: Metric,
    lists: Sequence[NbestList],
    weights: Weights,
) -> Outlook:
    """Look at lists with references, best those that weights are tuned on.

    Weights overfit the lists they were tuned on. On these lists, each fold is therefore decided with weights tuned on
    the other folds with the same options, which predicts the gain on other lists.
    """
    own = tuned_on_these(weights, lists)
    options = weights.options if own else None
    folds = (options.folds or FOLDS) if options else 0
    if weights.exclusions:  # excluded hypotheses are no possible gain
        lists = [candidates(nbest, weights.of(nbest).excluded) for nbest in lists]
        left = {hypothesis.origin for nbest in lists for hypothesis in nbest.hypotheses} - {*RECOGNISED}
        options = options and replace(options, bonuses=tuple(columns_for(lists[0], options.bonuses, left)))
    figures = Figures(metric, lists)
    texts = _held_out(metric, lists, weights.language_models, options, folds) if options else None
    held_out = texts is not None
    chosen, first = figures.of(texts or weights.decision.texts(metric, lists, weights.of)), figures.first
    before, after = figures.value(first), figures.value(chosen)
    sign = 1.0 if metric.higher_is_better else -1.0
    ends = paired_interval(metric, [text.counts for text in first], [text.counts for text in chosen])
    result = Outlook(
        metric=metric.name,
        has_lm=bool(weights.language_models),
        first_pass=before,
        reranked=after,
        folds=folds if held_out else 0,
        flatters=own and not held_out,
        gain=sign * (after - before) + 0.0,  # never minus nothing
        interval=(min(sign * end for end in ends) + 0.0, max(sign * end for end in ends) + 0.0),
        p_value=figures.p_value(first, chosen),
        oracle=figures.oracle,
    )
    return replace(result, next=_next_step(result))


def _next_step(outlook: Outlook) -> str:
    if not outlook.has_lm:
        return f"score the lists with a language model: the largest possible gain is {outlook.possible:.2f} points"
    if outlook.gain <= 0:
        return "another LM: this LM does not help here"
    if not outlook.certain:
        return "more lists to tune on, then another LM: the gain may be due to chance"
    if outlook.share < LOW_SHARE:
        left = f"{100 * (1 - outlook.share):.0f} % of the possible gain is left"
        return f"another LM, closer to these texts: {left}"
    return "nothing stands out: this LM reaches most of the possible gain"


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


def rows(outlook: Outlook) -> list[tuple[str, str]]:
    """The title of each line, and its text."""
    points = f"{outlook.metric} {outlook.first_pass:.2f} -> {outlook.oracle:.2f}, {outlook.possible:.2f} points"
    if not outlook.has_lm:
        return [("perfect LM", points), ("next", outlook.next)]
    relative = f" ({100 * outlook.gain / outlook.first_pass:.1f} %)" if outlook.first_pass else ""
    change = f"{outlook.metric} {outlook.first_pass:.2f} -> {outlook.reranked:.2f}"
    lines = [("gain", f"{change}, {outlook.gain:.2f} points{relative}")]
    if outlook.folds:
        how = f"each of {outlook.folds} folds has weights tuned on the other folds: expect this gain on other lists"
        lines.append(("", how))
    elif outlook.flatters:
        lines.append(("", "the weights were tuned on these very lists, so the gain on other lists is smaller"))
    low, high = outlook.interval
    sure = f"{'yes' if outlook.certain else 'no'}: 95 % CI {low:.2f} to {high:.2f} points"
    return [
        *lines,
        ("certain", f"{sure}, {p_phrase(outlook.p_value)}"),
        ("perfect LM", f"{points}; this LM takes {100 * outlook.share:.0f} % of them"),
        ("next", outlook.next),
    ]


def render(outlook: Outlook) -> str:
    """A few lines for a person."""
    return "\n".join(["Is it worth it?", *(f"{name:<14}{line}" for name, line in rows(outlook))])
