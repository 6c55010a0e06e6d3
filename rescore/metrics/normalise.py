"""What counts as the same word: explicit, and part of the signature."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

from rescore.errors import UserError
from rescore.formats.source import read_lines
from rescore.metrics.glm import Glm, Readings, ambiguous, first, nearest

UNKNOWN = ("<unk>", "<UNK>", "[UNK]")
YES = ("split_hyphens", "drop_punctuation", "drop_apostrophes", "drop_unknown")
FLAGS = ("case_sensitive", *YES, "whisper_english")
"""What a `Normaliser` may do beside the replacements of a file."""


@dataclass(frozen=True, slots=True)
class Normaliser:
    """From a text to its words. The default is sclite's: upper and lower case are the same, all else is a difference.

    `glm` replaces as NIST's global mapping files say, after case is folded; then hyphens part compounds; then
    punctuation goes, but for apostrophes and hyphens within words; then the recogniser's unknown word.
    """

    case_sensitive: bool = False
    split_hyphens: bool = False
    drop_punctuation: bool = False
    drop_apostrophes: bool = False
    drop_unknown: bool = False
    glm: Glm | None = None
    whisper_english: bool = False
    """Whisper's normaliser of English comes first: numbers as digits, contractions in full, American spelling, without
    fillers, punctuation and what stands in brackets."""

    def __call__(self, text: str) -> list[str]:
        """The words of a hypothesis; of alternatives the first."""
        return first(self.readings(text))

    def reference(self, text: str) -> list[str]:
        """The words of a reference; of alternatives the first."""
        return first(self.readings(text, reference=True))

    def nearest(self, reference: str | Sequence[str], hypothesis: str) -> tuple[list[str], list[str]]:
        """The words of both; of alternatives those that make them most alike. A reference may be words already."""
        expected = self.readings(reference, True) if isinstance(reference, str) else [[list(reference)]]
        return nearest(expected, self.readings(hypothesis))

    def readings(self, text: str, reference: bool = False) -> Readings:
        """The words of a text, in parts; of each part the alternatives. Only a mapping file makes more than one."""
        if self.whisper_english:
            text = _whisper_english()(text)
        if not self.case_sensitive:
            text = text.lower()
        parts = self.glm(text, reference) if self.glm else [(text,)]
        return [[self._words(one) for one in part] for part in parts]

    def _words(self, text: str) -> list[str]:
        if self.split_hyphens:
            text = text.replace("-", " ")
        if self.drop_apostrophes:
            text = re.sub("['\u2019]", "", text)
        words = text.split()
        if self.drop_unknown:
            words = [word for word in words if word not in UNKNOWN]
        if self.drop_punctuation:
            words = [stripped for word in words if (stripped := _without_punctuation(word))]
        return words

    @property
    def flags(self) -> tuple[str, ...]:
        """The names of what is on; `glm` aside."""
        return tuple(name for name in FLAGS if getattr(self, name))

    def beside(self, given: Normaliser) -> Normaliser:
        """What either does; of two mapping files the one given."""
        return Normaliser(
            **{name: True for name in FLAGS if name in self.flags or name in given.flags}, glm=given.glm or self.glm
        )

    @property
    def settings(self) -> dict[str, str]:
        """For the signature: the case, and what is not the default."""
        return {
            "case": "mixed" if self.case_sensitive else "lc",
            **{name.replace("_", "-"): "yes" for name in YES if getattr(self, name)},
            **({"glm": self.glm.digest} if self.glm else {}),
            **({"whisper-english": _whisper_version()} if self.whisper_english else {}),
        }


@cache
def _whisper_english() -> Callable[[str], str]:
    try:
        from whisper_normalizer.english import EnglishTextNormalizer
    except ImportError:
        raise UserError(
            "--normalizer whisper-english needs the package whisper-normalizer; pip install 'rescore[whisper]'"
        ) from None
    made: Callable[[str], str] = EnglishTextNormalizer()
    return made


def _whisper_version() -> str:
    """What a figure depends on: other versions spell other words alike."""
    _whisper_english()
    return version("whisper-normalizer")


def _without_punctuation(word: str) -> str:
    kept = [letter for letter in word if letter in "'\u2019-" or unicodedata.category(letter)[0] not in "PS"]
    return "".join(kept).strip("'\u2019-")


@dataclass(frozen=True, slots=True)
class WordList:
    """The words of a file, one or more per line."""

    lines: tuple[str, ...]
    path: str

    @classmethod
    def load(cls, path: Path) -> WordList:
        """Read a file of words.

        Raises:
            UserError: the file cannot be read, is not UTF-8, or has no word.
        """
        lines = tuple(sorted(set(read_lines(path))))
        if not lines:
            raise UserError(f"{path}: no word in it; expected one per line")
        return cls(lines, str(path))

    @property
    def digest(self) -> str:
        """Of the words, in any order."""
        return hashlib.sha256("\n".join(self.lines).encode()).hexdigest()[:12]

    def words(self, normaliser: Normaliser) -> frozenset[str]:
        """As the words of references are compared."""
        return frozenset(word for line in self.lines for word in normaliser.reference(line))


def paired_words(
    references: Sequence[str], hypotheses: Sequence[str], normaliser: Normaliser
) -> tuple[list[list[str]], list[list[str]]]:
    """The words of each pair of texts, as `Normaliser.nearest` has them; equal texts are normalised once."""
    expected = {text: normaliser.readings(text, reference=True) for text in dict.fromkeys(references)}
    found = {text: normaliser.readings(text) for text in dict.fromkeys(hypotheses)}
    # One list of words for all places of a text: errors are counted in numbers, and each list is numbered once.
    words = [{text: first(readings) for text, readings in side.items()} for side in (expected, found)]
    one, other = [words[0][text] for text in references], [words[1][text] for text in hypotheses]
    if normaliser.glm:
        for place, pair in enumerate(zip(references, hypotheses, strict=True)):
            readings = expected[pair[0]], found[pair[1]]
            if any(map(ambiguous, readings)):
                one[place], other[place] = nearest(*readings)
    return one, other
