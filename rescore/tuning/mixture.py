"""The votes of several systems, on lists with references."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rescore.decision import Decision
from rescore.decision.mixture import Mixture, applied, mixed, system_posteriors, system_texts
from rescore.decision.rules import Decider, posteriors
from rescore.metrics.base import Counts, Metric, text_statistics
from rescore.metrics.significance import in_order
from rescore.nbest import FIRST_PASS, NbestList, content_hash, systems_of
from rescore.styles import text
from rescore.tuning.scale import tune_scale
from rescore.tuning.search import gain_interval
from rescore.tuning.tune import Tuner
from rescore.tuning.weights import HELD_OUT, TuningOptions, Weights

log = logging.getLogger(__name__)

POWERS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0)
"""Votes of a system that are tried: (least error rate / its error rate) to a power."""
NO_WORD = (1.0, 0.9, 1.1, 0.8, 0.7, 0.6, 0.5)
"""Factors of no word that are tried, in a vote word by word."""
LEAST_RATE = 0.1
"""In percent: a system without an error does not decide alone."""


def tune_with_votes(
    metric: Metric, lists: Sequence[NbestList], columns: Sequence[str], source: str, options: TuningOptions
) -> Weights:
    """The votes of systems, and the weights of columns beside the first pass that these votes make.

    Columns are tuned beside the votes and beside the best single system. This system decides unless the texts by votes
    are better by more than one standard error: votes of smaller gains are as often worse on other lists.

    Args:
        columns, source, options: as of `rescore.tuning.tune`.
    """
    lists, decide = in_order(lists, lists), options.decide
    voting, best = tune_mixture(metric, lists, decide, logging.DEBUG if source == HELD_OUT else logging.INFO)
    alone = replace(voting, votes={name: float(name == best) for name in voting.votes}, no_word=1.0)
    if decide.needs_scale and not (columns or options.bonuses or options.boost):
        decide = Decision(decide.name, 1.0)  # the scale that the votes were tuned with
    tuned = []
    for mixture in (voting, alone):
        tuner = Tuner(
            metric, [applied(mixture, nbest) for nbest in lists], columns, source, replace(options, decide=decide)
        )
        weights = replace(tuner.tune(), mixture=mixture, tuned=f"{len(lists)}@{content_hash(lists)}", options=options)
        tuned.append((weights, tuner.chosen))
    (by_votes, ours), (by_one, theirs) = tuned
    low, high = gain_interval(metric, ours, theirs)
    clear = low + (high - low) / 4 if options.bagging else low + high  # the gain less one standard error, or the gain
    if clear > 0:
        return by_votes
    log.warning(
        "the vote has no clear gain over the best system on these %s lists (%.2f, %s alone %.2f): %s decides",
        *(f"{len(lists):,}", by_votes.value, best, by_one.value, best),
    )
    return by_one


def tune_mixture(metric: Metric, lists: Sequence[NbestList], decide: Decision, level: int) -> tuple[Mixture, str]:
    """The votes with which a decision is best, and the best single system.

    Two numbers are tuned for all systems together, so that few lists are enough: the power of the error rates, and what
    no word counts for.

    Args:
        decide: its scale is 1 where it has none. level: of the table of systems.
    """
    systems = systems_of(lists[0].provenance)
    scales = _scales(metric, lists, systems)
    decider = Decider(decide.name, metric, lists, {FIRST_PASS: 1.0})
    shares = [system_posteriors(nbest, systems, scales) for nbest in decider.lists]
    alone = [text_statistics(metric, lists, system_texts(decider.lists, name)) for name in systems]
    rates = np.array([_rate(metric, counts[np.array([each[:, place].any() for each in shares])])
                      for place, counts in enumerate(alone)])  # fmt: skip
    whole = [_rate(metric, counts) for counts in alone]

    def chosen(mixture: Mixture) -> Counts:
        votes = np.array(list(mixture.votes.values()))
        texts = decider.texts(decide.scale or 1.0, [mixed(each, votes) for each in shares], mixture)
        return text_statistics(metric, lists, texts)

    middle = np.sqrt(rates.min() / rates)
    decider.rule.hold(decider.prepared, [posteriors(mixed(each, middle), 1.0) for each in shares])
    equal = Mixture(dict.fromkeys(systems, 1.0), scales)
    mixture, counts = equal, chosen(equal)
    before = _rate(metric, counts)
    for power in POWERS:
        votes = dict(zip(systems, ((rates.min() / rates) ** power).tolist(), strict=True))
        for no_word in NO_WORD if decider.rule.counts_no_word else (1.0,):
            trial = Mixture(votes, scales, no_word)
            if _rate(metric, these := chosen(trial)) < _rate(metric, counts):
                mixture, counts = trial, these
    reached, best = _rate(metric, counts), systems[int(np.argmin(whole))]
    if log.isEnabledFor(level):
        top = 100.0 if metric.higher_is_better else 0.0
        rates_of = [(name, alone_rate, _rate(metric, chosen(replace(mixture, votes=mixture.votes | {name: 0.0}))))
                    for name, alone_rate in zip(systems, whole, strict=True) if len(systems) > 1]  # fmt: skip
        shown = [[name, *(f"{abs(top - each):.2f}" for each in pair), f"{mixture.votes[name]:.2g}"]
                 for name, *pair in rates_of]  # fmt: skip
        table = text([["", f"{metric.name} alone", "without it", "votes"], *shown])
        total = (abs(top - each) for each in (before, reached))
        log.log(
            level, "what each system is worth:\n%s\nequal votes: %s %.2f; tuned votes: %.2f", table, metric.name, *total
        )
    return mixture, best


def _rate(metric: Metric, counts: Counts) -> float:
    """The metric in percent, or what it lacks to 100 where more is better; at least `LEAST_RATE`."""
    value = float(metric.values(counts.sum(axis=0)[None])[0]) if len(counts) else 100.0
    return max(LEAST_RATE, 100 - value if metric.higher_is_better else value)


def _scales(metric: Metric, lists: Sequence[NbestList], systems: Sequence[str]) -> dict[str, float]:
    """The posterior scale of each system that has several texts in a list: best for minimum Bayes risk over them."""
    scales = {}
    for name in systems:
        own = [replace(nbest, hypotheses=[replace(one, scores={FIRST_PASS: one.scores[name]})
                                          for one in nbest.hypotheses if name in one.scores])
               for nbest in lists]  # fmt: skip
        own = [nbest for nbest in own if nbest.hypotheses]
        if any(len(nbest.hypotheses) > 1 for nbest in own):
            decision, _ = tune_scale("mbr", metric, own, {FIRST_PASS: 1.0})
            scales[name] = decision.scale or 1.0
    return scales
