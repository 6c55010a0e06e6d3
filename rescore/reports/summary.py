"""What `rescore run` prints of its results: the table, the gain, the weights and why
they are 0, and the signatures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rescore.columns import (
    FIRST_PASS,
    comes_from_expansion,
    score_columns,
    units,
)
from rescore.errors import counted
from rescore.metrics import Metric
from rescore.parts import METRICS
from rescore.reports import groups
from rescore.reports.figures import FIRST, SHORT, MeasuredRow
from rescore.reports.records import MetricResult, Record
from rescore.reports.systems import tables_of_systems
from rescore.styles import figure, p_phrase, text
from rescore.tuning.phrases import (
    another_lm,
    effective_weights,
    named_weights,
    notes,
    why_zero,
    why_zero_at_scale_0,
)
from rescore.tuning.record import ALL_LISTS, TunedBy, Tuning
from rescore.tuning.weights import Weights

REFERENCE_SIZES = ("ref_words", "ref_characters")
"""Counts that are the same in all rows, so that tables leave them out."""


def cells(measured: MetricResult) -> list[list[str]]:
    """Return the rows of a table: the figures of one metric with their confidence
    intervals and counts.
    """
    counts = measured.counts["first_pass"]
    names = [name for name in counts if name not in REFERENCE_SIZES]
    head = ["", measured.metric, "95 % CI", *(SHORT.get(name, name) for name in names)]
    return [head, *(row.cells(names) for row in _rows(measured))]


def _rows(measured: MetricResult) -> Iterator[MeasuredRow]:
    """Yield the rows of a table, in their order."""
    if measured.shows_systems:
        yield from tables_of_systems().rows(measured)
        return
    yield measured.row("first_pass")
    if measured.best_system:
        name = f"best system, {measured.best_system.name}"
        yield replace(measured.best_system, name=name)
    yield measured.row("oracle")
    if measured.own_oracle is not None:
        yield MeasuredRow(
            "oracle of the toolkit's own", measured.metric, measured.own_oracle
        )
    yield measured.row("reranked")


def gain(measured: MetricResult) -> str:
    """Return by how much reranking changed the figure, and how sure this is: one line,
    or several lines for lists of several systems.
    """
    if not measured.is_defined:
        return nothing_to_measure(measured)
    if measured.shows_systems:
        return "\n".join(tables_of_systems().gains(measured))
    difference = measured.reranked - measured.first_pass
    if not difference and measured.p_value is None:
        change = "unchanged"
    else:
        change = f"{difference:+z.2f}"
        change += relative(measured.reranked, measured.first_pass)
    if measured.p_value is not None:
        change += f", {p_phrase(measured.p_value)}"
    best = measured.best_system
    if best:
        to_best = f"{measured.reranked - best.value:+z.2f}"
        if best.p_value is not None:
            to_best += f", {p_phrase(best.p_value)}"
        change += f" against the {measured.baseline}"
        change += f"\n{measured.metric} {to_best} against {best.name} alone"
    return f"{measured.metric} {change}"


def nothing_to_measure(measured: MetricResult) -> str:
    """Return why the value of a metric is not defined: one line."""
    known = METRICS.known(measured.metric)
    why = METRICS[known].undefined if known else Metric.undefined
    return f"{measured.metric} is not defined: {why}"


def relative(after: float, before: float) -> str:
    """Return a change in percent of the figure before; empty if this is 0."""
    if not before:
        return ""
    share = 100 * (after - before) / before
    digits = 1 if abs(share) >= 0.05 else 2
    return f", {share:+z.{digits}f} % relative"


def worse(
    measured: MetricResult, is_objective: bool = False, is_first: bool = False
) -> Iterator[str]:
    """Yield one line where reranking is significantly worse under a metric.

    Args:
        measured: The figures.
        is_objective: Whether the weights were tuned for the metric.
        is_first: Whether it is the first metric, for which `rescore` tunes.
    """
    if not measured.is_worse or measured.p_value is None:
        return
    if is_objective:
        advice = (
            "the weights were tuned for it, so dev and test disagree; tune on lists"
            " like the test lists, whose references no model has read in training"
        )
    elif is_first:
        advice = (
            "no weights were tuned; to tune them, give --dev or --folds to rescore run"
        )
    elif _is_learned(measured.metric):
        advice = "no weights can be tuned for it"
    else:
        advice = f"to tune for it, give --metric {measured.metric.lower()} first"
    change = f"{measured.first_pass:.2f} -> {measured.reranked:.2f}"
    p_value = p_phrase(measured.p_value)
    yield (
        f"{measured.metric} is significantly worse than the {measured.baseline}:"
        f" {change}, {p_value}; {advice}"
    )


def _is_learned(name: str) -> bool:
    """Return whether a metric is a trained model, for which no weights are tuned."""
    known = METRICS.known(name)
    return bool(known) and METRICS[known].learned


def render(results: Record) -> str:
    """Return the table of one run, its weights, its sets, and the signatures."""
    lines: list[str] = []
    for measured in results.metrics:
        if lines:
            lines.append("")
        lines += [text(cells(measured)), "", gain(measured)]
    for number, measured in enumerate(results.metrics):
        is_objective = number == 0 and results.tuning.has_figures
        lines += worse(measured, is_objective, is_first=number == 0)
    group_table = groups.render(results.groups)
    if group_table is not None:
        lines += ["", group_table, ""]
    lines += _weights(results)
    lines += _decision(results)
    lines += _boost(results)
    size = results.size + _reference_size(results)
    change = change_of(results.changed, results.baseline)
    lines.append(f"{size}; {counted(results.changed, 'utterance')} {change}")
    signatures = [measured.signature for measured in results.metrics]
    lines += signatures or [results.signature]
    return "\n".join(lines)


def _reference_size(results: Record) -> str:
    """Return the size of the references in the unit of the first metric, with a comma
    ahead; nothing where the metric counts texts.
    """
    counts = results.main.counts["first_pass"] if results.main else {}
    if "texts" in counts or results.ref_words is None:
        return ""
    if "ref_characters" in counts:
        return f", {counted(int(counts['ref_characters']), 'reference character')}"
    return f", {counted(results.ref_words, 'reference word')}"


def change_of(number: int, baseline: str) -> str:
    """Return the words after the number of texts that differ from the baseline:
    `changed`, or `differ from` a baseline of several systems.

    Args:
        number: The number of texts.
        baseline: The name of the row of the first pass.
    """
    if baseline == FIRST:
        return "changed"
    verb = "differs" if number == 1 else "differ"
    return f"{verb} from the {baseline}"


def _decision(results: Record) -> Iterator[str]:
    """Yield the decision with its options and its scale, where it has any."""
    decision = results.choice.decision
    how = decision.told
    if decision.scale is not None:
        how.append(f"posteriors exp({decision.scale:.4g} * score)")
    if how:
        yield f"decision: {', '.join([decision.name, *how])}"


def _boost(results: Record) -> Iterator[str]:
    """Yield what the bonus of listed words changes, where they have one."""
    if results.unboosted:
        changes = []
        for measured in results.metrics:
            before = figure(results.unboosted[measured.metric])
            changes.append(f"{measured.metric} {before} -> {figure(measured.reranked)}")
        yield f"the boost changes {', '.join(changes)}"


def _weights(results: Record) -> Iterator[str]:
    """Yield the weights, where they come from, and what they give on the lists that
    they were tuned on.
    """
    tuning = results.tuning
    if set(results.weights) == {FIRST_PASS} and not results.choice.excluded:
        yield _first_pass_line(results)
        # First pass alone: only the scale of a decision was tuned on dev, so the
        # figures on dev show its effect.
        yield from _on_dev(results)
        if any(len(fold.weights) > 1 for fold in tuning.of_folds):
            yield _of_folds(results)
        yield from reasons_of_zero(results)
        return
    yield _lambda_line(results)
    yield from effective_weights(tuning.toolkit, results.weights)
    if tuning.has_figures:
        yield from notes(
            [results.weights],
            results.choice.tuned_columns,
            tuning.with_all,
            tuning.value,
        )
        yield from _tuning_lines(results, tuning)


def _first_pass_line(results: Record) -> str:
    """Return the line of a run without weights of language models."""
    origin = str(results.tuning)
    weights_from = "" if origin == FIRST else f" ({origin})"
    if results.choice.decision.scale == 0:
        return f"weights: none, at scale 0 all hypotheses count alike{weights_from}"
    baseline = results.baseline
    made_by = results.choice.mixture
    if made_by and made_by.sole:
        baseline = f"system {made_by.sole}"
    return f"weights: the {baseline} alone{weights_from}"


def _lambda_line(results: Record) -> str:
    """Return the line of the weights, and where they come from."""
    weights_from = str(results.tuning)
    if results.choice.are_given:
        weights_from = str(TunedBy.GIVEN)
    elif results.tuning.of_folds:
        weights_from = "tuned on all lists, for use on other lists"
    weights = named_weights(results.weights, results.choice.sorted_excluded)
    return f"lambda: {weights} ({weights_from})"


def _tuning_lines(results: Record, tuning: Tuning) -> Iterator[str]:
    """Yield the weights of folds, else the figures on dev; and why weights are 0."""
    reasons = list(reasons_of_zero(results))
    if tuning.of_folds and not results.choice.are_given:
        yield _of_folds(results)
    elif not reasons:
        yield from _with_range(list(_on_dev(results)), results)
    elif not results.choice.decision.is_best:
        yield from _on_dev(results)
    yield from reasons


def _of_folds(results: Record) -> str:
    """Return the line of the weights that decided each fold."""
    of_folds = []
    for fold in results.tuning.of_folds:
        named = named_weights(fold.weights, fold.sorted_excluded)
        of_folds.append(named or f"the {results.baseline} alone")
    return f"weights of each fold, tuned on the other folds: {'; '.join(of_folds)}"


def _on_dev(results: Record) -> Iterator[str]:
    """Yield what made the first pass, and the figures on the tuning lists."""
    if results.choice.mixture:
        yield str(results.choice.mixture)
    tuning = results.tuning
    if tuning.has_figures:
        yield f"{tuning.name}: {figure(tuning.first_pass)} -> {figure(tuning.value)}"


def _with_range(on_dev: list[str], results: Record) -> list[str]:
    """Return the lines of `_on_dev` with the range in which a single weight is as good
    on dev.
    """
    low = results.tuning.low
    high = results.tuning.high
    # for another decision the scale moves with the weight
    if not on_dev or not results.choice.decision.is_best:
        return on_dev
    if low is None or high is None:
        return on_dev
    ends = f"from {low:.4g} to {high:.4g}"
    return [*on_dev[:-1], f"{on_dev[-1]}, the same for any lambda {ends}"]


def reasons_of_zero(results: Record) -> Iterator[str]:
    """Yield one line that says why all weights of a run are 0, if they are."""
    counts: Mapping[str, float] = {}
    if results.metrics:
        counts = results.metrics[0].counts["first_pass"]
    metric = results.metric or "metric"
    yield from why_all_zero(results.choice, metric, counts)


def why_all_zero(
    choice: Weights, metric: str, counts: Mapping[str, float]
) -> Iterator[str]:
    """Yield one line that says why all weights that were tuned are 0, if they are.

    Args:
        choice: The weights, with the record of their tuning.
        metric: The name of the metric.
        counts: The counts of errors of the first pass, which say what to try.
    """
    tuning = choice.tuning
    if tuning.first_pass is None or tuning.value is None:
        return
    weights = choice.weights
    is_tuned = not {FIRST_PASS, *choice.given}.issuperset(weights)
    all_weights = {weight for name, weight in weights.items() if name != FIRST_PASS}
    unproven = tuning.unproven
    was_kept = unproven is not None and unproven.held_out
    if is_tuned and not was_kept and all_weights != {0.0}:
        return
    columns = score_columns(weights)
    instead = another_lm(counts, weights, tuning.columns)
    if not is_tuned:
        columns = _left_without_bounds(tuning)
        instead = ""
    if not is_tuned and not columns:
        return
    if columns and choice.decision.scale == 0:
        yield why_zero_at_scale_0(columns)
    else:
        yield why_zero(
            unproven,
            metric,
            tuning.first_pass,
            ALL_LISTS if tuning.of_folds else tuning.name,
            choice.decision.name,
            instead,
            columns,
            choice.mixture is not None,
            bounded=is_tuned,
        )


def _left_without_bounds(tuning: Tuning) -> list[str]:
    """Return the bonuses and the other columns without bounds that were tuned, in
    words, where no column has a weight: weights of 0 without bounds are not kept.
    """
    options = tuning.options
    asked = [*options.bonuses, *options.negative] if options else []
    named = []
    for name in asked:
        if not comes_from_expansion(name, tuning.columns.get(name)):
            named.append(_bonus(name))
    return named


def _bonus(name: str) -> str:
    """Return a column without bounds in a sentence, such as `the word bonus`."""
    unit = units().get(name)
    return f"the {unit} bonus" if unit else name
