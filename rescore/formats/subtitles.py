"""Subtitles: SubRip (SRT) and WebVTT.

pysubs2 does not read the same words: it takes notes and names of cues for words, leaves
entities, removes words in angle brackets such as `<laughs>`, skips SubRip times without
hours, and accepts a cue that ends before it starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rescore.errors import UserError
from rescore.formats.source import Source
from rescore.formats.text import strip_markup
from rescore.formats.times import Span

_CLOCK = r"(?:\d+:)?\d+:\d+(?:[.,]\d+)?"
_CUE = re.compile(rf"\s*({_CLOCK})\s+-->\s+({_CLOCK})(?:\s|$)")
_WEB = "WEBVTT"
_NO_CUE = re.compile(r"(?:NOTE|STYLE|REGION)(?:\s|$)")
"""The beginning of a block of WebVTT that is no cue."""
_TAG = re.compile(
    r"</?(?:b|i|u|s|c|ruby|rt|v|lang|font)(?:\.[^\s<>]*)?>"
    r"|<(?:v|lang|font)(?:\.[^\s<>]*)?\s[^<>]*>"
    r"|<[\d:.]+>"
    r"|\{\\[^{}]*\}",
    re.IGNORECASE,
)
"""A tag of SubRip or WebVTT, a time within a cue, or a position; other text in angle
brackets is words.
"""


def are_subtitles(lines: Sequence[str]) -> bool:
    """Return whether a file has subtitles, judged by its first lines.

    Args:
        lines: The first lines that are not empty.
    """
    return any(map(_CUE.match, lines[:3])) or "".join(lines[:1]).startswith(_WEB)


def cues(source: Source) -> Iterator[tuple[Span | None, list[str]]]:
    """Yield the lines of subtitles with their times.

    Yields:
        The lines of each cue together, with its start and end in seconds; lines between
        cues one by one, with None.

    Raises:
        UserError: A time is wrong, or the file has text but no cue.
    """
    lines = list(source.lines())
    _check_cues(source, lines)
    span: Span | None = None
    waiting: list[str] = []
    for number, line in enumerate(lines):
        is_time = _CUE.match(line) is not None
        if span and not (is_time or _is_heading(lines, number)):
            waiting.append(line)
            continue
        yield from _cue(span, waiting)
        waiting = []
        span = None
        match = _CUE.match(line)
        if match:
            place = f"{source.name}: subtitle at {match[1]}"
            span = Span.read(match[1], match[2], place)
        yield None, [line]
    yield from _cue(span, waiting)


def _check_cues(source: Source, lines: Sequence[str]) -> None:
    """Check that a file has cues, or nothing but the head and the notes of WebVTT.

    Raises:
        UserError: The file has text but no cue.
    """
    if any(map(_CUE.match, lines)):
        return
    for block in re.split(r"\n\s*\n", "\n".join(lines).strip()):
        if block and not block.startswith(_WEB) and not _NO_CUE.match(block):
            raise UserError(
                f"{source.name}: no subtitle in it; expected lines `00:00:01.000 -->"
                " 00:00:02.500`"
            )


def _is_heading(lines: Sequence[str], number: int) -> bool:
    """Return whether a line ends the cue before it: the number or the name of the next
    cue, or the beginning of a note. An empty line alone ends no cue: programs write
    texts with empty lines.
    """
    line = lines[number]
    is_first = not lines[number - 1].strip()
    if is_first and _NO_CUE.match(line):
        return True
    if not line.strip() or number + 1 == len(lines):
        return False
    # only WebVTT has cues with names
    has_names = lines[0].startswith(_WEB)
    is_name = (is_first and has_names) or line.strip().isdecimal()
    return is_name and _CUE.match(lines[number + 1]) is not None


def _cue(
    span: Span | None, lines: list[str]
) -> Iterator[tuple[Span | None, list[str]]]:
    """Yield the lines of a cue; the empty lines around them one by one, with None."""
    filled = [number for number, line in enumerate(lines) if line.strip()]
    first = filled[0] if filled else len(lines)
    last = filled[-1] + 1 if filled else len(lines)
    for line in lines[:first]:
        yield None, [line]
    if filled:
        yield span, lines[first:last]
    for line in lines[last:]:
        yield None, [line]


def cue_words(text: str) -> list[str]:
    """Return the words of a cue, without tags.

    Args:
        text: The lines of the cue.

    Example:
        >>> cue_words("<i>so</i> it\\n&amp; that")
        ['so', 'it', '&', 'that']
    """
    return strip_markup(_TAG.sub("", text.replace("\n", " "))).split()
