"""The normalisation that decides which words are equal: explicit, and part of the signature."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from rescore.metrics.counting import error_counts
from rescore.nbest import UNSPACED_LETTERS
from rescore.options import Declared, option

UNKNOWN = ("<unk>", "[unk]")
"""A recogniser's unknown word, in any case."""
YES = ("split_hyphens", "drop_punctuation", "drop_apostrophes", "drop_unknown", "nfkc")
WHISPER = ("whisper_english", "whisper_basic")
"""Whisper's normalisers."""
FLAGS = ("case_sensitive", *YES, *WHISPER, "split_characters", "split_mixed")
"""The switches of a `Normaliser`."""

UNSPACED = re.compile(f"[{UNSPACED_LETTERS}]")
"""A character of Chinese, Japanese or Thai, which put no blanks between words."""
_MIXED = re.compile(f"[{UNSPACED_LETTERS}]|[^{UNSPACED_LETTERS}]+")


@dataclass(frozen=True, slots=True)
class Normaliser(Declared):
    """Splits a text into its words. The default is sclite's: case is ignored, every other difference counts.

    Unicode's compatibility forms come first (NFKC), then Whisper's normaliser, then case is folded. Hyphens then part
    compounds; then punctuation goes, but for apostrophes and hyphens within words; then the recogniser's unknown word.
    Last, words are split into characters.
    """

    case_sensitive: bool = option(False, "WER, CER: count a difference in case as an error.")
    split_hyphens: bool = option(False, "WER, CER: split compounds at hyphens.")
    drop_punctuation: bool = option(False, "WER, CER: remove punctuation marks around words.")
    drop_apostrophes: bool = option(False, "WER, CER: remove apostrophes (it's becomes its).")
    drop_unknown: bool = option(False, "WER, CER: remove <unk>.")
    whisper_english: bool = option(
        False, "WER, CER: normalise hypotheses and references with Whisper's normaliser for English."
    )
    """Numbers as digits, contractions in full, American spelling, without fillers, punctuation and what stands in
    brackets."""
    whisper_basic: bool = option(
        False, "WER, CER: normalise hypotheses and references with Whisper's normaliser for other languages."
    )
    """Without punctuation, symbols and what stands in brackets."""
    nfkc: bool = option(False, "WER, CER: normalise hypotheses and references with Unicode NFKC.")
    """Unicode's compatibility forms: full-width letters and digits, for example, become the usual ones."""
    split_characters: bool = option(False, "Words in WER, confidences and rover: each character is a word.")
    split_mixed: bool = option(
        False, "Words in WER, confidences and rover: each Chinese, Japanese or Thai character is a word."
    )

    def __call__(self, text: str) -> list[str]:
        """The words of a text, of a hypothesis or a reference."""
        if self.nfkc:
            text = unicodedata.normalize("NFKC", text)
        for name in WHISPER:
            if getattr(self, name):
                from rescore.metrics.whisper import normaliser  # here: most runs have no such normaliser

                text = " ".join(map(normaliser(name), text.split("\n")))  # line by line
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

    def closest(self, references: Sequence[str], hypothesis: str) -> str:
        """The reference with the fewest word errors, the first of equals."""
        if len(references) == 1:
            return references[0]
        errors = error_counts(list(map(self, references)), [self(hypothesis)] * len(references)).sum(axis=1)
        return references[int(errors.argmin())]

    def pair(self, references: Sequence[str], hypothesis: str) -> tuple[list[str], list[str]]:
        """The words of the closest reference, and of the hypothesis."""
        return self(self.closest(references, hypothesis)), self(hypothesis)

    @property
    def flags(self) -> tuple[str, ...]:
        """The names of the switches that are on."""
        return tuple(name for name in FLAGS if getattr(self, name))

    def merged_with(self, normaliser: Normaliser) -> Normaliser:
        """A normaliser with the switches of both."""
        return Normaliser(**dict.fromkeys((*self.flags, *normaliser.flags), True))

    @property
    def settings(self) -> dict[str, str]:
        """For the signature: the case, and settings other than the default."""
        settings = {"case": "mixed" if self.case_sensitive else "lc"}
        settings |= {name.replace("_", "-"): "yes" for name in YES if getattr(self, name)}
        for name in WHISPER:
            if getattr(self, name):
                from rescore.metrics.whisper import version_of

                settings[name.replace("_", "-")] = version_of(name)
        return settings


EXACT = Normaliser(case_sensitive=True)
"""Words as they are written."""


def _without_punctuation(word: str) -> str:
    kept = [letter for letter in word if letter in "'\u2019-" or unicodedata.category(letter)[0] not in "PS"]
    return "".join(kept).strip("'\u2019-")


def paired_words(
    references: Sequence[str], hypotheses: Sequence[str], normaliser: Normaliser
) -> tuple[list[list[str]], list[list[str]]]:
    """The words of references and of hypotheses. Equal texts are normalised once, and have one list of words for all
    their places: errors are counted in numbers, and each list is numbered once."""
    words = {text: normaliser(text) for text in dict.fromkeys((*references, *hypotheses))}
    return [words[text] for text in references], [words[text] for text in hypotheses]
