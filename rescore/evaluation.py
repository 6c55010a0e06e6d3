"""The figures of lists under given weights, and of outputs that are there already."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rescore import decision
from rescore.decision.decide import Decision
from rescore.errors import UserError
from rescore.metrics import ErrorRate, Metric, list_statistics, oracle, total, value
from rescore.metrics.base import Counts
from rescore.metrics.significance import Chosen, PairedTest, confidence_interval
from rescore.metrics.wer import REFERENCE
from rescore.nbest import FIRST_PASS, NbestList
from rescore.reporting.results import Results
from rescore.reporting.systems import System, Systems
from rescore.tuning.weights import Weights
from rescore.version import VERSION


def evaluate(
    metric: Metric | None,
    lists: Sequence[NbestList],
    weights: Weights,
    signature: Sequence[str] = (),
    decide: Decision | None = None,
    texts: list[str] | None = None,
) -> tuple[Results, list[str]]:
    """First pass, oracle and reranked figures of lists under given weights, and the text chosen for each list.

    Args:
        metric: None for lists without references: then only the choice is made.
        signature: what else a reader has to know to get the same figures again.
        decide: how a text is chosen; None for the best hypothesis. texts: what was chosen already, in another way.
    """
    decide = decide or Decision()
    first = decision.best(lists, {FIRST_PASS: 1.0})
    if texts is None:
        texts = decide.texts(metric, lists, weights.of)
    before = [nbest.hypotheses[index].text for nbest, index in zip(lists, first, strict=True)]
    if not any(nbest.references for nbest in lists):
        metric = None
    parts = [*([metric.signature] if metric else []), *signature, *decide.signature, f"rescore:{VERSION}"]
    results = Results(
        utterances=len(lists),
        hypotheses=sum(len(nbest.hypotheses) for nbest in lists),
        weights=weights.columns,
        conditions=weights.conditions,
        origin=weights.origin,
        signature="|".join(parts),
        decision=decide.name,
        scale=decide.scale,
        changed=sum(old != new for old, new in zip(before, texts, strict=True)),
    )
    if metric is None:
        return results, texts
    statistics = list_statistics(metric, lists)
    chosen = {
        "first_pass": choose(lists, statistics, first),
        "oracle": choose(lists, statistics, oracle(metric, statistics)),
        "reranked": measured(metric, lists, texts),
    }
    sums = {name: np.sum([one.counts for one in choice], axis=0) for name, choice in chosen.items()}
    results.metric, results.higher_is_better = metric.name, metric.higher_is_better
    results.first_pass, results.oracle, results.reranked = (value(metric, sums[name]) for name in sums)
    results.counts = {name: metric.details(counts) for name, counts in sums.items()}
    words = results.counts["first_pass"].get("ref_words")
    results.ref_words = int(sum(len(nbest.references[0].split()) for nbest in lists) if words is None else words)
    if isinstance(metric, ErrorRate):
        results.wrong_utterances = {
            name: sum(bool(one.counts[:REFERENCE].any()) for one in choice) for name, choice in chosen.items()
        }
    for name in ("first_pass", "reranked"):
        results.intervals[name] = confidence_interval(metric, [one.counts for one in chosen[name]])
    if results.changed:
        results.p_value = PairedTest().p_value(metric, lists, chosen["first_pass"], chosen["reranked"])
    return results, texts


def weights_signature(weights: Weights) -> list[str]:
    """The part of a signature for lists that came with their scores: which models gave them is not known."""
    parts = [f"{name}={weight:.6g}" for name, weight in weights.columns.items() if name != FIRST_PASS]
    return [*parts, weights.origin]


def measured(metric: Metric, lists: Sequence[NbestList], texts: Sequence[str]) -> list[Chosen]:
    """Texts chosen for lists, with their statistics."""
    rows = metric.statistics(texts, [nbest.references for nbest in lists])
    return [Chosen(text, counts) for text, counts in zip(texts, rows, strict=True)]


def choose(lists: Sequence[NbestList], statistics: Sequence[Counts], choice: Sequence[int]) -> list[Chosen]:
    """The hypotheses chosen from lists, with their statistics."""
    return [
        Chosen(nbest.hypotheses[index].text, rows[index])
        for nbest, rows, index in zip(lists, statistics, choice, strict=True)
    ]


def compare_outputs(
    outputs: Sequence[tuple[str, Sequence[NbestList]]], metric: Metric, test: PairedTest | None = None
) -> Systems:
    """The figures of several outputs for the same utterances, each with a p-value against the first.

    Raises:
        UserError: an output lacks an utterance that the first has, or has one more.
    """
    test = test or PairedTest()
    systems = Systems(
        metric.name, f"{metric.signature}|rescore:{VERSION}", test.signature if len(outputs) > 1 else None
    )
    base: dict[str, Chosen] = {}
    for name, lists in outputs:
        statistics = list_statistics(metric, lists)
        first = decision.best(lists, {FIRST_PASS: 1.0})
        chosen = dict(zip((one.id for one in lists), choose(lists, statistics, first), strict=True))
        if base and base.keys() != chosen.keys():
            other = sorted(base.keys() ^ chosen.keys())[0]
            raise UserError(
                f"{name}: utterance {other} is in one of {outputs[0][0]} and {name} only; compare the same set"
            )
        sums = total(statistics, first)
        low, high = confidence_interval(metric, [one.counts for one in chosen.values()])
        system = System(name, value(metric, sums), metric.details(sums), len(lists), low, high)
        if any(len(one.hypotheses) > 1 for one in lists):
            system.oracle = value(metric, total(statistics, oracle(metric, statistics)))
        if base:
            same_order = [chosen[key] for key in base]
            system.p_value = test.p_value(metric, outputs[0][1], list(base.values()), same_order)
        base = base or chosen
        systems.systems.append(system)
    return systems
