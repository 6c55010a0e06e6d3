"""Similarities for a person."""

from __future__ import annotations

from collections.abc import Sequence

from rescore.evaluation.similarity import Correlations, WordAccuracy
from rescore.reporting.styles import text


def render(found: Sequence[Correlations]) -> str:
    """A row a model, then the signatures."""
    rows = [["", "Pearson", "95 % CI", "Spearman", "95 % CI"]]
    for one in found:
        bounds = ["{:.1f}-{:.1f}".format(*interval) for interval in (one.pearson_interval, one.spearman_interval)]
        rows.append([one.name, f"{one.pearson:.1f}", bounds[0], f"{one.spearman:.1f}", bounds[1]])
    return "\n".join(
        [text(rows), "", f"{found[0].pairs:,} pairs; correlations times 100", *(x.signature for x in found)]
    )


def render_words(found: Sequence[WordAccuracy]) -> str:
    """A row a model, then the signatures."""
    rows = [["", "accuracy", "best threshold"]]
    rows += [[one.name, f"{one.accuracy:.1f}", f"{one.best:.1f}"] for one in found]
    about = f"{found[0].pairs:,} pairs; percent, thresholds tuned in ten folds, and on the set itself"
    return "\n".join([text(rows), "", about, *(one.signature for one in found)])
