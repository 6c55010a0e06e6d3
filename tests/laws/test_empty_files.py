"""Law: an empty file of a form is a recording without words, in every form and for
every command that reads whole recordings, sessions or documents.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rescore.asr.documents import KINDS, kind_of, passages
from rescore.asr.measured import measured_recordings
from rescore.asr.sessions import measured_sessions
from rescore.asr.whole import are_whole, read_systems
from rescore.errors import UserError
from rescore.formats.source import Source
from rescore.nbest import NbestList
from tests.conftest import Run

EMPTY = [
    ("talk.txt", ""),
    ("talk.trn", ""),
    ("talk", "\n"),
    ("talk.ctm", ""),
    ("talk.ctm", ";; a note\n"),
    ("talk.stm", ";; a note\n"),
    ("talk.srt", ""),
    ("talk.vtt", "WEBVTT\n"),
    ("talk.vtt", "WEBVTT - a talk\nKind: captions\n\nNOTE\nan owl\n"),
    ("talk.rttm", ""),
    ("talk.json", "[]"),
    ("talk.json", json.dumps({"text": "", "segments": [], "language": "en"})),
]
"""Names and contents of empty files, of each form."""
TEXTS = [(name, text) for name, text in EMPTY if not name.endswith(".json")]
OF_SPEAKERS = (".ctm", ".stm", ".rttm")
SESSIONS = [pair for pair in EMPTY if pair[0].endswith(OF_SPEAKERS) or pair[1] == "[]"]
SPOKEN = "talk 1 s 0.0 2.0 an owl hoots\n"


@pytest.fixture(params=EMPTY)
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with an empty file of the recording `talk`."""
    name, text = request.param
    folder = tmp_path / "a"
    folder.mkdir()
    (folder / name).write_text(text)
    return folder


@pytest.fixture
def spoken(tmp_path: Path) -> Path:
    """A folder with a recording of three words."""
    folder = tmp_path / "b"
    folder.mkdir()
    (folder / "talk.stm").write_text(SPOKEN)
    return folder


def said(lists: list[NbestList]) -> list[tuple[str, tuple[str, ...]]]:
    return [(nbest.hypotheses[0].text, nbest.references) for nbest in lists]


def test_recordings_without_words(empty: Path, spoken: Path) -> None:
    heard, other = read_systems([empty, spoken])
    assert heard["talk"].words == [] and len(other["talk"].words) == 3
    alone = read_systems([empty, empty])
    assert [list(system) for system in alone] == [["talk"], ["talk"]]


def test_all_words_are_deletions_or_insertions(empty: Path, spoken: Path) -> None:
    (lists,) = measured_recordings([str(empty)], str(spoken))
    assert said(lists) == [("", ("an owl hoots",))]
    (lists,) = measured_recordings([str(spoken)], str(empty))
    assert said(lists) == [("an owl hoots", ("",))]


def test_an_empty_recording_is_combined(
    empty: Path, spoken: Path, rescore: Run
) -> None:
    assert are_whole([empty, spoken])
    done = rescore("combine", str(empty), str(spoken), "-o", "lists.jsonl")
    assert done.returncode == 0, done.stderr
    assert "an owl hoots" in (spoken.parent / "lists.jsonl").read_text()


@pytest.mark.parametrize(("name", "text"), TEXTS)
def test_an_empty_document_is_written_as_it_is(
    name: str, text: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text)
    kind = kind_of(Source(path))
    assert kind in KINDS
    own = list(passages(Source(path), kind))
    assert "".join(part.render([]) for part in own) == text


@pytest.mark.parametrize(("name", "text"), SESSIONS)
def test_nobody_speaks_in_an_empty_session(
    name: str, text: str, spoken: Path, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text)
    (lists,) = measured_sessions([str(path)], str(spoken))
    assert [nbest.hypotheses[0].text for nbest in lists] == [""]


@pytest.mark.parametrize("ending", ["srt", "vtt", "ctm", "stm"])
def test_a_file_with_other_contents_is_not_empty(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"talk.{ending}"
    path.write_text("an owl hoots\n")
    with pytest.raises(UserError, match=r"no subtitle in it|not ctm|not CTM|not stm"):
        read_systems([path])
    with pytest.raises(UserError, match=r"no subtitle in it|not ctm|not CTM|not stm"):
        list(passages(Source(path), kind_of(Source(path))))
