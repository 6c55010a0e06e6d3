"""BLEU, chrF and TER, as sacreBLEU computes them.

sacreBLEU counts hypotheses and cuts texts. Values of many sums, and losses of all pairs
of a list's texts, are computed here, for many rows at once: its own functions take one
row a call.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError, installed_by
from rescore.metrics.base import Counts, Metric, PairLosses, Places, Values
from rescore.options import Declared, option
from rescore.pace import paced
from rescore.parts import Registry

TOGETHER = 500
"""Hypotheses between two looks at the clock."""
ORDERS = 4
"""The longest n-grams of BLEU."""
SHORT_LIST = 64
"""Texts of a list up to which common n-grams are products of small matrices."""
ADDED = 1 << 18
"""Numbers of features that are added together: as many as the cache of a core holds."""
MAX_BYTE = 255
"""The largest number of a byte."""
ROWS = 4096
"""Pairs whose losses are computed together: as many as the cache of a core holds."""


# --- n-grams -------------------------------------------------------------------------


class Ngrams:
    """The n-grams of texts, and how many of them pairs of texts have in common.

    An n-gram that occurs three times makes three features: "at least once", "twice" and
    "three times". Matches are then products of 0/1 vectors. A feature that only one
    text has matches only itself.
    """

    def __init__(self, texts: Sequence[Sequence[Hashable]], orders: int) -> None:
        """Count the n-grams of texts.

        Args:
            texts: The units of each text, words or characters.
            orders: The length of the longest n-grams.
        """
        numbers: dict[Hashable, int] = {}
        numbered: list[int] = []
        for text in texts:
            # A comprehension: this loop sees each character of all texts.
            numbered += [numbers.setdefault(unit, len(numbers)) for unit in text]
        units = np.array(numbered, dtype=np.int64)
        rows = np.repeat(np.arange(len(texts)), list(map(len, texts)))
        grams = units
        self.totals: list[Counts] = []
        """Of each order, the number of n-grams of each text, of shape (texts,)."""
        self._features: list[_Features] = []
        for order in range(1, orders + 1):
            if order > 1:
                # Longer n-grams end a place later, in the same text.
                same = rows[1:] == rows[:-1]
                units = units[1:][same]
                rows = rows[1:][same]
                pairs = grams[:-1][same] * (len(numbers) + 1) + units
                grams = np.unique(pairs, return_inverse=True)[1]
            self.totals.append(np.bincount(rows, minlength=len(texts)))
            self._features.append(_Features(rows, grams, len(texts)))

    def common(self, choices: Places, references: Places) -> Iterator[Counts]:
        """Yield the number of common n-grams of pairs of texts, order by order.

        Args:
            choices: Places of texts.
            references: Places of texts.

        Yields:
            Counts of shape (choices, references).
        """
        itself = choices[:, None] == references
        for totals, features in zip(self.totals, self._features, strict=True):
            if len(choices) <= len(references):
                counts = features.common(choices, references)
            else:
                counts = features.common(references, choices).T
            yield np.where(itself, totals[references], counts)


class _Features:
    """The features of one order that texts share, and how many of them two texts have
    in common.
    """

    def __init__(self, rows: Counts, grams: Counts, texts: int) -> None:
        """Number the features that more than one text has.

        Args:
            rows: The text of each n-gram.
            grams: The number of each n-gram; equal n-grams have equal numbers.
            texts: Number of texts.
        """
        order = np.lexsort((grams, rows))
        rows = rows[order]
        grams = grams[order]
        is_first = np.ones(len(rows), dtype=bool)
        is_first[1:] = (rows[1:] != rows[:-1]) | (grams[1:] != grams[:-1])
        starts = np.flatnonzero(is_first)
        lengths = np.diff(np.append(starts, len(rows)))
        times_before = np.arange(len(rows)) - np.repeat(starts, lengths)
        pairs = grams * (times_before.max(initial=0) + 1) + times_before
        features = np.unique(pairs, return_inverse=True)[1]
        is_shared = np.bincount(features, minlength=1) > 1
        kept = is_shared[features]
        rows = rows[kept]
        own = (is_shared.cumsum() - 1)[features[kept]]
        sizes = np.bincount(rows, minlength=texts)
        number = int(is_shared.sum())
        # The smallest type that holds the sums is added fastest.
        dtype = np.uint8 if sizes.max(initial=0) <= MAX_BYTE else np.uint16
        self._has = np.zeros((number + 1, texts), dtype)
        """1 where a text has a feature; no text has the last feature."""
        self._has[own, rows] = 1
        self._own = np.full((texts, int(sizes.max(initial=0))), number)
        """The features of each text, filled up with the last feature."""
        first = np.repeat(np.cumsum(sizes) - sizes, sizes)
        self._own[rows, np.arange(len(rows)) - first] = own

    def common(self, few: Places, many: Places) -> Counts:
        """Return the number of common features of pairs of texts.

        Args:
            few: Places of texts, whose features are looked up.
            many: Places of texts.

        Returns:
            Counts of shape (few, many).
        """
        has = self._has
        if has.shape[1] <= SHORT_LIST:
            vectors = has.astype(np.float32)
            return (vectors[:, few].T @ vectors[:, many]).astype(np.int64)
        if not np.array_equal(many, np.arange(has.shape[1])):
            has = has[:, many]
        step = max(1, ADDED // max(1, len(many) * self._own.shape[1]))
        counts = np.zeros((len(few), len(many)), dtype=has.dtype)
        for start in range(0, len(few), step):
            own = self._own[few[start : start + step]]
            np.add.reduce(
                has[own], axis=1, dtype=has.dtype, out=counts[start : start + step]
            )
        return counts


# --- metrics -------------------------------------------------------------------------


ENOUGH = 3
"""Texts that end with a full stop, at least, which tell whether texts are tokenised."""


class _Sacrebleu(Metric):
    """A metric that `tool` of sacreBLEU computes."""

    tool: Any

    @property
    def settings(self) -> dict[str, str]:
        settings = self._signature()
        del settings["version"]
        return settings

    @property
    def versions(self) -> dict[str, str]:
        return {"sacrebleu": self._signature()["version"]}

    def _signature(self) -> dict[str, str]:
        """Return sacreBLEU's own signature: how it counts, and its version."""
        self.tool.corpus_score(["x"], [["x"]])  # it signs only what it has scored
        parts = self.tool.get_signature().format().split("|")
        return dict(part.split(":", 1) for part in parts)

    def statistics(
        self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]
    ) -> Counts:
        """Return the statistics of hypotheses in sacreBLEU's columns.

        Args:
            hypotheses: The hypotheses.
            references: One or more references for each hypothesis.

        Returns:
            Counts of shape (hypotheses, k).
        """
        tool = copy(self.tool)  # its cache is for these references
        known: dict[tuple[str, ...], Any] = {}
        """What sacreBLEU counts in references: once for all hypotheses of a list."""
        rows: list[Any] = []
        batches = range(0, len(hypotheses), TOGETHER)
        message = f"{self.name}: %d of %d batches of {TOGETHER} hypotheses"
        for start in paced(batches, message):
            end = start + TOGETHER
            tool._ref_cache = []
            for texts in references[start:end]:
                key = tuple(texts)
                if key not in known:
                    cut = [tool._preprocess_segment(reference) for reference in texts]
                    known[key] = tool._extract_reference_info(cut)
                tool._ref_cache.append(known[key])
            # sacreBLEU's own significance tests use this method; its public functions
            # return scores only. Without references it takes its cache.
            rows += tool._extract_corpus_statistics(hypotheses[start:end], None)
        return self._counts(np.array(rows, dtype=np.float64))

    def measures(self, sums: Counts) -> npt.NDArray[np.bool_]:
        # The second column has the words or characters of references.
        return sums[:, 1] > 0

    def _counts(self, rows: Values) -> Counts:
        """Return sacreBLEU's statistics as whole numbers."""
        return rows.astype(np.int64)

    def _losses_of_pairs(self, columns: Sequence[Values | Counts]) -> Values:
        """Return losses from columns of statistics, some rows at once.

        Args:
            columns: Columns of shape (choices, references), or shapes that broadcast.

        Returns:
            Losses of shape (choices, references).
        """
        every = np.broadcast_arrays(*columns)
        choices, references = every[0].shape
        step = max(1, ROWS // references)
        losses = []
        for start in range(0, choices, step):
            part = [column[start : start + step].ravel() for column in every]
            losses.append(self.losses(np.stack(part, axis=-1)))
        return np.concatenate(losses).reshape(choices, references)


class Chrf(_Sacrebleu):
    """chrF2 (Popović 2015), and chrF2++ with n-grams of words (Popović 2017), as
    sacreBLEU computes them.
    """

    name = "chrF"
    word_order = 0
    unit = "character n-gram"

    def __init__(self, options: Any = None, **values: Any) -> None:
        super().__init__(options, **values)
        from sacrebleu.metrics.chrf import CHRF

        self.tool = CHRF(word_order=self.word_order)

    def values(self, sums: Counts) -> Values:
        # Columns of each order, of characters and then of words: n-grams of the
        # hypothesis, of the reference, and common ones.
        hypothesis = sums[:, 0::3]
        reference = sums[:, 1::3]
        match = sums[:, 2::3]
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
        """Return a function that computes the losses between texts of a list.

        Args:
            texts: The texts of the list.
        """
        characters = ["".join(text.split()) for text in texts]
        words = list(map(self.tool._remove_punctuation, texts))
        ngrams_of_units = (
            Ngrams(characters, self.tool.char_order),
            Ngrams(words, self.tool.word_order),
        )

        def compare(choices: Places, references: Places) -> Values:
            columns: list[Counts] = []
            for ngrams in ngrams_of_units:
                counts = ngrams.common(choices, references)
                for totals, common in zip(ngrams.totals, counts, strict=True):
                    theirs = totals[references]
                    # Orders that the reference lacks are not counted, as in sacreBLEU.
                    ours = np.where(theirs > 0, totals[choices, None], 0)
                    columns += [ours, theirs, common]
            return self._losses_of_pairs(columns)

        return compare

    def details(self, sums: Counts) -> dict[str, int | float]:
        return {"ref_characters": int(sums[1])}


class ChrfPlusPlus(Chrf):
    """chrF2++, with n-grams of words."""

    name = "chrF++"
    word_order = 2


class Ter(_Sacrebleu):
    """Translation edit rate (Snover et al. 2006) as sacreBLEU computes it; slow,
    milliseconds a hypothesis.
    """

    name = "TER"
    higher_is_better = False
    unit = "edit"
    SCALE = 840
    """Reference lengths are means over references. Times this number, the mean over up
    to eight references is whole.
    """

    def __init__(self, options: Any = None, **values: Any) -> None:
        super().__init__(options, **values)
        from sacrebleu.metrics.ter import TER

        self.tool = TER()

    def _counts(self, rows: Values) -> Counts:
        return np.rint(rows.reshape(-1, 2) * (1, self.SCALE)).astype(np.int64)

    def values(self, sums: Counts) -> Values:
        edits = sums[:, 0]
        length = sums[:, 1]
        with np.errstate(divide="ignore", invalid="ignore"):
            rates = 100.0 * edits * self.SCALE / length
        without_reference = np.where(edits > 0, 100.0, 0.0)
        return np.where(length > 0, rates, without_reference)

    def losses(self, statistics: Counts) -> Values:
        return self.values(statistics)

    def details(self, sums: Counts) -> dict[str, int | float]:
        return {"edits": int(sums[0]), "ref_words": round(int(sums[1]) / self.SCALE)}


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

    def mismatch(self, texts: Sequence[str], references: Sequence[str]) -> str:
        """Return a sentence if only the texts, or only the references, are tokenised.

        Args:
            texts: Texts of hypotheses.
            references: Their references.
        """
        return _differently_tokenised(texts, references)

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
        # `force` only silences the warning that a text looks tokenised: `choose` has
        # looked before.
        try:
            self.tool = BLEU(tokenize=name, force=True)
        except (ImportError, RuntimeError):
            raise UserError(
                f"--tokenize {name} needs further packages; {installed_by('cjk')}"
            ) from None
        except OSError as error:
            raise UserError(
                f"--tokenize {name}: sacreBLEU cannot get its model ({error}); connect"
                " once, or set SACREBLEU to a folder that has models/"
            ) from None

    @classmethod
    def choose(cls, options: Any, references: Sequence[str]) -> Bleu:
        """Return the metric with a tokenizer that fits the references.

        Args:
            options: Options of the class `Options`. Without a tokenizer, it is `none`
                for tokenised references and `13a` for others.
            references: The references; empty if they are not known.

        Raises:
            UserError: The tokenizer is unknown, or needs a package or a model.
        """
        if options.tokenise:
            return cls(options)
        usual = "none" if looks_tokenised(references) else "13a"
        return cls(replace(options, tokenise=usual))

    def values(self, sums: Counts) -> Values:
        return corpus_bleu(sums)

    def sentence_values(self, statistics: Counts) -> Values:
        return corpus_bleu(statistics, effective_order=True)

    def pair_losses(self, texts: Sequence[str]) -> PairLosses:
        """Return a function that computes the losses between texts of a list.

        Args:
            texts: The texts of the list.
        """
        words = [self.tool._preprocess_segment(text).split() for text in texts]
        lengths = np.array(list(map(len, words)))
        ngrams = Ngrams(words, ORDERS)

        def compare(choices: Places, references: Places) -> Values:
            totals = [of_order[choices] for of_order in ngrams.totals]
            common = ngrams.common(choices, references)
            scores = bleu_of_pairs(
                lengths[choices], lengths[references], list(common), totals
            )
            return 100.0 - scores

        return compare

    def details(self, sums: Counts) -> dict[str, int | float]:
        return {"hyp_words": int(sums[0]), "ref_words": int(sums[1])}


def corpus_bleu(rows: Counts, effective_order: bool = False) -> Values:
    """Return the BLEU of many sets, as sacreBLEU's `compute_bleu` with smoothing `exp`.

    Tuning asks for the value of every interval; sacreBLEU's own function takes one row
    a call.

    Args:
        rows: Statistics of shape (sets, 10): the length of the hypothesis, of the
            closest reference, matching 1- to 4-grams, and all 1- to 4-grams.
        effective_order: Whether a text of fewer than four words is measured by the
            orders that it has.

    Returns:
        Percentages of shape (sets,).
    """
    length = rows[:, 0]
    reference = rows[:, 1]
    matches = rows[:, 2:6]
    ngrams = rows[:, 6:]
    with np.errstate(divide="ignore", invalid="ignore"):
        # Orders without a match are smoothed: the k-th of them counts as 2**-k of a
        # match (NIST's mteval).
        smoothed = 0.5 ** np.cumsum(matches == 0, axis=1)
        logs = np.log(100.0 * np.where(matches > 0, matches, smoothed) / ngrams)
        # A text without n-grams of an order has no longer n-grams either.
        orders = (ngrams > 0).sum(axis=1)
        is_used = np.arange(ORDERS) < orders[:, None]
        divisor = orders if effective_order else ORDERS
        mean = np.where(is_used, logs, 0.0).sum(axis=1) / divisor
        brevity = np.where(length < reference, np.exp(1 - reference / length), 1.0)
        is_complete = effective_order | (orders == ORDERS)
        is_defined = matches.any(axis=1) & is_complete
        return np.where(is_defined, brevity * np.exp(mean), 0.0)


def bleu_of_pairs(
    lengths: Counts,
    references: Counts,
    common: Sequence[Counts],
    totals: Sequence[Counts],
) -> Values:
    """Return what `corpus_bleu` returns with `effective_order`, for all pairs of texts.

    Sums of logarithms come from tables: a list of 1,000 texts has a million pairs, with
    few different counts.

    Args:
        lengths: Words of each choice, of shape (choices,).
        references: Words of each reference, of shape (references,).
        common: Common n-grams of each order, of shape (choices, references).
        totals: N-grams of each order of each choice, of shape (choices,).

    Returns:
        Percentages of shape (choices, references).
    """
    number_of_orders = np.sum([of_order > 0 for of_order in totals], axis=0)
    logs_of_totals = np.sum([np.log(np.maximum(each, 1)) for each in totals], axis=0)
    logs = np.log(100.0 * np.maximum(np.arange(lengths.max(initial=0) + 1), 1))
    logs[0] = 0.0
    # The k-th order without a match counts as 2**-k of a match.
    missing = np.arange(ORDERS + 1)
    logs_of_missing = missing * np.log(100.0)
    logs_of_missing -= np.log(2.0) * missing * (missing + 1) / 2
    scores = np.empty((len(lengths), len(references)))
    step = max(1, ROWS // max(1, len(references)))
    for start in range(0, len(lengths), step):
        rows = slice(start, start + step)
        orders = number_of_orders[rows, None]
        sums = np.zeros(scores[rows].shape)
        matched = np.zeros(scores[rows].shape, dtype=np.int8)
        for of_order in common:
            sums += logs[of_order[rows]]
            matched += of_order[rows] > 0
        sums += logs_of_missing[orders - matched]
        sums -= logs_of_totals[rows, None]
        sums /= np.maximum(orders, 1)
        sums += np.minimum(0.0, 1 - references / np.maximum(lengths[rows, None], 1))
        scores[rows] = np.where(matched > 0, np.exp(sums), 0.0)
    return scores


def looks_tokenised(texts: Sequence[str]) -> bool:
    """Return whether most full stops stand apart from their words, as a tokeniser
    leaves them.
    """
    ending = _with_full_stop(texts)
    apart = sum(text.rstrip().endswith(" .") for text in ending)
    return 2 * apart > len(ending)


def _with_full_stop(texts: Sequence[str]) -> list[str]:
    """Return the texts that end with a full stop."""
    return [text for text in texts if text.rstrip().endswith(".")]


def _differently_tokenised(texts: Sequence[str], references: Sequence[str]) -> str:
    """Return a sentence if only texts, or only references, look tokenised; empty if
    they look alike, or too few have a full stop to tell.
    """
    ending = (_with_full_stop(texts), _with_full_stop(references))
    if min(map(len, ending)) < ENOUGH:
        return ""
    if looks_tokenised(references) and not looks_tokenised(texts):
        return (
            "the references look tokenised (blanks before full stops) and the texts do"
            " not, so the figures are too low; measure the tokenised texts, or give"
            " references without tokenisation"
        )
    if looks_tokenised(texts) and not looks_tokenised(references):
        return (
            "the texts look tokenised (blanks before full stops) and the references do"
            " not, so figures may be too low; --detokenize LANGUAGE of rescore rerank"
            " or convert undoes the tokenisation of the texts"
        )
    return ""
