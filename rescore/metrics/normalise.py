"""The normalisation that decides which words are equal: explicit, and part of the
signature.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from rescore.metrics.counting import CLOSEST, Counts, error_counts
from rescore.nbest import UNSPACED_LETTERS
from rescore.options import Declared, option

UNKNOWN = ("<unk>", "[unk]")
"""A recogniser's unknown word, in any case."""
YES = ("split_hyphens", "drop_punctuation", "drop_apostrophes", "drop_unknown", "nfkc")
PACKAGED = {
    "whisper_english": "whisper",
    "whisper_basic": "whisper",
    "open_asr": "open_asr",
}
"""Normalisers of other packages, and the modules of `rescore.metrics` that load
them.
"""
FLAGS = ("case_sensitive", *YES, *PACKAGED, "split_characters", "split_mixed")
"""The switches of a `Normaliser`."""

UNSPACED = re.compile(f"[{UNSPACED_LETTERS}]")
"""A character of Chinese, Japanese or Thai, which put no blanks between words."""
WRITTEN = re.compile(rf"[{UNSPACED_LETTERS}]|[^\s{UNSPACED_LETTERS}]+")
"""A word as it is written, before a metric is known: each such character, else what
stands between blanks.
"""


@dataclass(frozen=True, slots=True)
class Normaliser(Declared):
    """Splits a text into its words. The default is sclite's: case is ignored, every
    other difference counts.

    Unicode's compatibility forms come first (NFKC), then normalisers of other packages,
    then case is folded. Hyphens then part compounds; then punctuation goes, but for
    apostrophes and hyphens within words; then the recogniser's unknown word. Last,
    words are split into characters.
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
    """Numbers as digits, contractions in full, American spelling; no fillers,
    punctuation or text in brackets.
    """
    whisper_basic: bool = option(
        False,
        "WER, CER: normalise texts with Whisper's normaliser for other languages.",
    )
    """Without punctuation, symbols and what stands in brackets."""
    open_asr: str | None = option(
        None,
        "WER: score as the Open ASR Leaderboard does (en, de ...).",
        metavar="LANGUAGE",
    )
    """With the leaderboard's own normaliser. White paper and whitepaper are equal
    (`counts`, `pair`).
    """
    nfkc: bool = option(
        False, "WER, CER: normalise hypotheses and references with Unicode NFKC."
    )
    """Unicode's compatibility forms: full-width letters and digits, for example, become
    the usual ones.
    """
    split_characters: bool = option(
        False, "WER, confidences, rover: each character is a word."
    )
    split_mixed: bool = option(
        False,
        "WER, confidences, rover: each Chinese, Japanese or Thai character is a word.",
    )

    def __call__(self, text: str) -> list[str]:
        """The words of a text, of a hypothesis or a reference."""
        if self.nfkc:
            text = unicodedata.normalize("NFKC", text)
        for name in filter(self.__getattribute__, PACKAGED):
            # by line
            text = " ".join(
                map(
                    _packaged(name).normaliser(name, getattr(self, name)),
                    text.split("\n"),
                )
            )
        if not self.case_sensitive:
            text = text.lower()
        if self.split_hyphens:
            text = text.replace("-", " ")
        if self.drop_apostrophes:
            text = re.sub("['\u2019]", "", text)
        words = text.split()
        if self.drop_unknown:
            words = [word for word in words if word.lower() not in UNKNOWN]
        if self.drop_punctuation:
            words = [
                stripped for word in words if (stripped := _without_punctuation(word))
            ]
        if self.split_characters or self.split_mixed:
            words = [part for word in words for part in self.split(word)]
        return words

    def split(self, word: str) -> Sequence[str]:
        """The parts of a written word that are compared as words: characters, or the
        word itself.
        """
        if self.split_characters:
            return list(word)
        return WRITTEN.findall(word) if self.split_mixed else (word,)

    @property
    def unit(self) -> str:
        """The units of texts, for the signature: words between blanks, characters, or
        both.
        """
        return (
            "character"
            if self.split_characters
            else "mixed"
            if self.split_mixed
            else "space"
        )

    def closest(self, references: Sequence[str], hypothesis: str) -> str:
        """The reference with the fewest errors; of equals the cheapest in sclite, then
        the first.
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
        """(n, 4) substitutions, deletions, insertions and words of references, of n
        pairs.
        """
        if self.open_asr:
            return np.array(
                _packaged("open_asr").word_counts(references, hypotheses, self.open_asr)
            )
        return np.column_stack(
            [error_counts(references, hypotheses), list(map(len, references))]
        )

    def pair(
        self, references: Sequence[str], hypothesis: str
    ) -> tuple[list[str], list[str]]:
        """The words of the closest reference, and of the hypothesis. Equal compounds
        are as in the reference.
        """
        reference, words = self(self.closest(references, hypothesis)), self(hypothesis)
        return reference, (
            _packaged("open_asr").respelled(reference, words)
            if self.open_asr
            else words
        )

    def merged_with(self, normaliser: Normaliser) -> Normaliser:
        """A normaliser with the switches of both."""
        return Normaliser(
            **{name: getattr(normaliser, name) or getattr(self, name) for name in FLAGS}
        )

    @property
    def settings(self) -> dict[str, str]:
        """For the signature: the case, and settings other than the default."""
        settings = {"case": "mixed" if self.case_sensitive else "lc"}
        settings |= {
            name.replace("_", "-"): "yes" for name in YES if getattr(self, name)
        }
        for name in filter(self.__getattribute__, PACKAGED):
            settings[name.replace("_", "-")] = _packaged(name).version_of(
                name, getattr(self, name)
            )
        return settings


EXACT = Normaliser(case_sensitive=True)
"""Words as they are written."""


def _packaged(name: str) -> Any:
    """The module of a normaliser of another package, which most runs do not load."""
    return import_module(f"rescore.metrics.{PACKAGED[name]}")


def _without_punctuation(word: str) -> str:
    kept = [
        letter
        for letter in word
        if letter in "'\u2019-" or unicodedata.category(letter)[0] not in "PS"
    ]
    return "".join(kept).strip("'\u2019-")


def paired_words(
    references: Sequence[str], hypotheses: Sequence[str], normaliser: Normaliser
) -> tuple[list[list[str]], list[list[str]]]:
    """The words of references and of hypotheses. Equal texts are normalised once, and
    have one list of words for all their places: errors are counted in numbers, and each
    list is numbered once.
    """
    words = {
        text: normaliser(text) for text in dict.fromkeys((*references, *hypotheses))
    }
    return [words[text] for text in references], [words[text] for text in hypotheses]
