"""Language models by name, `KIND[:OPTION...][:PATH]`, and the shipped checkpoints.

A model scores sentences (`LanguageModel`), and `KINDS` is the table of the kinds of
models.
"""

from rescore.lms.backends import (
    is_pseudo,
    load,
    load_all,
    parse,
    shipped,
    shipped_models,
    single_specs,
    tell_paths,
    with_own_columns,
)
from rescore.lms.base import (
    Capabilities,
    ComputeOptions,
    Kind,
    LanguageModel,
    Question,
    TokenScores,
    capabilities_of,
    kind_of,
    record_of,
    without_context,
)
from rescore.parts import KINDS

__all__ = [
    "KINDS",
    "Capabilities",
    "ComputeOptions",
    "Kind",
    "LanguageModel",
    "Question",
    "TokenScores",
    "capabilities_of",
    "is_pseudo",
    "kind_of",
    "load",
    "load_all",
    "parse",
    "record_of",
    "shipped",
    "shipped_models",
    "single_specs",
    "tell_paths",
    "with_own_columns",
    "without_context",
]
