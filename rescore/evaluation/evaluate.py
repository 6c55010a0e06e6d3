"""The figures of lists under given weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rescore import decision
from rescore.decision import Decision
from rescore.evaluation.results import Measured, Results
from rescore.evaluation.significance import Chosen, PairedTest
from rescore.metrics import Metric, list_statistics, oracle, value
from rescore.metrics.base import Counts, compared
from rescore.metrics.resampling import confidence_interval
from rescore.nbest import COMBINED, FIRST_PASS, NbestList
from rescore.signature import Signature, origins
from rescore.tuning.weights import Weights
from rescore.version import VERSION


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
    found = _measure(metric, lists, weights, decide, first, texts)
    for name in FIGURES:
        setattr(results, name, getattr(found, name))
    words = results.counts["first_pass"].get("ref_words")
    results.ref_words = int(sum(len(nbest.references[0].split()) for nbest in lists) if words is None else words)
    results.also = [_measure(other, lists, weights, decide, first, texts) for other in also]
    return results, texts


FIGURES = (
    "metric", "higher_is_better", "first_pass", "oracle", "reranked", "p_value", "counts", "wrong_utterances",
    "intervals",
)  # fmt: skip
"""What a metric says of chosen texts."""


def _measure(
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
        "oracle": choose(lists, statistics, oracle(metric, original(lists, statistics))),
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
        wrong_utterances={
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


def original(lists: Sequence[NbestList], statistics: Sequence[Counts]) -> list[Counts]:
    """The statistics of what the toolkit gave, which stands before what was combined from it: the oracle is theirs."""
    return [
        rows[: sum(not hypothesis.scores.get(COMBINED) for hypothesis in nbest.hypotheses)]
        for nbest, rows in zip(lists, statistics, strict=True)
    ]


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
    shown = [compared(metric, nbest, text) for nbest, text in zip(lists, texts, strict=True)]
    rows = metric.statistics(shown, [nbest.references for nbest in lists])
    return [Chosen(text, counts) for text, counts in zip(texts, rows, strict=True)]


def choose(lists: Sequence[NbestList], statistics: Sequence[Counts], choice: Sequence[int]) -> list[Chosen]:
    """The hypotheses chosen from lists, with their statistics."""
    return [
        Chosen(nbest.hypotheses[index].text, rows[index])
        for nbest, rows, index in zip(lists, statistics, choice, strict=True)
    ]
