"""Texts cut into words: the rules that decide which words are equal.

Each rule is an option, and those that are on stand in the signature of a figure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from types import ModuleType

import numpy as np

from rescore.metrics import numbers as spelled
from rescore.metrics import open_asr as leaderboard
from rescore.metrics import scripts, whisper
from rescore.metrics.counting import CLOSEST, Counts, error_counts
from rescore.nbest import UNSPACED_LETTERS
from rescore.options import Declared, option

ZERO_WIDTH = re.compile("[\u200b\u2060\ufeff]")
"""Characters without width that say nothing about a word."""
UNKNOWN = ("<unk>", "[unk]", "\u2047")
"""A recogniser's unknown word, in any case."""
YES = ("split_hyphens", "drop_punctuation", "drop_apostrophes", "drop_unknown", "nfkc")
"""The switches that signatures name."""
PACKAGED: dict[str, ModuleType] = {
    "whisper_english": whisper,
    "whisper_basic": whisper,
    "open_asr": leaderboard,
    "unicode_basic": scripts,
    "numbers": spelled,
}
"""The switches that turn on normalisers of whole texts, in the order in which they
act. Each module returns its normaliser and the version for signatures.
"""
CACHED = 1 << 17
"""Number of texts whose result is kept, for each normaliser of `PACKAGED`: bounds
memory.
"""
INNER = "'\u2019-"
"""Punctuation that is part of a word when letters surround it."""
FLAGS = ("case_sensitive", *YES, *PACKAGED, "split_characters", "split_mixed")
"""The switches of a `Normaliser`."""

UNSPACED = re.compile(f"[{UNSPACED_LETTERS}]")
"""A character of Chinese, Japanese or Thai, which have no blanks between words."""
WRITTEN = re.compile(rf"[{UNSPACED_LETTERS}]|[^\s{UNSPACED_LETTERS}]+")
"""A word as it is written, before a metric is known: a character of Chinese, Japanese
or Thai, or a part of a text between blanks.
"""


@cache
def _remembering(normalise: Callable[[str], str]) -> Callable[[str], str]:
    """Return a normaliser of whole texts with a cache of texts: packages are slow."""
    return lru_cache(CACHED)(normalise)


@dataclass(frozen=True, slots=True)
class Normaliser(Declared):
    """Splits a text into its words. The default is sclite's: case is ignored, every
    other difference counts.

    The rules that are on apply in this order: Unicode's compatibility forms (NFKC),
    normalisers of whole texts (`PACKAGED`), case, hyphens of compounds, apostrophes,
    the recogniser's unknown word, punctuation around words, splitting into characters.
    """

    case_sensitive: bool = option(
        False, "WER, CER: count a difference in case as an error."
    )
    split_hyphens: bool = option(False, "WER, CER: split compounds at hyphens.")
    drop_punctuation: bool = option(
        False, "WER, CER: remove punctuation marks around words."
    )
    drop_apostrophes: bool = option(
        False, "WER, CER: remove apostrophes (it's becomes its)."
    )
    drop_unknown: bool = option(False, "WER, CER: remove <unk>.")
    whisper_english: bool = option(
        False, "WER, CER: normalise texts with Whisper's normaliser for English."
    )
    """Writes numbers as digits, contractions in full and American spelling; removes
    fillers, punctuation and text in brackets.
    """
    whisper_basic: bool = option(
        False,
        "WER, CER: normalise texts with Whisper's normaliser for other languages.",
    )
    """Removes punctuation, symbols and text in brackets."""
    open_asr: str | None = option(
        None,
        "WER: score as the Open ASR Leaderboard does (en, de ...).",
        metavar="LANGUAGE",
    )
    """Uses the leaderboard's own normaliser. White paper and whitepaper are equal
    (`counts`, `pair`).
    """
    unicode_basic: bool = option(
        False,
        "WER, CER: remove punctuation and symbols, and keep vowel marks (Hindi, Tamil,"
        " Thai ...).",
    )
    """By Unicode's categories, in the form NFC. Joiners and other characters without
    width are removed.
    """
    numbers: str | None = option(
        None,
        "WER, CER: numbers in words and in digits are equal (en).",
        metavar="LANGUAGE",
        common=True,
    )
    """Twenty five, twenty-five and 25 are one word; so are ordinals, years and amounts
    of money.
    """
    nfkc: bool = option(
        False, "WER, CER: normalise hypotheses and references with Unicode NFKC."
    )
    """Unicode's compatibility forms: full-width letters and digits, for example, become
    the usual ones. Characters without width are removed.
    """
    split_characters: bool = option(
        False, "WER, confidences, rover: each character is a word."
    )
    split_mixed: bool = option(
        False,
        "WER, confidences, rover: each Chinese, Japanese or Thai character is a word.",
    )

    def __call__(self, text: str) -> list[str]:
        """Return the words of a text, of a hypothesis or a reference."""
        words = self._normalised(text).split()
        if self.drop_unknown:
            words = [word for word in words if word.lower() not in UNKNOWN]
        if self.drop_punctuation:
            words = list(filter(None, map(_without_punctuation, words)))
        if self.split_characters or self.split_mixed:
            words = list(chain.from_iterable(map(self.split, words)))
        return words

    def _normalised(self, text: str) -> str:
        """Return a text after the rules that do not need its words."""
        if self.nfkc:
            text = unicodedata.normalize("NFKC", ZERO_WIDTH.sub("", text))
        for name, module in PACKAGED.items():
            if value := getattr(self, name):
                normalise = _remembering(module.normaliser(name, value))
                lines = text.split("\n")
                text = " ".join(map(normalise, lines))
        if not self.case_sensitive:
            text = text.lower()
        if self.split_hyphens:
            text = text.replace("-", " ")
        if self.drop_apostrophes:
            text = re.sub("['\u2019]", "", text)
        return text

    def split(self, word: str) -> Sequence[str]:
        """Return the parts of a written word that are compared as words.

        The parts are characters if a rule says so, else the word itself.
        """
        if self.split_characters:
            return list(word)
        return WRITTEN.findall(word) if self.split_mixed else (word,)

    @property
    def unit(self) -> str:
        """The units of texts, for the signature: words between blanks (`space`),
        characters, or both (`mixed`).
        """
        if self.split_characters:
            return "character"
        return "mixed" if self.split_mixed else "space"

    def closest(self, references: Sequence[str], hypothesis: str) -> str:
        """Return the reference with the fewest errors.

        Of equals it is the cheapest in sclite's alignment, then the first.

        Args:
            references: One or more references.
            hypothesis: The hypothesis.
        """
        if len(references) == 1:
            return references[0]
        counts = self.counts(
            list(map(self, references)), [self(hypothesis)] * len(references)
        )
        return references[int((counts[:, :3] @ CLOSEST).argmin())]

    def counts(
        self, references: Sequence[Sequence[str]], hypotheses: Sequence[Sequence[str]]
    ) -> Counts:
        """Return the word errors of pairs.

        Args:
            references: The words of each reference.
            hypotheses: The words of each hypothesis.

        Returns:
            Counts of shape (pairs, 4): substitutions, deletions, insertions and words
            of the reference.
        """
        if self.open_asr:
            count = PACKAGED["open_asr"].word_counts
            return np.array(count(references, hypotheses, self.open_asr))
        errors = error_counts(references, hypotheses)
        return np.column_stack([errors, list(map(len, references))])

    def pair(
        self, references: Sequence[str], hypothesis: str
    ) -> tuple[list[str], list[str]]:
        """Return the words of the closest reference, and of the hypothesis.

        Args:
            references: One or more references.
            hypothesis: The hypothesis. Where compounds are equal (`open_asr`), its
                words are returned as the reference writes them.
        """
        reference = self(self.closest(references, hypothesis))
        words = self(hypothesis)
        if self.open_asr:
            words = PACKAGED["open_asr"].respelled(reference, words)
        return reference, words

    def merged_with(self, normaliser: Normaliser) -> Normaliser:
        """Return a normaliser with the switches of this one and another.

        Args:
            normaliser: The other normaliser; its value wins where a switch has values.
        """
        switches = {}
        for name in FLAGS:
            switches[name] = getattr(normaliser, name) or getattr(self, name)
        return Normaliser(**switches)

    @property
    def settings(self) -> dict[str, str]:
        """The case, and settings other than the default, for the signature."""
        settings = {"case": "mixed" if self.case_sensitive else "lc"}
        for name in YES:
            if getattr(self, name):
                settings[name.replace("_", "-")] = "yes"
        for name, module in PACKAGED.items():
            if value := getattr(self, name):
                version = module.version_of(name, value)
                settings[name.replace("_", "-")] = version
        return settings


EXACT = Normaliser(case_sensitive=True)
"""Words as they are written."""


def _without_punctuation(word: str) -> str:
    """Return a word without punctuation but for apostrophes and hyphens within it."""
    kept = []
    for letter in word:
        if letter in INNER or unicodedata.category(letter)[0] not in "PS":
            kept.append(letter)
    return "".join(kept).strip(INNER)


def paired_words(
    references: Sequence[str], hypotheses: Sequence[str], normaliser: Normaliser
) -> tuple[list[list[str]], list[list[str]]]:
    """Return the words of references and of hypotheses.

    Equal texts are normalised once, and share one list of words: `encoded` encodes each
    list once.

    Args:
        references: The references.
        hypotheses: The hypotheses.
        normaliser: Cuts texts into words.
    """
    words = {
        text: normaliser(text) for text in dict.fromkeys((*references, *hypotheses))
    }
    return [words[text] for text in references], [words[text] for text in hypotheses]
