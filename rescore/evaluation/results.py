"""What a run found, in full precision: the figures, and everything one needs to know how they came about."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from html import escape
from pathlib import Path
from typing import IO, Annotated, Any

from msgspec import Meta

from rescore.errors import UserError
from rescore.files import parsed, read_json
from rescore.nbest import Column
from rescore.signature import Signature

Details = dict[str, int | float]

SCHEMA = "rescore/results/2"
"""Format and version; `schema()` describes it. The number changes where old readers would fail."""


def described(text: str) -> Any:
    """A field's description, which the JSON schema has, too."""
    return Meta(description=text)


@dataclass(slots=True)
class Dev:
    """Where the weights were tuned, and what they gave there."""

    source: Annotated[str, described("Path or name of the lists.")]
    utterances: Annotated[int, described("Dev lists.")]
    first_pass: Annotated[float, described("The metric of the first pass, in percent.")]
    reranked: Annotated[float, described("The metric with the tuned weights, in percent.")]
    low: Annotated[float | None, described("A single weight is as good from here ...")] = None
    high: Annotated[float | None, described("... to here.")] = None


@dataclass(slots=True)
class Measured:
    """The same texts under another metric."""

    metric: Annotated[str, described("Its name.")]
    higher_is_better: Annotated[bool, described("Whether a higher value is the better one.")]
    first_pass: Annotated[float, described("Of the first pass, in percent.")]
    oracle: Annotated[float, described("Of the best hypothesis of each list under this metric, in percent.")]
    reranked: Annotated[float, described("Of the texts that were chosen, in percent.")]
    p_value: Annotated[float | None, described("Two-sided, of the difference between reranked and first pass.")]
    counts: Annotated[dict[str, Details], described("The counts behind first_pass, oracle and reranked.")]
    wrong_utterances: Annotated[dict[str, int], described("Utterances with an error, of each; WER and CER only.")]
    intervals: Annotated[
        dict[str, tuple[float, float]],
        described("95 % confidence intervals by bootstrap over utterances, in percent."),
    ]
    signature: Annotated[str, described("All that is needed to get the figures again.")]


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
