"""What one metric says of chosen texts: the first pass, the oracle, the reranked output, and how sure that is.

Every report stands on these figures: `Measured` is the record, `measure` computes it, `table` and `gain` render it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from rescore.decision import Decision
from rescore.formats import ReadOptions, lattices
from rescore.formats.source import Source
from rescore.metrics import Metric, list_statistics, oracle, value
from rescore.metrics.base import Counts, metric_input
from rescore.metrics.resampling import confidence_interval
from rescore.metrics.significance import Chosen, PairedTest
from rescore.nbest import NbestList, given_places
from rescore.reports.styles import p_value, text
from rescore.signature import Signature, origins
from rescore.tuning.weights import Weights
from rescore.version import VERSION

CountsByName = dict[str, int | float]

SHORT = {
    "substitutions": "sub",
    "deletions": "del",
    "insertions": "ins",
    "hyp_words": "hyp words",
    "ref_words": "ref words",
    "listed_words": "listed words",
    "other_words": "other words",
}


def described(text: str) -> Any:
    """A field's description, which the JSON schema has, too."""
    return Meta(description=text)


CHOICES = ("first_pass", "oracle", "reranked")
"""What is measured of each list: the first pass's best, the best of all, and the text that was chosen."""


@dataclass(slots=True)
class Measured:
    """The texts of a run under one metric."""

    metric: Annotated[str, described("Its name.")]
    higher_is_better: Annotated[bool, described("Whether a higher value is the better one.")]
    first_pass: Annotated[float, described("Of the first pass, in percent.")]
    oracle: Annotated[float, described("Of the best hypothesis of each list under this metric, in percent.")]
    reranked: Annotated[float, described("Of the texts that were chosen, in percent.")]
    p_value: Annotated[float | None, described("Two-sided, of the difference between reranked and first pass.")]
    counts: Annotated[dict[str, CountsByName], described("The counts behind first_pass, oracle and reranked.")]
    sentence_errors: Annotated[dict[str, int], described("Utterances with an error, of each; WER and CER only.")]
    intervals: Annotated[
        dict[str, tuple[float, float]],
        described("95 % confidence intervals by bootstrap over utterances, in percent."),
    ]
    signature: Annotated[str, described("All that is needed to get the figures again.")]
    lattice_oracle: Annotated[
        float | None, described("WER of the path nearest to the reference in each lattice, where lattices were read.")
    ] = None


def measure(
    metric: Metric,
    lists: Sequence[NbestList],
    weights: Weights,
    decide: Decision,
    first: Sequence[int],
    texts: Sequence[str],
) -> Measured:
    """One metric of the first pass, the oracle, and the texts that were chosen."""
    statistics = list_statistics(metric, lists)
    chosen = {
        "first_pass": choose(lists, statistics, first),
        "oracle": choose(lists, statistics, oracle_places(metric, lists, statistics)),
        "reranked": measured(metric, lists, texts),
    }
    sums = {name: np.sum([one.counts for one in choice], axis=0) for name, choice in chosen.items()}
    values = {name: value(metric, counts) for name, counts in sums.items()}
    changed = any(old.text != new.text for old, new in zip(chosen["first_pass"], chosen["reranked"], strict=True))
    return Measured(
        metric=metric.name,
        higher_is_better=metric.higher_is_better,
        **values,
        p_value=PairedTest().p_value(metric, lists, chosen["first_pass"], chosen["reranked"]) if changed else None,
        counts={name: metric.details(counts) for name, counts in sums.items()},
        sentence_errors={
            name: int((metric.losses(np.stack([one.counts for one in choice])) > 0).sum())
            for name, choice in chosen.items()
            if metric.words is not None
        },
        intervals={
            name: confidence_interval(metric, [one.counts for one in chosen[name]])
            for name in ("first_pass", "reranked")
        },
        signature=str(sign(metric, lists, weights, decide)),
    )


def oracle_places(metric: Metric, lists: Sequence[NbestList], statistics: Sequence[Counts]) -> list[int]:
    """The place of the best hypothesis of each list, of those that the toolkit gave: the oracle is theirs."""
    places = [given_places(nbest) for nbest in lists]
    best = oracle(metric, [rows[own] for rows, own in zip(statistics, places, strict=True)])
    return [own[index] for own, index in zip(places, best, strict=True)]


def lattice_oracle(
    metric: Metric, lists: Sequence[NbestList], paths: Sequence[str], options: ReadOptions
) -> float | None:
    """The WER of the path nearest to the reference in each lattice, in percent; the files are read once more.

    None for other metrics, for normalisation beyond single words, and where a list does not come from a lattice of
    words in a file.
    """
    normaliser = metric.words
    if metric.name != "WER" or normaliser is None or normaliser.glm or normaliser.whisper_english:
        return None
    references = {nbest.id: nbest.references for nbest in lists}
    errors: dict[str, tuple[int, int]] = {}
    for path in paths:
        if not Path(path).exists() or not lattices.sniff(source := Source(path)):
            return None
        errors |= lattices.fewest_errors(source, options, references, normaliser)
    if errors.keys() != references.keys():
        return None
    wrong, words = np.sum(list(errors.values()), axis=0).tolist()
    return 100.0 * wrong / words if words else None


def sign(
    metric: Metric | None,
    lists: Sequence[NbestList],
    weights: Weights,
    decide: Decision | None = None,
    test: PairedTest | None = None,
) -> Signature:
    """The signature of the figures of lists under weights.

    Raises:
        UserError: a column comes from one model in some lists and from another one in others.
    """
    decide = decide or weights.decision
    return Signature(
        metric=metric.name if metric else "none",
        settings=metric.settings if metric else {},
        weights=weights.weights,
        conditions=weights.conditions,
        columns=origins(lists, weights.weights),
        decision=decide.name,
        scale=decide.scale,
        tuned=weights.tuned,
        test=test.signature if test else None,
        versions={"rescore": VERSION, **(metric.versions if metric else {})},
    )


def measured(metric: Metric, lists: Sequence[NbestList], texts: Sequence[str]) -> list[Chosen]:
    """Texts chosen for lists, with their statistics."""
    shown = [metric_input(metric, nbest, text) for nbest, text in zip(lists, texts, strict=True)]
    rows = metric.statistics(shown, [nbest.references for nbest in lists])
    return [Chosen(text, counts) for text, counts in zip(texts, rows, strict=True)]


def choose(lists: Sequence[NbestList], statistics: Sequence[Counts], choice: Sequence[int]) -> list[Chosen]:
    """The hypotheses chosen from lists, with their statistics."""
    return [
        Chosen(nbest.hypotheses[index].text, rows[index])
        for nbest, rows, index in zip(lists, statistics, choice, strict=True)
    ]


def table(found: Measured) -> str:
    """The three figures with their confidence intervals and counts."""
    return text(cells(found))


def cells(found: Measured) -> list[list[str]]:
    """The rows of the table."""
    names = [name for name in next(iter(found.counts.values())) if name not in ("ref_words", "ref_characters")]
    rows = [["", found.metric, "95 % CI", *(SHORT.get(name, name) for name in names)]]
    for choice in CHOICES:
        bounds = "{:.2f}-{:.2f}".format(*found.intervals[choice]) if choice in found.intervals else ""
        counts = (f"{found.counts[choice][name]:,}" for name in names)
        rows.append([choice.replace("_", " "), f"{getattr(found, choice):.2f}", bounds, *counts])
        if choice == "oracle" and found.lattice_oracle is not None:
            rows.append(["lattice oracle", f"{found.lattice_oracle:.2f}", *[""] * (len(names) + 1)])
    return rows


def gain(found: Measured) -> str:
    """By how much reranking changed the figure, and how sure that is: one line."""
    difference = found.reranked - found.first_pass
    if found.p_value is None and not difference:
        return f"{found.metric} unchanged"
    relative = f", {100 * difference / found.first_pass:+.1f} % relative" if found.first_pass else ""
    p = "" if found.p_value is None else f", p = {p_value(found.p_value)}".replace("= <", "< ")
    return f"{found.metric} {difference:+.2f}{relative}{p}"
