"""Weights from lists with references: exact line searches (Och 2003), scales of
posteriors, folds.
"""

from rescore.tuning.folds import tuned_in_folds
from rescore.tuning.record import TunedBy, Tuning, TuningOptions
from rescore.tuning.search import Searches
from rescore.tuning.tune import tune_weights
from rescore.tuning.weights import FIRST_PASS_ALONE, OF_TEXTS, Weights, suited

__all__ = [
    "FIRST_PASS_ALONE",
    "OF_TEXTS",
    "Searches",
    "TunedBy",
    "Tuning",
    "TuningOptions",
    "Weights",
    "suited",
    "tune_weights",
    "tuned_in_folds",
]
