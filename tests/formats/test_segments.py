"""Files of texts: the form by the contents, what each place says, and that the places
make up the file again.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rescore.errors import UserError
from rescore.formats.segments import (
    READERS,
    Segment,
    first_alternative,
    kind_of,
    segments,
    with_alternatives,
)
from rescore.formats.source import Source
from rescore.formats.times import Span

SEGLST = [
    {"session_id": "talk", "speaker": "s1", "words": "an  owl", "start_time": 0.5}
    | {"end_time": 1.5},
    {"session_id": "talk", "speaker": 2, "words": "hoots"},
]
LEXEME = "LEXEME talk 1 0.5 1.0 {} lex s1 0.9 <NA>\n"
FILES = {
    "plain": "an owl\n\n  hoots \n",
    "kaldi": "a-1 an owl\na-2\n a-3\thoots \n",
    "trn": ";; note\n an owl (a-1)\nhoots  (a-2) \n",
    "ctm": ";; note\ntalk\t1 0.5 1.0  owl 0.9\ntalk 1 2 1 hoots\n",
    "stm": ";; note\ntalk A s1 0.5 1.5 <o,f0> an owl \ntalk A s2 2 3\n",
    "srt": "1\n00:00:00,500 --> 00:00:01,500\nan <i>owl</i>\nhoots\n\n",
    "rttm": f"SPEAKER talk 1 0 9 <NA> <NA> s1 <NA> <NA>\n{LEXEME.format('owl')}",
    "seglst": json.dumps(SEGLST),
}
"""A file of each form, all with something beside the words."""
SAID = {
    "plain": [("an owl", "f", None, None), ("  hoots ", "f", None, None)],
    "kaldi": [
        ("an owl", "f", "a-1", None),
        ("", "f", "a-2", None),
        ("hoots", "f", "a-3", None),
    ],
    "trn": [("an owl", "f", "a-1", None), ("hoots", "f", "a-2", None)],
    "ctm": [("owl", "talk", None, (0.5, 1.5)), ("hoots", "talk", None, (2, 3))],
    "stm": [("an owl", "talk", None, (0.5, 1.5)), ("", "talk", None, (2, 3))],
    "srt": [("an <i>owl</i>\nhoots", "f", None, (0.5, 1.5))],
    "rttm": [("owl", "talk", None, (0.5, 1.5))],
    "seglst": [("an owl", "talk", None, (0.5, 1.5)), ("hoots", "talk", None, None)],
}
"""Text, recording, id and span of each segment."""
SPEAKERS = {"stm": ["s1", "s2"], "rttm": ["s1"], "seglst": ["s1", "2"]}
CHANNELS = {"ctm": ["1", "1"], "stm": ["A", "A"], "rttm": ["1"]}


def source_of(folder: Path, text: str, name: str = "f") -> Source:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return Source(path)


def test_each_form_has_a_file() -> None:
    assert FILES.keys() == READERS.keys()


@pytest.mark.parametrize("kind", FILES)
def test_a_file_tells_its_form_and_what_each_place_says(
    kind: str, tmp_path: Path
) -> None:
    source = source_of(tmp_path, FILES[kind])
    assert kind_of(source) == kind
    own = list(segments(source))
    said = [(one.text, one.recording, one.id, one.span) for one in own]
    assert said == SAID[kind]
    assert [one.speaker for one in own] == SPEAKERS.get(kind, [""] * len(own))
    assert [one.channel for one in own] == CHANNELS.get(kind, [""] * len(own))


@pytest.mark.parametrize("kind", ["plain", "kaldi", "trn", "ctm", "stm", "srt"])
def test_the_places_make_up_the_file(kind: str, tmp_path: Path) -> None:
    lines = []
    for place in READERS[kind](source_of(tmp_path, FILES[kind])):
        lines.append(place.line if isinstance(place, Segment) else place)
    assert "".join(f"{line}\n" for line in lines) == FILES[kind]


@pytest.mark.parametrize("kind", ["plain", "kaldi", "trn", "ctm", "stm", "rttm"])
def test_a_segment_says_its_line(kind: str, tmp_path: Path) -> None:
    text = FILES[kind]
    for one in segments(source_of(tmp_path, text)):
        number = int(one.place.rpartition("line ")[2])
        assert one.text in text.splitlines()[number - 1]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("f.ctm", "ctm"),
        ("f.stm.filt", "stm"),
        ("f.vtt", "srt"),
        ("f.rttm", "rttm"),
        ("f.txt", "plain"),
        ("f", "plain"),
    ],
)
def test_the_name_tells_the_form_of_an_empty_file(
    name: str, kind: str, tmp_path: Path
) -> None:
    for text in ("", "\n", ";; note\n"):
        assert kind_of(source_of(tmp_path, text, name)) == kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('{"text": "an owl"}', "json"),
        ('[{"words": "an owl", "speaker": "s"}]', "json"),
        ("AB-1 a b c d e f g h\nAB-2 a b c d e f g h\n", "kaldi"),
        ("WEBVTT\n", "srt"),
        ("an owl (a-1)\nhoots\n", "plain"),
        ("a-1 an owl\n", "plain"),
        ("a-1 an owl\na-1 hoots\n", "plain"),
    ],
)
def test_contents_that_are_nearly_another_form(
    text: str, kind: str, tmp_path: Path
) -> None:
    assert kind_of(source_of(tmp_path, text)) == kind


def test_a_folder_has_no_form(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is a folder"):
        kind_of(Source(tmp_path))


WRONG = {
    "ctm": ("talk 1 0.5 1.0\n", "line 1: not CTM"),
    "stm": ("talk 1 0.5 1.0\n", "line 1: not stm"),
    "srt": ("an owl\n", "no subtitle in it"),
    "rttm": ("SPEAKER talk 1 0 9 <NA> <NA> s1 <NA> <NA>\n", "without words"),
    "seglst": ('["a"]', "segment 1: not SegLST"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_damaged_file_is_an_error(kind: str, tmp_path: Path) -> None:
    text, message = WRONG[kind]
    with pytest.raises(UserError, match=message):
        list(segments(source_of(tmp_path, text), kind))


@pytest.mark.parametrize(
    "text", ["", "WEBVTT\n", "WEBVTT - a talk\nKind: captions\n\nNOTE an owl\nhoots\n"]
)
def test_subtitles_without_a_cue(text: str, tmp_path: Path) -> None:
    assert list(segments(source_of(tmp_path, text, "f.vtt"))) == []


def test_words_share_the_time_of_their_segment() -> None:
    words = ["an", "owls"]
    one = Segment("an owls", span=Span(0.0, 3.0))
    assert one.share_time(words) == [(0.0, 1.0), (1.0, 3.0)]
    assert Segment("an owls").share_time(words) == []


def test_alternatives_stand_together(tmp_path: Path) -> None:
    lines = ["0 1 a", "* * <ALT_BEGIN>", "1 1 b", "* * <ALT>", "1 1 c", "1 1 d"]
    lines += ["* * <ALT_END>", "3 1 e"]
    text = "".join(f"talk 1 {line}\n" for line in lines)
    blocks = list(with_alternatives(segments(source_of(tmp_path, text))))
    assert [len(block) for block in blocks] == [1, 6, 1]
    first = [[word.text for word in first_alternative(block)] for block in blocks]
    assert first == [["a"], ["b"], ["e"]]


@pytest.mark.parametrize("mark", [";; a comment", "  ;; a comment"])
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("f.trn", "an owl (u-1)"),
        ("f.ctm", "f 1 0.10 0.30 owl"),
        ("f.stm", "f 1 s 0.00 1.00 owl"),
        ("f.rttm", "LEXEME f 1 0.10 0.30 owl lex s 1"),
    ],
)
def test_comments_are_no_words(name: str, line: str, mark: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(f"{mark}\n{line}\n{mark}\n", encoding="utf-8")
    source = Source(path)
    read = [
        one for one in segments(source, kind_of(source)) if isinstance(one, Segment)
    ]
    assert len(read) == 1 and "comment" not in read[0].text
