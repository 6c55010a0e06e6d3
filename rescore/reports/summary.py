"""What `rescore run` prints of its results: the table, the gain, the weights and why
they are 0, and the signatures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rescore.columns import FIRST_PASS, score_columns
from rescore.decision.mixture import named
from rescore.errors import counted
from rescore.metrics import Metric
from rescore.parts import METRICS
from rescore.reports import groups
from rescore.reports.figures import FIRST, SHORT, MeasuredRow
from rescore.reports.records import Dev, MetricResult, Record
from rescore.styles import figure, p_phrase, text
from rescore.tuning.phrases import (
    another_lm,
    effective_weights,
    named_weights,
    notes,
    why_zero,
)

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
    """Yield the rows of a table, in their order. Those of several systems are the
    systems, their mixture, and decisions by votes.
    """
    if measured.votes is not None:
        yield from measured.systems
        yield measured.row("first_pass")
        yield measured.row("oracle")
        if measured.equal_votes is not None:
            yield measured.equal_votes
        yield replace(measured.row("reranked"), name=measured.votes)
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
    """Return by how much reranking changed the figure, and how sure this is: one line;
    of several systems a line against the best system, and a line against equal votes.
    """
    if not measured.is_defined:
        return nothing_to_measure(measured)
    if measured.votes is not None:
        return "\n".join(_gains_of_votes(measured))
    difference = measured.reranked - measured.first_pass
    if not difference and measured.p_value is None:
        change = "unchanged"
    else:
        change = f"{difference:+z.2f}"
        change += _relative(measured.reranked, measured.first_pass)
    if measured.p_value is not None:
        change += f", {p_phrase(measured.p_value)}"
    best = measured.best_system
    if best:
        to_best = f"{measured.reranked - best.value:+z.2f}"
        if best.p_value is not None:
            to_best += f", {p_phrase(best.p_value)}"
        change += " against the mixture"
        change += f"\n{measured.metric} {to_best} against {best.name} alone"
    return f"{measured.metric} {change}"


def _gains_of_votes(measured: MetricResult) -> Iterator[str]:
    """Yield by how much the vote changed the figure of the best system, and of equal
    votes.
    """
    for row in (measured.best_system, measured.equal_votes):
        if row is None:
            continue
        change = "unchanged"
        if row.p_value is not None:
            change = f"{measured.reranked - row.value:+z.2f}"
            change += f"{_relative(measured.reranked, row.value)}"
            change += f", {p_phrase(row.p_value)}"
        alone = " alone" if row is measured.best_system else ""
        yield f"{measured.metric} {change} against {row.name}{alone}"


def nothing_to_measure(measured: MetricResult) -> str:
    """Return why the value of a metric is not defined: one line."""
    known = METRICS.known(measured.metric)
    why = METRICS[known].undefined if known else Metric.undefined
    return f"{measured.metric} is not defined: {why}"


def _relative(after: float, before: float) -> str:
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
            " like the test lists"
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
        is_objective = number == 0 and results.dev is not None
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
    `changed`, or for lists of several systems `differ from the mixture`.

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
    how = [
        f"{name.replace('-', ' ')} {value}" for name, value in results.deciding.items()
    ]
    if results.scale is not None:
        how.append(f"posteriors exp({results.scale:.4g} * score)")
    if how:
        yield f"decision: {', '.join([results.decision, *how])}"


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
    dev = results.dev
    if set(results.weights) == {FIRST_PASS} and not results.excluded:
        yield _first_pass_line(results)
        # First pass alone: only the scale of a decision was tuned on dev, so the
        # figures on dev show its effect.
        yield from _on_dev(results)
        return
    yield _lambda_line(results)
    yield from effective_weights(results.toolkit, results.weights)
    if dev is not None:
        yield from notes([results.weights], results.columns, dev.with_all, dev.reranked)
        yield from _dev_lines(results, dev)


def _first_pass_line(results: Record) -> str:
    """Return the line of a run without weights of language models."""
    weights_from = "" if results.origin == FIRST else f" ({results.origin})"
    if results.scale == 0:
        return f"weights: none, at scale 0 all hypotheses count alike{weights_from}"
    baseline = results.baseline
    voting = []
    if results.mixture:
        votes = results.mixture.votes
        voting = [name for name, vote in votes.items() if vote]
    if len(voting) == 1:
        baseline = f"system {voting[0]}"
    return f"weights: the {baseline} alone{weights_from}"


def _lambda_line(results: Record) -> str:
    """Return the line of the weights, and where they come from."""
    weights_from = results.origin
    if results.dev and results.dev.fold_weights:
        weights_from = "tuned on all lists, to use on others"
    weights = named_weights(results.weights, results.excluded)
    return f"lambda: {weights} ({weights_from})"


def _dev_lines(results: Record, dev: Dev) -> Iterator[str]:
    """Yield the weights of folds, else the figures on dev; and why weights are 0."""
    reasons = list(reasons_of_zero(results))
    if dev.fold_weights:
        of_folds = [
            named_weights(fold.weights, fold.excluded) for fold in dev.fold_weights
        ]
        yield f"weights of each fold, tuned on the other folds: {'; '.join(of_folds)}"
    elif not reasons:
        yield from _with_range(list(_on_dev(results)), results)
    elif not results.is_best:
        yield from _on_dev(results)
    yield from reasons


def _on_dev(results: Record) -> Iterator[str]:
    """Yield the votes of systems, and the figures on the tuning lists."""
    if results.mixture:
        how = ", by agreement of the systems" if results.mixture.estimated else ""
        yield f"votes: {named(results.mixture)}{how}"
    dev = results.dev
    if dev:
        yield f"{dev.source}: {figure(dev.first_pass)} -> {figure(dev.reranked)}"


def _with_range(on_dev: list[str], results: Record) -> list[str]:
    """Return the lines of `_on_dev` with the range in which a single weight is as good
    on dev.
    """
    dev = results.dev
    # for another decision the scale moves with the weight
    is_known = dev and dev.low is not None and dev.high is not None
    if not on_dev or not is_known or not results.is_best:
        return on_dev
    assert dev
    ends = f"from {dev.low:.4g} to {dev.high:.4g}"
    return [*on_dev[:-1], f"{on_dev[-1]}, the same for any lambda {ends}"]


def reasons_of_zero(results: Record) -> Iterator[str]:
    """Yield one line that says why all weights of a run are 0, if they are."""
    counts: Mapping[str, float] = {}
    if results.metrics:
        counts = results.metrics[0].counts["first_pass"]
    metric = results.metric or "metric"
    yield from why_all_zero(
        results.dev, results.weights, metric, results.decision, counts
    )


def why_all_zero(
    dev: Dev | None,
    weights: Mapping[str, float],
    metric: str,
    decision: str,
    counts: Mapping[str, float],
) -> Iterator[str]:
    """Yield one line that says why all weights that were tuned are 0, if they are.

    Args:
        dev: What weights gave on the lists that they were tuned on.
        weights: The weight of each column.
        metric: The name of the metric.
        decision: The rule that was tuned for.
        counts: The counts of errors of the first pass, which say what to try.
    """
    tuned_weights = {weight for name, weight in weights.items() if name != FIRST_PASS}
    unproven = dev.unproven if dev else None
    was_kept = unproven is not None and unproven.held_out
    if dev and (was_kept or tuned_weights == {0.0}):
        source = "all lists" if dev.fold_weights else dev.source
        instead = another_lm(counts, weights)
        columns = score_columns(weights)
        yield why_zero(
            dev.unproven, metric, dev.first_pass, source, decision, instead, columns
        )
