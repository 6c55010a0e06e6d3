"""BLEU, chrF and TER, as sacreBLEU computes them, from statistics of n-grams."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.metrics.base import Counts, Metric, PairLosses, Places, Values
from rescore.options import Declared, option
from rescore.pace import paced
from rescore.parts import Registry


class Ngrams:
    """The n-grams of texts, and how many of them pairs of texts have in common.

    An n-gram that occurs three times makes three features, "at least once", "twice",
    "three times"; matches are then products of 0/1 vectors. A feature that only one
    text has matches only itself.
    """

    def __init__(self, texts: Sequence[Sequence[Hashable]], orders: int) -> None:
        numbers: dict[Hashable, int] = {}
        grams = np.array(
            [numbers.setdefault(unit, len(numbers)) for text in texts for unit in text],
            dtype=np.int64,
        )
        rows = np.repeat(np.arange(len(texts)), list(map(len, texts)))
        units = grams
        self.totals: list[Counts] = []
        """(n,) of each order, the number of n-grams of each text"""
        self._has: list[npt.NDArray[np.float32]] = []
        for order in range(1, orders + 1):
            if order > 1:  # the n-grams that end a place later, in the same text
                units, rows, same = units[1:], rows[1:], rows[1:] == rows[:-1]
                grams = np.unique(
                    (grams[:-1] * (len(numbers) + 1) + units)[same], return_inverse=True
                )[1]
                units, rows = units[same], rows[same]
            self.totals.append(np.bincount(rows, minlength=len(texts)))
            self._has.append(_features(rows, grams, len(texts)))

    def common(self, choices: Places, references: Places) -> Iterator[Counts]:
        """For each order, (choices, references) the number of common n-grams."""
        for totals, has in zip(self.totals, self._has, strict=True):
            every = (has[choices] @ has[references].T).astype(np.int64)
            yield np.where(choices[:, None] == references, totals[references], every)


def _features(rows: Counts, grams: Counts, number: int) -> npt.NDArray[np.float32]:
    """(number, features) 1 where a text has a feature that another text has, too; texts
    are numbered in `rows`.
    """
    order = np.lexsort((grams, rows))
    rows, grams = rows[order], grams[order]
    first = np.append(True, (rows[1:] != rows[:-1]) | (grams[1:] != grams[:-1]))[
        : len(rows)
    ]
    starts = np.flatnonzero(first)
    # how often before
    times = np.arange(len(rows)) - np.repeat(
        starts, np.diff(np.append(starts, len(rows)))
    )
    features = np.unique(
        grams * (times.max(initial=0) + 1) + times, return_inverse=True
    )[1]
    is_shared = np.bincount(features, minlength=1) > 1
    here = is_shared[features]
    has = np.zeros((number, int(is_shared.sum())), dtype=np.float32)
    has[rows[here], (is_shared.cumsum() - 1)[features[here]]] = 1.0
    return has


TOGETHER = 500
"""Hypotheses between two looks at the clock."""


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
        parts = dict(
            part.split(":", 1) for part in self.tool.get_signature().format().split("|")
        )
        return parts, parts.pop("version")

    def statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Counts:
        """Columns: as sacreBLEU has them."""
        # sacreBLEU's own significance tests use this method; its public functions
        # return scores only.
        rows: list[Any] = []
        batches = range(0, len(hypotheses), TOGETHER)
        for start in paced(
            batches, f"{self.name}: %d of %d batches of {TOGETHER} hypotheses"
        ):
            # None where there are fewer references
            streams = list(zip_longest(*references[start : start + TOGETHER]))
            rows += self.tool._extract_corpus_statistics(
                hypotheses[start : start + TOGETHER], streams
            )
        return self._counts(np.array(rows, dtype=np.float64))

    def _counts(self, rows: Values) -> Counts:
        return rows.astype(np.int64)

    def _losses_of_pairs(self, columns: Sequence[Values | Counts]) -> Values:
        """(n, m) losses from (n, m) columns of statistics; some rows at once, which the
        cache of a core holds.
        """
        every = np.broadcast_arrays(*columns)
        step = max(1, 4096 // every[0].shape[1])
        starts = range(0, len(every[0]), step)
        parts = (
            np.stack([column[start : start + step] for column in every], axis=-1)
            for start in starts
        )
        return np.concatenate(
            [self.losses(p.reshape(-1, len(every))).reshape(p.shape[:2]) for p in parts]
        )


class Chrf(_Sacrebleu):
    """chrF2 (Popović 2015), and chrF2++ with n-grams of words (Popović 2017), as
    sacreBLEU computes them.
    """

    unit = "character n-gram"
    name, word_order = "chrF", 0

    def __init__(self, options: Any = None, **values: Any) -> None:
        super().__init__(options, **values)
        from sacrebleu.metrics.chrf import CHRF

        self.tool = CHRF(word_order=self.word_order)

    def values(self, sums: Counts) -> Values:
        # For each order (of characters, then of words): the n-grams of hypothesis and
        # reference, and the common ones.
        hypothesis, reference, match = (sums[:, part::3] for part in range(3))
        with np.errstate(divide="ignore", invalid="ignore"):
            orders = (hypothesis > 0) & (reference > 0)
            number = orders.sum(axis=1)
            precision = np.where(orders, match / hypothesis, 0.0).sum(axis=1) / number
            recall = np.where(orders, match / reference, 0.0).sum(axis=1) / number
            factor = self.tool.beta**2
            score = (
                100 * (1 + factor) * precision * recall / (factor * precision + recall)
            )
        return np.nan_to_num(score, nan=0.0)

    def pair_losses(self, texts: Sequence[str]) -> PairLosses:
        characters = Ngrams(
            ["".join(text.split()) for text in texts], self.tool.char_order
        )
        words = Ngrams(
            list(map(self.tool._remove_punctuation, texts)), self.tool.word_order
        )

        def compare(choices: Places, references: Places) -> Values:
            columns: list[Counts] = []
            for ngrams in (characters, words):
                for totals, common in zip(
                    ngrams.totals, ngrams.common(choices, references), strict=True
                ):
                    # orders that the reference lacks are not counted, as in sacreBLEU
                    theirs = totals[references]
                    columns += [
                        np.where(theirs > 0, totals[choices, None], 0),
                        theirs,
                        common,
                    ]
            return self._losses_of_pairs(columns)

        return compare

    def details(self, sums: Counts) -> dict[str, int | float]:
        return {"ref_characters": int(sums[1])}


class ChrfPlusPlus(Chrf):
    """chrF2++, with n-grams of words."""

    name, word_order = "chrF++", 2


class Ter(_Sacrebleu):
    """Translation edit rate (Snover et al. 2006) as sacreBLEU computes it; slow,
    milliseconds a hypothesis.
    """

    name = "TER"
    higher_is_better = False
    unit = "edit"
    SCALE = 840
    """Reference lengths are means over references; times this they are whole for up to
    eight.
    """

    def __init__(self, options: Any = None, **values: Any) -> None:
        super().__init__(options, **values)
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
        "zh": (
            None,
            "each Chinese character is a token; other text is split into words",
        ),
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
            "sacreBLEU tokenizer.  [default: none if the references are tokenised, else"
            " 13a]",
            "--tokenize",
            choices=TOKENIZERS,
            describes=TOKENIZERS,
        )

    def __init__(self, options: Any = None, **values: Any) -> None:
        super().__init__(options, **values)
        from sacrebleu.metrics.bleu import BLEU

        name = TOKENIZERS.check(self.options.tokenise or "13a")
        # `force` only silences the warning that a text looks tokenised; what it looks
        # like was decided before
        try:
            self.tool = BLEU(tokenize=name, force=True)
        except (ImportError, RuntimeError):
            raise UserError(
                f"--tokenize {name} needs further packages; pip install 'rescore[cjk]'"
            ) from None
        except OSError as error:
            raise UserError(
                f"--tokenize {name}: sacreBLEU cannot get its model ({error}); connect"
                " once, or set SACREBLEU to a folder that has models/"
            ) from None

    @classmethod
    def choose(cls, options: Any, references: Sequence[str]) -> Bleu:
        """The metric with the requested tokenizer; by default `none` for tokenised
        references, 13a for others.
        """
        usual = "none" if looks_tokenised(references) else "13a"
        return cls(replace(options, tokenise=options.tokenise or usual))

    def values(self, sums: Counts) -> Values:
        return corpus_bleu(sums)

    def sentence_values(self, statistics: Counts) -> Values:
        return corpus_bleu(statistics, effective_order=True)

    def pair_losses(self, texts: Sequence[str]) -> PairLosses:
        words = [self.tool._preprocess_segment(text).split() for text in texts]
        lengths, ngrams = np.array(list(map(len, words))), Ngrams(words, ORDERS)

        def compare(choices: Places, references: Places) -> Values:
            totals = [of_order[choices, None] for of_order in ngrams.totals]
            sizes = [lengths[choices, None], lengths[references]]
            return self._losses_of_pairs(
                [*sizes, *ngrams.common(choices, references), *totals]
            )

        return compare

    def details(self, sums: Counts) -> dict[str, int | float]:
        return {"hyp_words": int(sums[0]), "ref_words": int(sums[1])}


def corpus_bleu(rows: Counts, effective_order: bool = False) -> Values:
    """(m, 10) statistics -> (m,) BLEU, as sacreBLEU's `compute_bleu` with smoothing
    `exp`, many rows at once.

    Tuning asks for the value of every interval; sacreBLEU's own function takes one row
    a call.

    Args:
        rows: columns: length of the hypothesis, of the closest reference, matching 1-
            to 4-grams, all 1- to 4-grams.
    """
    length, reference, matches, ngrams = (
        rows[:, 0],
        rows[:, 1],
        rows[:, 2:6],
        rows[:, 6:],
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        # Orders without a match are smoothed: the k-th such counts as 2**-k of a match
        # (NIST's mteval).
        smoothed = 0.5 ** np.cumsum(matches == 0, axis=1)
        logs = np.log(100.0 * np.where(matches > 0, matches, smoothed) / ngrams)
        # a text without n-grams of an order has no longer n-grams either
        orders = (ngrams > 0).sum(axis=1)
        used = np.arange(ORDERS) < orders[:, None]
        mean = np.where(used, logs, 0.0).sum(axis=1) / (
            orders if effective_order else ORDERS
        )
        brevity = np.where(length < reference, np.exp(1 - reference / length), 1.0)
        complete = matches.any(axis=1) & (effective_order or orders == ORDERS)
        return np.where(complete, brevity * np.exp(mean), 0.0)


def looks_tokenised(references: Sequence[str]) -> bool:
    """Whether full stops stand apart from their words, as a tokeniser leaves them."""
    ending = [reference for reference in references if reference.rstrip().endswith(".")]
    apart = sum(reference.rstrip().endswith(" .") for reference in ending)
    return 2 * apart > len(ending)
