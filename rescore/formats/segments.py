"""Texts with a place: what each line, cue or entry of a file of texts says.

References, 1-best outputs, subtitles, whole recordings, sessions with speakers, and
documents to correct are files of texts. There is one reader for each form (`READERS`),
and `kind_of` alone tells the form of a file. A reader yields a `Segment` for each place
that has words, and other lines as they are, so that a document can be written again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from rescore.errors import UserError
from rescore.files import ending_of, loads
from rescore.formats.ids import begin_with_ids
from rescore.formats.source import HEAD, JsonPeek, Source
from rescore.formats.subtitles import are_subtitles, cues
from rescore.formats.text import split_id, split_trn, stem_of
from rescore.formats.times import Span, spread


def is_comment(line: str) -> bool:
    """Return whether a line of trn, CTM, STM or RTTM is a comment.

    Args:
        line: The line.
    """
    return line.lstrip().startswith(";;")


class Segment(NamedTuple):
    """What one place of a file says: a line of a text, a cue, a word of a CTM."""

    text: str
    """The words as the file writes them."""
    recording: str = ""
    """The recording that the place names; the name of the file in forms that name
    none.
    """
    id: str | None = None
    """The utterance; None in a form, or line, without ids."""
    span: Span | None = None
    """None in a form, or entry, without times."""
    speaker: str = ""
    channel: str = ""
    place: str = ""
    """The file and line, for messages."""
    before: str = ""
    """The line up to the text: with `behind`, to write the line again."""
    behind: str = ""
    """The line behind the text, such as an id or a confidence."""
    mark: str = ""
    """`{`, `/` or `}` for a line of a CTM that begins, parts or ends alternatives."""

    @property
    def line(self) -> str:
        """The line, or the lines of the cue, as the file has them."""
        return f"{self.before}{self.text}{self.behind}"

    def with_text(self, text: str) -> Segment:
        """Return the segment with another text; itself if the text is the same.

        Args:
            text: The text.
        """
        return self if text == self.text else self._replace(text=text)

    def share_time(self, words: Sequence[str]) -> list[tuple[float, float]]:
        """Return the times of words that share the time of the segment by letters;
        nothing without times.

        Args:
            words: The words of the segment.
        """
        return spread(words, self.span) if self.span else []


Places = Iterator[Segment | str]
"""The segments of a file, and its other lines as they are."""


def segments(source: Source, kind: str | None = None) -> Iterator[Segment]:
    """Yield the segments of a file.

    Args:
        source: The file.
        kind: Its form, a key of `READERS`; None detects the form.

    Raises:
        UserError: The file is damaged.
    """
    for place in READERS[kind or kind_of(source)](source):
        if isinstance(place, Segment):
            yield place


# --- forms ---------------------------------------------------------------------------

FEW = 5
"""Lines that show that a file is CTM or STM; an error in a later line is reported."""
_ENDINGS = {
    **{".ctm": "ctm", ".stm": "stm", ".rttm": "rttm"},
    **{".srt": "srt", ".vtt": "srt"},
}
"""Forms by the endings of their files."""
_TIMES = {"ctm": (2, 3), "stm": (3, 4)}
"""The places of the times in a line of these forms."""
JSON = "json"
"""JSON that is no SegLST: `rescore.formats` reads its lists."""
OF_RECORDINGS = {
    "ctm": "a CTM",
    "stm": "an STM",
    "srt": "a file of subtitles",
    "rttm": "an RTTM",
    "seglst": "a SegLST",
}
"""The forms of whole recordings, as messages name them: places have times, and no ids
of utterances.
"""


def kind_of(source: Source) -> str:
    """Return the form of a file by its contents.

    A name such as `talk.ctm` decides only where the contents have no form, so that the
    reader names the wrong line.

    Args:
        source: A file, which is only peeked into.

    Returns:
        A key of `READERS`, or `json`.

    Raises:
        UserError: The source is a folder.
    """
    if source.is_folder:
        raise UserError(f"{source.name}: is a folder; give a file with texts")
    if source.peek.root:
        return "seglst" if is_seglst(source.peek) else JSON
    lines = _lines_of(source.head)
    if are_subtitles(lines):
        return "srt"
    kind = _timed_kind(lines[:FEW])
    if kind:
        return kind
    if lines and all(map(split_trn, lines)):
        return "trn"
    by_name = _form_by_name(source, lines)
    if by_name:
        return by_name
    if len(lines) > 1 and begin_with_ids(lines):
        return "kaldi"
    return "plain"


def _form_by_name(source: Source, lines: Sequence[str]) -> str | None:
    """Return the form that the name of a file tells, if it does: its ending, or of a
    file without lines any part, as in `talk.stm.filt`.

    Args:
        source: The file.
        lines: Its first lines.
    """
    parts = source.path.name.lower().split(".")[1:]
    endings = [ending_of(source.name)] if lines else [f".{part}" for part in parts]
    return next((_ENDINGS[each] for each in endings if each in _ENDINGS), None)


def form_of_recordings(source: Source) -> str | None:
    """Return the form that a file of whole recordings has for certain, a key of
    `OF_RECORDINGS`; None for a file of utterances, or a folder.

    Texts of utterances may have numbers where a CTM or STM has times, and lines that
    end in ids are a trn: only times with a decimal point, or the ending of the file,
    are certain.

    Args:
        source: A file, which is only peeked into, or a folder.
    """
    if source.is_folder:
        return None
    kind = kind_of(source)
    if kind not in OF_RECORDINGS:
        return None
    lines = _lines_of(source.head)
    is_certain = kind not in _TIMES or _form_by_name(source, lines) is not None
    return kind if is_certain or _have_times(lines[:FEW], kind) else None


def _have_times(lines: Sequence[str], kind: str) -> bool:
    """Return whether lines of numbers are certainly a CTM or STM."""
    times = [line.split()[place] for line in lines for place in _TIMES[kind]]
    are_trn = all(map(split_trn, lines))
    return not are_trn and any("." in time for time in times)


def check_of_utterances(source: Source, what: str) -> None:
    """Check that texts of utterances are not in a form of whole recordings, whose times
    and names would be words.

    Args:
        source: The file of texts.
        what: What the texts are, such as references.

    Raises:
        UserError: They are.
    """
    kind = form_of_recordings(source)
    if kind is None:
        return
    form = OF_RECORDINGS[kind]
    advice = f"give {what} as trn or Kaldi text"
    if what != "source texts":
        advice = f"add --whole to rescore eval, or {advice}"
        advice += f" (or --ref-format if this is not {form})"
    raise UserError(f"{source.name}: is {form}, for whole recordings; {advice}")


def _lines_of(head: str) -> list[str]:
    """Return the whole lines at the beginning of a file, without empty ones and
    comments.
    """
    lines = [line.strip() for line in head.split("\n")]
    if len(head) >= HEAD // 2 and len(lines) > 2:
        lines.pop()  # it may be cut
    return [line for line in lines if line and not is_comment(line)]


def _timed_kind(lines: Sequence[str]) -> str:
    """Return rttm, ctm or stm if all lines have this form, or an empty string."""
    if lines and all(map(_is_rttm, lines)):
        return "rttm"
    are_ctm = bool(lines) and all(map(_CTM.match, lines))
    are_stm = bool(lines) and all(map(_STM.fullmatch, lines))
    if are_ctm and are_stm:  # all words, or all speakers, are numbers
        starts = [line.split()[2] for line in lines]
        return "ctm" if any("." in start for start in starts) else "stm"
    if are_ctm:
        return "ctm"
    return "stm" if are_stm else ""


# --- lines with or without ids -------------------------------------------------------


def _plain(source: Source) -> Places:
    """Yield each line that is not empty."""
    yield from text_lines(source.lines(), source.name, stem_of(source))


def text_lines(lines: Iterable[str], name: str, recording: str = "") -> Places:
    """Yield each line of a text that is not empty, without an id: `as_kaldi` and
    `trn_lines` find the ids.

    Args:
        lines: The lines.
        name: The file, for messages.
        recording: The recording, if the file is of one.
    """
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield Segment(line, recording, place=f"{name}: line {number}")
        else:
            yield line


def _kaldi(source: Source) -> Places:
    """Yield each line of a Kaldi text."""
    for place in _plain(source):
        yield place if isinstance(place, str) else as_kaldi(place)


def _trn(source: Source) -> Places:
    """Yield each line of a trn; a line without an id in brackets has none."""
    for place in _plain(source):
        if isinstance(place, str) or is_comment(place.text):
            yield place if isinstance(place, str) else place.text
        else:
            yield as_trn(place) or place


def as_kaldi(line: Segment) -> Segment:
    """Return a line of text without an id, as a line whose first word is the id.

    Args:
        line: A segment of a plain text.
    """
    name, _ = split_id(line.text)
    _, _, rest = line.text.partition(name)
    begin = len(line.text) - len(rest)
    return _around(line, rest.strip(" \t"), begin)._replace(id=name)


def as_trn(line: Segment) -> Segment | None:
    """Return a line of text without an id, as a line of trn; None if no id in brackets
    is at its end.

    Args:
        line: A segment of a plain text.
    """
    parts = split_trn(line.text)
    if parts is None:
        return None
    text, name = parts
    return _around(line, text.strip(), 0)._replace(id=name)


def trn_lines(lines: Iterable[Segment]) -> list[Segment] | None:
    """Return lines of text without ids, as the lines of a trn, without comments; None
    if a line has no id in brackets at its end.

    Args:
        lines: The segments of a plain text.
    """
    found = []
    for line in lines:
        if is_comment(line.text):
            continue
        segment = as_trn(line)
        if segment is None:
            return None
        found.append(segment)
    return found


def _around(line: Segment, text: str, begin: int) -> Segment:
    """Return a line whose text is a part of it.

    Args:
        line: The line.
        text: The text.
        begin: The place in the line from which on the text stands.
    """
    begin = line.text.index(text, begin)
    end = begin + len(text)
    before = line.text[:begin]
    return line._replace(text=text, before=before, behind=line.text[end:])


# --- STM and RTTM --------------------------------------------------------------------

_STM = re.compile(
    r"\s*(\S+)\s+(\S+)\s+(\S+)\s+(\d+(?:\.\d+)?)\s+(\d+(?:\.\d+)?)(?:\s+<[^>]*>(?=\s|$))?((?:\s.*)?)"
)
"""A segment of a recording: file, channel, speaker, start, end, and a text."""


def _stm(source: Source) -> Places:
    """Yield each segment of an STM."""
    for number, line in enumerate(source.lines(), 1):
        if not line.strip() or is_comment(line):
            yield line
            continue
        place = f"{source.name}: line {number}"
        match = _STM.fullmatch(line)
        if match is None:
            raise UserError(
                f"{place}: not stm: expected `file channel speaker start end text`"
            )
        name, channel, speaker, start, end, text = match.groups()
        span = Span.read(start, end, place)
        segment = Segment(line, name, None, span, speaker, channel, place)
        yield _around(segment, text.strip(), match.start(6))


_RTTM_TYPES = re.compile(
    "SEGMENT|NOSCORE|NO_RT_METADATA|LEXEME|NON-LEX|NON-SPEECH|FILLER|EDIT|SU|IP|CB|A/P"
    "|SPEAKER|SPKR-INFO"
)
_RTTM_FIELDS = 8
"""`type file channel start duration word subtype speaker`."""


def _is_rttm(line: str) -> bool:
    """Return whether a line is of an RTTM."""
    cells = line.split()
    return bool(_RTTM_TYPES.fullmatch(cells[0])) and len(cells) in (9, 10)


def _rttm(source: Source) -> Places:
    """Yield the words of an RTTM; lines without words as they are."""
    others = 0
    number = 0
    for place, line in source.filled():
        cells = line.split()
        if cells[0] != "LEXEME":
            others += not is_comment(line)
            yield line
            continue
        if len(cells) < _RTTM_FIELDS:
            raise UserError(f"{place}: not RTTM: expected 9 or 10 fields")
        number += 1
        span = Span.read(cells[3], cells[4], place, duration=True)
        yield Segment(cells[5], cells[1], None, span, cells[7], cells[2], place)
    if others and not number:
        raise UserError(
            f"{source.name}: an RTTM without words (LEXEME lines); words are compared:"
            " give SegLST, STM or CTM"
        )


# --- SegLST --------------------------------------------------------------------------

_SEGLST = ("session_id", "speaker", "words")
"""Keys of a segment of a SegLST."""


def is_seglst(peek: JsonPeek) -> bool:
    """Return whether JSON is a list of segments.

    Args:
        peek: The beginning of the JSON.
    """
    return peek.root == "[" and set(_SEGLST) <= peek.first.keys()


def _seglst(source: Source) -> Places:
    """Yield the segments of a SegLST: a JSON list of objects."""
    content = loads(source.read_all(), source.name)
    if not isinstance(content, list):
        raise UserError(f"{source.name}: not SegLST: expected a JSON list of segments")
    for number, entry in enumerate(content, 1):
        yield _entry(entry, f"{source.name}: segment {number}")


def _entry(entry: Any, place: str) -> Segment:
    """Return a segment of a SegLST."""
    if not isinstance(entry, dict):
        raise UserError(f"{place}: not SegLST: expected an object, not a {entry!r:.40}")
    for key in _SEGLST:
        value = entry.get(key)
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not isinstance(value, str) and not (is_number and key != "words"):
            raise UserError(
                f"{place}: {key} is {value!r:.40}, not a text; a segment of SegLST has"
                " session_id, speaker and words"
            )
    times = (entry.get("start_time"), entry.get("end_time"))
    span = None
    if times != (None, None):
        span = Span.read(*times, place)
    words = " ".join(entry["words"].split())
    name = str(entry["session_id"])
    return Segment(words, name, None, span, str(entry["speaker"]), place=place)


# --- subtitles -----------------------------------------------------------------------


def _subtitles(source: Source) -> Places:
    """Yield the cues of subtitles, with their tags."""
    stem = stem_of(source)
    for span, lines in cues(source):
        text = "\n".join(lines)
        yield text if span is None else Segment(text, stem, span=span)


# --- CTM -----------------------------------------------------------------------------

_CTM = re.compile(
    r"\S+\s+\S+\s+"  # recording and channel
    r"(?:\d+(?:\.\d+)?\s+\d+(?:\.\d+)?\s+\S+(?:\s+-?[\d.]+)?(?:\s|$)|\*\s+\*\s+<alt)",
    re.IGNORECASE,
)
"""The beginning of a line of CTM: times and a word, or a mark of alternatives."""
_CELLS = re.compile(r"\s*(\S+)\s+(\S+)\s+(\S+)\s+(\S+)\s+(\S+)")
_MARKS = {"<alt_begin>": "{", "<alt>": "/", "<alt_end>": "}"}
"""Lines of alternatives, and the brackets and slash of sclite that they stand for."""
PAUSE = 1.0
"""Seconds of silence that end a stretch of words."""
MOST_WORDS = 200
"""Words of a stretch, at most."""


def _ctm(source: Source) -> Places:
    """Yield the words of a CTM, and its marks of alternatives."""
    for number, line in enumerate(source.lines(), 1):
        if not line.strip() or is_comment(line):
            yield line
        else:
            yield _ctm_word(line, f"{source.name}: line {number}")


def _ctm_word(line: str, place: str) -> Segment:
    """Return the word, or the mark of alternatives, of a line of a CTM.

    Raises:
        UserError: The line is not CTM.
    """
    match = _CELLS.match(line)
    if match is None:
        raise UserError(
            f"{place}: not CTM: expected `recording channel start duration word"
            " [confidence]`"
        )
    name, channel, start, duration, word = match.groups()
    mark = ""
    span = None
    if (start, duration) == ("*", "*"):
        mark = _MARKS.get(word.lower(), "")
    if not mark:
        span = Span.read(start, duration, place, duration=True)
    before = line[: match.start(5)]
    behind = line[match.end(5) :]
    return Segment(word, name, None, span, "", channel, place, before, behind, mark)


def goes_on(word: Segment, last: Segment, number: int) -> bool:
    """Return whether a word belongs to the stretch of words that stands before it.

    Args:
        word: A word with times.
        last: The last word of the stretch.
        number: The number of words in the stretch.
    """
    if (last.recording, last.channel) != (word.recording, word.channel):
        return False
    if word.span is None or last.span is None:
        return False
    return word.span.start - last.span.end <= PAUSE and number < MOST_WORDS


def with_alternatives(words: Iterable[Segment]) -> Iterator[list[Segment]]:
    """Yield the words of a CTM one by one, and alternatives together: all their lines,
    from `<ALT_BEGIN>` to `<ALT_END>`.

    Args:
        words: The segments of the CTM.

    Raises:
        UserError: A mark stands where it cannot stand, or alternatives are not closed.
    """
    block: list[Segment] = []
    for word in words:
        if not block and not word.mark:
            yield [word]
            continue
        _check_order(block, word)
        block.append(word)
        if word.mark == "}":
            yield block
            block = []
    if block:
        raise UserError(
            f"{block[-1].place}: <ALT_BEGIN> without <ALT_END> up to here; add"
            " <ALT_END> behind the last alternative"
        )


def first_alternative(block: Sequence[Segment]) -> list[Segment]:
    """Return the words of the first alternative.

    Args:
        block: A single word, or the lines of alternatives (`with_alternatives`).
    """
    lines = block[1:] if block[0].mark else block
    return list(takewhile(lambda word: not word.mark, lines))


def _check_order(block: Sequence[Segment], word: Segment) -> None:
    """Check that a line can stand where it stands.

    Args:
        block: The lines of alternatives before it that are not closed.
        word: The line.
    """
    first = word
    allowed = {"", "{"}
    if block:
        first = block[0]
        allowed = {"", "/"}
        if not all(line.mark for line in block):
            allowed.add("}")
    is_same = (word.recording, word.channel) == (first.recording, first.channel)
    if word.mark not in allowed or not is_same:
        raise UserError(
            f"{word.place}: {' '.join(word.line.split())} cannot stand here; write"
            " alternatives as lines of one channel: <ALT_BEGIN>, words, <ALT>, words,"
            " <ALT_END>"
        )


# --- readers -------------------------------------------------------------------------

READERS: Mapping[str, Callable[[Source], Places]] = {
    "plain": _plain,
    "kaldi": _kaldi,
    "trn": _trn,
    "ctm": _ctm,
    "stm": _stm,
    "srt": _subtitles,
    "rttm": _rttm,
    "seglst": _seglst,
}
"""The reader of each form of texts; `srt` is also WebVTT."""
