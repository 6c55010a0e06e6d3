"""The normalisation that decides which words are equal: explicit, and part of the signature."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import numpy as np
from rapidfuzz.distance import Levenshtein

from rescore.errors import UserError
from rescore.formats.references import begin_with_ids
from rescore.formats.source import read_lines
from rescore.formats.text import UNSPACED_LETTERS
from rescore.metrics.alignment import error_counts
from rescore.metrics.glm import Glm, Readings, ambiguous, first, nearest
from rescore.options import Declared, option

UNKNOWN = ("<unk>", "[unk]")
"""A recogniser's unknown word, in any case."""
YES = ("split_hyphens", "drop_punctuation", "drop_apostrophes", "drop_unknown", "nfkc")
WHISPER = {"whisper_english": "english:EnglishTextNormalizer", "whisper_basic": "basic:BasicTextNormalizer"}
"""Whisper's normalisers: modules and classes of the package whisper_normalizer."""
FLAGS = ("case_sensitive", *YES, *WHISPER, "split_characters", "split_mixed")
"""The switches of a `Normaliser`; a mapping file comes on top."""

UNSPACED = re.compile(f"[{UNSPACED_LETTERS}]")
"""A character of Chinese, Japanese or Thai, which put no blanks between words."""
_MIXED = re.compile(f"[{UNSPACED_LETTERS}]|[^{UNSPACED_LETTERS}]+")


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A stretch of a text, and the words that it is compared as."""

    text: str
    """The piece as it is written."""
    written: tuple[str, ...]
    """Its words as they are written: several if normalisation joins words ("twenty one" becomes "21")."""
    words: tuple[str, ...]
    """Its words as they are compared; empty for a piece that does not count, such as a filler."""
    glued: bool = False
    """Whether no blank stands before it, as between Chinese characters."""

    @property
    def tokens(self) -> list[Token]:
        """The words of the piece; each word refers to the piece."""
        return [Token.of(self, place) for place in range(len(self.words))]


class Token(str):
    """A word as it is compared, with a reference to its piece of the text."""

    __slots__ = ("piece", "place")
    piece: Piece
    place: int
    """Among the words of the piece."""

    @classmethod
    def of(cls, piece: Piece, place: int) -> Token:
        token = cls(piece.words[place])
        token.piece, token.place = piece, place
        return token

    @property
    def written(self) -> str:
        """The written form of a word that has a piece of its own."""
        return self.piece.text if len(self.piece.words) == 1 else str(self)


def rewritten(tokens: Sequence[Token]) -> str:
    """The text that tokens were made of, as it was written; of a piece that is not complete, the words."""
    text, place = "", 0
    while place < len(tokens):
        token = tokens[place]
        run = tokens[place : place + len(token.piece.words)]
        whole = [neighbour.place for neighbour in run if neighbour.piece is token.piece] == list(
            range(len(token.piece.words))
        )
        text += "" if not text or (token.piece.glued and token.place == 0) else " "
        text += token.piece.text if whole else str(token)
        place += len(run) if whole else 1
    return text


@dataclass(frozen=True, slots=True)
class Normaliser(Declared):
    """Splits a text into its words. The default is sclite's: case is ignored, every other difference counts.

    Unicode's compatibility forms come first (NFKC), then Whisper's normaliser. `glm` replaces as NIST's global mapping
    files say, after case is folded; then hyphens part compounds; then punctuation goes, but for apostrophes and hyphens
    within words; then the recogniser's unknown word. Last, words are split into characters.
    """

    case_sensitive: bool = option(False, "WER, CER: count a difference in case as an error.")
    split_hyphens: bool = option(False, "WER, CER: split compounds at hyphens.")
    drop_punctuation: bool = option(False, "WER, CER: remove punctuation marks around words.")
    drop_apostrophes: bool = option(False, "WER, CER: remove apostrophes (it's becomes its).")
    drop_unknown: bool = option(False, "WER, CER: remove <unk>.")
    glm: Glm | None = option(
        None, "WER, CER: apply a NIST global mapping file (GLM).", metavar="FILE", reads=True, read=Glm.load
    )
    whisper_english: bool = option(
        False,
        "WER, CER: normalise hypotheses and references with Whisper's normaliser for English, Whisper's basic "
        "normaliser for other languages, or Unicode NFKC. May be repeated.",
        "--normalizer",
        value="whisper-english",
        repeated=True,
    )
    """Whisper's normaliser of English: numbers as digits, contractions in full, American spelling, without fillers,
    punctuation and what stands in brackets."""
    whisper_basic: bool = option(False, "", "--normalizer", value="whisper-basic")
    """Whisper's normaliser of other languages: without punctuation, symbols and what stands in brackets."""
    nfkc: bool = option(False, "", "--normalizer", value="nfkc")
    """Unicode's compatibility forms: full-width letters and digits, for example, become the usual ones."""
    split_characters: bool = option(
        False,
        "Words in WER, confidences and rover. characters: each character is a word; mixed: each Chinese, Japanese or "
        "Thai character is a word.",
        "--split",
        value="characters",
    )
    """Each character is a word."""
    split_mixed: bool = option(False, "", "--split", value="mixed")
    """Each character of Chinese, Japanese and Thai is a word."""

    def __call__(self, text: str) -> list[str]:
        """The words of a hypothesis; of alternatives the first."""
        return first(self.readings(text))

    def reference(self, text: str) -> list[str]:
        """The words of a reference; of alternatives the first."""
        return first(self.readings(text, reference=True))

    def nearest(self, reference: str | Sequence[str], hypothesis: str) -> tuple[list[str], list[str]]:
        """The words of both texts; of alternatives, the most similar pair. The reference may be a list of words."""
        expected = self.readings(reference, True) if isinstance(reference, str) else [[list(reference)]]
        return nearest(expected, self.readings(hypothesis))

    def nearest_of(self, references: Sequence[str], hypothesis: str) -> tuple[list[str], list[str]]:
        """As `nearest`, with the closest of several references."""
        return self.nearest(self.closest(references, hypothesis), hypothesis)

    def readings(self, text: str, reference: bool = False) -> Readings:
        """The words of a text, in parts; of each part the alternatives. Only a mapping file makes more than one."""
        if self.nfkc:
            text = unicodedata.normalize("NFKC", text)
        for name in WHISPER:
            if getattr(self, name):
                text = _whisper(name)(text)
        if not self.case_sensitive:
            text = text.lower()
        parts = self.glm(text, reference) if self.glm else [(text,)]
        return [[self._words(alternative) for alternative in part] for part in parts]

    def _words(self, text: str) -> list[str]:
        if self.split_hyphens:
            text = text.replace("-", " ")
        if self.drop_apostrophes:
            text = re.sub("['\u2019]", "", text)
        words = text.split()
        if self.drop_unknown:
            words = [word for word in words if word.lower() not in UNKNOWN]
        if self.drop_punctuation:
            words = [stripped for word in words if (stripped := _without_punctuation(word))]
        return [part for word in words for part in self.split(word)]

    def split(self, word: str) -> Sequence[str]:
        """The parts of a written word that are compared as words: characters, or the word itself."""
        if self.split_characters:
            return list(word)
        return _MIXED.findall(word) if self.split_mixed else (word,)

    @property
    def unit(self) -> str:
        """The units of texts, for the signature: words between blanks, characters, or both."""
        return "character" if self.split_characters else "mixed" if self.split_mixed else "space"

    def pieces(self, text: str) -> list[Piece]:
        """The pieces of the text from left to right: written words with their compared words.

        A word whose normalisation depends on its sentence forms one piece with its neighbours.
        """
        written = [(part, place > 0) for word in text.split() for place, part in enumerate(self.split(word))]
        words = [_alone(self, part) for part, _ in written]
        apart = [word for part_words in words for word in part_words]
        whole = self(text)
        if apart == whole:
            return [
                Piece(part, (part,), part_words, glued)
                for (part, glued), part_words in zip(written, words, strict=True)
            ]
        ends = _ends([len(part_words) for part_words in words], apart, whole)
        pieces, begin, last = [], 0, 0
        for place, end in enumerate(ends, 1):
            if end is not None:
                covered = written[begin:place]
                shown = "".join(part if glued else f" {part}" for part, glued in covered).strip()
                pieces.append(Piece(shown, tuple(part for part, _ in covered), tuple(whole[last:end]), covered[0][1]))
                begin, last = place, end
        return pieces

    def tokens(self, text: str) -> list[Token]:
        """The words of a text as `__call__` returns them, each with its written form."""
        return [token for piece in self.pieces(text) for token in piece.tokens]

    def closest(self, references: Sequence[str], hypothesis: str) -> str:
        """The reference with the fewest word errors, the first of equals."""
        if len(references) == 1:
            return references[0]
        pairs = [self.nearest(reference, hypothesis) for reference in references]
        errors = error_counts([pair[0] for pair in pairs], [pair[1] for pair in pairs]).sum(axis=1)
        return references[int(errors.argmin())]

    @property
    def flags(self) -> tuple[str, ...]:
        """The names of the switches that are on, without `glm`."""
        return tuple(name for name in FLAGS if getattr(self, name))

    def merged_with(self, normaliser: Normaliser) -> Normaliser:
        """The union of both normalisers; of two mapping files, the argument's file counts."""
        return Normaliser(
            **{name: True for name in FLAGS if name in self.flags or name in normaliser.flags},
            glm=normaliser.glm or self.glm,
        )

    @property
    def settings(self) -> dict[str, str]:
        """For the signature: the case, and settings other than the default."""
        return {
            "case": "mixed" if self.case_sensitive else "lc",
            **{name.replace("_", "-"): "yes" for name in YES if getattr(self, name)},
            **({"glm": self.glm.digest} if self.glm else {}),
            **{name.replace("_", "-"): _whisper_version(name) for name in WHISPER if getattr(self, name)},
        }


EXACT = Normaliser(case_sensitive=True)
"""Words as they are written."""


@lru_cache(maxsize=1 << 16)
def _alone(normaliser: Normaliser, word: str) -> tuple[str, ...]:
    """The words of a text of one word."""
    return tuple(normaliser(word))


def _ends(lengths: Sequence[int], apart: Sequence[str], whole: Sequence[str]) -> list[int | None]:
    """For each word, its end in `whole`; None if the word forms one piece with the next word.

    Args:
        lengths: how many of `apart` each has.
    """
    ends: dict[int, int] = {}
    for block in Levenshtein.editops(apart, whole).as_matching_blocks():  # the words between two ends are one piece
        for place in range(block.size + 1):
            ends.setdefault(block.a + place, block.b + place)
    ends[len(apart)] = len(whole)
    return [ends.get(end) for end in np.cumsum(lengths).tolist()]


CACHED, SHORT = 1 << 17, 1000
"""Texts of which Whisper's normalisers keep the result, and their greatest length in characters: bounds memory."""


@cache
def _whisper(name: str) -> Callable[[str], str]:
    """One of `WHISPER`, which is slow: short texts are cached."""
    module, _, kind = WHISPER[name].partition(":")
    try:
        function: Callable[[str], str] = getattr(import_module(f"whisper_normalizer.{module}"), kind)()
    except ImportError:
        option = name.replace("_", "-")
        raise UserError(
            f"--normalizer {option} needs the package whisper-normalizer; pip install 'rescore[whisper]'"
        ) from None
    cached = lru_cache(CACHED)(function)
    return lambda text: (cached if len(text) <= SHORT else function)(text)


def _whisper_version(name: str) -> str:
    """The package's version, which figures depend on: versions differ in their spellings."""
    _whisper(name)
    return version("whisper-normalizer")


def _without_punctuation(word: str) -> str:
    kept = [letter for letter in word if letter in "'\u2019-" or unicodedata.category(letter)[0] not in "PS"]
    return "".join(kept).strip("'\u2019-")


@dataclass(frozen=True, slots=True)
class WordList:
    """The words of a file: one or more per line, or Kaldi's form, an utterance and its words per line."""

    lines: tuple[str, ...]
    path: str
    by_utterance: bool = False
    """Whether each line begins with an utterance, for which its words are listed."""

    @classmethod
    def load(cls, path: str | Path) -> WordList:
        """Read a file of words.

        If all lines begin with different ids that contain a digit, and some ids are followed by words, each utterance
        has its own list.

        Raises:
            UserError: the file cannot be read, is not UTF-8, or has no word; or most lines begin with ids, but one does
                not, or an id is duplicated.
        """
        numbered = {line: number for number, line in enumerate(read_lines(Path(path), empty=True), 1) if line}
        lines = tuple(sorted(numbered))
        if not lines:
            raise UserError(f"{path}: no word in it; expected one per line")
        by_utterance = begin_with_ids(lines) and any(len(line.split()) > 1 for line in lines)
        with_ids = [line for line in lines if set(line.split()[0]) & set("0123456789")]
        if not by_utterance and 2 * len(with_ids) > len(lines) and any(len(line.split()) > 1 for line in with_ids):
            first = Counter(line.split()[0] for line in lines)
            wrong = min(numbered[line] for line in lines if line not in with_ids or first[line.split()[0]] > 1)
            raise UserError(
                f"{path}: line {wrong}: most lines begin with an utterance, but this one does not, or its utterance is "
                "duplicated; give each line its utterance, or none"
            )
        return cls(lines, str(path), by_utterance)

    @property
    def digest(self) -> str:
        """Of the words, in any order."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()[:12]

    @property
    def entries(self) -> list[str]:
        """The words of all lines, without utterances."""
        return [words for _, words in self._lists()] if self.by_utterance else list(map(meant, self.lines))

    def terms(self, normaliser: Normaliser) -> frozenset[tuple[str, ...]]:
        """The words of each entry as those of references are compared."""
        return frozenset(words for entry in self.entries if (words := tuple(normaliser.reference(entry))))

    def terms_by_utterance(self, normaliser: Normaliser) -> dict[str, frozenset[tuple[str, ...]]]:
        """The terms of each utterance, each of one word unless tabs separate them; empty if all share a list."""
        lists: dict[str, frozenset[tuple[str, ...]]] = {}
        for line in self.lines if self.by_utterance else ():
            name, *terms = line.split("\t") if "\t" in line else line.split()
            lists[name.strip()] = frozenset(words for term in terms if (words := tuple(normaliser.reference(term))))
        return lists

    def _lists(self) -> list[tuple[str, str]]:
        """Each utterance and its words; empty if all utterances share a list."""
        parts = [" ".join(line.split()).partition(" ") for line in self.lines if self.by_utterance]
        return [(name, words) for name, _, words in parts]

    def words(self, normaliser: Normaliser) -> frozenset[str]:
        """As the words of references are compared."""
        return frozenset(word for entry in self.entries for word in normaliser.reference(entry))

    @property
    def lower_by_utterance(self) -> dict[str, frozenset[str]]:
        """The words of each utterance in lower case; empty if all utterances share a list."""
        return {name: frozenset(words.lower().split()) for name, words in self._lists()}

    def words_by_utterance(self, normaliser: Normaliser) -> dict[str, frozenset[str]]:
        """The words of each utterance; empty if all utterances share a list."""
        return {name: frozenset(normaliser.reference(words)) for name, words in self._lists()}


def meant(line: str) -> str:
    """The term of a line of a word list: `term`, or `heard => term`, each perhaps with a tab and a weight."""
    entry = line.partition("\t")[0]
    return (entry.rpartition("=>")[2] if "=>" in entry else entry).strip()


def paired_words(
    references: Sequence[str], hypotheses: Sequence[str], normaliser: Normaliser
) -> tuple[list[list[str]], list[list[str]]]:
    """The words of each pair of texts, as `Normaliser.nearest` has them; equal texts are normalised once."""
    expected = {text: normaliser.readings(text, reference=True) for text in dict.fromkeys(references)}
    heard = {text: normaliser.readings(text) for text in dict.fromkeys(hypotheses)}
    # One list of words for all places of a text: errors are counted in numbers, and each list is numbered once.
    words = [{text: first(readings) for text, readings in side.items()} for side in (expected, heard)]
    expected_words, heard_words = [words[0][text] for text in references], [words[1][text] for text in hypotheses]
    if normaliser.glm:
        for place, pair in enumerate(zip(references, hypotheses, strict=True)):
            readings = expected[pair[0]], heard[pair[1]]
            if any(map(ambiguous, readings)):
                expected_words[place], heard_words[place] = nearest(*readings)
    return expected_words, heard_words
