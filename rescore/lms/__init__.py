"""Language models by name: `KIND[:OPTION...][:PATH]`, and the shipped checkpoints.

A model scores sentences (`LanguageModel`), and `BACKENDS` is the table of the kinds.
"""

from rescore.lms.backends import (
    describe,
    each,
    is_pseudo,
    load,
    load_all,
    model_card,
    parse,
    recommended_weight,
    shipped,
    shipped_models,
    with_own_columns,
)
from rescore.lms.base import ComputeOptions, LanguageModel, Question, TokenScores, alone, column_name, origin
from rescore.parts import BACKENDS, Backend

__all__ = [
    "BACKENDS",
    "Backend",
    "ComputeOptions",
    "LanguageModel",
    "Question",
    "TokenScores",
    "alone",
    "column_name",
    "describe",
    "each",
    "is_pseudo",
    "load",
    "load_all",
    "model_card",
    "origin",
    "parse",
    "recommended_weight",
    "shipped",
    "shipped_models",
    "with_own_columns",
]
