"""From columns of scores and weights to one text per utterance: the best score, minimum
Bayes risk, and rules of the wings and of other packages.

A `Choice` decides: it has the weights and names a rule. A rule is an object
(`DecisionRule`), and `DECISIONS` is the table of rules. All rules order hypotheses by
`rescore.nbest.ranking`, which stands below because writers of formats without scores
use it, too.
"""

from rescore.decision.choice import Choice, best, combine, sorted_by_score
from rescore.decision.rules import Decision, DecisionRule, posteriors
from rescore.parts import DECISIONS

__all__ = [
    "DECISIONS",
    "Choice",
    "Decision",
    "DecisionRule",
    "best",
    "combine",
    "posteriors",
    "sorted_by_score",
]
