"""A warning for lists in capitals, which most language models know less well than lower
case.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from rescore.lms.base import LanguageModel, TokenScores, WithNeighbours, capabilities_of
from rescore.lms.context import ask

log = logging.getLogger(__name__)

CASE_TEXTS = 5
"""Texts that are scored once more in lower case, where lists are in upper case."""


def warn_of_case(
    lm: LanguageModel, window: Sequence[tuple[WithNeighbours, list[TokenScores]]]
) -> None:
    """Say that a model of any kind knows texts in capitals better in lower case: by
    more than a nat for each word.
    """
    texts = {
        hypothesis.text: (placed, score.sum)
        for placed, scores in window
        for hypothesis, score in zip(placed.nbest.hypotheses, scores, strict=True)
    }
    if capabilities_of(lm).source:
        return
    chosen = dict(list(texts.items())[:CASE_TEXTS])
    questions = [
        question
        for text, (placed, _) in chosen.items()
        for question in ask(lm, placed, [text.lower()])
    ]
    gain = sum(score.sum for score in lm.score(questions)) - sum(
        score for _, score in chosen.values()
    )
    if gain > sum(len(text.split()) for text in chosen):
        log.warning(
            "%s: the lists are in upper case, which the model knows less well than"
            " lower case (%.1f nats a word); give it as KIND:lower:PATH",
            lm.name,
            gain / sum(len(text.split()) for text in chosen),
        )
