"""The votes of several systems, on lists with references."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from rescore.decision import Decision
from rescore.decision.mixture import (
    Floats,
    Mixture,
    applied,
    system_posteriors,
    system_texts,
)
from rescore.decision.rules import Decider, posteriors
from rescore.metrics.base import Counts, Metric, text_statistics, text_value
from rescore.metrics.significance import in_order
from rescore.nbest import FIRST_PASS, NbestList, content_hash, systems_of
from rescore.pace import paced
from rescore.styles import text
from rescore.tuning.line import Indices
from rescore.tuning.scale import MANY, tune_scale
from rescore.tuning.search import gain_interval
from rescore.tuning.weights import TuningOptions, Weights

log = logging.getLogger(__name__)

POWERS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Votes of a system that are tried: (least error rate / its error rate) to a power."""
NO_WORD = (1.0, 0.9, 1.1, 0.8, 0.7, 0.6, 0.5)
"""Factors of no word that are tried, in a vote word by word."""
LEAST_RATE = 0.1
"""In percent: a system without an error does not decide alone."""


Fitted = Callable[[Sequence[NbestList], TuningOptions, Mixture], tuple[Weights, Counts]]
"""Tunes the weights of columns beside a mixture; returns them, and the statistics
(lists, k) of the chosen texts.
"""


def tune_with_votes(
    metric: Metric,
    lists: Sequence[NbestList],
    options: TuningOptions,
    fitted: Fitted,
    has_columns: bool,
    level: int,
) -> Weights:
    """The votes of systems, and the weights of columns beside the first pass that these
    votes make.

    Columns are tuned beside the votes and beside the best single system. This system
    decides unless the texts by votes are better by more than one standard error: votes
    of smaller gains are as often worse on other lists.

    Args:
        has_columns: whether `fitted` tunes anything beside the first pass. level: of
            the message about the systems.
    """
    lists, decide = in_order(lists, lists), options.decide
    voting, best = tune_mixture(metric, lists, decide, level)
    alone = Mixture({name: float(name == best) for name in voting.votes}, voting.scales)
    if decide.needs_scale and not has_columns:
        decide = Decision(decide.name, 1.0)  # the scale that the votes were tuned with
    (by_votes, ours), (by_one, theirs) = (
        fitted(
            [_possible(applied(mixture, nbest)) for nbest in lists],
            replace(options, decide=decide),
            mixture,
        )
        for mixture in (voting, alone)
    )
    first_pass = text_value(
        metric, lists, Decision().texts(None, lists, {FIRST_PASS: 1.0})
    )
    low, high = gain_interval(metric, ours, theirs)
    # the gain less one standard error, or the gain
    clear = low + (high - low) / 4 if options.bagging else low + high
    if clear <= 0 and len(voting.votes) > 1:
        log.warning(
            "the vote has no clear gain over the best system on these %s lists (%.2f,"
            " %s alone %.2f): %s decides",
            *(f"{len(lists):,}", by_votes.value, best, by_one.value, best),
        )
    weights = by_votes if clear > 0 else by_one
    assert weights.tuned_for
    about = replace(weights.tuned_for, first_pass=first_pass)
    return replace(
        weights,
        tuned=f"{len(lists)}@{content_hash(lists)}",
        options=options,
        tuned_for=about,
    )


def _possible(nbest: NbestList) -> NbestList:
    """The list without the hypotheses that no system with votes wrote."""
    return replace(
        nbest,
        hypotheses=[
            one for one in nbest.hypotheses if one.scores[FIRST_PASS] > -math.inf
        ],
    )


def tune_mixture(
    metric: Metric, lists: Sequence[NbestList], decide: Decision, level: int
) -> tuple[Mixture, str]:
    """The votes with which a decision is best, and the best single system.

    Two numbers are tuned for all systems together, so that few lists are enough: the
    power of the error rates, and what no word counts for.

    Args:
        decide: its scale is 1 where it has none. level: of the table of systems.
    """
    systems = systems_of(lists[0].provenance)
    scales = _scales(metric, lists, systems)
    decider = Decider(decide.name, metric, lists, {FIRST_PASS: 1.0})
    shares = [system_posteriors(nbest, systems, scales) for nbest in decider.lists]
    alone = [
        text_statistics(metric, lists, system_texts(decider.lists, name))
        for name in systems
    ]
    rates = np.array(
        [
            _rate(metric, counts[np.array([each[:, place].any() for each in shares])])
            for place, counts in enumerate(alone)
        ]
    )
    whole = [_rate(metric, counts) for counts in alone]

    sizes = list(map(len, shares))
    together, starts = np.concatenate(shares), np.cumsum([0, *sizes[:-1]])

    def preferences(
        votes: Iterable[float], scale: float = decide.scale or 1.0
    ) -> Sequence[Floats]:
        scores = np.split(
            _mixed_in_lists(together, np.array(list(votes)), starts, sizes), starts[1:]
        )
        return posteriors(scores, scale) if decider.rule.needs_scale else scores

    def rate(preferred: Sequence[Floats], no_word: float) -> float:
        return _rate(
            metric, text_statistics(metric, lists, decider.chosen(preferred, no_word))
        )

    decider.rule.hold(decider.prepared, preferences(np.sqrt(rates.min() / rates), 1.0))
    tried: list[tuple[float, Mixture]] = []
    for power in paced(POWERS, "tried votes of %d of %d powers"):
        votes = dict(
            zip(systems, ((rates.min() / rates) ** power).tolist(), strict=True)
        )
        preferred = preferences(votes.values())
        for no_word in NO_WORD if decider.rule.counts_no_word else (1.0,):
            tried.append((rate(preferred, no_word), Mixture(votes, scales, no_word)))
    # the first of equals: the first of all has equal votes
    mixture = min(tried, key=lambda each: each[0])[1]
    best = systems[int(np.argmin(whole))]
    if log.isEnabledFor(level):
        if sum(sizes) < MANY:
            decider.rule.hold(decider.prepared, ())
        top = 100.0 if metric.higher_is_better else 0.0
        rates_of = [
            (
                name,
                alone_rate,
                rate(
                    preferences((mixture.votes | {name: 0.0}).values()), mixture.no_word
                ),
            )
            for name, alone_rate in zip(systems, whole, strict=True)
            if len(systems) > 1
        ]
        shown = [
            [
                name,
                *(f"{abs(top - each):.2f}" for each in pair),
                f"{mixture.votes[name]:.2g}",
            ]
            for name, *pair in rates_of
        ]
        of_all = [
            rate(preferences(each.votes.values()), each.no_word)
            for each in (tried[0][1], mixture)
        ]
        shown += [
            [f"all, {how} votes", f"{abs(top - each):.2f}", "", ""]
            for how, each in zip(("equal", "tuned"), of_all, strict=True)
        ]
        table = text([["", metric.name, "without it", "votes"], *shown])
        log.log(
            level,
            "the systems, on the %s lists that votes are tuned on:\n%s",
            f"{len(lists):,}",
            table,
        )
    return mixture, best


def _mixed_in_lists(
    together: Floats, votes: Floats, starts: Indices, sizes: Sequence[int]
) -> Floats:
    """`mixed` of many lists, whose hypotheses stand one after another."""
    total = together @ votes
    unheard = np.repeat(np.maximum.reduceat(total, starts) == 0, sizes)
    total = np.where(unheard, together.sum(axis=1), total)
    with np.errstate(divide="ignore"):
        return np.log(
            total / np.repeat(np.maximum(np.add.reduceat(total, starts), 1e-300), sizes)
        )


def _rate(metric: Metric, counts: Counts) -> float:
    """The metric in percent, or what it lacks to 100 where more is better; at least
    `LEAST_RATE`.
    """
    value = float(metric.values(counts.sum(axis=0)[None])[0]) if len(counts) else 100.0
    return max(LEAST_RATE, 100 - value if metric.higher_is_better else value)


def _scales(
    metric: Metric, lists: Sequence[NbestList], systems: Sequence[str]
) -> dict[str, float]:
    """The posterior scale of each system that has several texts in a list: best for
    minimum Bayes risk over them.
    """
    scales = {}
    for name in systems:
        own = [
            replace(
                nbest,
                hypotheses=[
                    replace(one, scores={FIRST_PASS: one.scores[name]})
                    for one in nbest.hypotheses
                    if name in one.scores
                ],
            )
            for nbest in lists
        ]
        own = [nbest for nbest in own if nbest.hypotheses]
        if any(len(nbest.hypotheses) > 1 for nbest in own):
            decision, _ = tune_scale("mbr", metric, own, {FIRST_PASS: 1.0})
            scales[name] = decision.scale or 1.0
    return scales
