"""What a language model is to the rest of the package, and how N-best lists get a column of its scores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

import numpy as np
import numpy.typing as npt

from rescore.nbest import Hypothesis, NbestList

CHUNK = 1_000  # lists scored together: enough to sort by length and share repeats, few enough for any memory
NORMS = ("sum", "mean")


@dataclass(frozen=True, slots=True)
class TokenScores:
    """A sentence's tokens and their log-probabilities, natural log."""

    tokens: list[str]
    log_probs: npt.NDArray[np.float64]  # (tokens,)

    @property
    def sum(self) -> float:
        return float(self.log_probs.sum())

    @property
    def mean(self) -> float:
        """Per token; 0 for a sentence without tokens."""
        return self.sum / max(len(self.log_probs), 1)


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


def add_column(
    lm: LanguageModel, lists: Iterable[NbestList], norm: str, progress: Callable[[int], object] = lambda done: None
) -> Iterator[NbestList]:
    """The lists with one more column of scores, as a stream; memory is bounded by `CHUNK` lists.

    Args:
        norm: `sum` or `mean` over tokens. progress: called with the number of hypotheses just done.
    """
    column = column_name(lm, norm)
    rest = iter(lists)
    while chunk := list(islice(rest, CHUNK)):
        texts = list(dict.fromkeys(hypothesis.text for nbest in chunk for hypothesis in nbest.hypotheses))
        scores = {text: getattr(found, norm) for text, found in zip(texts, lm.score(texts), strict=True)}
        for nbest in chunk:
            hypotheses = [
                Hypothesis(hypothesis.text, {**hypothesis.scores, column: scores[hypothesis.text]})
                for hypothesis in nbest.hypotheses
            ]
            progress(len(hypotheses))
            yield replace(nbest, hypotheses=hypotheses)
