"""How fast a language model scores hypotheses."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from rescore.errors import counted
from rescore.lms import LanguageModel, without_context
from rescore.nbest import NbestList


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of one model."""

    hypotheses: int
    seconds: float
    """The time for all hypotheses, tokenising included; the fastest of several runs."""

    @property
    def rate(self) -> float:
        """Hypotheses a second; higher is better."""
        return self.hypotheses / self.seconds


def measure(lm: LanguageModel, texts: Sequence[str], repeats: int) -> Speed:
    """Score texts together; the fastest of several runs counts, after a run over some
    of the texts to warm up.
    """
    lm.score(without_context(texts[:100]))
    runs: list[float] = []
    for _ in range(repeats):
        began = time.perf_counter()
        lm.score(without_context(texts))
        runs.append(time.perf_counter() - began)
    return Speed(len(texts), min(runs))


def sample(lists: Sequence[NbestList], number: int) -> list[str]:
    """At most `number` hypotheses of whole lists, evenly spread."""
    step = max(1, sum(len(nbest.hypotheses) for nbest in lists) // number)
    return [
        hypothesis.text for nbest in lists[::step] for hypothesis in nbest.hypotheses
    ][:number]


def described(texts: Sequence[str]) -> str:
    """How many hypotheses there are, and how long they are."""
    words = sum(len(text.split()) for text in texts) / len(texts)
    return f"{counted(len(texts), 'hypothesis')} of {words:.1f} words"


def device() -> torch.device:
    """The device of all that is compared: a GPU where there is one."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
