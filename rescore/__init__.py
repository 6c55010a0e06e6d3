"""Rescore N-best lists of ASR and MT with a language model. See `rescore.api`."""

from rescore.api import evaluate, load, read, rerank, score, tune
from rescore.errors import UserError
from rescore.nbest import Hypothesis, NbestList
from rescore.version import VERSION

__version__ = VERSION

__all__ = [
    "Hypothesis",
    "NbestList",
    "UserError",
    "__version__",
    "evaluate",
    "load",
    "read",
    "rerank",
    "score",
    "tune",
]
