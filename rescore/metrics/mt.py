"""BLEU, chrF and TER, as sacreBLEU computes them, from statistics of n-grams."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.metrics.base import Counts, Metric, Values
from rescore.options import Declared, option
from rescore.parts import TOKENIZERS

CELLS = 1 << 25
"""The largest matrix of texts and n-grams that is multiplied at once: 128 MiB."""


@dataclass(frozen=True, slots=True)
class NgramCounts:
    """How often each text has each n-gram of one order, where it has it at all."""

    texts: int
    row: npt.NDArray[np.int64]
    """(k,): the text."""
    gram: npt.NDArray[np.int64]
    """(k,): the n-gram, numbered from 0."""
    count: Counts
    """(k,)."""

    @property
    def totals(self) -> Counts:
        """(texts,): all n-grams of each text."""
        return np.bincount(self.row, self.count, self.texts).astype(np.int64)

    def matches(self) -> Counts:
        """(texts, texts): the number of common n-grams of each pair, with repetitions that both texts have.

        An n-gram that occurs three times makes three features, "at least once", "twice", "three times"; matches are
        then products of 0/1 vectors. An n-gram that only one text has matches only itself.
        """
        row, feature = self._features()
        shared = np.bincount(feature)[feature] > 1
        row, feature = row[shared], np.unique(feature[shared], return_inverse=True)[1]
        common = np.zeros((self.texts, self.texts), dtype=np.int64)
        width = max(1, CELLS // self.texts)
        for start in range(0, int(feature.max(initial=-1)) + 1, width):
            here = (feature >= start) & (feature < start + width)
            has = np.zeros((self.texts, int(feature[here].max()) - start + 1), dtype=np.float32)
            has[row[here], feature[here] - start] = 1.0
            common += (has @ has.T).astype(np.int64)
        np.fill_diagonal(common, self.totals)
        return common

    def _features(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        most = int(self.count.max(initial=1))
        row = np.repeat(self.row, self.count)
        occurrence = np.arange(len(row)) - np.repeat(np.cumsum(self.count) - self.count, self.count)
        return row, np.unique(np.repeat(self.gram, self.count) * most + occurrence, return_inverse=True)[1]

    def expected(self, posteriors: Values) -> tuple[Values, float]:
        """(texts,) matches of each text with the expected counts under posteriors (texts,), and their total.

        The expected counts stand for all texts as references (DeNero et al. 2009; Vamvas and Sennrich 2024).
        """
        reference = np.bincount(self.gram, posteriors[self.row] * self.count)
        matches = np.minimum(self.count.astype(np.float64), reference[self.gram])
        return np.bincount(self.row, matches, self.texts).astype(np.float64), float(reference.sum())


def ngram_counts(texts: Sequence[Sequence[Hashable]], orders: int) -> list[NgramCounts]:
    """The n-grams of token sequences, for each order from 1 on."""
    numbers: dict[Hashable, int] = {}
    tokens = np.array([numbers.setdefault(token, len(numbers)) for text in texts for token in text], dtype=np.int64)
    lengths = np.array([len(text) for text in texts], dtype=np.int64)
    row = np.repeat(np.arange(len(texts)), lengths)
    left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(tokens))  # tokens from here to the text's end
    place = np.arange(len(tokens))
    code = tokens
    of_orders = []
    for order in range(1, orders + 1):
        if order > 1:
            fits = left[place] >= order
            place, code = place[fits], code[fits]
            code = np.unique(code * len(numbers) + tokens[place + order - 1], return_inverse=True)[1]
        size = int(code.max(initial=0)) + 1
        pairs, count = np.unique(row[place] * size + code, return_counts=True)
        of_orders.append(NgramCounts(len(texts), pairs // size, pairs % size, count))
    return of_orders


class _Sacrebleu(Metric):
    """A metric that `tool` of sacreBLEU computes."""

    tool: Any

    @property
    def settings(self) -> dict[str, str]:
        return self._signature()[0]

    @property
    def versions(self) -> dict[str, str]:
        return {"sacrebleu": self._signature()[1]}

    def _signature(self) -> tuple[dict[str, str], str]:
        """What sacreBLEU's own signature says: how it counts, and its version."""
        self.tool.corpus_score(["x"], [["x"]])  # it signs only what it has scored
        parts = dict(part.split(":", 1) for part in self.tool.get_signature().format().split("|"))
        return parts, parts.pop("version")

    def _sentence_statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[list[float]]:
        # sacreBLEU's own significance tests use this method; its public functions return scores only.
        rows: list[list[float]] = [[] for _ in hypotheses]
        for number in {len(texts) for texts in references}:
            chosen = [index for index, texts in enumerate(references) if len(texts) == number]
            streams = [[references[index][rank] for index in chosen] for rank in range(number)]
            statistics = self.tool._extract_corpus_statistics([hypotheses[index] for index in chosen], streams)
            for index, row in zip(chosen, statistics, strict=True):
                rows[index] = row
        return rows


class Chrf(_Sacrebleu):
    """chrF2 (Popović 2015), and chrF2++ with n-grams of words (Popović 2017), as sacreBLEU computes them."""

    unit = "character n-gram"
    name, word_order = "chrF", 0

    def __init__(self) -> None:
        from sacrebleu.metrics.chrf import CHRF

        self.tool = CHRF(word_order=self.word_order)

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Counts:
        """Columns: for each order (of characters, then of words) the n-grams of hypothesis and reference, and the
        matching ones."""
        rows = self._sentence_statistics(hypotheses, references)
        return np.array(rows, dtype=np.int64).reshape(len(rows), 3 * self.tool.order)

    def values(self, sums: Counts) -> Values:
        hypothesis, reference, match = (sums[:, part::3] for part in range(3))
        with np.errstate(divide="ignore", invalid="ignore"):
            orders = (hypothesis > 0) & (reference > 0)
            number = orders.sum(axis=1)
            precision = np.where(orders, match / hypothesis, 0.0).sum(axis=1) / number
            recall = np.where(orders, match / reference, 0.0).sum(axis=1) / number
            factor = self.tool.beta**2
            score = 100 * (1 + factor) * precision * recall / (factor * precision + recall)
        return np.nan_to_num(score, nan=0.0)

    def _ngrams(self, texts: Sequence[str]) -> list[NgramCounts]:
        characters = ngram_counts(["".join(text.split()) for text in texts], self.tool.char_order)
        words = [self.tool._remove_punctuation(text) for text in texts] if self.tool.word_order else []
        return characters + (ngram_counts(words, self.tool.word_order) if words else [])

    def pair_losses(self, texts: Sequence[str]) -> Values:
        columns = []
        for ngrams in self._ngrams(texts):
            totals = ngrams.totals
            # Orders that the reference lacks are not counted, as in sacreBLEU.
            own = np.where(totals > 0, totals[:, None], 0)
            columns += [own, np.broadcast_to(totals, own.shape), ngrams.matches()]
        return np.stack([self.losses(np.stack(row, axis=-1)) for row in zip(*columns, strict=True)])

    def details(self, sums: Counts) -> dict[str, int | float]:
        return {"ref_characters": int(sums[1])}


class ChrfPlusPlus(Chrf):
    """chrF2++, with n-grams of words."""

    name, word_order = "chrF++", 2


class Ter(_Sacrebleu):
    """Translation edit rate (Snover et al. 2006) as sacreBLEU computes it; slow, milliseconds a hypothesis."""

    name = "TER"
    higher_is_better = False
    unit = "edit"
    SCALE = 840
    """Reference lengths are means over references; times this they are whole for up to eight."""

    def __init__(self) -> None:
        from sacrebleu.metrics.ter import TER

        self.tool = TER()

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Counts:
        """Columns: edits, and the mean length of the references times `SCALE`."""
        rows = self._sentence_statistics(hypotheses, references)
        return np.array([[edits, round(length * self.SCALE)] for edits, length in rows], dtype=np.int64).reshape(-1, 2)

    def values(self, sums: Counts) -> Values:
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = 100.0 * sums[:, 0] * self.SCALE / sums[:, 1]
        return np.where(sums[:, 1] > 0, rates, np.where(sums[:, 0] > 0, 100.0, 0.0))

    def losses(self, statistics: Counts) -> Values:
        return self.values(statistics)

    def details(self, sums: Counts) -> dict[str, int | float]:
        return {"edits": int(sums[0]), "ref_words": round(int(sums[1]) / self.SCALE)}


ORDERS = 4
PAIRS = 1 << 14
"""Of texts whose losses are computed at once: as many as the cache of a core holds."""


class Bleu(_Sacrebleu):
    """Corpus BLEU (Papineni et al. 2002) as sacreBLEU computes it, smoothing `exp`."""

    name = "BLEU"
    unit = "n-gram"
    companion = "chrf"

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        tokenise: str | None = option(
            None,
            "sacreBLEU tokenizer.  [default: none if the references are tokenised, else 13a]",
            "--tokenize",
            choices=TOKENIZERS,
            describes=TOKENIZERS,
        )

    def __init__(self, tokenise: str = "13a") -> None:
        from sacrebleu.metrics.bleu import BLEU

        self._tokenise = name = TOKENIZERS.check(tokenise)
        # `force` only silences the warning that a text looks tokenised; what it looks like was decided before.
        try:
            self.tool = BLEU(tokenize=name, force=True)
            self._sentence = BLEU(tokenize=name, force=True, effective_order=True)
        except (ImportError, RuntimeError):
            raise UserError(
                f"--tokenize {name} needs further packages; pip install '{TOKENIZERS[name].extra}'"
            ) from None
        except OSError as error:
            raise UserError(
                f"--tokenize {name}: sacreBLEU cannot get its model ({error}); connect once, or set SACREBLEU to a "
                "folder that has models/"
            ) from None

    @classmethod
    def choose(cls, options: Options, references: Sequence[str]) -> Bleu:
        """The metric with the requested tokenizer; by default `none` for tokenised references, 13a for others."""
        return cls(options.tokenise or ("none" if looks_tokenised(references) else "13a"))

    @property
    def options(self) -> Options:
        return Bleu.Options(tokenise=self._tokenise)

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

    def pair_losses(self, texts: Sequence[str]) -> Values:
        words = self._words(texts)
        counts = ngram_counts(words, ORDERS)
        matches = np.stack([ngrams.matches() for ngrams in counts], axis=-1)
        totals = np.stack([ngrams.totals for ngrams in counts], axis=-1)
        lengths = np.array([len(sentence) for sentence in words])[:, None]
        own, number = np.concatenate([totals, lengths], axis=1), len(words)
        losses = np.empty((number, number))
        step = max(1, PAIRS // number)
        for start in range(0, number, step):
            block = slice(start, start + step)
            here = len(own[block])
            columns = [
                matches[block].reshape(-1, ORDERS),
                np.repeat(own[block], number, axis=0),
                np.tile(lengths, (here, 1)),
            ]
            losses[block] = self.losses(np.concatenate(columns, axis=1)).reshape(here, number)
        return losses

    def length_ratio(self, sums: Counts) -> Values:
        return np.asarray(sums[:, 8] / np.maximum(sums[:, 9], 1), dtype=np.float64)

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
        orders = (ngrams > 0).sum(axis=1)  # a text without n-grams of an order has no longer n-grams either
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
