"""BLEU through sacreBLEU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from rescore.errors import UserError
from rescore.metrics.base import Counts, Values

TOKENISERS = ("13a", "none", "intl", "char", "zh")


class Bleu:
    """Corpus BLEU (Papineni et al. 2002) as sacreBLEU computes it, smoothing `exp`."""

    name = "BLEU"
    higher_is_better = True

    def __init__(self, tokenise: str = "13a") -> None:
        if tokenise not in TOKENISERS:
            raise UserError(f"--tokenize {tokenise!r} is not one of {', '.join(TOKENISERS)}")
        # `force` only silences the warning that a text looks tokenised; what it looks like was decided before.
        self._corpus = BLEU(tokenize=tokenise, force=True)
        self._sentence = BLEU(tokenize=tokenise, force=True, effective_order=True)

    @property
    def signature(self) -> str:
        self._corpus.corpus_score(["x"], [["x"]])  # sacreBLEU signs only what it has scored
        return f"BLEU|{self._corpus.get_signature().format()}"

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Counts:
        """Columns: matching 1- to 4-grams, all 1- to 4-grams, length of the hypothesis, of the closest reference."""
        scores = (
            self._sentence.sentence_score(text, list(texts)) for text, texts in zip(hypotheses, references, strict=True)
        )
        rows = [[*score.counts, *score.totals, score.sys_len, score.ref_len] for score in scores]
        return np.array(rows, dtype=np.int64).reshape(len(rows), 10)

    def _values(self, rows: Counts, effective_order: bool) -> Values:
        def bleu(row: list[int]) -> float:
            score = BLEU.compute_bleu(row[:4], row[4:8], row[8], row[9], "exp", None, effective_order)
            return float(score.score)

        return np.array([bleu(row) for row in rows.tolist()], dtype=np.float64)

    def values(self, sums: Counts) -> Values:
        return self._values(sums, effective_order=False)

    def sentence_values(self, statistics: Counts) -> Values:
        return self._values(statistics, effective_order=True)

    def details(self, sums: Counts) -> dict[str, int | float]:
        return {"hyp_words": int(sums[8]), "ref_words": int(sums[9])}


def looks_tokenised(references: Sequence[str]) -> bool:
    """Whether full stops stand apart from their words, as a tokeniser leaves them."""
    ending = [reference for reference in references if reference.rstrip().endswith(".")]
    apart = sum(reference.rstrip().endswith(" .") for reference in ending)
    return 2 * apart > len(ending)
