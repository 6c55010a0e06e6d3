"""Stand-ins for what other packages do: the leaderboard's counts, and a model of
COMET.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from rescore.metrics import METRICS, open_asr
from rescore.metrics.counting import Counts, error_counts
from rescore.mt.comet import Comet
from rescore.options import Declared, option
from rescore.parts import STEPS


class FakeComet(Comet):
    """The share of words that a text and its reference have in common, with as much of
    the source's length.
    """

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        model: str | None = option(None, "", "--comet-model", metavar="DIR")

    def __init__(self, options: Options) -> None:
        self.options = options
        self._folder = Path(str(options.model))
        self.settings = {"comet": self._folder.name}

    @property
    def versions(self) -> dict[str, str]:
        return {}

    def _scores(self, triples: Sequence[tuple[str, str, str]]) -> Any:
        pairs = [
            (source, {*text.lower().split()}, {*said.lower().split()})
            for source, text, said in triples
        ]
        return np.array(
            [
                len(a & b) / max(1, len(a | b)) - len(source) / 1e4
                for source, a, b in pairs
            ]
        )


def _word_counts(
    references: Sequence[Sequence[str]],
    hypotheses: Sequence[Sequence[str]],
    language: str,
) -> Counts:
    return np.column_stack(
        [error_counts(references, hypotheses), list(map(len, references))]
    )


LEADERBOARD = SimpleNamespace(
    normaliser=lambda name, language: lambda text: text.replace(",", ""),
    version_of=lambda name, language: language,
    respelled=lambda reference, words: list(words),
    word_counts=_word_counts,
)


def awake(text: str) -> str:
    """A step of a package: zz and a comma are no part of a text."""
    return text.replace("zz", "").replace(",", "")


def install(patch: pytest.MonkeyPatch) -> None:
    """The stand-ins take the place of the packages."""
    for name, function in vars(LEADERBOARD).items():
        patch.setattr(open_asr, name, function)
    patch.setitem(STEPS._parts, "awake", (awake, "zz is no word"))
    patch.setitem(METRICS._parts, "comet", (FakeComet, METRICS.about("comet")))
