"""Weights from lists with references: exact line searches (Och 2003), scales of
posteriors, folds.
"""

from rescore.tuning.folds import tuned_in_folds
from rescore.tuning.tune import tune_weights
from rescore.tuning.tuned import Tuned, TunedBy
from rescore.tuning.weights import FIRST_PASS_ALONE, TuningOptions, Weights, suited

__all__ = [
    "FIRST_PASS_ALONE",
    "Tuned",
    "TunedBy",
    "TuningOptions",
    "Weights",
    "suited",
    "tune_weights",
    "tuned_in_folds",
]
