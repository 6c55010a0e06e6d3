"""What a run found, in full precision: the figures, and everything one needs to know how they came about."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import IO, Annotated, Any

from rescore import decision
from rescore.decision import Decision
from rescore.errors import UserError
from rescore.files import parsed, read_json
from rescore.metrics import Metric
from rescore.nbest import COUNTS, FIRST_PASS, Column, NbestList
from rescore.reports.figures import SHORT, Details, Measured, described, measure, sign
from rescore.reports.styles import p_value, text
from rescore.signature import Signature, origins
from rescore.tuning.weights import Weights

SCHEMA = "rescore/results/2"
"""Format and version; `schema()` describes it. The number changes where old readers would fail."""


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
    metric: Annotated[str | None, described("The metric's name; null without references.")] = None
    higher_is_better: Annotated[bool, described("Whether a higher value of the metric is the better one.")] = False
    first_pass: Annotated[float | None, described("The metric of the first pass's best hypotheses, in percent.")] = None
    oracle: Annotated[float | None, described("The metric of the best hypothesis of each list, in percent.")] = None
    reranked: Annotated[float | None, described("The metric of the texts that were chosen, in percent.")] = None
    p_value: Annotated[
        float | None, described("Two-sided p-value of the difference between reranked and first pass.")
    ] = None
    ref_words: Annotated[int | None, described("Words in the (first) references.")] = None
    counts: Annotated[dict[str, Details], described("The counts behind first_pass, oracle and reranked.")] = field(
        default_factory=dict
    )
    wrong_utterances: Annotated[dict[str, int], described("Utterances with an error, of each; WER and CER only.")] = (
        field(default_factory=dict)
    )
    intervals: Annotated[
        dict[str, tuple[float, float]],
        described("95 % confidence intervals by bootstrap over utterances, in percent."),
    ] = field(default_factory=dict)
    also: Annotated[list[Measured], described("Further metrics of the same texts.")] = field(default_factory=list)
    dev: Annotated[Dev | None, described("Where the weights were tuned; null where they were given.")] = None
    changed: Annotated[int, described("Utterances whose text is another one than the first pass's.")] = 0
    decision: Annotated[str, described("How a text was chosen from each list.")] = "best"
    scale: Annotated[
        float | None, described("Of the posteriors exp(scale * score), where the decision needs them.")
    ] = None
    seconds: Annotated[float, described("Scoring, tuning and evaluation together, in seconds.")] = 0.0
    stages: Annotated[dict[str, float], described("The seconds of each.")] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """For notebooks."""
        if self.metric is None or self.first_pass is None:
            return f"<p>{self.utterances:,} lists without references</p>"
        rows = [("first pass", self.first_pass), ("reranked", self.reranked), ("oracle", self.oracle)]
        cells = "".join(f"<tr><td>{name}</td><td>{value:.2f}</td></tr>" for name, value in rows if value is not None)
        return (
            f"<table><tr><th>{self.utterances:,} lists</th><th>{escape(self.metric)}</th></tr>{cells}</table>"
            f"<code>{escape(self.signature)}</code>"
        )

    def __repr__(self) -> str:
        """One line: the rest is in the fields."""
        if self.metric is None or self.first_pass is None or self.reranked is None or self.oracle is None:
            return f"<Results: {self.utterances} lists without references>"
        return (
            f"<Results: {self.metric} {self.first_pass:.2f} -> {self.reranked:.2f} (oracle {self.oracle:.2f}), "
            f"{self.utterances} lists>"
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
    found = measure(metric, lists, weights, decide, first, texts)
    for name in FIGURES:
        setattr(results, name, getattr(found, name))
    words = results.counts["first_pass"].get("ref_words")
    results.ref_words = int(sum(len(nbest.references[0].split()) for nbest in lists) if words is None else words)
    results.also = [measure(other, lists, weights, decide, first, texts) for other in also]
    return results, texts


FIGURES = (
    "metric", "higher_is_better", "first_pass", "oracle", "reranked", "p_value", "counts", "wrong_utterances",
    "intervals",
)  # fmt: skip
"""What a metric says of chosen texts."""


def schema() -> dict[str, Any]:
    """The JSON schema of a results file, made from the fields above."""
    import msgspec

    _, parts = msgspec.json.schema_components([Results], ref_template="#/$defs/{name}")
    body = parts.pop("Results")
    properties = body["properties"] | {"schema": {"const": SCHEMA, "description": "Format and version of this file."}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **body,
        "properties": properties,
        "additionalProperties": False,
        "$defs": parts,
    }


def write(results: Results, file: IO[str]) -> None:
    """Write a results file: one JSON object, keys as the fields of `Results`."""
    file.write(json.dumps(asdict(results), indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read(path: Path) -> Results:
    """Read a results file.

    Raises:
        UserError: it is absent, not JSON, of another schema, has a field of the wrong kind, or no figures.
    """
    values = read_json(path)
    if not isinstance(values, dict) or values.get("schema") != SCHEMA:
        found = values.get("schema") if isinstance(values, dict) else None
        raise UserError(f"{path}: schema is {found!r}, not {SCHEMA!r}; expected what `rescore run --report` wrote")
    results = parsed(values, Results, str(path))
    for name in ("first_pass", "oracle", "reranked"):
        value = getattr(results, name)
        if value is not None and not math.isfinite(value):
            raise UserError(f"{path}: {name} is {value}, not a number")
    if results.metric is None:
        raise UserError(f"{path}: has no figures; the lists had no references")
    try:
        Signature.parse(results.signature)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return results


def render(results: Results) -> str:
    """The table of one run, its weights, its sets, and the signature."""
    lines = []
    if results.metric is not None:
        lines += [_figures(results), ""]
        lines.append(_gain(results))
        for one in results.also:
            lines += ["", _figures(one), "", _gain(one)]
    lines.append(_weights(results))
    if results.scale is not None:
        lines.append(f"decision: {results.decision}, posteriors exp({results.scale:.4g} * score)")
    words = "" if results.ref_words is None else f", {results.ref_words:,} reference words"
    lines.append(
        f"{results.utterances:,} utterances, {results.hypotheses:,} hypotheses{words}; "
        f"{results.changed:,} utterances changed"
    )
    lines.append(results.signature)
    lines += [one.signature for one in results.also]
    return "\n".join(lines)


def _figures(results: Results | Measured) -> str:
    assert results.metric is not None
    counts = results.counts
    names = [name for name in next(iter(counts.values())) if name not in ("ref_words", "ref_characters")]
    rows = [["", results.metric, "95 % CI", *(SHORT.get(name, name) for name in names)]]
    for label, value in (
        ("first pass", results.first_pass),
        ("oracle", results.oracle),
        ("reranked", results.reranked),
    ):
        details = counts[label.replace(" ", "_")]
        interval = results.intervals.get(label.replace(" ", "_"))
        bounds = "{:.2f}-{:.2f}".format(*interval) if interval else ""
        rows.append([label, f"{value:.2f}", bounds, *(f"{details[name]:,}" for name in names)])
    return text(rows)


def _gain(results: Results | Measured) -> str:
    assert results.first_pass is not None and results.reranked is not None and results.metric is not None
    difference = results.reranked - results.first_pass
    if results.p_value is None and not difference:
        return f"{results.metric} unchanged"
    relative = f", {100 * difference / results.first_pass:+.1f} % relative" if results.first_pass else ""
    p = "" if results.p_value is None else f", p = {p_value(results.p_value)}".replace("= <", "< ")
    return f"{results.metric} {difference:+.2f}{relative}{p}"


def _weights(results: Results) -> str:
    if set(results.weights) == {FIRST_PASS}:
        return f"weights: the first pass alone ({results.origin})"
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
    if dev.low is None or dev.high is None:
        return line
    return f"{line}, the same for any lambda from {dev.low:.4g} to {dev.high:.4g}"


def _named(weights: dict[str, float]) -> str:
    parts = [f"{name} {weight:.4g}" for name, weight in weights.items() if name not in (FIRST_PASS, *COUNTS)]
    return ", ".join(parts + [f"{weights[name]:+.4g} a {unit}" for name, unit in COUNTS.items() if name in weights])
