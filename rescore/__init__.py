"""Rescore N-best lists of ASR and MT with a language model. See `rescore.api`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rescore.errors import UserError
from rescore.nbest import Hypothesis, NbestList
from rescore.version import VERSION

if TYPE_CHECKING:
    from rescore.api import (
        cer,
        compare,
        curve,
        evaluate,
        load,
        load_weights,
        read,
        rerank,
        save_weights,
        score,
        spread,
        to_frame,
        tune,
        wer,
    )
    from rescore.config import RunConfig
    from rescore.lms.base import LanguageModel, Question, TokenScores
    from rescore.metrics import Normaliser
    from rescore.reports.results import Results
    from rescore.rescorer import Answer, Rescorer
    from rescore.tuning.weights import Weights

__version__ = VERSION

_LATER = {
    "Answer": "rescore.rescorer",
    "LanguageModel": "rescore.lms.base",
    "Normaliser": "rescore.metrics",
    "Question": "rescore.lms.base",
    "Rescorer": "rescore.rescorer",
    "Results": "rescore.reports.results",
    "RunConfig": "rescore.config",
    "TokenScores": "rescore.lms.base",
    "Weights": "rescore.tuning.weights",
    "confidence": "rescore.asr.confidence",
    "correct": "rescore.asr.correct",
}
"""What is imported when it is used, beside the functions of `rescore.api`: `import
rescore` costs nothing.
"""

__all__ = [
    "Answer",
    "Hypothesis",
    "LanguageModel",
    "NbestList",
    "Normaliser",
    "Question",
    "Rescorer",
    "Results",
    "RunConfig",
    "TokenScores",
    "UserError",
    "Weights",
    "__version__",
    "cer",
    "compare",
    "confidence",
    "correct",
    "curve",
    "evaluate",
    "load",
    "load_weights",
    "read",
    "rerank",
    "save_weights",
    "score",
    "spread",
    "texts",
    "to_frame",
    "tune",
    "wer",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'rescore' has no attribute {name!r}")
    return getattr(import_module(_LATER.get(name, "rescore.api")), name)


def __dir__() -> list[str]:
    return __all__
