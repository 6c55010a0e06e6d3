"""From columns of scores and weights to one text per utterance: the best score, minimum
Bayes risk, and rules of the wings and of other packages.

A rule is an object (`DecisionRule`), and `DECISIONS` is the table of rules. All rules
order hypotheses by `rescore.nbest.ranking`, which stands below because writers of
formats without scores use it, too.
"""

from rescore.decision.rules import (
    Decision,
    DecisionRule,
    ListWeights,
    WeightsOf,
    best,
    combine,
    posteriors,
    sorted_by_score,
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
    "sorted_by_score",
]
