"""BLEU, chrF and TER, as sacreBLEU computes them, from statistics of n-grams."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from rescore.errors import UserError
from rescore.metrics.base import Counts, Metric, Values
from rescore.options import Declared, option
from rescore.parts import Registry


def common_ngrams(texts: Sequence[Sequence[Hashable]], order: int) -> tuple[Counts, Counts]:
    """(n,) the number of n-grams of each text, and (n, n) the number of common n-grams of each pair of texts.

    An n-gram that occurs three times makes three features, "at least once", "twice", "three times"; matches are then
    products of 0/1 vectors. A feature that only one text has matches only itself.
    """
    numbers: dict[tuple[Hashable, int], int] = {}
    rows, features = [], []
    for number, text in enumerate(texts):
        seen: dict[Hashable, int] = {}
        for gram in zip(*(text[start:] for start in range(order)), strict=False):
            seen[gram] = seen.get(gram, 0) + 1
            rows.append(number)
            features.append(numbers.setdefault((gram, seen[gram]), len(numbers)))
    row, feature = np.array(rows, dtype=np.int64), np.array(features, dtype=np.int64)
    totals = np.bincount(row, minlength=len(texts))
    is_shared = np.bincount(feature, minlength=1) > 1
    columns = is_shared.cumsum() - 1
    here = is_shared[feature]
    has = np.zeros((len(texts), int(is_shared.sum())), dtype=np.float32)
    has[row[here], columns[feature[here]]] = 1.0
    common = (has @ has.T).astype(np.int64)
    np.fill_diagonal(common, totals)
    return totals, common


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

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Counts:
        """Columns: as sacreBLEU has them."""
        # sacreBLEU's own significance tests use this method; its public functions return scores only.
        streams = list(zip_longest(*references))  # None where a sentence has fewer references
        rows = self.tool._extract_corpus_statistics(hypotheses, streams) if hypotheses else []
        return self._counts(np.array(rows, dtype=np.float64))

    def _counts(self, rows: Values) -> Counts:
        return rows.astype(np.int64)

    def _losses_of_pairs(self, columns: Sequence[Values | Counts]) -> Values:
        """(n, n) losses from (n, n) columns of statistics; by row, as the cache of a core holds a few rows."""
        every = zip(*np.broadcast_arrays(*columns), strict=True)
        return np.stack([self.losses(np.stack(row, axis=-1)) for row in every])


class Chrf(_Sacrebleu):
    """chrF2 (Popović 2015), and chrF2++ with n-grams of words (Popović 2017), as sacreBLEU computes them."""

    unit = "character n-gram"
    name, word_order = "chrF", 0

    def __init__(self) -> None:
        from sacrebleu.metrics.chrf import CHRF

        self.tool = CHRF(word_order=self.word_order)

    def values(self, sums: Counts) -> Values:
        # For each order (of characters, then of words): the n-grams of hypothesis and reference, and the common ones.
        hypothesis, reference, match = (sums[:, part::3] for part in range(3))
        with np.errstate(divide="ignore", invalid="ignore"):
            orders = (hypothesis > 0) & (reference > 0)
            number = orders.sum(axis=1)
            precision = np.where(orders, match / hypothesis, 0.0).sum(axis=1) / number
            recall = np.where(orders, match / reference, 0.0).sum(axis=1) / number
            factor = self.tool.beta**2
            score = 100 * (1 + factor) * precision * recall / (factor * precision + recall)
        return np.nan_to_num(score, nan=0.0)

    def pair_losses(self, texts: Sequence[str]) -> Values:
        characters: list[Sequence[str]] = ["".join(text.split()) for text in texts]
        words: list[Sequence[str]] = [self.tool._remove_punctuation(text) for text in texts]
        columns = []
        for units, orders in ((characters, self.tool.char_order), (words, self.tool.word_order)):
            for order in range(1, orders + 1):
                totals, common = common_ngrams(units, order)
                # Orders that the reference lacks are not counted, as in sacreBLEU.
                columns += [np.where(totals > 0, totals[:, None], 0), totals, common]
        return self._losses_of_pairs(columns)

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

    def _counts(self, rows: Values) -> Counts:
        return np.rint(rows.reshape(-1, 2) * (1, self.SCALE)).astype(np.int64)

    def values(self, sums: Counts) -> Values:
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = 100.0 * sums[:, 0] * self.SCALE / sums[:, 1]
        return np.where(sums[:, 1] > 0, rates, np.where(sums[:, 0] > 0, 100.0, 0.0))

    def losses(self, statistics: Counts) -> Values:
        return self.values(statistics)

    def details(self, sums: Counts) -> dict[str, int | float]:
        return {"edits": int(sums[0]), "ref_words": round(int(sums[1]) / self.SCALE)}


ORDERS = 4
TOKENIZERS: Registry[None] = Registry(
    "--tokenize",
    {
        "13a": (None, "the WMT standard"),
        "none": (None, "no tokenisation, for tokenised texts"),
        "intl": (None, "splits at all Unicode punctuation"),
        "char": (None, "each character is a token"),
        "zh": (None, "each Chinese character is a token; other text is split into words"),
        "ja-mecab": (None, "Japanese words"),
        "ko-mecab": (None, "Korean words"),
        "flores200": (None, "subwords of 200 languages (spBLEU)"),
    },
)
"""sacreBLEU's tokenizers for BLEU."""


class Bleu(_Sacrebleu):
    """Corpus BLEU (Papineni et al. 2002) as sacreBLEU computes it, smoothing `exp`."""

    name = "BLEU"
    unit = "n-gram"
    companion = "chrf"
    punishes_brevity = True

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
        try:  # `force` only silences the warning that a text looks tokenised; what it looks like was decided before
            self.tool = BLEU(tokenize=name, force=True)
        except (ImportError, RuntimeError):
            raise UserError(f"--tokenize {name} needs further packages; pip install 'rescore[cjk]'") from None
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

    def values(self, sums: Counts) -> Values:
        return corpus_bleu(sums)

    def sentence_values(self, statistics: Counts) -> Values:
        return corpus_bleu(statistics, effective_order=True)

    def pair_losses(self, texts: Sequence[str]) -> Values:
        words = [self.tool._preprocess_segment(text).split() for text in texts]
        lengths = np.array([len(sentence) for sentence in words])
        every = [common_ngrams(words, order) for order in range(1, ORDERS + 1)]
        matches, totals = [common for _, common in every], [of_order[:, None] for of_order, _ in every]
        return self._losses_of_pairs([lengths[:, None], lengths, *matches, *totals])

    def details(self, sums: Counts) -> dict[str, int | float]:
        return {"hyp_words": int(sums[0]), "ref_words": int(sums[1])}


def corpus_bleu(rows: Counts, effective_order: bool = False) -> Values:
    """(m, 10) statistics -> (m,) BLEU, as sacreBLEU's `compute_bleu` with smoothing `exp`, many rows at once.

    Tuning asks for the value of every interval; sacreBLEU's own function takes one row a call.

    Args:
        rows: columns: length of the hypothesis, of the closest reference, matching 1- to 4-grams, all 1- to 4-grams.
    """
    length, reference, matches, ngrams = rows[:, 0], rows[:, 1], rows[:, 2:6], rows[:, 6:]
    with np.errstate(divide="ignore", invalid="ignore"):
        # Orders without a match are smoothed: the k-th such counts as 2**-k of a match (NIST's mteval).
        smoothed = 0.5 ** np.cumsum(matches == 0, axis=1)
        logs = np.log(100.0 * np.where(matches > 0, matches, smoothed) / ngrams)
        orders = (ngrams > 0).sum(axis=1)  # a text without n-grams of an order has no longer n-grams either
        used = np.arange(ORDERS) < orders[:, None]
        mean = np.where(used, logs, 0.0).sum(axis=1) / (orders if effective_order else ORDERS)
        brevity = np.where(length < reference, np.exp(1 - reference / length), 1.0)
        complete = matches.any(axis=1) & (effective_order or orders == ORDERS)
        return np.where(complete, brevity * np.exp(mean), 0.0)


def looks_tokenised(references: Sequence[str]) -> bool:
    """Whether full stops stand apart from their words, as a tokeniser leaves them."""
    ending = [reference for reference in references if reference.rstrip().endswith(".")]
    apart = sum(reference.rstrip().endswith(" .") for reference in ending)
    return 2 * apart > len(ending)
