"""Texts cut into words: the rules that decide which words are equal.

Each rule is an option, and those that are on stand in the signature of a figure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np

from rescore.metrics import open_asr as leaderboard
from rescore.metrics.alignment import GAP, SUBSTITUTION
from rescore.metrics.counting import CLOSEST, Counts, error_counts
from rescore.metrics.replacements import Replacements
from rescore.metrics.steps import (
    ANSWER,
    STEPS,
    Function,
    Step,
    answer_pattern,
    functions,
    ordered,
    without_marks,
)
from rescore.options import Declared, option, read_file
from rescore.parts import STEPS as FURTHER
from rescore.readings import (
    Readings,
    Text,
    cheapest,
    closest_reading,
    weighed_readings,
)
from rescore.unspaced import UNSPACED_LETTERS

UNSPACED = re.compile(f"[{UNSPACED_LETTERS}]")
"""A character of a script without blanks between words."""
WRITTEN = re.compile(rf"[{UNSPACED_LETTERS}]|[^\s{UNSPACED_LETTERS}]+")
"""A word as it is written, before a metric is known: a character of a script without
blanks between words, or a part of a text between blanks.
"""

Pair = tuple[Text, str]
"""A reference with alternatives, and a hypothesis."""
COSTS = 1000 * np.array([SUBSTITUTION, GAP, GAP])
"""sclite's costs of a substitution, a deletion and an insertion, where an empty word
costs 1.
"""


@dataclass(frozen=True, slots=True)
class Normaliser(Declared):
    """Splits a text into its words. The default is sclite's: case is ignored, every
    other difference counts.

    The steps that are on run in the order of `rescore.metrics.steps.STEPS`; then case
    is folded, and words are split into characters. The lines of a recording are one
    text: where it is cut into lines changes no word.
    """

    case_sensitive: bool = option(
        False, "WER, CER: count a difference in case as an error."
    )
    split_hyphens: bool = option(False, "WER, CER: split compounds at hyphens.")
    drop_punctuation: bool = option(
        False,
        "WER, CER: remove punctuation marks around words; marks of numbers stay (3.5,"
        " -20, 50%), and 1,000 becomes 1000.",
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
    drop_marks: bool = option(
        False, "WER, CER: remove the vowels and points that are marks (Arabic, Hebrew)."
    )
    """In the form NFC, so that letters that are composed with a mark stay."""
    language: str | None = option(
        None,
        "WER, CER: fold case as tr (Turkish) and az do: I is the capital of \u0131.",
        choices=("az", "tr"),
    )
    nfkc: bool = option(
        False, "WER, CER: normalise hypotheses and references with Unicode NFKC."
    )
    """Unicode's compatibility forms: full-width letters and digits, for example, become
    the usual ones. Characters without width are removed.
    """
    replace: Replacements | None = read_file(
        None,
        "WER, CER: your own substitutions in both texts; a line of FILE is a regular"
        r" expression of Python's re, a tab, and the new text, in which \1 is the first"
        " group.",
        read=Replacements.load,
    )
    """They are made in the order of the lines, before other steps. Case does not count
    in patterns, unless it counts in words.
    """
    answer: str | None = option(
        None,
        "Compare only the answer in each text and reference: the first group that"
        " matches in the last match, or the last match if REGEX has no group. REGEX is"
        " of Python's re; (?i) at its beginning ignores case. Not for BLEU, chrF, TER"
        " and COMET.",
        metavar="REGEX",
        parse=answer_pattern,
    )
    """A text without a match is an empty answer."""
    split_characters: bool = option(
        False, "WER, confidences, rover: each character is a word."
    )
    split_mixed: bool = option(
        False,
        "WER, confidences, rover: each Chinese, Japanese, Thai, Lao, Khmer or Burmese"
        " character is a word.",
    )

    steps: tuple[str, ...] = option(
        (),
        "WER, CER: also normalise texts by the step NAME of another package.",
        "--step",
        metavar="NAME",
        choices=FURTHER,
    )

    def __call__(self, text: str) -> list[str]:
        """Return the words of a text, of a hypothesis or a reference."""
        for function in self._functions:
            text = function(text)
        if not self.case_sensitive:
            text = text.lower()
        words = text.split()
        if self.split_characters or self.split_mixed:
            words = list(chain.from_iterable(map(self.split, words)))
        return words

    @property
    def _functions(self) -> Sequence[Function]:
        """The functions of the steps that are on, made once."""
        made: Sequence[Function] | None = self.__dict__.get("_made")
        if made is None:
            steps = self._steps
            answers = [(step, value) for step, value in steps if step.name == ANSWER]
            steps = steps[len(answers) :]
            made = functions(steps, self.case_sensitive)
            if any(step.drops_brackets for step, _ in steps):
                made = [_with_closed_brackets, *made]
            elif self.looks_across:
                made = [_in_one_line, *made]
            made = [*functions(answers, self.case_sensitive), *made]
            # slots=True leaves the dictionary of the base class
            object.__setattr__(self, "_made", made)
        return made

    @property
    def _steps(self) -> list[tuple[Step, Any]]:
        """The steps that are on in the order in which they run, each with the value of
        its option.
        """
        values: dict[str, Any] = {}
        steps: list[Step] = []
        for name in self.steps:
            step = FURTHER[name]
            steps.append(step)
            values[step.name] = True
        for step in STEPS:
            if value := getattr(self, step.name):
                steps.append(step)
                values[step.name] = value
        return [(step, values[step.name]) for step in ordered(steps)]

    @property
    def looks_across(self) -> bool:
        """Whether a word may change with its neighbours."""
        return any(step.across for step, _ in self._steps)

    def loses_marks(self, text: str) -> bool:
        """Return whether `whisper_basic` puts blanks for marks of letters in a text.

        Args:
            text: A text, as it is written.
        """
        if text.isascii():
            return False
        if self.drop_marks:
            text = without_marks(text)
        text = unicodedata.normalize("NFKC", text)
        categories = [unicodedata.category(letter)[0] for letter in text]
        return any(
            before in "LM" and mark == "M" for before, mark in pairwise(categories)
        )

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

    def spoken(
        self, references: Sequence[Sequence[str]], hypotheses: Sequence[str]
    ) -> list[Sequence[str]]:
        """Return the references of hypotheses. Of alternatives they have those that
        sclite aligns with the hypothesis.

        Args:
            references: One or more references for each hypothesis.
            hypotheses: The hypotheses.
        """
        pairs: dict[Pair, str] = {}
        for own, hypothesis in zip(references, hypotheses, strict=True):
            if isinstance(own, Readings) and not self.open_asr:
                pairs |= dict.fromkeys((text, hypothesis) for text in own.texts)
        if not pairs:
            return list(references)
        pairs = self._aligned(list(pairs))
        result: list[Sequence[str]] = []
        for own, hypothesis in zip(references, hypotheses, strict=True):
            if isinstance(own, Readings):
                own = [pairs[text, hypothesis] for text in own.texts]
            result.append(own)
        return result

    def _aligned(self, pairs: Sequence[Pair]) -> dict[Pair, str]:
        """Return the reading of a reference that sclite aligns with a hypothesis, for
        each pair of both.

        The reading has the least cost. Networks are aligned only where readings with
        different errors cost the same.
        """
        references: list[str] = []
        hypotheses: list[str] = []
        for text, hypothesis in pairs:
            every = weighed_readings(text)
            references += [reading.text for reading in every]
            hypotheses += [hypothesis] * len(every)
        counts = error_counts(*paired_words(references, hypotheses, self))
        chosen: dict[Pair, str] = {}
        end = 0
        for text, hypothesis in pairs:
            every = weighed_readings(text)
            rows = counts[end : end + len(every)]
            end += len(every)
            costs = rows @ COSTS + [reading.empty for reading in every]
            best = np.flatnonzero(costs == costs.min())
            if (rows[best] == rows[best[0]]).all():
                chosen[text, hypothesis] = every[best[0]].text
                continue
            choice = cheapest(text, (hypothesis,), self, self.looks_across)
            chosen[text, hypothesis] = choice.reference
        return chosen

    def heard(self, references: Sequence[str], alternatives: Text) -> str:
        """Return the reading of an output that sclite aligns with a reference.

        Args:
            references: One or more references.
            alternatives: The output with its alternatives.
        """
        return closest_reading(references, alternatives, self, self.looks_across)

    def closest(self, references: Sequence[str], hypothesis: str) -> str:
        """Return the reference with the fewest errors.

        Of equals it is the cheapest in sclite's alignment, then the first.

        Args:
            references: One or more references.
            hypothesis: The hypothesis.
        """
        (references,) = self.spoken([references], [hypothesis])
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
            count = leaderboard.word_counts
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
            words = leaderboard.respelled(reference, words)
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
        further = []
        for step, value in sorted(self._steps, key=lambda pair: pair[0].signed):
            if step.name in self.steps:
                further.append("-".join(filter(None, (step.name, step.setting(value)))))
            else:
                settings[step.name.replace("_", "-")] = step.setting(value)
        if further:
            settings["step"] = ",".join(further)
        return settings


FLAGS = tuple(entry.name for entry in Normaliser.declared())
"""The switches of a `Normaliser`."""

EXACT = Normaliser(case_sensitive=True)
"""Words as they are written."""


@dataclass(frozen=True, kw_only=True)
class NormalisedWords(Declared):
    """The options of a metric that compares normalised words."""

    normaliser: Normaliser = option(Normaliser, nested=Normaliser)


def _in_one_line(text: str) -> str:
    """Return the lines of a text in one line, with single blanks."""
    return " ".join(text.split())


CLOSED = re.compile(r"[<\[][^>\]]*[>\]]|\([^)]*\)")
"""A text in brackets, as Whisper's normalisers remove it."""
BRACKETS = re.compile(r"[][<>()]")


def _with_closed_brackets(text: str) -> str:
    """Return the lines of a text in one line. If it has several lines, such as the
    pieces of a recording, brackets that are not closed in their line become blanks:
    what stands between two pieces is no text in brackets.
    """
    lines = text.splitlines()
    if len(lines) > 1:
        text = " ".join(map(_without_open_brackets, lines))
    return _in_one_line(text)


def _without_open_brackets(line: str) -> str:
    """Return a line with blanks for the brackets that are not closed in it."""
    parts = []
    end = 0
    for closed in CLOSED.finditer(line):
        parts.append(BRACKETS.sub(" ", line[end : closed.start()]))
        parts.append(closed[0])
        end = closed.end()
    return "".join([*parts, BRACKETS.sub(" ", line[end:])])


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
