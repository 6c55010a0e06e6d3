"""Translation models of single words (Brown et al. 1993): the model's folder, and its readings as language models."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from rescore.errors import UserError
from rescore.files import parsed, read_json, replacing, write_text
from rescore.lms.base import Capabilities, Question, TokenScores
from rescore.lms.lexical.table import Alignment, Floats, LinkCounts, Links, Smoothing, Texts, portions, texts_of_words
from rescore.lms.neural.tokenizer import Tokenizer

SCHEMA = "rescore/lexical/1"
FILES = ("model.safetensors", "config.json", "vocabulary.json", "tokenizer.json")
UNITS = ("word", "subword")
DIRECTIONS = ("direct", "channel")
"""p(target | source), p(source | target)."""
ARRAYS = {"starts": np.int64, "words": np.int32, "counts": np.float32, "totals": np.float64, "frequencies": np.int64}


@dataclass(frozen=True, slots=True)
class LexicalConfig:
    """The settings of a model, beside its arrays."""

    unit: str
    """`word`, or `subword` for the tokenizer's pieces."""
    length_mean: float
    """Of ln((target words + 1) / (source words + 1)) over the pairs."""
    length_deviation: float
    alignment: dict[str, Alignment] = field(default_factory=lambda: dict.fromkeys(DIRECTIONS, Alignment()))
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
        return self.tokenizer.words(texts) if self.config.unit == "word" else self.tokenizer.pieces(texts)

    def numbered(self, texts: Sequence[Sequence[str]], unknown: dict[str, int]) -> Texts:
        """The numbers of words; unknown ones get numbers above all others, which are kept in `unknown`."""
        beyond = len(self.vocabulary) + 1
        return Texts.of(
            [
                [
                    number if (number := self.vocabulary.get(word)) else unknown.setdefault(word, beyond + len(unknown))
                    for word in words
                ]
                for words in texts
            ]
        )

    def log_probs(self, given: Texts, predicted: Texts, direction: str) -> tuple[Floats, Floats]:
        """(words,) twice: ln p of each predicted word, and the share of it that is not due to a given word.

        Args:
            given: with NULL in front of each text. direction: a name of `DIRECTIONS`.
        """
        alignment = self.config.alignment[direction]
        texts = texts_of_words(predicted)
        log_probs, unexplained = np.empty(len(texts)), np.empty(len(texts))
        for portion in portions(given.lengths[texts], LINKS):
            links = Links(given, predicted, np.arange(portion.start, portion.stop), texts[portion])
            joint = alignment.prior(links) * self.translations(links, direction)
            sums = links.sums(joint)
            log_probs[portion], unexplained[portion] = np.log(sums), joint[links.first] / sums
        return log_probs, unexplained

    def translations(self, links: Links, direction: str) -> Floats:
        """(links,) t of each pair of words."""
        table = self.tables[direction]
        return table.probabilities(links.given_words, links.predicted_words, self.config.smoothing)

    def save(self, folder: Path, card: str) -> None:
        """Write the folder, the card with it."""
        folder.mkdir(parents=True, exist_ok=True)
        arrays = {
            f"{direction}.{name}": np.ascontiguousarray(getattr(table, name), dtype=kind)
            for direction, table in self.tables.items()
            for name, kind in ARRAYS.items()
        }
        with replacing(folder / "model.safetensors") as path:
            save_file(arrays, path)
        write_text(folder / "config.json", json.dumps(asdict(self.config), indent=2) + "\n")
        write_text(folder / "vocabulary.json", json.dumps(list(self.vocabulary), ensure_ascii=False) + "\n")
        self.tokenizer.save(folder / "tokenizer.json")
        write_text(folder / "README.md", card)

    @classmethod
    def load(cls, folder: Path) -> LexicalModel:
        """Read a folder.

        Raises:
            UserError: a file is absent or damaged, or they do not belong together.
        """
        for name in FILES:
            if not (folder / name).is_file():
                raise UserError(f"{folder}: no {name}; give a folder that `rescore train --lm lexical` wrote")
        config = parsed(read_json(folder / "config.json"), LexicalConfig, str(folder / "config.json"))
        if config.schema != SCHEMA or config.unit not in UNITS or set(config.alignment) != set(DIRECTIONS):
            raise UserError(f"{folder / 'config.json'}: not of {SCHEMA}; train the model again with this version")
        words = parsed(read_json(folder / "vocabulary.json"), list[str], str(folder / "vocabulary.json"))
        vocabulary = {word: number for number, word in enumerate(words, 1)}
        path = folder / "model.safetensors"
        arrays = read_arrays(path)
        tables = {direction: _table(arrays, direction, len(words) + 1, path) for direction in DIRECTIONS}
        return cls(config, Tokenizer.load(folder / "tokenizer.json"), vocabulary, tables)


def fingerprint(folder: Path) -> str:
    """Of all that decides scores."""
    digest = hashlib.sha256(b"lexical")
    for name in FILES:
        with open(folder / name, "rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file.

    Raises:
        UserError: the file is damaged.
    """
    try:
        return load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise UserError(f"{path}: not a whole safetensors file ({error})") from None


def check_types(arrays: Mapping[str, np.ndarray | None], expected: Mapping[str, type], place: str) -> None:
    """
    Raises:
        UserError: one of the expected arrays is absent, or is of another type.
    """
    for name, kind in expected.items():
        array = arrays.get(name)
        if array is None or array.dtype != np.dtype(kind):
            raise UserError(f"{place}: an array is absent or of another type; copy the folder again")


def _table(arrays: dict[str, np.ndarray], direction: str, size: int, path: Path) -> LinkCounts:
    """The arrays of a direction, checked so that every look-up stays within bounds.

    Raises:
        UserError: an array is absent, or does not fit the others.
    """
    of_direction = {name: arrays.get(f"{direction}.{name}") for name in ARRAYS}
    check_types(of_direction, ARRAYS, f"{path}: {direction}")
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
        raise UserError(f"{path}: {direction}: arrays do not fit the vocabulary; copy the folder again")
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
        self._options = [option for option in ("channel", "coverage", "length") if option in options]
        self._model = LexicalModel.load(folder)

    @cached_property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self._options} {fingerprint(self._folder)}".encode()).hexdigest()

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question with a source, in their order."""
        pairs = [question.pair(False) for question in questions]
        texts = list(dict.fromkeys(text for both in pairs for text in both))
        cut = dict(zip(texts, self._model.cut(texts), strict=True))
        sources, targets = ([cut[both[side]] for both in pairs] for side in (0, 1))
        if "length" in self._options:
            return [self._length(len(source), len(target)) for source, target in zip(sources, targets, strict=True)]
        # Whether the source's words are the tokens; coverage counts source words that the hypothesis does not explain.
        channel = ("channel" in self._options) != ("coverage" in self._options)
        given, predicted = (targets, sources) if channel else (sources, targets)
        unknown: dict[str, int] = {}
        numbers = self._model.numbered(predicted, unknown)
        values = self._values(self._model.numbered(given, unknown), numbers, "channel" if channel else "direct")
        beyond = len(self._model.vocabulary)
        results = []
        for rank, words in enumerate(predicted):
            span = slice(int(numbers.starts[rank]), int(numbers.starts[rank + 1]))
            foreign = tuple(np.flatnonzero(numbers.ids[span] > beyond).tolist())
            results.append(TokenScores(words, values[span], foreign))
        return results

    def _values(self, given: Texts, predicted: Texts, direction: str) -> Floats:
        """(words,) the score of each predicted word."""
        likelihood, unexplained = self._model.log_probs(given.with_null(), predicted, direction)
        return -unexplained if "coverage" in self._options else likelihood

    def _length(self, source: int, target: int) -> TokenScores:
        """ln of the log-normal density of the ratio of lengths, as one token."""
        config = self._model.config
        away = (math.log((target + 1) / (source + 1)) - config.length_mean) / config.length_deviation
        value = -0.5 * away * away - math.log(config.length_deviation * math.sqrt(2 * math.pi))
        return TokenScores(["length"], np.array([value]))
