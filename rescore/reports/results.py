"""What a run found, in full precision: the figures, and everything one needs to know how they came about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Annotated

from rescore import decision
from rescore.decision import Decision
from rescore.metrics import Metric
from rescore.nbest import COUNTS, FIRST_PASS, Column, NbestList
from rescore.reports.figures import CHOICES, Measured, described, gain, measure, sign, table
from rescore.signature import origins
from rescore.tuning.weights import Weights, bonus_phrases

SCHEMA = "rescore/results/3"
"""Format and version of a results file; the number changes where old readers would fail."""


@dataclass(slots=True)
class Dev:
    """Where the weights were tuned, and what they gave there."""

    source: Annotated[str, described("Path or name of the lists.")]
    utterances: Annotated[int, described("Dev lists.")]
    first_pass: Annotated[float, described("The metric of the first pass, in percent.")]
    reranked: Annotated[float, described("The metric with the tuned weights, in percent.")]
    low: Annotated[float | None, described("A single weight is as good from here ...")] = None
    high: Annotated[float | None, described("... to here.")] = None


@dataclass(slots=True, repr=False)
class Results:
    """The figures of one run. Those of a metric are None or empty where the lists have no references."""

    utterances: Annotated[int, described("Test lists.")]
    hypotheses: Annotated[int, described("Hypotheses in them.")]
    weights: Annotated[
        dict[str, float],
        described("The weight of each column of scores; those of words and tokens are added for each word or token."),
    ]
    origin: Annotated[str, described("Where the weights come from, in words.")]
    signature: Annotated[
        str,
        described("All that is needed to get the figures again: metric and settings, models, weights, versions."),
    ]
    schema: Annotated[str, described("Format and version of this file.")] = SCHEMA
    dataset: Annotated[str | None, described("The test lists' name in tables.")] = None
    system: Annotated[str | None, described("The output's name in tables.")] = None
    columns: Annotated[
        dict[str, Column], described("Which model gave each column that has a weight, as far as it is known.")
    ] = field(default_factory=dict)
    conditions: Annotated[dict[str, dict[str, float]], described("Weights by condition, where there are some.")] = (
        field(default_factory=dict)
    )
    metrics: Annotated[
        list[Measured],
        described("The figures under each metric; the first is what weights are tuned for. Empty without references."),
    ] = field(default_factory=list)
    ref_words: Annotated[int | None, described("Words in the (first) references.")] = None
    dev: Annotated[Dev | None, described("Where the weights were tuned; null where they were given.")] = None
    changed: Annotated[int, described("Utterances whose text is another one than the first pass's.")] = 0
    decision: Annotated[str, described("How a text was chosen from each list.")] = "best"
    scale: Annotated[
        float | None, described("Of the posteriors exp(scale * score), where the decision needs them.")
    ] = None
    seconds: Annotated[float, described("Scoring, tuning and evaluation together, in seconds.")] = 0.0
    stages: Annotated[dict[str, float], described("The seconds of each.")] = field(default_factory=dict)

    @property
    def main(self) -> Measured | None:
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
        if self.main is None:
            return f"<p>{self.utterances:,} lists without references</p>"
        cells = "".join(
            f"<tr><td>{choice.replace('_', ' ')}</td>"
            + "".join(f"<td>{getattr(one, choice):.2f}</td>" for one in self.metrics)
            + "</tr>"
            for choice in CHOICES
        )
        heads = "".join(f"<th>{escape(one.metric)}</th>" for one in self.metrics)
        head = f"<tr><th>{self.utterances:,} lists</th>{heads}</tr>"
        return f"<table>{head}{cells}</table><code>{escape(self.signature)}</code>"

    def __repr__(self) -> str:
        """One line: the rest is in the fields."""
        figures = ", ".join(
            f"{one.metric} {one.first_pass:.2f} -> {one.reranked:.2f} (oracle {one.oracle:.2f})" for one in self.metrics
        )
        return (
            f"<Results: {figures}, {self.utterances} lists>"
            if figures
            else f"<Results: {self.utterances} lists without references>"
        )


def evaluate(
    metric: Metric | None,
    lists: Sequence[NbestList],
    weights: Weights,
    decide: Decision | None = None,
    texts: list[str] | None = None,
    also: Sequence[Metric] = (),
) -> tuple[Results, list[str]]:
    """First pass, oracle and reranked figures of lists under given weights, and the text chosen for each list.

    Args:
        metric: None for lists without references: then only the choice is made.
        decide: how a text is chosen; None for what the weights were tuned for. texts: what was chosen already, in
            another way. also: further metrics of the same texts.
    """
    decide = decide or weights.decision
    first = decision.best(lists, {FIRST_PASS: 1.0})
    if texts is None:
        texts = decide.texts(metric, lists, weights.of)
    before = [nbest.hypotheses[index].text for nbest, index in zip(lists, first, strict=True)]
    if not any(nbest.references for nbest in lists):
        metric = None
    signature = sign(metric, lists, weights, decide)
    results = Results(
        utterances=len(lists),
        hypotheses=sum(len(nbest.hypotheses) for nbest in lists),
        weights=weights.weights,
        columns=origins(lists, weights.weights),
        conditions=weights.conditions,
        origin=weights.origin,
        signature=str(signature),
        decision=decide.name,
        scale=decide.scale,
        changed=sum(old != new for old, new in zip(before, texts, strict=True)),
    )
    if metric is None:
        return results, texts
    results.metrics = [measure(one, lists, weights, decide, first, texts) for one in (metric, *also)]
    words = results.metrics[0].counts["first_pass"].get("ref_words")
    results.ref_words = int(sum(len(nbest.references[0].split()) for nbest in lists) if words is None else words)
    return results, texts


def system_name(weights: Weights, columns: Mapping[str, Column], decision: str) -> str:
    """The language models as tables name them together, without norms: those of a negative weight are subtracted."""
    order = sorted(weights.language_models, key=lambda name: weights.weights[name] < 0)
    if not order:
        return decision if decision != "best" else "first pass"
    names = [name.removesuffix(f".{columns[name].norm}") if name in columns else name for name in order]
    if len(set(names)) < len(names):
        names = order
    signs = ["-" if weights.weights[name] < 0 else "+" for name in order]
    return " ".join(f"{sign} {name}" for sign, name in zip(signs, names, strict=True)).removeprefix("+ ")


def render(results: Results) -> str:
    """The table of one run, its weights, its sets, and the signature."""
    lines = [line for one in results.metrics for line in (table(one), "", gain(one), "")][:-1]
    lines.append(_weights(results))
    if results.scale is not None:
        lines.append(f"decision: {results.decision}, posteriors exp({results.scale:.4g} * score)")
    words = "" if results.ref_words is None else f", {results.ref_words:,} reference words"
    lines.append(
        f"{results.utterances:,} utterances, {results.hypotheses:,} hypotheses{words}; "
        f"{results.changed:,} utterances changed"
    )
    lines += [one.signature for one in results.metrics] or [results.signature]
    return "\n".join(lines)


def _weights(results: Results) -> str:
    if set(results.weights) == {FIRST_PASS}:
        return "weights: the first pass alone" + ("" if results.origin == "first pass" else f" ({results.origin})")
    line = f"lambda: {_named(results.weights)} ({results.origin})"
    for name, weights in results.conditions.items():
        line += f"\n  for {name}: {_named(weights)}"
    dev = results.dev
    if dev is None:
        return line
    if all(weight == 0 for name, weight in results.weights.items() if name != FIRST_PASS):
        return (
            f"{line}\nthe LM does not help on this set: no weight above 0 is better than the first pass on {dev.source}"
        )
    line = f"{line}\n{dev.source}: {dev.first_pass:.2f} -> {dev.reranked:.2f}"
    if dev.low is None or dev.high is None or results.decision != "best":  # a scale moves with them
        return line
    return f"{line}, the same for any lambda from {dev.low:.4g} to {dev.high:.4g}"


def _named(weights: dict[str, float]) -> str:
    parts = [f"{name} {weight:.4g}" for name, weight in weights.items() if name not in (FIRST_PASS, *COUNTS)]
    return ", ".join(parts + bonus_phrases(weights, "+.4g"))
