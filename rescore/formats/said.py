"""What segments of recordings say: their words without tags such as `<|en|>`, and
without other marks of toolkits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rescore.formats.segments import Segment, kind_of, segments
from rescore.formats.source import TAGS, Source
from rescore.formats.text import Marks, strip_markup, without_tags
from rescore.formats.times import Span

OF_WORDS = ("ctm", "rttm")
"""Forms whose segments are single words."""
KEPT = {"stm": Marks.ENTITIES, "plain": ~Marks.NONE, "srt": ~Marks.NONE}
"""Marks that stay: their readers undo them where alternatives, ids and tags of
subtitles are known.
"""


def said(source: Source, kind: str | None = None) -> Iterator[Segment]:
    """Yield the segments of a file, without tags, which are told, and without other
    marks but those of `KEPT`; a word that is nothing but marks is left out.

    Args:
        source: The file.
        kind: Its form, as of `rescore.formats.segments.segments`.

    Raises:
        UserError: The file is damaged.
    """
    kind = kind or kind_of(source)
    every = _without_tags(segments(source, kind), source)
    kept = KEPT.get(kind, Marks.NONE)
    if kind in OF_WORDS:
        yield from _words(every)
        return
    for segment in every:
        yield segment.with_text(strip_markup(segment.text, kept))


def _without_tags(every: Iterable[Segment], source: Source) -> Iterator[Segment]:
    """Yield segments without tags, which are told."""
    for segment in every:
        text = without_tags(segment.text)
        if text != segment.text:
            place = segment.place or f"{source.name}: {segment.recording}"
            source.warnings.add("text", TAGS, place)
        yield segment.with_text(text)


def _words(every: Iterable[Segment]) -> Iterator[Segment]:
    """Yield the words of a file in which each segment is a word or a subword."""
    waiting: Segment | None = None
    is_among_alternatives = False
    for segment in every:
        if waiting is not None and _is_joined(waiting, segment):
            waiting = _joined(waiting, segment)
            continue
        if waiting is not None:
            yield from _word(waiting, is_among_alternatives)
        waiting = None
        if segment.mark:
            is_among_alternatives = segment.mark != "}"
            yield segment
        else:
            waiting = segment
    if waiting is not None:
        yield from _word(waiting, is_among_alternatives)


def _word(word: Segment, is_among_alternatives: bool) -> Iterator[Segment]:
    """Yield a word without marks; an empty word only as an alternative."""
    text = strip_markup(word.text)
    if not text and is_among_alternatives:
        text = "@"
    if text:
        yield word.with_text(text)


def _is_joined(first: Segment, second: Segment) -> bool:
    """Return whether two segments are subwords of one word."""
    same = (first.recording, first.channel) == (second.recording, second.channel)
    if second.mark or not same or first.span is None or second.span is None:
        return False
    if first.text.endswith("@@"):
        return True
    return "▁" in first.text and "▁" not in second.text


def _joined(first: Segment, second: Segment) -> Segment:
    """Return two subwords as one, from the start of the first to the end of the
    second.
    """
    assert first.span is not None
    assert second.span is not None
    span = Span(first.span.start, max(first.span.end, second.span.end))
    return first._replace(text=f"{first.text} {second.text}", span=span)
