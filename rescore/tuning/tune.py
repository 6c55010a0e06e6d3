"""The best weights on lists with references."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rescore.decision import Decision
from rescore.decision.rules import Losses, candidates
from rescore.errors import UserError
from rescore.metrics.base import Counts, Metric, is_better, list_statistics, remembered
from rescore.metrics.significance import paired_bootstrap
from rescore.nbest import (
    CHANNEL,
    COUNTS,
    FIRST_PASS,
    TOKENS,
    WORDS,
    NbestList,
    Origin,
    columns_for,
    content_hash,
    in_tie_order,
    new_word_origins,
    without_copies,
)
from rescore.signature import origins
from rescore.tuning.joint import JointWeights, equal_weights, text_sums, text_value, tune_jointly, tune_scale
from rescore.tuning.search import (
    Space,
    admitted,
    bagged,
    best_interval,
    coordinate,
    gain_interval,
    is_significant,
    magnitude,
    padded,
    search,
    significantly_better,
    spreads,
)
from rescore.tuning.weights import TunedFor, TuningOptions, Unproven, Weights, condition_of

log = logging.getLogger(__name__)

NO_GAIN = {
    Origin.RESPELLED: ("respelling has", "nothing is respelled"),
    Origin.PROPOSED: ("proposals have", "no proposal may win"),
}
"""How a line begins and ends that says why hypotheses of an origin may not win."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """What tuning found."""

    lm: dict[str, float]
    """The language models' weights."""
    bonuses: dict[str, float]
    """What is added for each word or token, and the weights of LM columns that may be negative."""
    value: float
    """The metric there, in percent."""
    first_pass: float
    """The metric of the first pass, in percent."""
    low: float | None = None
    """A single weight is as good from here ..."""
    high: float | None = None
    """... to here."""
    excluded: frozenset[Origin] = frozenset()
    """Hypotheses of these origins may not win."""
    unproven: Unproven | None = None
    """The best weights, where all are 0 because no gain was significant."""
    conditions: dict[str, Tuned] = field(default_factory=dict)
    """What tuning found on the lists of each condition, which decides them."""

    @property
    def helps(self) -> bool:
        """Whether a weight is not 0; under any condition, where there are some."""
        if self.conditions:
            return any(tuned.helps for tuned in self.conditions.values())
        return any(self.lm.values()) or any(self.bonuses.values())


def tune(
    metric: Metric,
    lists: Sequence[NbestList],
    columns: Sequence[str],
    source: str = "dev",
    options: TuningOptions | None = None,
) -> tuple[Weights, Tuned]:
    """The best weights of LM columns, and of bonuses, for one decision, on lists with references.

    The weights are those of the best score, averaged over bootstrap samples, and 0 where their gain is within chance
    (or as `options` say). For a decision by expected loss (minimum Bayes risk) weights and scale are then tuned
    together, from there; the scale of another decision is tuned under the weights.

    For BLEU, word and token bonuses are left out if with them the length of the chosen texts is further from that of
    the references than without.

    Args:
        source: the name of the lists, for tables.

    Raises:
        UserError: a list has no reference, or lacks a column.
    """
    options, metric = options or TuningOptions(), remembered(metric)
    weights, tuned = _tuned(metric, lists, columns, source, options)
    if metric.length_ratio is None or not LENGTH_BONUSES.intersection(options.bonuses):
        return weights, tuned
    bonuses = tuple(name for name in options.bonuses if name not in LENGTH_BONUSES)
    without = _tuned(metric, lists, columns, source, replace(options, bonuses=bonuses))
    with_bonus, plain = (_length_ratio(metric, lists, each) for each in (weights, without[0]))
    if abs(with_bonus - 1.0) <= abs(plain - 1.0):
        return weights, tuned
    log.warning(
        "the word or token bonus is left out: with it texts have %.2f %% of the references' length, without it %.2f %%",
        100 * with_bonus,
        100 * plain,
    )
    return without


LENGTH_BONUSES = frozenset({WORDS, TOKENS})
"""Bonuses that decide about nothing but length."""


def _length_ratio(metric: Metric, lists: Sequence[NbestList], weights: Weights) -> float:
    """The length of the chosen texts, divided by the length of the references."""
    assert metric.length_ratio is not None
    texts = weights.decision.texts(metric, lists, weights.of)
    return float(metric.length_ratio(text_sums(metric, lists, texts)[None])[0])


def _tuned(
    metric: Metric, lists: Sequence[NbestList], columns: Sequence[str], source: str, options: TuningOptions
) -> tuple[Weights, Tuned]:
    """`tune` with the bonuses as they are."""
    for name in options.negative:
        if name not in columns:
            raise UserError(f"--allow-negative {name}: not a column of an LM; there are {', '.join(columns)}")
    asked = [*columns, *options.bonuses]
    # Sorted, so that the order in which models are named changes no weight: the search ends where it begins nearby.
    columns = sorted(name for name in columns if name not in options.negative)
    bonuses = (*options.bonuses, *sorted(options.negative))
    tuned_on = f"{len(lists)}@{content_hash(lists)}"
    lists = [without_copies(nbest) for nbest in lists]
    tuned = _choose(metric, lists, columns, bonuses, options)
    weights = replace(
        Weights.interpolation(tuned.lm, f"tuned on {source}", tuned_on, tuned.bonuses),
        columns=origins(lists, tuned.lm | dict.fromkeys(bonuses, 0.0)),
        excluded=tuned.excluded,
        options=options,
        unproven=tuned.unproven,
    )
    if options.condition is not None:
        weights, tuned = _by_condition(metric, lists, columns, bonuses, options, weights, tuned)
    decide = options.decide
    losses = decide.losses
    if decide.needs_scale and losses is not None and options.condition is None:
        joint = _jointly(metric, lists, weights, options, losses)
        decide = Decision(decide.name, joint.scale)
        weights = replace(weights, weights=joint.weights, excluded=joint.excluded)
    elif decide.needs_scale:
        decide = tune_scale(decide.name, metric, lists, weights.of)
    weights = _in_order(weights, asked)
    if decide.name != "best":  # the interval is that of the best score
        value = text_value(metric, lists, decide.texts(metric, lists, weights.of))
        tuned = replace(tuned, value=value, low=None, high=None)
    about = TunedFor.by(metric, tuned.value, tuned.first_pass, len(lists))
    return replace(weights, decision=decide, tuned_for=replace(about, low=tuned.low, high=tuned.high)), tuned


def _choose(
    metric: Metric,
    lists: Sequence[NbestList],
    columns: Sequence[str],
    bonuses: Sequence[str],
    options: TuningOptions,
) -> Tuned:
    """What is likely to hold on other lists; without hypotheses of new words where these gain nothing significant."""
    origins = new_word_origins(lists, bonuses)
    if not origins or not options.bagging:
        return _likely(metric, lists, columns, bonuses, options)

    def among(excluded: frozenset[Origin]) -> tuple[Tuned, Counts]:
        """The weights where these hypotheses may not win, and the choice from each list."""
        own, allowed = [candidates(nbest, excluded) for nbest in lists], set(origins) - excluded
        own_bonuses = columns_for(bonuses, allowed)
        tuned = replace(_likely(metric, own, columns, own_bonuses, options), excluded=excluded)
        return tuned, _space(metric, own, columns, own_bonuses).chosen(_point(tuned))

    def gains(origin: Origin, trial: tuple[Tuned, Counts], best: tuple[Tuned, Counts]) -> bool:
        if significantly_better(metric, trial[1], best[1]):
            return True
        what, consequence = NO_GAIN[origin]
        log.warning(
            "%s no significant gain on these %s lists (%.2f with, %.2f without): %s",
            what,
            f"{len(lists):,}",
            trial[0].value,
            best[0].value,
            consequence,
        )
        return False

    return admitted(origins, among, gains)[0]


def _jointly(
    metric: Metric, lists: Sequence[NbestList], weights: Weights, options: TuningOptions, losses: Losses
) -> JointWeights:
    """Weights and scale from `weights` on, among the hypotheses that may win under them.

    For translations the search begins with equal weights: from the weights of the best score on it ends where dev and
    other lists have less.
    """
    lists = [candidates(nbest, weights.excluded) for nbest in lists]
    start = {FIRST_PASS: 1.0} | weights.weights
    if metric.words is None:
        start = equal_weights(lists, [*start, *sorted(LENGTH_BONUSES.intersection(options.bonuses))], options.negative)
    joint = tune_jointly(metric, lists, start, sorted(options.negative), options.bagging, losses)
    return joint._replace(excluded=joint.excluded | weights.excluded)


def _in_order(weights: Weights, columns: Sequence[str]) -> Weights:
    """The weights in the order in which their columns were named, the first pass first."""

    def ordered(each: dict[str, float]) -> dict[str, float]:
        return {name: each[name] for name in dict.fromkeys([FIRST_PASS, *columns, *each]) if name in each}

    conditions = {name: ordered(each) for name, each in weights.conditions.items()}
    return replace(weights, weights=ordered(weights.weights), conditions=conditions)


def _point(tuned: Tuned) -> npt.NDArray[np.float64]:
    """The weights as a space has them: of the first pass, of LM columns, bonuses."""
    return np.array([1.0 - sum(tuned.lm.values()), *tuned.lm.values(), *tuned.bonuses.values()])


def _likely(
    metric: Metric,
    lists: Sequence[NbestList],
    columns: Sequence[str],
    bonuses: Sequence[str],
    options: TuningOptions,
) -> Tuned:
    """The optimum, or what of it is likely to hold on other lists."""
    tuned = best_weights(metric, lists, columns, bonuses, options.plateau)
    if not options.bagging or options.plateau or not tuned.helps:
        return tuned
    space = _space(metric, lists, columns, bonuses)
    point = bagged(space, _point(tuned))
    if not is_significant(space, point):
        best = Unproven(
            tuned.lm | {name: bonus for name, bonus in tuned.bonuses.items() if bonus},
            tuned.value,
            *gain_interval(space, _point(tuned)),
        )
        return Tuned(
            dict.fromkeys(columns, 0.0), dict.fromkeys(bonuses, 0.0), tuned.first_pass, tuned.first_pass, unproven=best
        )
    lm = dict(zip(columns, point[1 : len(columns) + 1].tolist(), strict=True))
    added = dict(zip(bonuses, point[len(columns) + 1 :].tolist(), strict=True))
    low, high = _same(space, point[1]) if len(columns) == 1 and not bonuses else (None, None)
    return Tuned(lm, added, space.value(point), tuned.first_pass, low, high)


def _same(space: Space, weight: float) -> tuple[float, float]:
    """How far one weight can move before any choice on these lists changes the value."""
    edges, values = space.line(np.array([1.0, 0.0]), np.array([-1.0, 1.0]), 0.0, 1.0)
    place = int(np.clip(np.searchsorted(edges, weight, side="right") - 1, 0, len(values) - 1))
    low = high = place
    while low > 0 and values[low - 1] == values[place]:
        low -= 1
    while high + 1 < len(values) and values[high + 1] == values[place]:
        high += 1
    return float(edges[low]), float(edges[high + 1])


def _by_condition(
    metric: Metric,
    lists: Sequence[NbestList],
    columns: Sequence[str],
    bonuses: Sequence[str],
    options: TuningOptions,
    together: Weights,
    tuned: Tuned,
) -> tuple[Weights, Tuned]:
    """`together` with weights of their own for the lists of each condition."""
    assert options.condition is not None
    groups: dict[str, list[NbestList]] = {}
    for nbest in lists:
        groups.setdefault(condition_of(nbest, options.condition), []).append(nbest)
    each = {name: _choose(metric, group, columns, bonuses, options) for name, group in sorted(groups.items())}
    weights = replace(
        together,
        condition=options.condition,
        conditions={
            name: Weights.interpolation(choice.lm, "", "", choice.bonuses).weights for name, choice in each.items()
        },
        excluded_in={name: choice.excluded for name, choice in each.items() if choice.excluded},
    )
    reached = text_value(metric, lists, Decision().texts(metric, lists, weights.of))
    tuned = replace(tuned, value=reached, low=None, high=None, conditions=each)
    unproven = None if tuned.helps else tuned.unproven or next((choice.unproven for choice in each.values()), None)
    return replace(weights, unproven=unproven), replace(tuned, unproven=unproven)


def best_weights(
    metric: Metric,
    lists: Sequence[NbestList],
    columns: Sequence[str],
    bonuses: Sequence[str] = (),
    plateau: bool = False,
) -> Tuned:
    """The weights of LM columns, and of count columns as bonuses, that give the best value on lists with references.

    One weight without a bonus is found exactly: the best of all in [0, 1], of ties the middle of the widest interval.
    Several are searched along lines, each exactly, from every single LM's best and from random points; so the value is
    never worse than that of the best single LM. Where nothing is better than the first pass, all weights are 0.

    Args:
        plateau: of one weight, take the middle of those not significantly worse than the best (`indistinguishable`).

    Raises:
        UserError: `plateau` is asked for with several weights; a column is missing.
    """
    if plateau and (len(columns) > 1 or bonuses):
        raise UserError("--plateau needs a single language model and no bonus")
    space = _space(metric, lists, columns, bonuses)
    alone = np.zeros(space.columns)
    alone[0] = 1.0
    first_pass = space.value(alone)

    def better(value: float) -> bool:
        return is_better(value, first_pass, metric.higher_is_better)

    singles = []
    for rank in range(1, len(columns) + 1):
        direction = -alone
        direction[rank] = 1.0
        best = best_interval(*space.line(alone, direction, 0.0, 1.0), metric.higher_is_better)
        singles.append((best, alone + best.middle * direction))
    if len(columns) == 1 and not bonuses:
        best, _ = singles[0]
        if better(best.value) and plateau:
            low, high = indistinguishable(space, best.middle)
            middle = (low + high) / 2
            value = space.value(np.array([1 - middle, middle]))
            if better(value):
                return Tuned({columns[0]: middle}, {}, value, first_pass, low, high)
        if better(best.value):
            return Tuned({columns[0]: best.middle}, {}, best.value, first_pass, best.low, best.high)
        return Tuned({columns[0]: 0.0}, {}, first_pass, first_pass, 0.0, 0.0)
    point, value = search(space, [alone, *(point for _, point in singles)])
    if not better(value):
        point, value = alone, first_pass
    lm = dict(zip(columns, point[1 : len(columns) + 1].tolist(), strict=True))
    added = dict(zip(bonuses, point[len(columns) + 1 :].tolist(), strict=True))
    return Tuned(lm, added, value, first_pass)


def indistinguishable(space: Space, weight: float, level: float = 0.05, points: int = 100) -> tuple[float, float]:
    """How far one weight can move either way before a paired bootstrap finds another result than that of `weight`.

    Looked at in `points` steps over [0, 1]; a region that begins again further off is not counted.
    """

    def chosen(at: float) -> Counts:
        return space.chosen(np.array([1 - at, at]))

    best = chosen(weight)
    ends = []
    for end in (0.0, 1.0):
        last = weight
        for at in np.linspace(weight, end, max(2, round(points * abs(end - weight)) + 1))[1:].tolist():
            if paired_bootstrap(space.metric, list(best), list(chosen(at)), trials=300) < level:
                break
            last = at
        ends.append(last)
    return ends[0], ends[1]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a curve: the metric's value where the weight of `column` lies between `low` and `high`."""

    column: str
    low: float
    high: float
    value: float


def curves(
    metric: Metric,
    lists: Sequence[NbestList],
    columns: Sequence[str],
    weights: Mapping[str, float],
    excluded: frozenset[Origin] = frozenset(),
) -> list[Step]:
    """The metric's value against the weight of each column, from 0 to 1, the others keeping their proportions.

    Args:
        excluded: hypotheses of these origins may not win.
    """
    lists = [candidates(nbest, excluded) for nbest in lists]
    bonuses = [name for name in weights if name in COUNTS or (name != FIRST_PASS and name not in columns)]
    space = _space(metric, lists, columns, bonuses)
    point = np.array([weights.get(name, 0.0) for name in [FIRST_PASS, *columns, *bonuses]])
    steps: list[Step] = []
    for rank, column in enumerate(columns, 1):
        corner = np.eye(len(point))
        start, direction = coordinate(point, rank, len(columns) + 1) or (corner[0], corner[rank] - corner[0])
        edges, values = space.line(start, direction, 0.0, 1.0)
        changes = np.flatnonzero(np.diff(values)) + 1
        bounds = [0, *changes.tolist(), len(values)]
        steps += [
            Step(column, float(edges[start]), float(edges[stop]), float(values[start]))
            for start, stop in pairwise(bounds)
        ]
    return steps


def _space(metric: Metric, lists: Sequence[NbestList], columns: Sequence[str], bonuses: Sequence[str]) -> Space:
    lists = [in_tie_order(nbest) for nbest in lists]
    names = [FIRST_PASS, *columns, *bonuses]
    features = padded([np.array([nbest.column(name) for name in names]).T for nbest in lists])
    present = padded([np.ones(len(nbest.hypotheses), dtype=bool) for nbest in lists])
    sizes = dict(zip(names, map(magnitude, spreads(features, present).tolist()), strict=True))
    steps = tuple(1.0 if name in COUNTS.keys() - {CHANNEL} else sizes[name] for name in bonuses)
    unit = sizes[FIRST_PASS]
    return Space(metric, padded(list_statistics(metric, lists)), features, present, unit, steps)
