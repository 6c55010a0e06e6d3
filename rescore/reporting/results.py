"""Results for a person at a terminal."""

from __future__ import annotations

from rescore.evaluation.results import Measured, Results
from rescore.nbest import COUNTS, FIRST_PASS
from rescore.reporting.styles import p_value, text

SHORT = {
    "substitutions": "sub",
    "deletions": "del",
    "insertions": "ins",
    "hyp_words": "hyp words",
    "ref_words": "ref words",
}


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
