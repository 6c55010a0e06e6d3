"""Alignments that other scorers write: reference and hypothesis of each utterance.

Each form is a function that yields the words of both texts. Marks of gaps and padding
are left out; words stay as they stand in the file.
"""

from __future__ import annotations

import logging
import re
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

from rescore.errors import UserError
from rescore.formats.rows import Joins, Row, RowFormat
from rescore.formats.source import InputProblem, ReadOptions, Source

log = logging.getLogger(__name__)

MISCOUNTED = InputProblem(
    "has another number of words than its counts say",
    "have another number of words than their counts say",
    "; is a word with a blank or a mark of a gap among them?",
)


class Aligned(NamedTuple):
    """What a file says of an utterance."""

    id: str
    """Empty for an utterance without an id."""
    place: str
    """The file and the first line, for messages."""
    reference: list[str]
    """The words of the reference."""
    hypothesis: list[str]
    """The words of the hypothesis."""
    counts: tuple[int, int] | None = None
    """The number of words of the reference and of the hypothesis by the file's counts;
    None if it has none.
    """


class _Alignments(RowFormat):
    """The base of the forms: lists of one hypothesis, each with its reference."""

    has_references = True
    mark: ClassVar[re.Pattern[str]]
    """A line that no other file has."""
    advice = ""
    """How the scorer writes alignments, for messages."""

    @abstractmethod
    def aligned(self, source: Source) -> Iterator[Aligned]:
        """Yield what a file says of each utterance."""
        ...

    def sniff(self, source: Source) -> bool:
        return self.mark.search(source.head) is not None

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        number = 0
        for number, one in enumerate(self.aligned(source), 1):
            sizes = (len(one.reference), len(one.hypothesis))
            if one.counts is not None and sizes != one.counts:
                source.warnings.add("utterance", MISCOUNTED, one.place)
            yield Row(
                one.id or str(number),
                one.place,
                " ".join(one.hypothesis),
                references=(" ".join(one.reference),),
                joins=Joins.NEVER,
                is_plain=True,
            )
        if not number:
            raise UserError(
                f"{source.name}: no alignment of an utterance in it{self.advice}"
            )


def _blocks(
    source: Source, first: re.Pattern[str]
) -> Iterator[tuple[str, re.Match[str], list[str]]]:
    """Yield the blocks of a file: the place of the first line, its match, and the lines
    behind it up to the next first line.
    """
    place = ""
    head: re.Match[str] | None = None
    block: list[str] = []
    for number, line in enumerate(source.lines(), 1):
        match = first.match(line)
        if match is None:
            block.append(line)
            continue
        if head is not None:
            yield place, head, block
        place, head, block = f"{source.name}: line {number}", match, []
    if head is not None:
        yield place, head, block


def _words(cells: Sequence[str], edits: Sequence[str], gap: str) -> list[str]:
    """Return the cells of a text that are words.

    Args:
        cells: The cells of the text.
        edits: The edit of each cell.
        gap: The edit whose cell is a gap in this text: an insertion in the reference, a
            deletion in the hypothesis.
    """
    words = []
    for cell, edit in zip(cells, edits, strict=True):
        if edit != gap and cell:
            words.append(cell)
    return words


# --- SpeechBrain ---------------------------------------------------------------------


class _SpeechBrain(_Alignments):
    """The file of SpeechBrain's WER or CER: below a line of counts, the cells of the
    reference, the edits (`=`, `S`, `I`, `D`), and the cells of the hypothesis.
    """

    mark = re.compile(r"^<utterance-id>, WER DETAILS$", re.MULTILINE)
    _first = re.compile(
        r"(.+), %WER \S+ \[ \d+ / (\d+), (\d+) ins, (\d+) del, \d+ sub \]"
    )

    def aligned(self, source: Source) -> Iterator[Aligned]:
        for place, head, block in _blocks(source, self._first):
            lines = [*block, "", "", ""][:3]
            reference, edits, hypothesis = map(self._cells, lines)
            if not len(reference) == len(edits) == len(hypothesis):
                raise UserError(
                    f"{place}: expected three lines of as many cells, parted by ` ; `"
                )
            said, inserted, deleted = map(int, head.groups()[1:])
            yield Aligned(
                head[1],
                place,
                _words(reference, edits, "I"),
                _words(hypothesis, edits, "D"),
                (said, said - deleted + inserted),
            )

    def _cells(self, line: str) -> list[str]:
        """Return the cells of a line without their padding."""
        return [cell.strip() for cell in line.split(" ; ")]


# --- icefall -------------------------------------------------------------------------


class _IcefallErrors(_Alignments):
    """The `errs-*.txt` of icefall and lhotse: below "PER-UTT DETAILS", a line for each
    utterance, in which `(a b->c)` is an error and `*` its empty side.
    """

    mark = re.compile(r"^PER-UTT DETAILS: corr or \(ref->hyp\)", re.MULTILINE)
    _line = re.compile(r"(?:(\S+):\t)?(.*)", re.DOTALL)
    _error = re.compile(r"(?<!\S)\(((?:(?!\s\().)+?)->(.+?)\)(?!\S)")

    def aligned(self, source: Source) -> Iterator[Aligned]:
        is_inside = False
        for place, line in source.filled():
            if line.startswith("SUBSTITUTIONS: count"):
                is_inside = False
            match = self._line.fullmatch(line)
            if is_inside and match is not None:
                sides = (self._side(match[2], 1), self._side(match[2], 2))
                yield Aligned(match[1] or "", place, *sides)
            is_inside = is_inside or self.mark.match(line) is not None

    def _side(self, text: str, side: int) -> list[str]:
        """Return the words of the reference (1) or of the hypothesis (2)."""
        words: list[str] = []
        end = 0
        for error in self._error.finditer(text):
            words += text[end : error.start()].split()
            if error[side] != "*":
                words += error[side].split()
            end = error.end()
        return words + text[end:].split()


# --- WeNet ---------------------------------------------------------------------------


class _WenetWer(_Alignments):
    """The output of WeNet's and FunASR's compute-wer.py: `utt:`, `WER:`, and lines
    `lab:` and `rec:`, of which long texts have several.
    """

    mark = re.compile(r"^utt: .*\nWER: ", re.MULTILINE)
    _first = re.compile(r"utt: (.*)")
    _counts = re.compile(r"WER: .*N=(\d+) C=(\d+) S=(\d+) D=\d+ I=(\d+)")
    _text = re.compile(r"(lab|rec)(?:\(.*?\))?:(.*)")

    def aligned(self, source: Source) -> Iterator[Aligned]:
        for place, head, block in _blocks(source, self._first):
            words: dict[str, list[str]] = {"lab": [], "rec": []}
            counts = None
            for line in block:
                text = self._text.match(line)
                numbers = self._counts.match(line)
                if text is not None:
                    words[text[1]] += text[2].split()
                elif numbers is not None:
                    said, right, wrong, more = map(int, numbers.groups())
                    counts = (said, right + wrong + more)
            if any(not word.strip("_") for word in [*words["lab"], *words["rec"]]):
                raise UserError(
                    f"{place}: words are padded with `_`; score again with"
                    " --padding-symbol=space"
                )
            yield Aligned(head[1].strip(), place, words["lab"], words["rec"], counts)


# --- Kaldi ---------------------------------------------------------------------------


class _PerUtt(_Alignments):
    """Kaldi's `per_utt`: lines `utt ref`, `utt hyp`, `utt op` and `utt #csid`."""

    mark = re.compile(r"\A(\S+) ref(?: .*)?\n\1 hyp(?: |$)", re.MULTILINE)
    _first = re.compile(r"(\S+) ref(?: (.*))?$")

    def aligned(self, source: Source) -> Iterator[Aligned]:
        for place, head, block in _blocks(source, self._first):
            said: dict[str, list[str]] = {}
            for line in block:
                _, kind, *words = [*line.split(), "", ""]
                said[kind] = [word for word in words if word]
            reference = (head[2] or "").split()
            hypothesis = said.get("hyp", [])
            edits = said.get("op", [])
            if not len(reference) == len(hypothesis) == len(edits):
                raise UserError(
                    f"{place}: expected lines `utt ref`, `utt hyp` and `utt op` with as"
                    " many words"
                )
            yield Aligned(
                head[1],
                place,
                _words(reference, edits, "I"),
                _words(hypothesis, edits, "D"),
                self._sizes(said.get("#csid", []), place),
            )

    def _sizes(self, counts: Sequence[str], place: str) -> tuple[int, int] | None:
        """Return the numbers of words by the counts of correct words, substitutions,
        insertions and deletions; None without counts.
        """
        if not counts:
            return None
        if len(counts) != 4 or not all(map(str.isdecimal, counts)):
            raise UserError(f"{place}: expected four counts behind #csid")
        right, wrong, more, less = map(int, counts)
        return right + wrong + less, right + wrong + more


# --- sclite --------------------------------------------------------------------------


class _Sclite(_Alignments):
    """The alignments of sclite (`-o pra`, or `-o all` as in ESPnet's result.txt):
    `id:`, `Scores:`, and lines `REF:` and `HYP:`, of which long texts have several.
    """

    mark = re.compile(
        r"^[ \t]*DUMP OF SYSTEM ALIGNMENT STRUCTURE"
        r"|^[ \t]*SYSTEM SUMMARY PERCENTAGES by SPEAKER",
        re.MULTILINE,
    )
    advice = "; write them with sclite -o pra"
    _first = re.compile(r"id: *\(?(.*?)\)?\s*$")
    _counts = re.compile(r"Scores: \(#C #S #D #I\) (\d+) (\d+) (\d+) (\d+)")
    _text = re.compile(r"(?:>> )?(REF|HYP):(.*)")

    def aligned(self, source: Source) -> Iterator[Aligned]:
        has_capitals = False
        for place, head, block in _blocks(source, self._first):
            cells: dict[str, list[str]] = {"REF": [], "HYP": []}
            counts = None
            is_as_written = False
            for line in block:
                text = self._text.match(line)
                numbers = self._counts.match(line)
                if text is not None:
                    cells[text[1]] += text[2].split()
                elif numbers is not None:
                    right, wrong, less, more = map(int, numbers.groups())
                    counts = (right + wrong + less, right + wrong + more)
                elif line.startswith("Attributes:"):
                    is_as_written = "case_sens" in line.lower()
            sides = (cells["REF"], cells["HYP"])
            if not is_as_written:
                sides = _in_small_letters(*sides)
                has_capitals = has_capitals or sides != (cells["REF"], cells["HYP"])
            reference, hypothesis = map(_without_asterisks, sides)
            yield Aligned(head[1], place, reference, hypothesis, counts)
        if has_capitals:
            log.info(
                "%s: sclite writes words with errors in capitals; they are read in"
                " small letters, because their own case is not known",
                source.name,
            )


def _in_small_letters(
    reference: list[str], hypothesis: list[str]
) -> tuple[list[str], list[str]]:
    """Return the cells of two aligned texts, those that differ in small letters."""
    if len(reference) != len(hypothesis):
        return [*map(str.lower, reference)], [*map(str.lower, hypothesis)]
    reference, hypothesis = [*reference], [*hypothesis]
    for place, (said, heard) in enumerate(zip(reference, hypothesis, strict=True)):
        if said != heard:
            reference[place] = said.lower()
            hypothesis[place] = heard.lower()
    return reference, hypothesis


def _without_asterisks(cells: Sequence[str]) -> list[str]:
    """Return the cells that are words: a gap is a row of asterisks."""
    return [cell for cell in cells if cell.strip("*")]


SPEECHBRAIN = _SpeechBrain()
ICEFALL = _IcefallErrors()
WENET = _WenetWer()
KALDI = _PerUtt()
SCLITE = _Sclite()


def is_alignment(source: Source) -> bool:
    """Return whether a file is the alignment file of a scorer, judged by its head.

    Args:
        source: The file.
    """
    forms = (SPEECHBRAIN, ICEFALL, WENET, KALDI, SCLITE)
    return any(form.sniff(source) for form in forms)
