"""Word and character error rate, aligned by jiwer (rapidfuzz)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

import jiwer
import numpy as np

from rescore.metrics.base import Counts, Values

SUBSTITUTIONS, DELETIONS, INSERTIONS, REFERENCE = range(4)


class ErrorRate:
    """(substitutions + deletions + insertions) / reference units, in percent.

    Texts are compared as they are, words parted by white space; characters include the blanks between words, as in
    ESPnet. With several references the one with the fewest errors counts.
    """

    higher_is_better = False

    def __init__(self, characters: bool = False) -> None:
        self.name = "CER" if characters else "WER"
        self._process = jiwer.process_characters if characters else jiwer.process_words

    @property
    def signature(self) -> str:
        unit = "char" if self.name == "CER" else "space"
        return f"{self.name}|case:mixed|tok:{unit}|jiwer:{version('jiwer')}|rapidfuzz:{version('rapidfuzz')}"

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Counts:
        """Columns: substitutions, deletions, insertions, reference units."""
        best = np.zeros((len(hypotheses), 4), dtype=np.int64)
        for rank in range(max(map(len, references), default=0)):
            rows = [index for index, texts in enumerate(references) if rank < len(texts)]
            found = self._align([references[row][rank] for row in rows], [hypotheses[row] for row in rows])
            for row, counts in zip(rows, found, strict=True):
                if rank == 0 or counts[:REFERENCE].sum() < best[row, :REFERENCE].sum():
                    best[row] = counts
        return best

    def _align(self, references: list[str], hypotheses: list[str]) -> Counts:
        output = self._process([_blanks(text) for text in references], [_blanks(text) for text in hypotheses])
        counts = np.zeros((len(hypotheses), 4), dtype=np.int64)
        for row, chunks, reference in zip(counts, output.alignments, output.references, strict=True):
            row[REFERENCE] = len(reference)
            for chunk in chunks:
                if chunk.type == "substitute":
                    row[SUBSTITUTIONS] += chunk.ref_end_idx - chunk.ref_start_idx
                elif chunk.type == "delete":
                    row[DELETIONS] += chunk.ref_end_idx - chunk.ref_start_idx
                elif chunk.type == "insert":
                    row[INSERTIONS] += chunk.hyp_end_idx - chunk.hyp_start_idx
        return counts

    def values(self, sums: Counts) -> Values:
        errors = sums[:, :REFERENCE].sum(axis=1)
        return np.asarray(100.0 * errors / sums[:, REFERENCE], dtype=np.float64)

    def sentence_values(self, statistics: Counts) -> Values:
        # Hypotheses of one list share the reference: the number of errors orders them, also where it is empty.
        units = np.maximum(statistics[:, REFERENCE], 1)
        return np.asarray(100.0 * statistics[:, :REFERENCE].sum(axis=1) / units, dtype=np.float64)

    def details(self, sums: Counts) -> dict[str, int | float]:
        names = ("substitutions", "deletions", "insertions", "ref_words" if self.name == "WER" else "ref_characters")
        return dict(zip(names, map(int, sums), strict=True))


def _blanks(text: str) -> str:
    return " ".join(text.split())
