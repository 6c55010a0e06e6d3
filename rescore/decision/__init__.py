"""From columns of scores and weights to one text per utterance: the best score, minimum
Bayes risk, a vote by words.

A rule is an object (`DecisionRule`), and `DECISIONS` is the table of them. All order
hypotheses by `rescore.nbest.ranking`: writers of formats without scores use it, too, so
it stands below.
"""

from rescore.decision.rules import (
    Decision,
    DecisionRule,
    ListWeights,
    WeightsOf,
    best,
    combine,
    posteriors,
    rerank,
)
from rescore.parts import DECISIONS

__all__ = [
    "DECISIONS",
    "Decision",
    "DecisionRule",
    "ListWeights",
    "WeightsOf",
    "best",
    "combine",
    "posteriors",
]
__all__ += ["rerank"]
