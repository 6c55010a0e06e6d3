"""The metric `swer`: the word error rate of all words but stop words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.metrics.wer import ErrorRate
from rescore.options import read_file


def read_words(path: str | Path) -> frozenset[str]:
    """Return the words of a file, in lower case."""
    words = frozenset(Path(path).read_text(encoding="utf-8").lower().split())
    if not words:
        raise UserError(f"{path}: no word in it; give a file of words")
    return words


class StopWordErrorRate(ErrorRate):
    """word error rate without stop words"""

    name = "SWER"

    @dataclass(frozen=True, kw_only=True)
    class Options(ErrorRate.Options):
        """Options of the metric. The command line, Python, signatures and weights
        files take them from here.
        """

        stop_words: frozenset[str] | None = read_file(
            None, "swer: file of words that do not count.", read=read_words
        )

    # Losses of pairs of texts would count stop words: the slow way counts none.
    pair_losses = least_losses = None  # type: ignore[assignment]

    def statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> npt.NDArray[np.int64]:
        """Return the counts of `ErrorRate` (texts, 4), of the words that count."""
        shown = [self._kept(text) for text in hypotheses]
        said = [tuple(map(self._kept, texts)) for texts in references]
        return super().statistics(shown, said)

    def _kept(self, text: str) -> str:
        """Return a text without stop words."""
        ignored = self.options.stop_words or frozenset()
        return " ".join(word for word in text.split() if word.lower() not in ignored)
