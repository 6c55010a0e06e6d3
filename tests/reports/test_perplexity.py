"""Perplexities of texts that are all but impossible."""

from __future__ import annotations

import numpy as np

from rescore.reports.perplexity import text_score
from rescore.reports.styles import as_json
from rescore.scoring import TokenScores


class Certain:
    """A language model that all but excludes one word."""

    name = model = "certain"
    precision = "float32"
    fingerprint = "0" * 64

    def score(self, questions: object) -> list[TokenScores]:
        return [TokenScores(["a"], np.array([-1.0])), TokenScores(["b"], np.array([-2000.0]))]


def test_no_warning_of_numbers_too_large() -> None:
    """exp(2000) is beyond floating point; RuntimeWarnings fail tests here."""
    lm = Certain()
    found = text_score(lm, ["a", "b"], lm.score(None))
    assert found.by_token.corpus == found.by_token.mean == float("inf") and found.log_prob == -2001
    assert '"corpus": null' in as_json(found) and "Infinity" not in as_json(found)
