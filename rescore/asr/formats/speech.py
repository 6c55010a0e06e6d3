"""Speech recognisers that write lines: icefall, sherpa-onnx, WeNet, NeMo's beams, and
the brain-to-text server. `shapes.toml` describes recognisers that write JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rescore.columns import FIRST_PASS, Column
from rescore.errors import UserError
from rescore.files import loads
from rescore.formats.rows import Row, RowFormat
from rescore.formats.shaped import results_of, span_beside
from rescore.formats.shapes import Shape, shipped
from rescore.formats.source import JsonPeek, Place, ReadOptions, Source
from rescore.formats.tables import NUMBER
from rescore.formats.text import (
    ListSize,
    Part,
    as_number,
    grouped,
    literal_words,
    portions,
    strip_markup,
)
from rescore.formats.times import Times, piece_times
from rescore.ids import SOUNDS
from rescore.nbest import Header, Hypothesis, NbestList

_RECOG = re.compile(r"\s*(\S+):\s+(ref|hyp|timestamp_ref|timestamp_hyp)=(.*)")


class _Icefall:
    """icefall (k2) recogs files: lines `cut-id:<TAB>ref=['A', 'B']` and
    `cut-id:<TAB>hyp=['A', 'C']`.
    """

    def sniff(self, source: Source) -> bool:
        return _RECOG.match(source.head) is not None

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Yield a list for each cut, whose lines stand together.

        Several `hyp` lines are several hypotheses. There are no scores.
        """
        yield from grouped(self._entries(source), more_references=True)

    def _entries(self, source: Source) -> Iterator[Part]:
        """Yield each line as a list of a reference or a hypothesis, with its id; a
        hypothesis when the line behind it, which may hold its times, is read. A
        hypothesis behind a second reference begins another list.
        """
        waiting: tuple[str, Hypothesis, str, bool] | None = None
        heard = ""
        is_again = False
        for place, line in source.filled():
            match = _RECOG.fullmatch(line)
            if match is None:
                raise UserError(
                    f"{place}: expected `id:<TAB>ref=[...]` or `id:<TAB>hyp=[...]`"
                )
            name, kind, value = match.groups()
            if kind == "timestamp_ref":
                continue
            if waiting is not None and kind == "timestamp_hyp" and waiting[0] == name:
                waiting[1].times = _word_times(waiting[1].text, value, place)
                continue
            if waiting is not None:
                yield _heard(*waiting)
                waiting = None
            if kind == "ref":
                nbest = NbestList(name, [], (literal_words(value, place),))
                yield Part(name, nbest, place)
                is_again = name == heard
            elif kind == "hyp":
                text = strip_markup(literal_words(value, place))
                waiting = (name, Hypothesis(text), place, not is_again)
                heard = name
                is_again = False
        if waiting is not None:
            yield _heard(*waiting)


def _heard(name: str, hypothesis: Hypothesis, place: str, is_listed: bool) -> Part:
    """Return a line of a hypothesis."""
    return Part(name, NbestList(name, [hypothesis]), place, is_listed)


_TIMES = Shape(name="icefall", times="[]")
"""Starts of words, or pairs of start and end."""


def _word_times(text: str, value: str, place: str) -> tuple[Times, ...]:
    """Return the times of a hypothesis.

    Args:
        text: The text.
        value: The starts, or pairs of start and end, as Python prints them.
        place: The file and line, for messages.
    """
    times = loads(value.replace("(", "[").replace(")", "]"), place, line=True)
    words = text.split()
    if not isinstance(times, list) or len(times) != len(words):
        return ()
    timed = []
    for number, word in enumerate(words):
        timed.append((word, span_beside(_TIMES, times, number, place)))
    return piece_times(text, timed)


class _Sherpa(RowFormat):
    """sherpa-onnx: the name of a wave file, then its result as one line of JSON with
    `text`, `tokens`, `timestamps`.
    """

    @property
    def _shape(self) -> Shape:
        """The shape of a result."""
        return shipped()["sherpa"]

    def sniff(self, source: Source) -> bool:
        if source.is_folder:
            return False
        for line in source.head.split("\n"):
            if line.lstrip().startswith("{") and '"timestamps"' in line:
                return self._shape.fits(JsonPeek.of(line).first)
        return False

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield the hypotheses of each result.

        An utterance is called after the last wave file named before it, else after its
        place, from 1.

        The score is that in the file, else the sum of the tokens' log-probabilities
        where the decoder gave them. With `hypotheses` (several paths of modified beam
        search) these are the list.
        """
        name = ""
        number = 0
        for place, line in source.filled():
            if not line.lstrip().startswith("{"):
                name = _wave_file(line) or name
                continue
            document = loads(line, place, line=True)
            number += 1
            (result,) = results_of(self._shape, document, place, source.warnings)
            yield from result.rows_of(name or str(number))
            name = ""


def _wave_file(line: str) -> str:
    """Return the utterance of the first wave file in a line, or an empty string."""
    for word in line.split():
        if word.lower().endswith(SOUNDS):
            return word
    return ""


class _Wenet:
    """WeNet's `decoder_main --output_nbest`: a line `wav ID`, then `candidate SCORE
    TEXT` for each hypothesis.
    """

    def sniff(self, source: Source) -> bool:
        first, *rest = source.head.split("\n", 2)
        if first.partition(" ")[0] != "wav" or not rest:
            return False
        second = rest[0].partition(" ")[0]
        if second == "wav":
            return "\ncandidate " in source.head
        return second == "candidate"

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Yield a list for each wave file; the score is the total, a natural log.

        WeNet leaves empty texts out: no candidate is one empty text.
        """
        for nbest in grouped(self._entries(source)):
            nbest.hypotheses = nbest.hypotheses or [Hypothesis("", {FIRST_PASS: 0.0})]
            yield nbest

    def _entries(self, source: Source) -> Iterator[Part]:
        """Yield each line as a list of at most one hypothesis, with its id; the line of
        a wave file begins a list.
        """
        name = ""
        for place, line in source.filled():
            mark, _, rest = line.partition(" ")
            if mark == "wav" and rest.strip():
                name = rest.strip()
                yield Part(name, NbestList(name, []), place, is_listed=False)
            elif mark == "candidate" and name:
                score, _, text = rest.partition(" ")
                scores = {FIRST_PASS: as_number(score, place)}
                hypothesis = Hypothesis(strip_markup(text), scores)
                yield Part(name, NbestList(name, [hypothesis]), place)
            else:
                raise UserError(f"{place}: expected `wav ID` or `candidate SCORE TEXT`")


_WIDTH = re.compile(r"width(\d+)")


class _NemoBeams:
    """NeMo's beams file: `text<TAB>score` lines, the same number of them for each
    utterance.
    """

    Options = ListSize
    place = Place.SHAPE

    def sniff(self, source: Source) -> bool:
        lines = [line for line in source.head.split("\n")[:20] if line]
        if len(lines) > 1:
            lines.pop()  # it may be cut
        for line in lines:
            cells = line.split("\t")
            if len(cells) != 2 or not NUMBER.fullmatch(cells[1]):
                return False
        return bool(lines)

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Yield a list for each beam; ids are numbers from 1.

        The width of the beam is in the file's name, or given by --nbest-size.
        """
        size = options.of(ListSize).size
        width = _WIDTH.search(source.path.name)
        if not size and width:
            size = int(width[1])
        if not size:
            raise UserError(
                f"{source.name}: how many lines has an utterance? Say it with"
                " --nbest-size N (the beam width)"
            )
        yield from portions(self._hypotheses(source), size, source.name)

    def _hypotheses(self, source: Source) -> Iterator[Hypothesis]:
        """Yield the hypothesis of each line."""
        for number, line in enumerate(source.lines(), 1):
            place = f"{source.name}: line {number}"
            text, tab, score = line.rpartition("\t")
            if not tab:
                raise UserError(f"{place}: expected `text<TAB>score`")
            scores = {FIRST_PASS: as_number(score, place)}
            yield Hypothesis(strip_markup(text), scores)


class _BrainToText:
    """Answers of the brain-to-text language model server: a line per trial, five fields
    per hypothesis, which are its text and its acoustic, n-gram, LLM and total scores,
    with semicolons between all fields.
    """

    def sniff(self, source: Source) -> bool:
        # four: the line is damaged
        head = source.head.lstrip("\r\n")  # an empty line is a trial without words
        fields = head.partition("\n")[0].rstrip("\r").split(";")[:5]
        return (
            len(fields) > 3
            and all(map(NUMBER.fullmatch, fields[1:]))
            and not NUMBER.fullmatch(fields[0])
        )

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Yield a list for each line, numbered from 1.

        The total is the first pass; the other scores become columns. An empty line is
        an empty text.
        """
        for number, line in enumerate(source.lines(), 1):
            place = f"{source.name}: line {number}"
            fields = line.split(";") if line.strip() else ["", "0", "0", "0", "0"]
            if len(fields) % 5:
                raise UserError(
                    f"{place}: {len(fields)} fields; expected"
                    " `text;acoustic;ngram;llm;total` per hypothesis"
                )
            hypotheses = list(self._hypotheses(fields, place))
            yield NbestList(str(number), hypotheses, header=_PARTS, place=place)

    def _hypotheses(self, fields: list[str], place: str) -> Iterator[Hypothesis]:
        """Yield a hypothesis for each five fields."""
        for first in range(0, len(fields), 5):
            text, *parts, total = fields[first : first + 5]
            scores = {FIRST_PASS: as_number(total, place)}
            for name, part in zip(_PARTS.records, parts, strict=True):
                scores[name] = as_number(part, place, name)
            yield Hypothesis(strip_markup(text), scores)


_PARTS = Header(
    records=dict.fromkeys(
        ("acoustic", "ngram", "llm"), Column.component("brain-to-text")
    )
)


ICEFALL = _Icefall()
SHERPA = _Sherpa()
WENET = _Wenet()
NEMO_BEAMS = _NemoBeams()
BRAIN_TO_TEXT = _BrainToText()
