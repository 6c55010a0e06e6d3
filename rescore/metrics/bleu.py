"""BLEU through sacreBLEU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from sacrebleu.metrics.bleu import BLEU

from rescore.errors import UserError
from rescore.metrics.base import Counts, MetricOptions, Values
from rescore.metrics.mt import sacrebleu_settings
from rescore.metrics.ngrams import ngram_counts

ORDERS = 4
PAIRS = 1 << 14
"""Of texts whose losses are computed at once: as many as the cache of a core holds."""
TOKENISERS = ("13a", "none", "intl", "char", "zh")


class Bleu:
    """Corpus BLEU (Papineni et al. 2002) as sacreBLEU computes it, smoothing `exp`."""

    name = "BLEU"
    higher_is_better = True
    unit = "n-gram"
    words = None

    def __init__(self, tokenise: str = "13a") -> None:
        if tokenise not in TOKENISERS:
            raise UserError(f"--tokenize {tokenise!r} is not one of {', '.join(TOKENISERS)}")
        self._tokenise = tokenise
        # `force` only silences the warning that a text looks tokenised; what it looks like was decided before.
        self._corpus = BLEU(tokenize=tokenise, force=True)
        self._sentence = BLEU(tokenize=tokenise, force=True, effective_order=True)

    @classmethod
    def choose(cls, options: MetricOptions, references: Sequence[str]) -> Bleu:
        """With the tokenizer asked for, else `none` for references that are tokenised already, else 13a."""
        return cls(options.tokenise or ("none" if looks_tokenised(references) else "13a"))

    @property
    def settings(self) -> dict[str, str]:
        return sacrebleu_settings(self._corpus)[0]

    @property
    def versions(self) -> dict[str, str]:
        return sacrebleu_settings(self._corpus)[1]

    @property
    def options(self) -> MetricOptions:
        return MetricOptions(tokenise=self._tokenise)

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Counts:
        """Columns: matching 1- to 4-grams, all 1- to 4-grams, length of the hypothesis, of the closest reference."""
        scores = (
            self._sentence.sentence_score(text, list(texts)) for text, texts in zip(hypotheses, references, strict=True)
        )
        rows = [[*score.counts, *score.totals, score.sys_len, score.ref_len] for score in scores]
        return np.array(rows, dtype=np.int64).reshape(len(rows), 10)

    def values(self, sums: Counts) -> Values:
        return corpus_bleu(sums)

    def sentence_values(self, statistics: Counts) -> Values:
        return corpus_bleu(statistics, effective_order=True)

    def losses(self, statistics: Counts) -> Values:
        return 100.0 - self.sentence_values(statistics)

    def pair_losses(self, texts: Sequence[str]) -> Values:
        words = self._words(texts)
        counts = ngram_counts(words, ORDERS)
        matches = np.stack([one.matches() for one in counts], axis=-1)
        totals = np.stack([one.totals for one in counts], axis=-1)
        lengths = np.array([len(one) for one in words])[:, None]
        own, number = np.concatenate([totals, lengths], axis=1), len(words)
        losses = np.empty((number, number))
        step = max(1, PAIRS // number)
        for start in range(0, number, step):
            some = slice(start, start + step)
            here = len(own[some])
            columns = [
                matches[some].reshape(-1, ORDERS),
                np.repeat(own[some], number, axis=0),
                np.tile(lengths, (here, 1)),
            ]
            losses[some] = self.losses(np.concatenate(columns, axis=1)).reshape(here, number)
        return losses

    def aggregated(self, texts: Sequence[str]) -> Callable[[Values], Values]:
        words = self._words(texts)
        counts = ngram_counts(words, ORDERS)
        totals = np.stack([one.totals for one in counts], axis=-1)
        lengths = np.array([len(one) for one in words])

        def losses(posteriors: Values) -> Values:
            matches = np.stack([one.expected(posteriors)[0] for one in counts], axis=-1)
            reference = np.full((len(words), 1), lengths @ posteriors)
            return self.losses(np.concatenate([matches, totals, lengths[:, None], reference], axis=1))

        return losses

    def _words(self, texts: Sequence[str]) -> list[list[str]]:
        return [self._sentence._preprocess_segment(text).split() for text in texts]

    def details(self, sums: Counts) -> dict[str, int | float]:
        return {"hyp_words": int(sums[8]), "ref_words": int(sums[9])}


def corpus_bleu(rows: Counts, effective_order: bool = False) -> Values:
    """(m, 10) statistics -> (m,) BLEU, as sacreBLEU's `compute_bleu` with smoothing `exp`, many rows at once.

    Tuning asks for the value of every interval; sacreBLEU's own function takes one row a call.
    """
    matches, ngrams, length, reference = rows[:, :4], rows[:, 4:8], rows[:, 8], rows[:, 9]
    with np.errstate(divide="ignore", invalid="ignore"):
        # Orders without a match are smoothed: the k-th such counts as 2**-k of a match (NIST's mteval).
        smoothed = 0.5 ** np.cumsum(matches == 0, axis=1)
        logs = np.log(100.0 * np.where(matches > 0, matches, smoothed) / ngrams)
        orders = (ngrams > 0).sum(axis=1)  # a text shorter than an order has none of the longer ones either
        used = np.arange(4) < orders[:, None]
        mean = np.where(used, logs, 0.0).sum(axis=1) / (orders if effective_order else 4)
        brevity = np.where(length < reference, np.exp(1 - reference / length), 1.0)
        complete = matches.any(axis=1) & (effective_order or orders == 4)
        return np.where(complete, brevity * np.exp(mean), 0.0)


def looks_tokenised(references: Sequence[str]) -> bool:
    """Whether full stops stand apart from their words, as a tokeniser leaves them."""
    ending = [reference for reference in references if reference.rstrip().endswith(".")]
    apart = sum(reference.rstrip().endswith(" .") for reference in ending)
    return 2 * apart > len(ending)
