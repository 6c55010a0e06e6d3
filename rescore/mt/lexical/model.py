"""Translation models of single words (Brown et al. 1993): tables, links, the model's
folder, and its readings.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
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


class Texts(NamedTuple):
    """Texts as numbers of words, one text behind another."""

    ids: Ids
    """(words,)"""
    starts: Ids
    """(texts + 1,) where each begins, and where the last one ends."""

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]]) -> Texts:
        starts = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        return cls(
            np.fromiter(
                (number for text in texts for number in text), np.int64, int(starts[-1])
            ),
            starts,
        )

    @property
    def lengths(self) -> Ids:
        """(texts,)"""
        return np.diff(self.starts)

    def with_null(self) -> Texts:
        """With NULL in front of each."""
        return Texts(
            np.insert(self.ids, self.starts[:-1], NULL),
            self.starts + np.arange(len(self.starts)),
        )


@dataclass(frozen=True)
class Links:
    """All links of some predicted words."""

    given: Texts
    """With NULL in front of each."""
    predicted: Texts
    words: Ids
    """(words,) places in `predicted.ids`."""
    texts: Ids
    """(words,) the text that each word is in."""

    @cached_property
    def lengths(self) -> Ids:
        """(words,) how many links each word has; the first is that to NULL."""
        return self.given.lengths[self.texts]

    @cached_property
    def first(self) -> Ids:
        """(words,) where the links of each word begin."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def place(self) -> Ids:
        """(links,) the place of the given word in its text, from 1; 0 for NULL."""
        return np.arange(int(self.lengths.sum())) - self.spread(self.first)

    @property
    def given_words(self) -> Ids:
        """(links,) the numbers of the given words."""
        return self.given.ids[self.spread(self.given.starts[self.texts]) + self.place]

    @property
    def predicted_words(self) -> Ids:
        """(links,) the numbers of the predicted words."""
        return self.spread(self.predicted.ids[self.words])

    @cached_property
    def distance(self) -> Floats:
        """(links,) |i / n - j / m|, how far the i-th of n given words is from the j-th
        of m predicted ones; NULL: 0.
        """
        ahead = (
            self.words - self.predicted.starts[self.texts] + 1
        ) / self.predicted.lengths[self.texts]
        distance: Floats = np.abs(
            self.place / self.spread(np.maximum(self.lengths - 1, 1))
            - self.spread(ahead)
        )
        distance[self.first] = 0.0
        return distance

    def spread(self, values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """(words,) -> (links,)"""
        return np.repeat(values, self.lengths)

    def sums(self, values: Floats) -> Floats:
        """(links,) -> (words,)"""
        return np.add.reduceat(values, self.first) if len(values) else values


def texts_of_words(texts: Texts) -> Ids:
    """(words,) the text that each word is in."""
    return np.repeat(np.arange(len(texts.starts) - 1), texts.lengths)


def portions(links: Ids, most: int) -> Iterator[slice]:
    """Words whose links are at most `most` together, or one word; `links` (words,) are
    their numbers.
    """
    ends = np.cumsum(links)
    start = 0
    while start < len(links):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield slice(start, stop)
        start = stop


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
        """(links,) the links of a word sum up to 1."""
        if self.tension is None:
            return links.spread(1.0 / links.lengths)
        weights = np.exp(-self.tension * links.distance)
        weights[links.first] = 0.0
        sums = links.sums(weights)
        prior = (
            (1.0 - self.null) * weights / links.spread(np.where(sums > 0, sums, 1.0))
        )
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
    """(size + 1,) where the entries of each given word begin."""
    words: npt.NDArray[np.int32]
    """(entries,) predicted words, ascending for each given word."""
    counts: npt.NDArray[np.float32]
    """(entries,) expected counts."""
    totals: Floats
    """(size,) the expected counts of each given word, including counts too small for an
    entry.
    """
    frequencies: npt.NDArray[np.int64]
    """(size,) how often each word was predicted."""

    @property
    def size(self) -> int:
        return len(self.totals)

    @cached_property
    def keys(self) -> Ids:
        """(entries,) given word * size + predicted word, ascending."""
        return (
            np.repeat(np.arange(self.size), np.diff(self.starts)) * self.size
            + self.words
        )

    def probabilities(self, given: Ids, predicted: Ids, smoothing: Smoothing) -> Floats:
        """(links,) t of each pair of words."""
        prior = (1.0 - smoothing.copied) * self.unigrams(predicted)
        prior += smoothing.copied * ((given == predicted) & (given != NULL))
        totals = np.where(
            given < self.size, self.totals[np.minimum(given, self.size - 1)], 0.0
        )
        probabilities: Floats = (
            self.look_up(given, predicted) + smoothing.strength * prior
        ) / (totals + smoothing.strength)
        return probabilities

    def unigrams(self, words: Ids) -> Floats:
        """(words,) u: frequencies, with one added for each word and for all unknown
        words together.
        """
        seen = np.where(
            words < self.size, self.frequencies[np.minimum(words, self.size - 1)], 0
        )
        unigrams: Floats = (seen + 1.0) / (self.frequencies.sum() + self.size)
        return unigrams

    def look_up(self, given: Ids, predicted: Ids) -> Floats:
        """(links,) the expected counts of pairs of words; 0 where there is no entry.

        Each different pair is looked up once, in ascending order, so memory is read
        sequentially.
        """
        known = np.flatnonzero((given < self.size) & (predicted < self.size))
        pairs, which = distinct(given[known] * self.size + predicted[known])
        place = np.minimum(np.searchsorted(self.keys, pairs), len(self.keys) - 1)
        counts = np.zeros(len(given))
        counts[known] = np.where(self.keys[place] == pairs, self.counts[place], 0.0)[
            which
        ]
        return counts


def distinct(keys: Ids) -> tuple[Ids, Ids]:
    """The different keys, ascending, and for each key its rank among them: numpy's
    `unique`, four times as fast.

    Key and place are sorted as one number, which numpy does with vector instructions.

    Args:
        keys: (n,) at least 0, below 2**63 / n.
    """
    if not len(keys):
        return keys, keys
    bits = len(keys).bit_length()
    packed = (keys << bits) | np.arange(len(keys))
    packed.sort()
    place = packed & ((1 << bits) - 1)
    packed >>= bits
    new = np.ones(len(keys), dtype=bool)
    np.not_equal(packed[1:], packed[:-1], out=new[1:])
    rank = np.empty(len(keys), dtype=np.int64)
    rank[place] = np.cumsum(new) - 1
    return packed[new], rank


def union(first: Ids, second: Ids) -> Ids:
    """The ascending union of two ascending arrays; fast if their ranges overlap
    little.
    """
    if not (len(first) and len(second)):
        return first if len(first) else second
    start, stop = (
        np.searchsorted(first, second[0]),
        np.searchsorted(second, first[-1], side="right"),
    )
    return np.concatenate(
        [
            first[:start],
            distinct(np.concatenate([first[start:], second[:stop]]))[0],
            second[stop:],
        ]
    )


SCHEMA = "rescore/lexical/1"
FILES = ("model.safetensors", "config.json", "vocabulary.json", "tokenizer.json")
UNITS = ("word", "subword")
DIRECTIONS = ("direct", "channel")
"""p(target | source), p(source | target)."""
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
    """Of ln((target words + 1) / (source words + 1)) over the pairs."""
    length_deviation: float
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
    """Numbers from 1."""
    tables: dict[str, LinkCounts]
    """By direction."""

    def cut(self, texts: Sequence[str]) -> list[list[str]]:
        """The words, or subwords, of each text."""
        return (
            self.tokenizer.words(texts)
            if self.config.unit == "word"
            else self.tokenizer.pieces(texts)
        )

    def numbered(
        self, texts: Sequence[Sequence[str]], unknown: dict[str, int]
    ) -> Texts:
        """The numbers of words; unknown ones get numbers above all others, which are
        kept in `unknown`.
        """
        beyond = len(self.vocabulary) + 1
        return Texts.of(
            [
                [
                    (
                        number
                        if (number := self.vocabulary.get(word))
                        else unknown.setdefault(word, beyond + len(unknown))
                    )
                    for word in words
                ]
                for words in texts
            ]
        )

    def log_probs(
        self, given: Texts, predicted: Texts, direction: str
    ) -> tuple[Floats, Floats]:
        """(words,) twice: ln p of each predicted word, and the share of it that is not
        due to a given word.

        Args:
            given: with NULL in front of each text. direction: a name of `DIRECTIONS`.
        """
        alignment, table = self.config.alignment[direction], self.tables[direction]
        texts = texts_of_words(predicted)
        log_probs, unexplained = np.empty(len(texts)), np.empty(len(texts))
        for portion in portions(given.lengths[texts], LINKS):
            links = Links(
                given, predicted, np.arange(portion.start, portion.stop), texts[portion]
            )
            translations = table.probabilities(
                links.given_words, links.predicted_words, self.config.smoothing
            )
            joint = alignment.prior(links) * translations
            sums = links.sums(joint)
            log_probs[portion], unexplained[portion] = (
                np.log(sums),
                joint[links.first] / sums,
            )
        return log_probs, unexplained

    def save(self, folder: Path, card: str) -> None:
        """Write the folder, the card with it."""
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {
            f"{direction}.{name}": np.ascontiguousarray(
                getattr(table, name), dtype=kind
            )
            for direction, table in self.tables.items()
            for name, kind in ARRAYS.items()
        }
        with replacing(folder / "model.safetensors") as path:
            save_file(arrays, path)
        write_text(
            folder / "config.json", json.dumps(asdict(self.config), indent=2) + "\n"
        )
        write_text(
            folder / "vocabulary.json",
            json.dumps(list(self.vocabulary), ensure_ascii=False) + "\n",
        )
        self.tokenizer.save(folder / "tokenizer.json")
        write_text(folder / "README.md", card)

    @classmethod
    def load(cls, folder: Path) -> LexicalModel:
        """Read a folder."""
        for name in FILES:
            if not (folder / name).is_file():
                raise UserError(
                    f"{folder}: no {name}; give a folder that `rescore train --lm"
                    " lexical` wrote"
                )
        config = parsed(
            read_json(folder / "config.json"),
            LexicalConfig,
            str(folder / "config.json"),
        )
        if (
            config.schema != SCHEMA
            or config.unit not in UNITS
            or set(config.alignment) != set(DIRECTIONS)
        ):
            raise UserError(
                f"{folder / 'config.json'}: not of {SCHEMA}; train the model again with"
                " this version"
            )
        words = parsed(
            read_json(folder / "vocabulary.json"),
            list[str],
            str(folder / "vocabulary.json"),
        )
        vocabulary = {word: number for number, word in enumerate(words, 1)}
        path = folder / "model.safetensors"
        try:
            arrays = load_file(path)
        except (SafetensorError, OSError, ValueError) as error:
            raise UserError(f"{path}: not a whole safetensors file ({error})") from None
        tables = {
            direction: _table(arrays, direction, len(words) + 1, path)
            for direction in DIRECTIONS
        }
        return cls(
            config, Tokenizer.load(folder / "tokenizer.json"), vocabulary, tables
        )


def _table(
    arrays: dict[str, np.ndarray], direction: str, size: int, path: Path
) -> LinkCounts:
    """The arrays of a direction, checked so that every look-up stays within bounds."""
    of_direction = {name: arrays.get(f"{direction}.{name}") for name in ARRAYS}
    if any(
        array is None or array.dtype != np.dtype(ARRAYS[name])
        for name, array in of_direction.items()
    ):
        raise UserError(
            f"{path}: {direction}: an array is absent or of another type; copy the"
            " folder again"
        )
    table = LinkCounts(**of_direction)  # type: ignore[arg-type]
    fits = (
        table.starts.shape == (size + 1,)
        and table.words.shape == table.counts.shape == (table.starts[-1],)
        and table.totals.shape == table.frequencies.shape == (size,)
        and bool((np.diff(table.starts) >= 0).all())
        and bool(((table.words > 0) & (table.words < size)).all())
        and bool((np.diff(table.keys) > 0).all())
    )
    if not fits:
        raise UserError(
            f"{path}: {direction}: arrays do not fit the vocabulary; copy the folder"
            " again"
        )
    return table


LINKS = 1 << 22
"""Links that are looked at together: 300 MiB."""


class LexicalLM:
    """One reading of a lexical model."""

    capabilities = Capabilities(source=True)
    precision = "float64"

    def __init__(self, name: str, folder: Path, options: Sequence[str] = ()) -> None:
        """
        Args:
            options: of `channel`, `coverage`, `length`.
        """
        self.name = self.model = name
        self._folder = folder
        self._options = [
            option for option in ("channel", "coverage", "length") if option in options
        ]
        self._model = LexicalModel.load(folder)

    @cached_property
    def fingerprint(self) -> str:
        content = hashlib.sha256(b"lexical")
        for name in FILES:
            content.update(sha256(self._folder / name))
        return hashlib.sha256(
            f"{self._options} {content.hexdigest()}".encode()
        ).hexdigest()

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question with a source, in their order."""
        pairs = [question.pair(False) for question in questions]
        texts = list(dict.fromkeys(text for both in pairs for text in both))
        cut = dict(zip(texts, self._model.cut(texts), strict=True))
        sources, targets = ([cut[both[side]] for both in pairs] for side in (0, 1))
        if "length" in self._options:
            return [
                self._length(len(source), len(target))
                for source, target in zip(sources, targets, strict=True)
            ]
        # Whether the source's words are the tokens; coverage counts source words that
        # the hypothesis does not explain.
        channel = ("channel" in self._options) != ("coverage" in self._options)
        given, predicted = (targets, sources) if channel else (sources, targets)
        unknown: dict[str, int] = {}
        numbers = self._model.numbered(predicted, unknown)
        values = self._values(
            self._model.numbered(given, unknown),
            numbers,
            "channel" if channel else "direct",
        )
        beyond = len(self._model.vocabulary)
        results = []
        for rank, words in enumerate(predicted):
            span = slice(int(numbers.starts[rank]), int(numbers.starts[rank + 1]))
            foreign = tuple(np.flatnonzero(numbers.ids[span] > beyond).tolist())
            results.append(TokenScores(words, values[span], foreign))
        return results

    def _values(self, given: Texts, predicted: Texts, direction: str) -> Floats:
        """(words,) the score of each predicted word."""
        likelihood, unexplained = self._model.log_probs(
            given.with_null(), predicted, direction
        )
        return -unexplained if "coverage" in self._options else likelihood

    def _length(self, source: int, target: int) -> TokenScores:
        """ln of the log-normal density of the ratio of lengths, as one token."""
        config = self._model.config
        away = (
            math.log((target + 1) / (source + 1)) - config.length_mean
        ) / config.length_deviation
        value = -0.5 * away * away - math.log(
            config.length_deviation * math.sqrt(2 * math.pi)
        )
        return TokenScores(["length"], np.array([value]))
