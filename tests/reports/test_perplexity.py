"""Perplexities of texts that are all but impossible, and what is said of them."""

from __future__ import annotations

import numpy as np

from rescore.errors import counted
from rescore.lms import TokenScores
from rescore.reports.markup import as_json
from rescore.reports.perplexity import render, text_score


class Certain:
    """A language model that all but excludes one word."""

    precision = "float32"
    fingerprint = "0" * 64

    def __init__(self, name: str) -> None:
        self.name = self.model = name

    def score(self, questions: object) -> list[TokenScores]:
        return [TokenScores(["a"], np.array([-1.0])), TokenScores(["b"], np.array([-2000.0]))]


def test_no_warning_of_numbers_too_large() -> None:
    """exp(2000) is beyond floating point; RuntimeWarnings fail tests here."""
    lm = Certain("certain")
    found = text_score(lm, ["a", "b"], lm.score(None))
    assert found.by_token.corpus == found.by_token.mean == float("inf") and found.log_prob == -2001
    assert '"corpus": null' in as_json(found) and "Infinity" not in as_json(found)


def test_pseudo_perplexities_are_those_of_the_models_that_were_scored() -> None:
    scores = [text_score(lm, ["a", "b"], lm.score(None)) for lm in map(Certain, ("bilm", "unilm", "tta"))]
    assert "\nbilm, tta: pseudo-perplexity, not comparable with the perplexity of other kinds\n" in render(scores)
    assert "pseudo" not in render(scores[1:2])


def test_numbers_and_their_nouns() -> None:
    """One sentence is no plural."""
    lm = Certain("unilm")
    assert "\n1 sentence, 1 word; mean" in render([text_score(lm, ["a"], lm.score(None)[:1])])
    assert "\n2 sentences, 2 words; mean" in render([text_score(lm, ["a", "b"], lm.score(None))])
    nouns = ("list", "hypothesis", "log-probability")
    assert [counted(1, noun) for noun in nouns] == ["1 list", "1 hypothesis", "1 log-probability"]
    assert [counted(2000, noun) for noun in nouns] == ["2,000 lists", "2,000 hypotheses", "2,000 log-probabilities"]
