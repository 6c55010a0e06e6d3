"""One reader of bytes for lists and texts: packed files, marks at their beginning, and
lines.
"""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from rescore import formats
from rescore.errors import UserError
from rescore.formats.audio import with_recordings
from rescore.formats.sentences import read_lines
from rescore.formats.source import CRLF, InputWarnings
from rescore.nbest import Hypothesis, NbestList
from tests.conftest import Run, assert_one_line_error
from tests.lms.test_ngram import ARPA

LINE = b'{"id": "u", "hyps": [{"text": "a", "score": -1}]}\n'


@pytest.mark.parametrize(
    "pack", [bytes, gzip.compress, lzma.compress], ids=["plain", "gzip", "xz"]
)
def test_lists_and_texts_may_be_packed(pack: object, tmp_path: Path) -> None:
    assert callable(pack)
    (tmp_path / "any-name").write_bytes(pack(LINE))
    assert formats.read([tmp_path / "any-name"])[0].id == "u"
    (tmp_path / "text").write_bytes(pack(b"\xef\xbb\xbfa b\n\n c\rd \r\n"))
    warnings = InputWarnings()
    assert list(read_lines(tmp_path / "text", empty=True, warnings=warnings)) == [
        "a b",
        "",
        "c\rd",
    ]
    with pytest.raises(UserError, match="text: begins with a byte order mark"):
        list(read_lines(tmp_path / "text", warnings=InputWarnings(strict=True)))
    with pytest.raises(UserError, match=r"line 3: .*convert the file"):
        list(read_lines(tmp_path / "text", warnings=InputWarnings(refused=CRLF)))


def test_long_first_lines_may_have_a_mark(tmp_path: Path) -> None:
    """The first line was looked at with its mark where the first 64 KiB did not say
    what it is.
    """
    line = b'{"id": "u", "hyps": [{"text": "' + b"a " * 40_000 + b'", "score": -1}]}\n'
    (tmp_path / "l.jsonl").write_bytes(b"\xef\xbb\xbf" + line)
    assert [nbest.id for nbest in formats.read([tmp_path / "l.jsonl"])] == ["u"]


def test_text_to_score_has_no_mark_and_lines_end_at_newlines(
    rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    (tmp_path / "plain").write_bytes(b"the old\nthe owl\n")
    (tmp_path / "odd").write_bytes(b"\xef\xbb\xbfthe old\r\nthe owl\r\n")
    command = ["score", "--lm", "ngram:lm.arpa", "--text"]
    plain, odd = rescore(*command, "plain"), rescore(*command, "odd")
    assert plain.returncode == 0 and plain.stdout.replace("plain", "odd") == odd.stdout
    assert "byte order mark" in odd.stderr and "carriage return" in odd.stderr
    assert_one_line_error(
        rescore(*command, "odd", "--strict"), "byte order mark", "--strict"
    )


def test_one_recording_of_each_utterance(tmp_path: Path) -> None:
    lists = [NbestList(name, [Hypothesis("a", {"s2s": -1.0})]) for name in ("u1", "u2")]
    (tmp_path / "utt2spk").write_text("u1 a\nu1 a\nu2 b\n")
    assert [
        nbest.recording for nbest in with_recordings(lists, tmp_path / "utt2spk")
    ] == ["a", "b"]
    (tmp_path / "utt2spk").write_text("u1 a\nu1 b\n")
    with pytest.raises(UserError, match="line 2: utterance u1 is duplicated"):
        list(with_recordings(lists, tmp_path / "utt2spk"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "l.jsonl",
            (
                '{"id": "u", "text": "a", "ref": "x"}\n{"id": "u", "text": "b", "ref":'
                ' "y"}\n'
            ),
        ),
        ("l.csv", "id,text,ref\nu,a,x\nu,b,y\n"),
    ],
)
def test_lines_of_one_list_have_one_reference(
    name: str, content: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(
        UserError,
        match=r"utterance u: its lines have different references \('x', 'y'\)",
    ):
        formats.read([tmp_path / name])
    (tmp_path / name).write_text(content.replace("y", "x"))
    assert formats.read([tmp_path / name])[0].references == ("x",)


def test_icefall_has_several_references(tmp_path: Path) -> None:
    (tmp_path / "recogs").write_text(
        "c:\tref=['A']\nc:\thyp=['B']\nc:\tref=['C']\nc:\tref=['A']\n"
    )
    assert formats.read([tmp_path / "recogs"])[0].references == ("A", "C")
