"""Sentences about weights, made from their records: what tables, summaries and messages
say about bonuses, about weights of 0, and about anything else that a person does not
expect. Nothing reads these sentences back.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence

from rescore.columns import (
    FIRST_PASS,
    WORDS,
    Column,
    new_word_origins,
    score_columns,
    units,
)
from rescore.decision.first_pass import class_of_records
from rescore.errors import counted, listed
from rescore.parts import BEST, FEATURES
from rescore.tuning.components import Fit, ToolkitScore
from rescore.tuning.record import STANDARD_ERRORS, TriedAlone, Unproven

DELETING = 10
"""The number of deletions for each insertion from which on a word bonus is advised."""
MANY_COLUMNS = 2
"""Columns up to which a sentence names the weight of each."""


def bonus_phrases(
    weights: Mapping[str, float], digits: str, excluded: Collection[str] = ()
) -> list[str]:
    """Return phrases about the bonuses and about the hypotheses that may not win.

    Args:
        weights: The weight of each column.
        digits: The format of a number, such as `+.2f`.
        excluded: Origins of hypotheses that may not win.

    Returns:
        Phrases such as `+0.25 a word` and `nothing respelled`.
    """
    phrases = []
    for name, unit in units().items():
        if name in weights:
            phrases.append(f"{weights[name]:{digits}} a {unit}")
    for origin in new_word_origins():
        if origin in excluded:
            phrases.append(f"nothing {origin}")
    return phrases


def named_weights(weights: Mapping[str, float], excluded: Collection[str] = ()) -> str:
    """Return one phrase with the weights of the models and the bonuses.

    Args:
        weights: The weight of each column; the first pass is left out.
        excluded: Origins of hypotheses that may not win.
    """
    others = {FIRST_PASS, *units()}
    phrases = []
    for name, weight in weights.items():
        if name not in others:
            phrases.append(f"{name} {weight:.4g}")
    return ", ".join(phrases + bonus_phrases(weights, "+.4g", excluded))


def effective_weights(
    toolkit: ToolkitScore | None, weights: Mapping[str, float]
) -> Iterator[str]:
    """Yield one line with the weight of each component of the toolkit's score, beside
    its weight in the toolkit, or with the reason why it is unknown; nothing if no
    component was tuned.

    Args:
        toolkit: The first pass as a sum of its components.
        weights: The weight of each column.
    """
    if toolkit is None:
        return
    if toolkit.fit is Fit.EXACT:
        phrases = []
        for name, weight in toolkit.effective(weights).items():
            phrases.append(f"{name} {weight:.4g} (toolkit {toolkit.weights[name]:.4g})")
        yield f"effective weights: {', '.join(phrases)}"
        return
    names = ", ".join(toolkit.weights)
    if toolkit.fit is Fit.INEXACT:
        why = (
            f"{FIRST_PASS} is no weighted sum of {names} (it differs by up to"
            f" {toolkit.error:.2g}); a length bonus or another score is missing"
        )
    else:
        why = (
            "the lists do not determine the weights of the toolkit: hypotheses are few,"
            " or components depend on each other"
        )
    yield f"effective weights: unknown, because {why}"


def notes(
    every: Sequence[Mapping[str, float]],
    tuned: Collection[str],
    with_all: float | None = None,
    value: float | None = None,
) -> Iterator[str]:
    """Yield sentences about weights that a person does not expect.

    Args:
        every: The weights that decided; one mapping for each fold, if there are folds.
        tuned: The columns whose weights were tuned.
        with_all: The metric with weights of all columns, in percent, if columns were
            left out because their gain is not significant.
        value: The metric with the weights that decided, in percent.
    """
    useless = [name for name in tuned if not _is_used(name, every)]
    if useless and _has_weight(every):
        yield _useless_phrase(useless, with_all, value)
    for _, feature in FEATURES.loaded():
        yield from feature().notes(every)


def _useless_phrase(
    useless: Sequence[str], with_all: float | None, value: float | None
) -> str:
    """Return the sentence about columns of weight 0.

    Without the figures of a test, no test is named: with --no-bagging there is none.

    Args:
        useless: The columns.
        with_all: As in `notes`.
        value: As in `notes`.
    """
    zero = f"{useless[0]} has weight 0"
    gains = "it gains"
    if len(useless) > 1:
        zero = f"{', '.join(useless[:-1])} and {useless[-1]} have weight 0"
        gains = "they gain"
    if with_all is None or value is None:
        return f"{zero} beside the other columns on the tuning lists"
    return (
        f"{zero}: {gains} nothing significant beside the other columns"
        f" ({with_all:.2f} with all, {value:.2f} without, on the tuning lists)"
    )


def _is_used(name: str, every: Sequence[Mapping[str, float]]) -> bool:
    """Return whether a column has a weight in any fold."""
    return any(weights.get(name) for weights in every)


def _has_weight(every: Sequence[Mapping[str, float]]) -> bool:
    """Return whether any column beside the first pass has a weight in any fold."""
    for weights in every:
        for name, weight in weights.items():
            if weight and name != FIRST_PASS:
                return True
    return False


MORE_LISTS = "tune on more lists"
BEST_ON_DEV = f"{MORE_LISTS}, or take the best weights on dev with --no-bagging"


ANOTHER_SCALE = "leave out --scale to tune it, or give a scale above 0"
"""What to do at scale 0, where scores do not count: all hypotheses count alike."""


def another_lm(
    counts: Mapping[str, float],
    weights: Mapping[str, float],
    columns: Mapping[str, Column],
) -> str:
    """Return what to try where a language model does not help: another one, or a word
    bonus if the first pass lacks words.

    Args:
        counts: The counts of errors of the first pass.
        weights: The weight of each column.
        columns: The record of each column; the user's own columns have none.

    Returns:
        A noun phrase; empty if a column is not of a language model, such as a part of
        the toolkit's score: nothing can take its place.
    """
    records = [columns.get(name) for name in score_columns(weights)]
    if any(record is None or record.is_component for record in records):
        return ""
    deletions = counts.get("deletions", 0)
    insertions = counts.get("insertions", 0)
    if WORDS in weights or deletions < DELETING * max(1, insertions):
        return "another LM"
    return (
        f"--word-bonus tune of `rescore run` (the first pass has {deletions:,}"
        f" deletions and {insertions:,} insertions)"
    )


def why_zero_at_scale_0(columns: Sequence[str]) -> str:
    """Return one sentence that says why no column can help at scale 0, and what to do.

    Args:
        columns: The columns whose weights were tuned.
    """
    weights = "the weights are 0" if len(columns) > 1 else "the weight is 0"
    return (
        f"{weights}: at scale 0 all hypotheses count alike, so {listed(columns)} cannot"
        f" help; {ANOTHER_SCALE}"
    )


def why_zero(
    unproven: Unproven | None,
    metric: str,
    first_pass: float,
    source: str,
    decision: str = BEST,
    instead: str = "another LM",
    columns: Sequence[str] = (),
    by_systems: bool = False,
    bounded: bool = True,
) -> str:
    """Return one sentence that says why all weights are 0 and what to do.

    Args:
        unproven: The best weights, whose gain is not significant; None where no weight
            is better than 0.
        metric: The name of the metric.
        first_pass: The metric of the first pass, in percent.
        source: The name of the lists that weights were tuned on.
        decision: The name of the decision rule that weights were tuned for.
        instead: What to try, as `another_lm` returns it; empty for columns that are not
            of language models.
        columns: The columns whose weights were tuned; none for those of a model.
        by_systems: Whether several systems make the first pass.
        bounded: Whether a weight may not be negative.
    """
    alone = "the first pass"
    if decision != BEST:
        alone = f"{decision} of the first-pass scores alone"
    if by_systems:
        alone = f"{class_of_records().subject} alone"
    no_help = f"the weight is 0, {listed(columns) or 'the LM'} does not help"
    if len(columns) > 1:
        no_help = f"the weights are 0, {listed(columns)} do not help"
    models = "models" if instead else "columns"
    try_other = f"try {instead}" if instead else MORE_LISTS
    if unproven is None:
        weight = "weight above 0" if bounded else "weight"
        return f"{no_help}: no {weight} is better than {alone} on {source}; {try_other}"
    before = first_pass if unproven.alone is None else unproven.alone
    tested = named_weights(unproven.weights)
    if len(unproven.weights) > MANY_COLUMNS:
        tested = f"of all {len(unproven.weights)} columns"
    figures = (
        f"{metric} on {source} is {before:.2f} for {alone}, {unproven.value:.2f} with"
        f" the tested weights ({tested}){_emptied_phrase(unproven)}"
    )
    if unproven.held_out:
        or_other = f", or {try_other}" if instead else ""
        return (
            f"the weight is 0: {metric} on held-out folds is {before:.2f} for {alone},"
            f" {unproven.value:.2f} with tuned weights; {MORE_LISTS}{or_other}"
        )
    gain = (unproven.low + unproven.high) / 2
    closest = _alone_phrase(unproven.model_alone)
    if gain <= 0:
        advice = try_other if instead else BEST_ON_DEV
        return f"{no_help}: {figures}{closest}; {advice}"
    if unproven.errors > STANDARD_ERRORS:
        error = (unproven.high - gain) / unproven.errors
        return (
            f"the weights are 0: {figures}; the gain of {gain:.2f} points is"
            f" {_tenths(gain / error)} standard errors, and so many columns together"
            f" need {unproven.errors:.1f}{closest}; {MORE_LISTS}, give fewer"
            f" {models}, or take the best weights on dev"
            " with --no-bagging"
        )
    return (
        f"the weight is 0: {figures}; the gain of {gain:.2f} points may be chance,"
        f" because its 95 % CI (two standard errors), {unproven.low:z.2f} to"
        f" {unproven.high:.2f}, includes 0; {MORE_LISTS}"
    )


def _emptied_phrase(unproven: Unproven) -> str:
    """Return the phrase about tested weights that choose empty texts, with the remedy
    if it was not tried; empty if they choose none.
    """
    if not unproven.emptied:
        return ""
    phrase = (
        f", which choose an empty text in {counted(unproven.emptied, 'list')} whose"
        " reference has words"
    )
    if WORDS in unproven.weights:
        return phrase
    return f"{phrase} (--word-bonus tune favours longer texts)"


def _alone_phrase(single: TriedAlone | None) -> str:
    """Return the phrase about the best of the models that were tried alone; empty if
    none was tried, or none gains.
    """
    if single is None or single.gain <= 0:
        return ""
    return (
        f"; of single models, without tuned bonuses, {single.name} comes closest: it"
        f" gains {single.gain:.2f} points, {_tenths(single.gained_errors)} standard"
        f" errors of the {single.errors:.1f} that it needs"
    )


def _tenths(errors: float) -> str:
    """Return a number of standard errors, rounded down: a gain that is too small never
    looks large enough.
    """
    return f"{math.floor(10 * errors) / 10:.1f}"
