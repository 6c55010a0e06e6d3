"""Decided lists, measured: the figures of a run, and how they show themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

from rescore.columns import units
from rescore.content import references_hash
from rescore.dataset import Dataset
from rescore.deciding import Decided, decide
from rescore.errors import UserError, counted
from rescore.metrics import Metric
from rescore.metrics.base import text_value
from rescore.metrics.listed import LISTED
from rescore.metrics.normalise import EXACT
from rescore.metrics.significance import PairedTest
from rescore.metrics.texts import warn_of_texts
from rescore.parts import BEST
from rescore.reports.details import details
from rescore.reports.figures import (
    FIRST,
    ORACLE,
    Figures,
    Shown,
    sign,
)
from rescore.reports.groups import as_html, grouped, reference_words
from rescore.reports.markup import as_frame, checked_name, html, write_json
from rescore.reports.outputs import warn_of_few_units
from rescore.reports.overview import render_overview
from rescore.reports.records import MetricResult, Record
from rescore.reports.summary import cells, render
from rescore.reports.systems import RowsOfSystems, tables_of_systems
from rescore.signature import Signature, column_records
from rescore.styles import figure
from rescore.tuning.weights import Weights

UNNAMED = "test"
"""The name of test lists in tables, if they have no other name."""


class _Details:
    """Holds `details`, which makes the rows of `reports.details`. It is no field of the
    dataclass, so it is not saved; results that are read from a file have none.
    """

    details: Any


@dataclass(repr=False)
class Results(_Details, Record):
    """A `Record` that prints itself. Results of lists have the rows of `details`, too;
    results that are read from a file do not.
    """

    def _repr_html_(self) -> str:
        """For notebooks."""
        if not self.metrics:
            return f"<p>{counted(self.utterances, 'list')} without references</p>"
        tables = "".join(html(cells(measured)) for measured in self.metrics)
        tables += as_html(self.groups)
        return f"{tables}<p>{self.size}</p><code>{escape(self.signature)}</code>"

    def to_frame(self) -> Any:
        """A DataFrame with a row per utterance and the columns of `run --details`.

        Raises:
            UserError: neither pandas nor polars is installed, or the results come from
            a file.
        """
        if not hasattr(self, "details"):
            raise UserError(
                "to_frame: a results file has no utterances; evaluate the lists again"
            )
        return as_frame(self.details())

    def table(
        self,
        style: str = "text",
        layout: str = "espnet",
        intervals: bool = False,
        oracle: bool | None = None,
    ) -> str:
        """Return the table of `rescore report`. `dataset` and `system` of the results
        are the names in it.

        Args:
            style: A name in `rescore.parts.STYLES`: text, markdown, latex or csv.
            layout: `espnet` (a row for each output) or `paper` (a row for each method).
            intervals: Whether figures have their confidence intervals.
            oracle: Whether there is a row of the best hypotheses; None for the layout
                `paper` alone.

        Raises:
            UserError: There is no such style or layout, or there are no references.
        """
        if not self.metrics:
            raise UserError("table: no figures; the lists had no references")
        named = replace(self, dataset=self.dataset or UNNAMED)
        shown = Shown(intervals=intervals, oracle=oracle)
        return render_overview([named], layout, checked_name(style), shown)

    def save(self, path: str | Path) -> None:
        """Write a results file, as `rescore run --report` does.

        Args:
            path: The file, which `rescore report` and `rescore check` read.

        Raises:
            UserError: The file cannot be written.
        """
        write_json(replace(self, dataset=self.dataset or UNNAMED), str(path))

    def __str__(self) -> str:
        """What `rescore run` prints: the table, the weights, and why they are 0."""
        return render(self)

    def __repr__(self) -> str:
        """One line: the rest is in the fields."""
        number = counted(self.utterances, "list")
        if not self.metrics:
            return f"<Results: {number} without references>"
        figures = []
        for measured in self.metrics:
            figures.append(
                f"{measured.metric} {figure(measured.first_pass)} ->"
                f" {figure(measured.reranked)} (oracle {figure(measured.oracle)})"
            )
        return f"<Results: {', '.join(figures)}, {number}>"


def evaluate(
    metrics: Sequence[Metric],
    decided: Decided,
    test: PairedTest | None = None,
    by: str | None = None,
) -> Results:
    """Return first pass, oracle and reranked figures of decided lists.

    Args:
        metrics: The metrics; the first is the objective of tuning.
        decided: The lists, and the text chosen for each. Without references only their
            choice is reported.
        test: The test of p-values and intervals, which signatures name; None for the
            default.
        by: What the figures of groups are grouped by; None for no groups.
    """
    lists = decided.lists
    weights = decided.weights
    first_pass = decided.first_pass_texts
    objective = metrics[0] if metrics else None
    has_folds = decided.in_folds is not None
    if not has_folds:
        weights = replace(weights, tuning=weights.tuning.of_all)
    if not lists.has_references:
        metrics = ()
    metric = metrics[0] if metrics else None
    results = Results(
        utterances=len(lists),
        hypotheses=sum(len(nbest.hypotheses) for nbest in lists),
        choice=weights,
        columns=column_records(lists, weights.weights),
        on_tuning_lists=_are_tuned_on(weights, lists) and not has_folds,
        signature=str(sign(metric, lists, weights, test, objective, has_folds)),
        changed=_changed(first_pass, decided.texts),
    )

    def rows() -> list[dict[str, Any]]:
        # Ranked lists: of equal texts the one that decided comes first.
        ranked = lists.with_lists(nbest for nbest, _ in decided.sorted_lists())
        return details(metric, ranked, first_pass, decided.texts)

    results.details = rows
    beside = None
    if metrics and lists.header.by_systems:
        beside = tables_of_systems().measured(objective, decided)
    for each in metrics:
        signature = sign(each, lists, weights, test, objective, has_folds)
        results.metrics.append(
            figures_of(each, lists, first_pass, decided.texts, signature, test, beside)
        )
    decision = weights.decision.name
    method = results.main.method if results.main else None
    results.system = method or system_name(weights, decision, results.baseline)
    if by is not None and metrics:
        outputs = {results.baseline: first_pass, "reranked": decided.texts}
        results.groups = grouped(by, metrics, lists, outputs)
    if test is not None and metrics:
        warn_of_few_units(test, metrics[0], lists)
    results.unboosted = _unboosted(metrics, decided)
    if has_folds and results.main:
        results.choice = _held_out(weights, results.main)
    if results.main:
        results.ref_words = _reference_words(results.main, lists)
        results.references = references_hash(lists)
    return results


def _are_tuned_on(weights: Weights, lists: Dataset) -> bool:
    """Return whether weights were tuned on these very lists."""
    return weights.tuning.is_on(lists) and not weights.is_untuned


def _held_out(weights: Weights, measured: MetricResult) -> Weights:
    """Return the weights of a set in folds, whose record has the figures of the texts
    that folds decided, in place of the figures of the weights of all lists.

    Args:
        weights: The weights of all lists.
        measured: The figures of the texts.
    """
    tuning = replace(
        weights.tuning,
        first_pass=measured.first_pass,
        value=measured.reranked,
        low=None,
        high=None,
        with_all=None,
    )
    return replace(weights, tuning=tuning)


def used_models(weights: Weights) -> list[str]:
    """Return the columns of models, and of parts of the toolkit's score, that have a
    weight.
    """
    return [name for name in weights.score_columns if weights.weighs(name)]


def _changed(before: Sequence[str], after: Sequence[str]) -> int:
    """Return the number of texts that differ in more than white space."""
    changed = 0
    for old, new in zip(before, after, strict=True):
        changed += EXACT(old) != EXACT(new)
    return changed


def _unboosted(metrics: Sequence[Metric], decided: Decided) -> dict[str, float]:
    """Return the metrics without the bonus of listed words, if they have one."""
    if not metrics or decided.in_folds or not decided.weights.weighs(LISTED):
        return {}
    plain = decide(metrics[0], decided.lists, decided.weights.without(LISTED))
    return {each.name: text_value(each, plain.lists, plain.texts) for each in metrics}


def _reference_words(measured: MetricResult, lists: Dataset) -> int:
    """Return the number of words in the references, in the first of each list."""
    words = measured.counts["first_pass"].get("ref_words")
    if words is None:
        words = reference_words(lists)
    return int(words)


def system_name(weights: Weights, decision: str, alone: str = FIRST) -> str:
    """Return the method as tables name it: the models that have a weight, and the
    decision, such as `tta-small, MBR`.

    A model of negative weight is subtracted. Where nothing else is the method, models
    of weight 0 are named, or bonuses.

    Args:
        weights: The weights.
        decision: The name of the decision.
        alone: The name of the method where none of these decides.
    """
    models = used_models(weights)
    if not models and decision == BEST:
        models = weights.score_columns
    phrase = _sum_of(models, weights)
    if not models and decision == BEST:
        bonuses = [unit for name, unit in units().items() if weights.weighs(name)]
        added = [f"{unit} bonus" for unit in bonuses]
        phrase = " + ".join(added)
    return _decided(phrase, decision) or alone


def method_name(first_pass: str, weights: Weights) -> str:
    """Return the method of several systems as tables name it: what made their first
    pass, the models that have a weight, and the decision, such as `FIRST + tta, MBR`.

    Args:
        first_pass: What made the first pass.
        weights: The weights.
    """
    models = _sum_of(used_models(weights), weights, first_pass)
    return _decided(models, weights.decision.name)


def _sum_of(models: Sequence[str], weights: Weights, first: str = "") -> str:
    """Return a phrase of models, which are added or, with a negative weight,
    subtracted.

    Args:
        models: The models.
        weights: The weights.
        first: What the models are added to; empty for nothing.
    """
    added = [name for name in models if weights.weights[name] >= 0]
    subtracted = [name for name in models if weights.weights[name] < 0]
    phrase = " + ".join(filter(None, [first, *added]))
    for name in subtracted:
        phrase += f" - {name}"
    return phrase.strip()


def _decided(phrase: str, decision: str) -> str:
    """Return a method with the name of its decision."""
    return ", ".join(filter(None, [phrase, decision_title(decision)]))


def decision_title(decision: str) -> str:
    """Return a decision as tables name it; the best score has no name."""
    return "" if decision == BEST else decision.upper()


def figures_of(
    metric: Metric,
    lists: Dataset,
    first_pass: Sequence[str],
    texts: Sequence[str],
    signature: Signature,
    test: PairedTest | None = None,
    beside: RowsOfSystems | None = None,
) -> MetricResult:
    """Return first pass, oracle and chosen texts under one metric.

    Args:
        metric: The metric.
        lists: Lists with references.
        first_pass: The first-pass text of each list.
        texts: The text that was chosen for each list.
        signature: The signature of the chosen texts.
        test: The test of p-values and intervals; None for the default.
        beside: Adds the rows of several systems; None for lists of one system.
    """
    warn_of_texts(metric, lists)
    figures = Figures(metric, lists, test)
    chosen = figures.of(texts)
    first = figures.of(first_pass)
    changed = list(first_pass) != list(texts)
    best = figures.oracle_indices()
    best_own = figures.oracle_indices(own=True)
    rows = {
        "first_pass": figures.row(figures.baseline, first),
        "oracle": figures.row(ORACLE, figures.at(best), interval=False),
        "reranked": figures.row("reranked", chosen, first if changed else None),
    }
    own_oracle = None
    if beside is None and best != best_own:
        own_oracle = figures.value(figures.at(best_own))
    result = MetricResult(
        metric=metric.name,
        higher_is_better=metric.higher_is_better,
        first_pass=rows["first_pass"].value,
        oracle=rows["oracle"].value,
        reranked=rows["reranked"].value,
        p_value=rows["reranked"].p_value,
        counts={name: row.counts for name, row in rows.items()},
        sentence_errors={},
        intervals={},
        signature=str(signature),
        conditions=signature.conditions,
        own_oracle=own_oracle,
        mean_of_samples=figures.mean_of_samples(),
    )
    if beside is not None:
        beside.add_to(result, figures, chosen)
    for name, row in rows.items():
        if row.wrong is not None:
            result.sentence_errors[name] = row.wrong
        if row.interval is not None:
            result.intervals[name] = row.interval
    return result
