"""The record of an experiment: its figures, its results file, and its text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Annotated, Any

from msgspec import Meta

from rescore.dataset import Dataset
from rescore.deciding import Decided, decide
from rescore.decision.mixture import Mixture, named
from rescore.errors import UserError, counted
from rescore.metrics import Metric
from rescore.metrics.base import is_better, text_value, warn_of_unspaced
from rescore.metrics.listed import LISTED
from rescore.nbest import FIRST_PASS, Column, NbestList
from rescore.parts import resolve
from rescore.reports.details import details
from rescore.reports.figures import (
    FIRST,
    MIXTURE,
    ORACLE,
    SHORT,
    SIGNIFICANT,
    Figures,
    Row,
    sign,
)
from rescore.signature import Signature, origins
from rescore.styles import p_phrase, text
from rescore.tuning.phrases import named_weights, notes, why_zero
from rescore.tuning.weights import FoldWeights, Unproven, Weights


def described(text: str) -> Any:
    """A field's description, which the JSON schema has, too."""
    return Meta(description=text)


CHOICES = ("first_pass", "oracle", "reranked")
"""What is measured of each list: the first pass's best, the best of all, and the text
that was chosen.
"""


@dataclass(slots=True)
class MetricResult:
    """The texts of a run under one metric."""

    metric: Annotated[str, described("Its name.")]
    higher_is_better: Annotated[
        bool, described("Whether a higher value is the better one.")
    ]
    first_pass: Annotated[float, described("Of the first pass, in percent.")]
    oracle: Annotated[
        float,
        described("Of the best hypothesis of each list under this metric, in percent."),
    ]
    reranked: Annotated[float, described("Of the texts that were chosen, in percent.")]
    p_value: Annotated[
        float | None,
        described("Two-sided, of the difference between reranked and first pass."),
    ]
    counts: Annotated[
        dict[str, dict[str, int | float]],
        described("Counts behind first_pass, oracle and reranked."),
    ]
    sentence_errors: Annotated[
        dict[str, int],
        described("Utterances with an error, of each; WER and CER only."),
    ]
    intervals: Annotated[
        dict[str, tuple[float, float]],
        described("95 % confidence intervals, by bootstrap."),
    ]
    signature: Annotated[str, described("All that is needed to get the figures again.")]
    own_oracle: Annotated[
        float | None,
        described("The toolkit's own hypotheses' oracle, if expansion changed it."),
    ] = None
    best_system: Annotated[
        Row | None, described("Of several systems; p_value is against reranked.")
    ] = None

    @property
    def certain(self) -> bool:
        """Whether the reranked texts differ significantly from the first pass."""
        return self.p_value is not None and self.p_value < SIGNIFICANT

    @property
    def is_worse(self) -> bool:
        """Whether the reranked texts are significantly worse than the first pass."""
        return self.certain and is_better(
            self.first_pass, self.reranked, self.higher_is_better
        )

    @property
    def baseline(self) -> str:
        """The first pass as tables name it; of several systems it is their mixture."""
        return MIXTURE if self.best_system else FIRST

    def row(self, choice: str) -> Row:
        """One of `CHOICES`."""
        return Row(
            name=self.baseline if choice == "first_pass" else choice,
            metric=self.metric,
            value=getattr(self, choice),
            counts=self.counts[choice],
            interval=self.intervals.get(choice),
            p_value=self.p_value if choice == "reranked" else None,
            signature=self.signature,
            wrong=self.sentence_errors.get(choice),
        )


def measure(
    metric: Metric,
    lists: Sequence[NbestList],
    texts: Sequence[str],
    signature: Signature,
) -> MetricResult:
    """One metric of the first pass, the oracle, and the texts that were chosen."""
    warn_of_unspaced(metric, lists)
    figures = Figures(metric, lists)
    chosen = figures.of(texts)
    best, best_own = figures.oracle_places(), figures.oracle_places(own=True)
    changed = any(
        old.text != new.text for old, new in zip(figures.first, chosen, strict=True)
    )
    rows = {
        "first_pass": figures.row(FIRST, figures.first),
        "oracle": figures.row(ORACLE, figures.at(best), interval=False),
        "reranked": figures.row("reranked", chosen, figures.first if changed else None),
    }
    several = Dataset.of(lists).header.systems
    system = (
        resolve("rescore.reports.analysis:best_system")(figures, chosen)
        if several
        else None
    )
    return MetricResult(
        metric=metric.name,
        higher_is_better=metric.higher_is_better,
        **{name: row.value for name, row in rows.items()},
        p_value=rows["reranked"].p_value,
        counts={name: row.counts for name, row in rows.items()},
        sentence_errors={
            name: row.wrong for name, row in rows.items() if row.wrong is not None
        },
        intervals={
            name: row.interval for name, row in rows.items() if row.interval is not None
        },
        signature=str(signature),
        best_system=system,
        own_oracle=(
            None if system or best == best_own else figures.value(figures.at(best_own))
        ),
    )


def cells(measured: MetricResult) -> list[list[str]]:
    """The rows of a table: the three figures with their confidence intervals and
    counts.
    """
    names = [
        name
        for name in measured.counts["first_pass"]
        if name not in ("ref_words", "ref_characters")
    ]
    rows = [measured.row(choice) for choice in CHOICES]
    if measured.own_oracle is not None:
        rows.insert(
            2, Row("oracle of the toolkit's own", measured.metric, measured.own_oracle)
        )
    if measured.best_system:
        rows.insert(
            1,
            replace(
                measured.best_system, name=f"best system, {measured.best_system.name}"
            ),
        )
    return [
        ["", measured.metric, "95 % CI", *(SHORT.get(name, name) for name in names)],
        *(row.cells(names) for row in rows),
    ]


def gain(measured: MetricResult) -> str:
    """By how much reranking changed the figure, and how sure that is: one line."""
    difference = measured.reranked - measured.first_pass
    share = 100 * difference / measured.first_pass if measured.first_pass else 0.0
    relative = (
        f", {share:+z.{1 if abs(share) >= 0.05 else 2}f} % relative"
        if measured.first_pass
        else ""
    )
    p = "" if measured.p_value is None else f", {p_phrase(measured.p_value)}"
    change = (
        f"{difference:+z.2f}{relative}{p}"
        if difference or measured.p_value is not None
        else "unchanged"
    )
    if best := measured.best_system:
        less = f"{measured.reranked - best.value:+z.2f}, {p_phrase(best.p_value or 0)}"
        change += (
            f" against the mixture\n{measured.metric} {less} against {best.name} alone"
        )
    return f"{measured.metric} {change}"


def worse(figures: MetricResult, tuned_for: bool = False) -> Iterator[str]:
    """One line where reranking is significantly worse under a metric, which the weights
    were `tuned_for` or not.
    """
    if figures.is_worse:
        disagree = (
            "the weights were tuned for it, so dev and test disagree; tune on lists"
            " like the test lists"
        )
        advice = (
            disagree
            if tuned_for
            else f"to tune for it, give --metric {figures.metric.lower()} first"
        )
        change = (
            f"{figures.first_pass:.2f} -> {figures.reranked:.2f},"
            f" {p_phrase(figures.p_value or 0.0)}"
        )
        yield (
            f"{figures.metric} is significantly worse than the {figures.baseline}:"
            f" {change}; {advice}"
        )


SCHEMA = "rescore/results/3"
"""Of a results file; the number changes where old readers would fail."""


@dataclass(slots=True)
class Dev:
    """Where the weights were tuned, and what they gave there."""

    source: Annotated[str, described("Path or name of the lists.")]
    utterances: Annotated[int, described("Dev lists.")]
    first_pass: Annotated[float, described("The metric of the first pass, in percent.")]
    reranked: Annotated[
        float, described("The metric with the tuned weights, in percent.")
    ]
    low: Annotated[
        float | None, described("A single weight is as good from here ...")
    ] = None
    high: Annotated[float | None, described("... to here.")] = None
    with_all: Annotated[
        float | None, described("With all columns, where some were left out.")
    ] = None
    unproven: Annotated[
        Unproven | None, described("The tested weights, if no gain was significant.")
    ] = None
    fold_weights: Annotated[
        tuple[FoldWeights, ...], described("Of each fold, tuned on the other folds.")
    ] = ()
    metrics: Annotated[
        list[MetricResult], described("Figures on dev, for tables with both sets.")
    ] = field(default_factory=list)

    @classmethod
    def of(cls, weights: Weights, held_out: MetricResult | None = None) -> Dev | None:
        """What weights record of their tuning; None where they were given.

        Args:
            held_out: the figures of the texts that folds decided, in place of figures
                of the weights of all lists.
        """
        about = weights.tuned_for
        if (
            about is None
            or about.utterances is None
            or about.first_pass is None
            or about.value is None
        ):
            return None
        source = weights.tuned.name
        if weights.fold_weights and held_out is None:
            source = "all lists"
        number = about.utterances
        if held_out is not None:
            figures = held_out.first_pass, held_out.reranked
            return cls(
                source,
                number,
                *figures,
                unproven=weights.unproven,
                fold_weights=weights.fold_weights,
            )
        return cls(
            source,
            number,
            about.first_pass,
            about.value,
            about.low,
            about.high,
            about.with_all,
            weights.unproven,
        )


class _Details:
    """Makes the rows of `reports.details`: no field, so not in files, and absent after
    reading one.
    """

    __slots__ = ("details",)
    details: Any


@dataclass(slots=True, repr=False)
class Results(_Details):
    """The figures of one run. Those of a metric are None or empty where the lists have
    no references.
    """

    utterances: Annotated[int, described("Test lists.")]
    hypotheses: Annotated[int, described("Hypotheses in them.")]
    weights: Annotated[
        dict[str, float],
        described("The weight of each column of scores, word or token."),
    ]
    origin: Annotated[str, described("Where the weights come from, in words.")]
    signature: Annotated[str, described("All that is needed to get the figures again.")]
    schema: Annotated[str, described("Format and version of this file.")] = SCHEMA
    dataset: Annotated[str | None, described("The test lists' name in tables.")] = None
    system: Annotated[str | None, described("The output's name in tables.")] = None
    columns: Annotated[
        dict[str, Column], described("The models that gave the columns.")
    ] = field(default_factory=dict)
    excluded: Annotated[
        list[str], described("Origins of hypotheses that may not win.")
    ] = field(default_factory=list)
    mixture: Annotated[Mixture | None, described("The votes of systems.")] = None
    metrics: Annotated[
        list[MetricResult], described("Figures; weights are for the first metric.")
    ] = field(default_factory=list)
    ref_words: Annotated[int | None, described("Words in the (first) references.")] = (
        None
    )
    dev: Annotated[
        Dev | None,
        described("Where the weights were tuned; null where they were given."),
    ] = None
    changed: Annotated[
        int, described("Utterances whose text is another one than the first pass's.")
    ] = 0
    decision: Annotated[str, described("How a text was chosen from each list.")] = (
        "best"
    )
    scale: Annotated[
        float | None,
        described("Of posteriors exp(scale * score), which decisions need."),
    ] = None
    deciding: Annotated[
        dict[str, str],
        described("Options of the decision that are not the usual ones."),
    ] = field(default_factory=dict)
    seconds: Annotated[
        float, described("Scoring, tuning and evaluation together, in seconds.")
    ] = 0.0
    stages: Annotated[dict[str, float], described("The seconds of each.")] = field(
        default_factory=dict
    )
    unboosted: Annotated[dict[str, float], described("Metrics without the boost.")] = (
        field(default_factory=dict)
    )
    plan: Annotated[list[str], described("The decisions, and why.")] = field(
        default_factory=list
    )

    @property
    def main(self) -> MetricResult | None:
        """The figures of the first metric; None where the lists have no references."""
        return self.metrics[0] if self.metrics else None

    @property
    def metric(self) -> str | None:
        """The name of the first metric."""
        return self.main.metric if self.main else None

    @property
    def first_pass(self) -> float | None:
        """The first metric of the first pass, in percent."""
        return self.main.first_pass if self.main else None

    @property
    def oracle(self) -> float | None:
        """The first metric of the best hypotheses, in percent."""
        return self.main.oracle if self.main else None

    @property
    def reranked(self) -> float | None:
        """The first metric of the texts that were chosen, in percent."""
        return self.main.reranked if self.main else None

    def _repr_html_(self) -> str:
        """For notebooks."""
        from rescore.reports.markup import html

        if not self.metrics:
            return f"<p>{counted(self.utterances, 'list')} without references</p>"
        tables = "".join(html(cells(measured)) for measured in self.metrics)
        return f"{tables}<p>{self.size}</p><code>{escape(self.signature)}</code>"

    def to_frame(self) -> Any:
        """A DataFrame with a row per utterance and the columns of `run --details`.

        Raises:
            UserError: neither pandas nor polars is installed, or the results come from
            a file.
        """
        from rescore.reports.markup import as_frame

        if not hasattr(self, "details"):
            raise UserError(
                "to_frame: a results file has no utterances; evaluate the lists again"
            )
        return as_frame(self.details())

    @property
    def size(self) -> str:
        """The number of lists and hypotheses, in words."""
        return (
            f"{counted(self.utterances, 'utterance')},"
            f" {counted(self.hypotheses, 'hypothesis')}"
        )

    def __str__(self) -> str:
        """What `rescore run` prints: the table, the weights, and why they are 0."""
        return render(self)

    def __repr__(self) -> str:
        """One line: the rest is in the fields."""
        number = counted(self.utterances, "list")
        figures = [
            f"{m.metric} {m.first_pass:.2f} -> {m.reranked:.2f} (oracle {m.oracle:.2f})"
            for m in self.metrics
        ]
        return (
            f"<Results: {', '.join(figures)}, {number}>"
            if figures
            else f"<Results: {number} without references>"
        )


def evaluate(metrics: Sequence[Metric], decided: Decided) -> Results:
    """Return first pass, oracle and reranked figures of decided lists.

    Args:
        metrics: The metrics; the first is the objective of tuning.
        decided: The lists, and the text chosen for each. Without references only their
            choice is reported.
    """
    lists, weights, decision = decided.lists, decided.weights, decided.decision
    first_pass = decided.first_pass
    pairs = list(zip(first_pass, decided.texts, strict=True))
    if not any(nbest.references for nbest in lists):
        metrics = ()
    metric = metrics[0] if metrics else None
    results = Results(
        utterances=len(lists),
        hypotheses=sum(len(nbest.hypotheses) for nbest in lists),
        weights=weights.weights,
        columns=origins(lists, weights.weights),
        excluded=list(weights.exclusions),
        mixture=weights.mixture,
        origin=str(weights.tuned),
        signature=str(sign(metric, lists, weights, decision)),
        decision=decision.name,
        scale=decision.scale,
        deciding=decision.signed,
        changed=sum(old != new for old, new in pairs),
        system=system_name(weights, decision.name),
    )
    results.details = lambda: details(metric, lists, first_pass, decided.texts)
    for each in metrics:
        signature = sign(each, lists, weights, decision)
        results.metrics.append(measure(each, lists, decided.texts, signature))
    results.unboosted = _unboosted(metrics, decided)
    results.dev = Dev.of(weights, results.main if decided.folded else None)
    if results.main:
        results.ref_words = _reference_words(results.main, lists)
    return results


def _unboosted(metrics: Sequence[Metric], decided: Decided) -> dict[str, float]:
    """Return the metrics without the bonus of listed words, if they have one."""
    if not metrics or decided.folded or not decided.weights.weighs(LISTED):
        return {}
    plain = decide(
        metrics[0], decided.lists, decided.weights.without(LISTED), decided.decision
    )
    return {each.name: text_value(each, plain.lists, plain.texts) for each in metrics}


def _reference_words(measured: MetricResult, lists: Sequence[NbestList]) -> int:
    """Return the number of words in the references, in the first of each list."""
    words = measured.counts["first_pass"].get("ref_words")
    if words is None:
        words = sum(len(nbest.header.words(nbest.references[0])) for nbest in lists)
    return int(words)


def system_name(weights: Weights, decision: str) -> str:
    """The method as tables name it: the models that have a weight (of a negative weight
    subtracted), and the decision, such as `tta-small, MBR`. Where nothing else is the
    method, models of weight 0 are named.
    """
    named = [
        *filter(weights.weighs, weights.language_models)
    ] or weights.language_models * (decision == "best")
    order = sorted(named, key=lambda name: weights.weights[name] < 0)
    models = " ".join(
        f"{'-' if weights.weights[name] < 0 else '+'} {name}" for name in order
    ).removeprefix("+ ")
    return ", ".join(filter(None, [models, decision_title(decision)])) or FIRST


def decision_title(decision: str) -> str:
    """A decision as tables name it; the best score has no name."""
    return "" if decision == "best" else decision.upper()


def render(results: Results) -> str:
    """The table of one run, its weights, its sets, and the signature."""
    lines = [
        line
        for measured in results.metrics
        for line in (text(cells(measured)), "", gain(measured), "")
    ][:-1]
    for rank, measured in enumerate(results.metrics):
        lines += worse(measured, not rank and results.dev is not None)
    lines.append(_weights(results))
    how = [
        f"{name.replace('-', ' ')} {text}" for name, text in results.deciding.items()
    ]
    if results.scale is not None:
        how.append(f"posteriors exp({results.scale:.4g} * score)")
    if how:
        lines.append(f"decision: {', '.join([results.decision, *how])}")
    if results.unboosted:
        changes = (
            f"{one.metric} {results.unboosted[one.metric]:.2f} -> {one.reranked:.2f}"
            for one in results.metrics
        )
        lines.append(f"the boost changes {', '.join(changes)}")
    words = (
        ""
        if results.ref_words is None
        else f", {counted(results.ref_words, 'reference word')}"
    )
    lines.append(
        f"{results.size}{words}; {counted(results.changed, 'utterance')} changed"
    )
    lines += [measured.signature for measured in results.metrics] or [results.signature]
    return "\n".join(lines)


def _weights(results: Results) -> str:
    """The weights, where they come from, and what they give on the lists that they were
    tuned on.
    """
    dev = results.dev
    moved = f"\n{dev.source}: {dev.first_pass:.2f} -> {dev.reranked:.2f}" if dev else ""
    if results.mixture:
        moved = f"\nvotes: {named(results.mixture)}" + moved
    # dev is of the scale, where a decision is tuned
    if set(results.weights) == {FIRST_PASS} and not results.excluded:
        origin = "" if results.origin == FIRST else f" ({results.origin})"
        return (
            f"weights: the {results.main.baseline if results.main else FIRST}"
            f" alone{origin}{moved}"
        )
    origin = (
        "tuned on all lists, to use on others"
        if dev and dev.fold_weights
        else results.origin
    )
    line = f"lambda: {named_weights(results.weights, results.excluded)} ({origin})"
    if dev is None:
        return line
    line += "".join(
        f"\n{note}"
        for note in notes(
            [results.weights], results.columns, dev.with_all, dev.reranked
        )
    )
    if dev.fold_weights:
        folds = "; ".join(
            named_weights(fold.weights, fold.excluded) for fold in dev.fold_weights
        )
        line, moved = (
            f"{line}\nweights of each fold, tuned on the other folds: {folds}",
            "",
        )
    if reason := "".join(
        zero(dev, results.weights, results.metric or "metric", results.decision)
    ):
        return f"{line}{'' if results.decision == 'best' else moved}\n{reason}"
    # a scale moves with them
    if dev.low is None or dev.high is None or results.decision != "best":
        return line + moved
    return (
        f"{line}{moved}, the same for any lambda from {dev.low:.4g} to {dev.high:.4g}"
    )


def zero(
    dev: Dev | None, weights: Mapping[str, float], metric: str, decision: str
) -> Iterator[str]:
    """Why all weights that were tuned are 0, if they are: one line."""
    if dev and {weight for name, weight in weights.items() if name != FIRST_PASS} == {
        0.0
    }:
        yield why_zero(
            dev.unproven,
            metric,
            dev.first_pass,
            "all lists" if dev.fold_weights else dev.source,
            decision,
        )
