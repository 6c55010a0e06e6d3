"""Perplexities of plain text, for a person and for a program."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import IO

from rescore.evaluation.perplexity import TextScore
from rescore.reporting.styles import text

DOUBTFUL = 1000.0
"""How many times the median a mean may be before nobody should look at it."""


def render(scores: Sequence[TextScore]) -> str:
    """A row a language model, then what the columns are."""
    head = ["", "tokens", "unknown", "log p", "PPL/token", "mean", "median", "PPL/word", "mean", "median"]
    rows = [head]
    for score in scores:
        counts = [f"{score.tokens:,}", f"{score.unknown:,}", f"{score.log_prob:,.1f}"]
        values = [
            f"{value:,.2f}"
            for each in (score.by_token, score.by_word)
            for value in (each.corpus, each.mean, each.median)
        ]
        rows.append([score.lm, *counts, *values])
    lines = [
        text(rows),
        "",
        f"{scores[0].sentences:,} sentences, {scores[0].words:,} words; mean and median are over sentences; "
        "natural log",
        "of tta, bilm and hf-masked the perplexity is a pseudo-perplexity",
        *(_doubtful(score) for score in scores if score.by_token.mean > DOUBTFUL * score.by_token.median),
        *(score.signature for score in scores),
    ]
    return "\n".join(lines)


def _doubtful(score: TextScore) -> str:
    return (
        f"{score.lm}: a few sentences decide the mean ({score.unknown:,} of {score.tokens:,} tokens are unknown); "
        "the median says more"
    )


def write(scores: Sequence[TextScore], file: IO[str]) -> None:
    """Write a JSON list, an object a language model."""
    file.write(json.dumps([asdict(score) for score in scores], indent=2, ensure_ascii=False) + "\n")
