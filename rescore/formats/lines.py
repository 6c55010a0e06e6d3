"""Speech recognisers that write lines: icefall, sherpa-onnx, WeNet, NeMo's beams, and
the brain-to-text server. `shapes.toml` describes recognisers that write JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rescore.errors import UserError
from rescore.files import loads
from rescore.formats.rows import Joins, ListSize, Row, RowFormat, as_list, in_portions
from rescore.formats.shaped import results_of, span_beside
from rescore.formats.shapes import Shape, shipped
from rescore.formats.source import JsonPeek, Place, ReadOptions, Source
from rescore.formats.tables import NUMBER
from rescore.formats.text import as_number, literal_words, strip_markup
from rescore.formats.times import TimedWord
from rescore.ids import SOUNDS

_RECOG = re.compile(r"\s*(\S+):\s+(ref|hyp|timestamp_ref|timestamp_hyp)=(.*)")


class _Icefall(RowFormat):
    """icefall (k2) recogs files: lines `cut-id:<TAB>ref=['A', 'B']` and
    `cut-id:<TAB>hyp=['A', 'C']`.
    """

    adds_references = True
    has_references = True

    def sniff(self, source: Source) -> bool:
        return _RECOG.match(source.head) is not None

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield the references and hypotheses of each cut, whose lines stand together.

        Several `hyp` lines are several hypotheses. There are no scores. A hypothesis is
        yielded when the line behind it, which may hold its times, is read. A hypothesis
        behind a second reference begins another list.
        """
        waiting: Row | None = None
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
            if waiting is not None and kind == "timestamp_hyp" and waiting.id == name:
                waiting.words = _timed_words(waiting.text or "", value, place)
                continue
            if waiting is not None:
                yield waiting
                waiting = None
            if kind == "ref":
                yield Row(name, place, references=(literal_words(value, place),))
                is_again = name == heard
            elif kind == "hyp":
                joins = Joins.NEVER if is_again else Joins.SAME_ID
                waiting = Row(name, place, literal_words(value, place), joins=joins)
                heard = name
                is_again = False
        if waiting is not None:
            yield waiting


_TIMES = Shape(name="icefall", times="[]")
"""Starts of words, or pairs of start and end."""


def _timed_words(text: str, value: str, place: str) -> Sequence[TimedWord]:
    """Return the words of a hypothesis with their times.

    Args:
        text: The text.
        value: The starts, or pairs of start and end, as Python prints them.
        place: The file and line, for messages.
    """
    times = loads(value.replace("(", "[").replace(")", "]"), place, line=True)
    words = strip_markup(text).split()
    if not isinstance(times, list) or len(times) != len(words):
        return ()
    timed = []
    for number, word in enumerate(words):
        timed.append((word, span_beside(_TIMES, times, number, place)))
    return timed


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


class _Wenet(RowFormat):
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

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield the hypotheses of each wave file; the score is the total, a natural
        log.

        WeNet leaves empty texts out: no candidate is one empty text.
        """
        empty: Row | None = None
        name = ""
        for place, line in source.filled():
            mark, _, rest = line.partition(" ")
            if mark == "wav" and rest.strip():
                if empty is not None:
                    yield empty
                name = rest.strip()
                yield Row(name, place, joins=Joins.NEVER)
                empty = Row(name, place, "", total=0.0)
            elif mark == "candidate" and name:
                empty = None
                score, _, text = rest.partition(" ")
                yield Row(name, place, text, total=as_number(score, place))
            else:
                raise UserError(f"{place}: expected `wav ID` or `candidate SCORE TEXT`")
        if empty is not None:
            yield empty


_WIDTH = re.compile(r"width(\d+)")


class _NemoBeams(RowFormat):
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

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield the hypotheses of each beam; ids are numbers from 1.

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
        return in_portions(self._lines(source), size, source.name)

    def _lines(self, source: Source) -> Iterator[Row]:
        """Yield the hypothesis of each line."""
        for number, line in enumerate(source.lines(), 1):
            place = f"{source.name}: line {number}"
            text, tab, score = line.rpartition("\t")
            if not tab:
                raise UserError(f"{place}: expected `text<TAB>score`")
            yield Row("", place, text, total=as_number(score, place))


class _BrainToText(RowFormat):
    """Answers of the brain-to-text language model server: a line per trial, five fields
    per hypothesis, which are its text and its acoustic, n-gram, LLM and total scores,
    with semicolons between all fields.
    """

    components = "brain-to-text"

    def sniff(self, source: Source) -> bool:
        # four: the line is damaged
        head = source.head.lstrip("\r\n")  # an empty line is a trial without words
        fields = head.partition("\n")[0].rstrip("\r").split(";")[:5]
        return (
            len(fields) > 3
            and all(map(NUMBER.fullmatch, fields[1:]))
            and not NUMBER.fullmatch(fields[0])
        )

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield the hypotheses of each line; lists are numbered from 1.

        The total is the first pass; the other scores become columns. An empty line is
        an empty text.
        """
        for number, line in enumerate(source.lines(), 1):
            place = f"{source.name}: line {number}"
            cells = line.split(";") if line.strip() else ["", "0", "0", "0", "0"]
            if len(cells) % 5:
                raise UserError(
                    f"{place}: {len(cells)} fields; expected"
                    " `text;acoustic;ngram;llm;total` per hypothesis"
                )
            rows = []
            for first in range(0, len(cells), 5):
                text, *parts, total = cells[first : first + 5]
                scores = {}
                for name, part in zip(("acoustic", "ngram", "llm"), parts, strict=True):
                    scores[name] = as_number(part, place, name)
                rows.append(
                    Row(str(number), place, text, scores, as_number(total, place))
                )
            yield from as_list(rows)


ICEFALL = _Icefall()
SHERPA = _Sherpa()
WENET = _Wenet()
NEMO_BEAMS = _NemoBeams()
BRAIN_TO_TEXT = _BrainToText()
