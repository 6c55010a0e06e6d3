"""What a language model is to the rest of the package, and how N-best lists get a column of its scores."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.nbest import TOKENS, Hypothesis, NbestList

log = logging.getLogger(__name__)

WINDOW = 5_000  # hypotheses scored together: enough to sort by length and share repeats, few enough for a lively bar


Values = npt.NDArray[np.float64]


class TokenScores:
    """A sentence's tokens and their log-probabilities, natural log."""

    __slots__ = ("_log_probs", "_tokens", "unknown")

    def __init__(self, tokens: list[str], log_probs: Values, unknown: tuple[int, ...] = ()) -> None:
        """
        Args:
            log_probs: (tokens,).
            unknown: which tokens the model does not know (out of vocabulary).
        """
        self._tokens, self._log_probs, self.unknown = tokens, log_probs, unknown

    @property
    def tokens(self) -> list[str]:
        return self._tokens

    @property
    def log_probs(self) -> Values:
        """(tokens,)."""
        return self._log_probs

    @property
    def sum(self) -> float:
        return float(self.log_probs.sum())

    @property
    def mean(self) -> float:
        """Per token; 0 for a sentence without tokens."""
        return self.sum / max(len(self.tokens), 1)

    def normalised(self, norm: str) -> float:
        """The sum, the mean, or for `length^A` the sum divided by the number of tokens to the power A.

        Raises:
            UserError: `norm` is none of these.
        """
        return self.sum / max(len(self.tokens), 1) ** length_power(norm)


def length_power(norm: str) -> float:
    """0 for `sum`, 1 for `mean`, A for `length^A`.

    Raises:
        UserError: `norm` is none of these.
    """
    if norm in ("sum", "mean"):
        return float(norm == "mean")
    try:
        power = float(norm.removeprefix("length^")) if norm.startswith("length^") else math.nan
    except ValueError:
        power = math.nan
    if not math.isfinite(power):
        raise UserError(f"--lm-norm {norm}: expected sum, mean or length^NUMBER")
    return power


@dataclass(frozen=True, slots=True)
class Computing:
    """Where and how a network computes; None for what suits."""

    device: str | None = None
    """cpu, cuda or cuda:N."""
    precision: str | None = None
    """float32, bf16, fp16 or int8."""
    batch_tokens: int | None = None
    """Padded tokens in a batch."""


AS_SUITS = Computing()


class LanguageModel(Protocol):
    """A back-end. A sentence's score does not depend on the other sentences it is scored with."""

    name: str
    """The column its scores go into."""

    @property
    def fingerprint(self) -> str:
        """Content hash of weights, tokenizer and settings, in hexadecimal."""
        ...

    def score(self, sentences: Sequence[str]) -> list[TokenScores]:
        """One result a sentence, in their order."""
        ...


def column_name(lm: LanguageModel, norm: str) -> str:
    """Sums and means go into columns of different names, so that they cannot be mixed up."""
    return lm.name if norm == "sum" else f"{lm.name}.{norm}"


def score_lists(
    lm: LanguageModel, lists: Iterable[NbestList], progress: Callable[[int], object] = lambda done: None
) -> Iterator[tuple[NbestList, list[TokenScores]]]:
    """Each list with the scores of its hypotheses, as a stream; memory is bounded by `WINDOW` hypotheses.

    How many tokens the model does not know, if any, is logged at the end.

    Args:
        progress: called with the number of hypotheses just done.
    """
    tokens = unknown = 0
    for window in _windows(lists):
        texts = list(dict.fromkeys(hypothesis.text for nbest in window for hypothesis in nbest.hypotheses))
        scored = dict(zip(texts, lm.score(texts), strict=True))
        for nbest in window:
            scores = [scored[hypothesis.text] for hypothesis in nbest.hypotheses]
            tokens += sum(len(found.tokens) for found in scores)
            unknown += sum(len(found.unknown) for found in scores)
            progress(len(scores))
            yield nbest, scores
    if unknown:
        log.info("%s: %s of %s tokens are out of vocabulary", lm.name, f"{unknown:,}", f"{tokens:,}")


def _windows(lists: Iterable[NbestList]) -> Iterator[list[NbestList]]:
    window: list[NbestList] = []
    size = 0
    for nbest in lists:
        if window and size + len(nbest.hypotheses) > WINDOW:
            yield window
            window, size = [], 0
        window.append(nbest)
        size += len(nbest.hypotheses)
    if window:
        yield window


def with_column(
    nbest: NbestList, column: str, norm: str, scores: Sequence[TokenScores], count_tokens: bool = False
) -> NbestList:
    """A copy of the list with one more column: the scores of tokens, normalised; if asked for, also their number."""
    hypotheses = []
    for hypothesis, found in zip(nbest.hypotheses, scores, strict=True):
        columns = {**hypothesis.scores, column: found.normalised(norm)}
        if count_tokens:
            columns[TOKENS] = float(len(found.tokens))
        hypotheses.append(Hypothesis(hypothesis.text, columns))
    return replace(nbest, hypotheses=hypotheses)


def add_column(
    lm: LanguageModel,
    lists: Iterable[NbestList],
    norm: str,
    progress: Callable[[int], object] = lambda done: None,
    count_tokens: bool = False,
) -> Iterator[NbestList]:
    """`score_lists`, with the scores as one more column of each list, and if asked for the number of tokens."""
    column = column_name(lm, norm)
    for nbest, scores in score_lists(lm, lists, progress):
        yield with_column(nbest, column, norm, scores, count_tokens)
