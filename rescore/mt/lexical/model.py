"""Translation models of single words (Brown et al. 1993), and scores from them.

A predicted word is linked to a given word or to NULL. Its probability is the sum over
the links of prior(link) * t(predicted word | given word). `estimation` counts links in
training data; this module smooths the counts, keeps them in a folder, and scores texts.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from rescore.errors import UserError
from rescore.files import parsed, read_json, replacing, sha256, write_text
from rescore.lms.base import Capabilities, Question, TokenScores
from rescore.lms.tokenizer import Tokenizer

Ids = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Number = TypeVar("Number", bound=np.generic)

NULL = 0
"""The number of the word that stands in front of every given text."""


LINKS = 1 << 22
"""Links whose probabilities are computed together: 300 MiB."""


# --- texts and links -----------------------------------------------------------------


class Texts(NamedTuple):
    """Texts as numbers of words, one text behind another."""

    ids: Ids
    """The numbers of the words, of shape (words,)."""
    starts: Ids
    """Where each text begins, and where the last one ends, of shape (texts + 1,)."""

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]]) -> Texts:
        """Return texts from the numbers of the words of each."""
        starts = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        ids = np.fromiter(chain.from_iterable(texts), np.int64, int(starts[-1]))
        return cls(ids, starts)

    @property
    def lengths(self) -> Ids:
        """Number of words of each text, of shape (texts,)."""
        return np.diff(self.starts)

    def with_null(self) -> Texts:
        """Return the texts with NULL in front of each."""
        return Texts(
            np.insert(self.ids, self.starts[:-1], NULL),
            self.starts + np.arange(len(self.starts)),
        )


@dataclass(frozen=True)
class Links:
    """All links of some predicted words: each word has one to NULL and one to each word
    of the given text.
    """

    given: Texts
    """The given texts with NULL in front of each."""
    predicted: Texts
    words: Ids
    """Places in `predicted.ids`, of shape (words,)."""
    texts: Ids
    """The text that each word is in, of shape (words,)."""

    @cached_property
    def lengths(self) -> Ids:
        """Number of links of each word, of shape (words,); the first is to NULL."""
        return self.given.lengths[self.texts]

    @cached_property
    def first(self) -> Ids:
        """Where the links of each word begin, of shape (words,)."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def place(self) -> Ids:
        """The place of the given word in its text, from 1; 0 for NULL; of shape
        (links,).
        """
        return np.arange(int(self.lengths.sum())) - self.spread(self.first)

    @property
    def given_words(self) -> Ids:
        """The numbers of the given words, of shape (links,)."""
        return self.given.ids[self.spread(self.given.starts[self.texts]) + self.place]

    @property
    def predicted_words(self) -> Ids:
        """The numbers of the predicted words, of shape (links,)."""
        return self.spread(self.predicted.ids[self.words])

    @cached_property
    def distance(self) -> Floats:
        """Distances |i / n - j / m| of the i-th of n given words from the j-th of m
        predicted words, of shape (links,); 0 for NULL.
        """
        j = self.words - self.predicted.starts[self.texts] + 1
        predicted_share = j / self.predicted.lengths[self.texts]
        given_share = self.place / self.spread(np.maximum(self.lengths - 1, 1))
        distance: Floats = np.abs(given_share - self.spread(predicted_share))
        distance[self.first] = 0.0
        return distance

    def spread(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Return values of words, of shape (words,), for each of their links, of shape
        (links,).
        """
        return np.repeat(values, self.lengths)

    def sums(self, values: Floats) -> Floats:
        """Return values of links, of shape (links,), summed over the links of each
        word, of shape (words,).
        """
        return np.add.reduceat(values, self.first) if len(values) else values


def texts_of_words(texts: Texts) -> Ids:
    """Return the text that each word is in, of shape (words,)."""
    return np.repeat(np.arange(len(texts.starts) - 1), texts.lengths)


def portions(links: Ids, most: int) -> Iterator[slice]:
    """Yield slices of words that have at most `most` links together, or of one word.

    Args:
        links: Number of links of each word, of shape (words,).
        most: The largest number of links of a slice.
    """
    ends = np.cumsum(links)
    start = 0
    while start < len(links):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield slice(start, stop)
        start = stop


# --- probabilities -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Alignment:
    """The prior probability of a link by its position.

    Without a tension, all links are equally probable (Model 1). With a tension, this is
    fast_align's Model 2 (Dyer et al. 2013): NULL has the probability `null`, and links
    share the rest in proportion to exp(-tension * distance).
    """

    tension: float | None = None
    null: float = 0.08

    def prior(self, links: Links) -> Floats:
        """Return the prior probability of each link, of shape (links,).

        The probabilities of the links of a word add up to 1.
        """
        if self.tension is None:
            return links.spread(1.0 / links.lengths)
        weights = np.exp(-self.tension * links.distance)
        weights[links.first] = 0.0
        sums = links.sums(weights)
        divisors = links.spread(np.where(sums > 0, sums, 1.0))
        prior = (1.0 - self.null) * weights / divisors
        prior[links.first] = np.where(sums > 0, self.null, 1.0)
        return prior


@dataclass(frozen=True, slots=True)
class Smoothing:
    """The prior translations of a given word (a Dirichlet prior, MacKay and Peto 1995).

    With c the expected counts of the training, and u the frequency of the predicted
    word:

        t(w | g) = (c(w, g) + strength * prior(w | g)) / (c(g) + strength)
        prior(w | g) = (1 - copied) * u(w) + copied * (1 if w = g else 0)

    An unknown word can translate into any word, or stay as it is, as names and numbers
    do.
    """

    strength: float = 1.0
    copied: float = 0.3


@dataclass(frozen=True)
class LinkCounts:
    """Expected counts of links between words, the result of EM.

    Words are numbered from 1 to `size` - 1 for both sides together; 0 is NULL. Larger
    numbers are words that the training did not see; each number stands for one
    spelling.
    """

    starts: npt.NDArray[np.int64]
    """Where the entries of each given word begin, of shape (size + 1,)."""
    words: npt.NDArray[np.int32]
    """Predicted words, ascending for each given word, of shape (entries,)."""
    counts: npt.NDArray[np.float32]
    """Expected counts, of shape (entries,)."""
    totals: Floats
    """The expected counts of each given word, including counts too small for an entry,
    of shape (size,).
    """
    frequencies: npt.NDArray[np.int64]
    """How often each word was predicted, of shape (size,)."""

    @property
    def size(self) -> int:
        """Number of words, NULL among them."""
        return len(self.totals)

    @cached_property
    def keys(self) -> Ids:
        """given word * size + predicted word, ascending, of shape (entries,)."""
        given = np.repeat(np.arange(self.size), np.diff(self.starts))
        return given * self.size + self.words

    def probabilities(self, given: Ids, predicted: Ids, smoothing: Smoothing) -> Floats:
        """Return t of pairs of words, of shape (links,).

        Args:
            given: The given words, of shape (links,).
            predicted: The predicted words, of shape (links,).
            smoothing: The prior of translations.
        """
        is_copy = (given == predicted) & (given != NULL)
        prior = (1.0 - smoothing.copied) * self.unigrams(predicted)
        prior[is_copy] += smoothing.copied
        known = np.minimum(given, self.size - 1)
        totals = np.where(given < self.size, self.totals[known], 0.0)
        counts = self.look_up(given, predicted)
        probabilities: Floats = (counts + smoothing.strength * prior) / (
            totals + smoothing.strength
        )
        return probabilities

    def unigrams(self, words: Ids) -> Floats:
        """Return u of words, of shape (words,).

        One is added to the frequency of each word, and for all unknown words together.
        """
        known = np.minimum(words, self.size - 1)
        frequencies = np.where(words < self.size, self.frequencies[known], 0)
        unigrams: Floats = (frequencies + 1.0) / (self.frequencies.sum() + self.size)
        return unigrams

    def look_up(self, given: Ids, predicted: Ids) -> Floats:
        """Return the expected counts of pairs of words; 0 where there is no entry.

        Each different pair is looked up once, in ascending order, so memory is read
        sequentially.

        Args:
            given: The given words, of shape (links,).
            predicted: The predicted words, of shape (links,).

        Returns:
            Counts of shape (links,).
        """
        known = np.flatnonzero((given < self.size) & (predicted < self.size))
        pairs, ranks = distinct(given[known] * self.size + predicted[known])
        place = np.minimum(np.searchsorted(self.keys, pairs), len(self.keys) - 1)
        is_entry = self.keys[place] == pairs
        counts_of_pairs = np.where(is_entry, self.counts[place], 0.0)
        counts = np.zeros(len(given))
        counts[known] = counts_of_pairs[ranks]
        return counts


def distinct(keys: Ids) -> tuple[Ids, Ids]:
    """Return the different keys, ascending, and the rank of each key among them.

    This is numpy's `unique`, four times as fast: key and place are sorted as one
    number, which numpy does with vector instructions.

    Args:
        keys: Numbers of at least 0, below 2**63 / n, of shape (n,).

    Returns:
        The different keys, and ranks of shape (n,).
    """
    if not len(keys):
        return keys, keys
    bits = len(keys).bit_length()
    packed = (keys << bits) | np.arange(len(keys))
    packed.sort()
    place = packed & ((1 << bits) - 1)
    packed >>= bits
    is_new = np.ones(len(keys), dtype=bool)
    np.not_equal(packed[1:], packed[:-1], out=is_new[1:])
    rank = np.empty(len(keys), dtype=np.int64)
    rank[place] = np.cumsum(is_new) - 1
    return packed[is_new], rank


def union(first: Ids, second: Ids) -> Ids:
    """Return the ascending union of two ascending arrays.

    It is fast if the ranges of the arrays overlap little.
    """
    if not len(first):
        return second
    if not len(second):
        return first
    start = np.searchsorted(first, second[0])
    stop = np.searchsorted(second, first[-1], side="right")
    overlap = np.concatenate([first[start:], second[:stop]])
    return np.concatenate([first[:start], distinct(overlap)[0], second[stop:]])


# --- the model's folder --------------------------------------------------------------


SCHEMA = "rescore/lexical/1"
FILES = ("model.safetensors", "config.json", "vocabulary.json", "tokenizer.json")
UNITS = ("word", "subword")
OPTIONS = ("channel", "coverage", "length")
DIRECTIONS = ("direct", "channel")
"""The directions p(target | source) and p(source | target)."""
ARRAYS = {
    "starts": np.int64,
    "words": np.int32,
    "counts": np.float32,
    "totals": np.float64,
    "frequencies": np.int64,
}


@dataclass(frozen=True, slots=True)
class LexicalConfig:
    """The settings of a model, beside its arrays."""

    unit: str
    """`word`, or `subword` for the tokenizer's pieces."""
    length_mean: float
    """Mean of ln((target words + 1) / (source words + 1)) over the pairs."""
    length_deviation: float
    """Standard deviation of the same."""
    alignment: dict[str, Alignment] = field(
        default_factory=lambda: dict.fromkeys(DIRECTIONS, Alignment())
    )
    smoothing: Smoothing = field(default_factory=Smoothing)
    schema: str = SCHEMA


@dataclass(frozen=True, slots=True)
class LexicalModel:
    """Both directions, for words numbered together."""

    config: LexicalConfig
    tokenizer: Tokenizer
    vocabulary: dict[str, int]
    """The number of each word, from 1."""
    tables: dict[str, LinkCounts]
    """The counts of each direction."""

    def cut(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the words, or subwords, of each text."""
        if self.config.unit == "word":
            return self.tokenizer.words(texts)
        return self.tokenizer.pieces(texts)

    def numbered(
        self, texts: Sequence[Sequence[str]], unknown: dict[str, int]
    ) -> Texts:
        """Return texts as numbers of words.

        Args:
            texts: The words of each text.
            unknown: Numbers of unknown words, above the numbers of all others. New
                unknown words are added.
        """
        beyond = len(self.vocabulary) + 1
        numbers = []
        for words in texts:
            own = []
            for word in words:
                number = self.vocabulary.get(word)
                if number is None:
                    number = unknown.setdefault(word, beyond + len(unknown))
                own.append(number)
            numbers.append(own)
        return Texts.of(numbers)

    def log_probs(
        self, given: Texts, predicted: Texts, direction: str
    ) -> tuple[Floats, Floats]:
        """Return the log-probability of each predicted word, and its unexplained share.

        Args:
            given: The given texts with NULL in front of each.
            predicted: The predicted texts.
            direction: A name of `DIRECTIONS`.

        Returns:
            Natural logs of shape (words,), and shares of the probabilities that are due
            to NULL, of shape (words,).
        """
        alignment = self.config.alignment[direction]
        table = self.tables[direction]
        texts = texts_of_words(predicted)
        log_probs = np.empty(len(texts))
        unexplained = np.empty(len(texts))
        for portion in portions(given.lengths[texts], LINKS):
            words = np.arange(portion.start, portion.stop)
            links = Links(given, predicted, words, texts[portion])
            translations = table.probabilities(
                links.given_words, links.predicted_words, self.config.smoothing
            )
            joint = alignment.prior(links) * translations
            sums = links.sums(joint)
            log_probs[portion] = np.log(sums)
            unexplained[portion] = joint[links.first] / sums
        return log_probs, unexplained

    def save(self, folder: Path, card: str) -> None:
        """Write the model and its card to a folder.

        Args:
            folder: The folder; it is made if it is absent.
            card: The text of README.md.
        """
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {}
        for direction, table in self.tables.items():
            for name, kind in ARRAYS.items():
                array = np.ascontiguousarray(getattr(table, name), dtype=kind)
                arrays[f"{direction}.{name}"] = array
        with replacing(folder / "model.safetensors") as path:
            save_file(arrays, path)
        config = json.dumps(asdict(self.config), indent=2)
        write_text(folder / "config.json", config + "\n")
        vocabulary = json.dumps(list(self.vocabulary), ensure_ascii=False)
        write_text(folder / "vocabulary.json", vocabulary + "\n")
        self.tokenizer.save(folder / "tokenizer.json")
        write_text(folder / "README.md", card)

    @classmethod
    def load(cls, folder: Path) -> LexicalModel:
        """Return the model of a folder.

        Raises:
            UserError: A file is absent or damaged, or another version wrote it.
        """
        for name in FILES:
            if not (folder / name).is_file():
                raise UserError(
                    f"{folder}: no {name}; give a folder that `rescore train --lm"
                    " lexical` wrote"
                )
        config = _config(folder / "config.json")
        path = folder / "vocabulary.json"
        words = parsed(read_json(path), list[str], str(path))
        vocabulary = {word: number for number, word in enumerate(words, 1)}
        path = folder / "model.safetensors"
        try:
            arrays = load_file(path)
        except (SafetensorError, OSError, ValueError) as error:
            raise UserError(f"{path}: not a whole safetensors file ({error})") from None
        size = len(words) + 1
        tables = {name: _table(arrays, name, size, path) for name in DIRECTIONS}
        tokenizer = Tokenizer.load(folder / "tokenizer.json")
        return cls(config, tokenizer, vocabulary, tables)


def _config(path: Path) -> LexicalConfig:
    """Return the settings of a model."""
    config = parsed(read_json(path), LexicalConfig, str(path))
    is_known = config.schema == SCHEMA and config.unit in UNITS
    if not is_known or set(config.alignment) != set(DIRECTIONS):
        raise UserError(
            f"{path}: not of {SCHEMA}; train the model again with this version"
        )
    return config


def _table(
    arrays: dict[str, np.ndarray], direction: str, size: int, path: Path
) -> LinkCounts:
    """Return the arrays of a direction, checked so that every look-up stays within
    bounds.
    """
    own = {}
    for name, kind in ARRAYS.items():
        array = arrays.get(f"{direction}.{name}")
        if array is None or array.dtype != np.dtype(kind):
            raise UserError(
                f"{path}: {direction}: an array is absent or of another type; copy the"
                " folder again"
            )
        own[name] = array
    table = LinkCounts(**own)
    if not _fits(table, size):
        raise UserError(
            f"{path}: {direction}: arrays do not fit the vocabulary; copy the folder"
            " again"
        )
    return table


def _fits(table: LinkCounts, size: int) -> bool:
    """Return whether the arrays of a table fit a vocabulary of `size` words."""
    if table.starts.shape != (size + 1,):
        return False
    entries = (table.starts[-1],)
    if table.words.shape != entries or table.counts.shape != entries:
        return False
    if table.totals.shape != (size,) or table.frequencies.shape != (size,):
        return False
    if np.any(np.diff(table.starts) < 0):
        return False
    if np.any(table.words <= 0) or np.any(table.words >= size):
        return False
    return bool(np.all(np.diff(table.keys) > 0))


# --- scores --------------------------------------------------------------------------


class LexicalLM:
    """One reading of a lexical model."""

    capabilities = Capabilities(source=True)
    precision = "float64"

    def __init__(self, name: str, folder: Path, options: Sequence[str] = ()) -> None:
        """Load the model.

        Args:
            name: The name of the column.
            folder: The folder of the model.
            options: Some of `channel`, `coverage` and `length`.

        Raises:
            UserError: The folder has no model, or a damaged one.
        """
        self.name = name
        self.model = name
        self._folder = folder
        self._options = [option for option in OPTIONS if option in options]
        self._model = LexicalModel.load(folder)

    @cached_property
    def fingerprint(self) -> str:
        """A digest of the model's files and the reading."""
        content = hashlib.sha256(b"lexical")
        for name in FILES:
            content.update(sha256(self._folder / name))
        about = f"{self._options} {content.hexdigest()}"
        return hashlib.sha256(about.encode()).hexdigest()

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """Return the scores of questions that have a source, in their order."""
        pairs = [question.pair(False) for question in questions]
        texts = list(dict.fromkeys(chain.from_iterable(pairs)))
        words = dict(zip(texts, self._model.cut(texts), strict=True))
        sources = [words[source] for source, _ in pairs]
        targets = [words[target] for _, target in pairs]
        if "length" in self._options:
            return list(map(self._length, sources, targets))
        # Coverage counts words that the other side does not explain: those of the
        # source, and with `channel` those of the hypothesis.
        if ("channel" in self._options) != ("coverage" in self._options):
            return self._scores(targets, sources, "channel")
        return self._scores(sources, targets, "direct")

    def _scores(
        self,
        given: Sequence[Sequence[str]],
        predicted: Sequence[list[str]],
        direction: str,
    ) -> list[TokenScores]:
        """Return the scores of the words of predicted texts."""
        unknown: dict[str, int] = {}
        predicted_texts = self._model.numbered(predicted, unknown)
        given_texts = self._model.numbered(given, unknown).with_null()
        values, unexplained = self._model.log_probs(
            given_texts, predicted_texts, direction
        )
        if "coverage" in self._options:
            values = -unexplained
        last = len(self._model.vocabulary)
        results = []
        for rank, words in enumerate(predicted):
            start = int(predicted_texts.starts[rank])
            span = slice(start, start + len(words))
            foreign = np.flatnonzero(predicted_texts.ids[span] > last)
            results.append(TokenScores(words, values[span], tuple(foreign.tolist())))
        return results

    def _length(self, source: Sequence[str], target: Sequence[str]) -> TokenScores:
        """Return the natural log of the log-normal density of the ratio of lengths, as
        one token.
        """
        config = self._model.config
        ratio = math.log((len(target) + 1) / (len(source) + 1))
        away = (ratio - config.length_mean) / config.length_deviation
        scale = math.log(config.length_deviation * math.sqrt(2 * math.pi))
        return TokenScores(["length"], np.array([-0.5 * away * away - scale]))
