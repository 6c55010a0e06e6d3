"""chrF and TER through sacreBLEU's statistics of single sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from sacrebleu.metrics.base import Metric as SacrebleuMetric
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from rescore.metrics.base import Counts, MetricOptions, Values
from rescore.metrics.ngrams import ngram_counts


class Chrf:
    """chrF2 (Popović 2015) as sacreBLEU computes it."""

    name = "chrF"
    higher_is_better = True
    unit = "character n-gram"
    words = None

    def __init__(self) -> None:
        self._chrf = CHRF()

    @classmethod
    def choose(cls, options: MetricOptions, references: Sequence[str]) -> Chrf:
        return cls()

    @property
    def settings(self) -> dict[str, str]:
        return sacrebleu_settings(self._chrf)[0]

    @property
    def versions(self) -> dict[str, str]:
        return sacrebleu_settings(self._chrf)[1]

    @property
    def options(self) -> MetricOptions:
        return MetricOptions()

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Counts:
        """Columns: for each order 1 to 6 the character n-grams of hypothesis and reference, and the matching ones."""
        rows = _sentence_statistics(self._chrf, hypotheses, references)
        return np.array(rows, dtype=np.int64).reshape(len(rows), 3 * self._chrf.order)

    def values(self, sums: Counts) -> Values:
        hypothesis, reference, match = (sums[:, part::3] for part in range(3))
        with np.errstate(divide="ignore", invalid="ignore"):
            orders = (hypothesis > 0) & (reference > 0)
            number = orders.sum(axis=1)
            precision = np.where(orders, match / hypothesis, 0.0).sum(axis=1) / number
            recall = np.where(orders, match / reference, 0.0).sum(axis=1) / number
            factor = self._chrf.beta**2
            score = 100 * (1 + factor) * precision * recall / (factor * precision + recall)
        return np.nan_to_num(score, nan=0.0)

    def sentence_values(self, statistics: Counts) -> Values:
        return self.values(statistics)

    def losses(self, statistics: Counts) -> Values:
        return 100.0 - self.values(statistics)

    def pair_losses(self, texts: Sequence[str]) -> Values:
        columns = []
        for one in ngram_counts(["".join(text.split()) for text in texts], self._chrf.order):
            totals = one.totals
            there = np.where(totals > 0, totals[:, None], 0)  # what no reference has is not counted, as in sacreBLEU
            columns += [there, np.broadcast_to(totals, there.shape), one.matches()]
        return np.stack([self.losses(np.stack(row, axis=-1)) for row in zip(*columns, strict=True)])

    def aggregated(self, texts: Sequence[str]) -> Callable[[Values], Values]:
        counts = ngram_counts(["".join(text.split()) for text in texts], self._chrf.order)

        def losses(posteriors: Values) -> Values:
            columns = []
            for one in counts:
                matches, total = one.expected(posteriors)
                columns += [one.totals, np.full(len(matches), total), matches]
            return self.losses(np.stack(columns, axis=-1))

        return losses

    def details(self, sums: Counts) -> dict[str, int | float]:
        return {"ref_characters": int(sums[1])}


class Ter:
    """Translation edit rate (Snover et al. 2006) as sacreBLEU computes it; slow, milliseconds a hypothesis."""

    name = "TER"
    higher_is_better = False
    unit = "edit"
    words = None
    pair_losses = None
    aggregated = None

    SCALE = 840
    """Reference lengths are means over references; times this they are whole for up to eight."""

    def __init__(self) -> None:
        self._ter = TER()

    @classmethod
    def choose(cls, options: MetricOptions, references: Sequence[str]) -> Ter:
        return cls()

    @property
    def settings(self) -> dict[str, str]:
        return sacrebleu_settings(self._ter)[0]

    @property
    def versions(self) -> dict[str, str]:
        return sacrebleu_settings(self._ter)[1]

    @property
    def options(self) -> MetricOptions:
        return MetricOptions()

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Counts:
        """Columns: edits, and the mean length of the references times `SCALE`."""
        rows = _sentence_statistics(self._ter, hypotheses, references)
        return np.array([[edits, round(length * self.SCALE)] for edits, length in rows], dtype=np.int64).reshape(-1, 2)

    def values(self, sums: Counts) -> Values:
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = 100.0 * sums[:, 0] * self.SCALE / sums[:, 1]
        return np.where(sums[:, 1] > 0, rates, np.where(sums[:, 0] > 0, 100.0, 0.0))

    def sentence_values(self, statistics: Counts) -> Values:
        return self.values(statistics)

    def losses(self, statistics: Counts) -> Values:
        return self.values(statistics)

    def details(self, sums: Counts) -> dict[str, int | float]:
        return {"edits": int(sums[0]), "ref_words": round(int(sums[1]) / self.SCALE)}


def sacrebleu_settings(metric: SacrebleuMetric) -> tuple[dict[str, str], dict[str, str]]:
    """What sacreBLEU's own signature says: how it counts, and its version."""
    metric.corpus_score(["x"], [["x"]])  # it signs only what it has scored
    parts = dict(part.split(":", 1) for part in metric.get_signature().format().split("|"))
    version = parts.pop("version")
    return parts, {"sacrebleu": version}


def _sentence_statistics(
    metric: SacrebleuMetric, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
) -> list[list[float]]:
    # What sacreBLEU's own significance tests are built on; its public functions give the scores only.
    rows: list[list[float]] = [[] for _ in hypotheses]
    for number in {len(texts) for texts in references}:
        chosen = [index for index, texts in enumerate(references) if len(texts) == number]
        streams = [[references[index][rank] for index in chosen] for rank in range(number)]
        found = metric._extract_corpus_statistics([hypotheses[index] for index in chosen], streams)
        for index, row in zip(chosen, found, strict=True):
            rows[index] = row
    return rows
