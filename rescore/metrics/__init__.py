"""WER, CER, BLEU, chrF and TER as sums of sufficient statistics; oracle; significance."""

from __future__ import annotations

from collections.abc import Sequence

from rescore.errors import UserError
from rescore.metrics.base import Metric, list_statistics, oracle, total, value
from rescore.metrics.bleu import Bleu, looks_tokenised
from rescore.metrics.mt import Chrf, Ter
from rescore.metrics.normalise import Normaliser
from rescore.metrics.wer import ErrorRate
from rescore.nbest import NbestList

__all__ = [
    "Bleu",
    "Chrf",
    "ErrorRate",
    "Metric",
    "Normaliser",
    "Ter",
    "choose_metric",
    "list_statistics",
    "oracle",
    "total",
    "value",
]

NAMES = ("wer", "cer", "bleu", "chrf", "ter")


def choose_metric(
    name: str | None, tokenise: str | None, lists: Sequence[NbestList], normaliser: Normaliser | None = None
) -> Metric:
    """The metric called `name`; where None, BLEU for translations (lists with a source text) and WER for the rest.

    `tokenise` is sacreBLEU's; where None, `none` for references that are tokenised already, else sacreBLEU's own 13a.
    `normaliser` is for WER and CER.
    """
    if name is None:
        name = "bleu" if any(nbest.source is not None for nbest in lists) else "wer"
    if name == "bleu":
        references = [nbest.references[0] for nbest in lists if nbest.references]
        return Bleu(tokenise or ("none" if looks_tokenised(references) else "13a"))
    if name == "chrf":
        return Chrf()
    if name == "ter":
        return Ter()
    if name not in NAMES:
        raise UserError(f"metric {name!r} is not one of {', '.join(NAMES)}")
    return ErrorRate(characters=name == "cer", normaliser=normaliser)
