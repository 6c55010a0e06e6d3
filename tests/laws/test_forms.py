"""Law: a file in a form of whole recordings is never read as texts of utterances. In
each place of each command that takes texts or lists of utterances, a line names the
form and says what to do.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rescore.formats.segments import OF_RECORDINGS, form_of_recordings
from rescore.formats.source import Source
from tests.conftest import Run

IDS = ("u-1", "u-2", "u-3")
CUE = "{0}\n00:00:0{0},000 --> 00:00:0{0},900\n{1}\n\n"


def lines(form: str) -> str:
    """A line for each recording."""
    return "".join(form.format(name) + "\n" for name in IDS)


def cues() -> str:
    return "".join(CUE.format(number, "an owl") for number, _ in enumerate(IDS, 1))


SEGMENT = {"speaker": "A", "words": "an owl", "start_time": 0, "end_time": 1}
SEGMENTS = [{"session_id": name, **SEGMENT} for name in IDS]
FORMS = {
    "talk.ctm": ("ctm", lines("{0} 1 0.1 0.2 an\n{0} 1 0.4 0.2 owl")),
    "words.ctm": ("ctm", lines("{0} 1 0.1 0.2 owl")),
    "words": ("ctm", lines("{0} 1 0.1 0.2 owl 0.9")),
    "bad.ctm": ("ctm", lines("{0} 1 0.1 owl")),
    "talk.stm": ("stm", ";; a note\n" + lines("{0} 1 A 0 1.5 <o,f0> an owl")),
    "talk.srt": ("srt", cues()),
    "talk.vtt": ("srt", "WEBVTT\n\n" + cues().replace(",", ".")),
    "cues.txt": ("srt", cues()),
    "talk.rttm": ("rttm", lines("LEXEME {0} 1 0.1 0.2 owl lex A <NA>")),
    "talk.json": ("seglst", json.dumps(SEGMENTS)),
}
"""Files of whole recordings: their forms and contents."""
LISTS = "".join(
    json.dumps({"id": name, "hyps": [{"text": "an owl", "score": -1}]}) + "\n"
    for name in IDS
)
AS_TEXTS = {
    "eval FILE --ref ref": "outputs",
    "eval - --ref ref": "outputs",
    "eval ref --ref FILE": "references",
    "eval FILE --ref FILE": "references",
    "eval lists.jsonl --ref FILE": "references",
    "run lists.jsonl --ref FILE": "references",
    "run lists.jsonl --ref ref --dev lists.jsonl --dev-ref FILE": "references",
    "combine lists.jsonl ref --ref FILE": "references",
    "analyse FILE --ref ref": "outputs",
    "convert FILE --ref ref": "outputs",
    "convert lists.jsonl --ref FILE": "references",
    "convert lists.jsonl --src FILE": "source texts",
    "eval ref --ref ref --src FILE": "source texts",
}
"""Commands that take texts, and what the file would be."""
AS_LISTS = (
    "convert FILE",
    "run FILE --ref ref",
    "rerank FILE --best -",
    "tune FILE --ref ref",
    "analyse FILE",
)


@pytest.fixture
def file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file of whole recordings, beside lists and Kaldi text with their names."""
    (tmp_path / "lists.jsonl").write_text(LISTS)
    (tmp_path / "ref").write_text(lines("{0} an owl"))
    path = tmp_path / request.param
    path.write_text(FORMS[request.param][1])
    return path


def test_each_form_has_a_file() -> None:
    assert {kind for kind, _ in FORMS.values()} == set(OF_RECORDINGS)


@pytest.mark.parametrize("file", FORMS, indirect=True)
def test_texts_of_utterances_are_in_no_form_of_recordings(
    file: Path, rescore: Run
) -> None:
    kind, text = FORMS[file.name]
    assert form_of_recordings(Source(file)) == kind
    for command, what in AS_TEXTS.items():
        done = rescore(*command.replace("FILE", file.name).split(), input=text)
        told = f"{OF_RECORDINGS[kind]}, for whole recordings; "
        if what != "source texts":
            told += "add --whole to rescore eval, or "
        told += f"give {what} as trn or Kaldi text"
        if " - " in command and file.name == "bad.ctm":
            continue  # only the name tells its form
        assert (done.returncode, told in done.stderr) == (2, True), (command, done)


@pytest.mark.parametrize("file", FORMS, indirect=True)
def test_a_form_of_recordings_is_no_list(file: Path, rescore: Run) -> None:
    form = OF_RECORDINGS[FORMS[file.name][0]]
    told = f"is {form}, for whole recordings, and no N-best list; to measure it: "
    told += f"rescore eval {file.name} --whole --ref FILE"
    for command in AS_LISTS:
        done = rescore(*command.replace("FILE", file.name).split())
        assert (done.returncode, told in done.stderr) == (2, True), (command, done)


def test_what_the_user_says_of_lines_holds(tmp_path: Path, rescore: Run) -> None:
    digits = "u-1 5 3 2.5 1 4\nu-2 0 1 7.5 8 9\n"
    (tmp_path / "hyp").write_text(digits)
    (tmp_path / "ref").write_text(digits)
    refused = rescore("eval", "hyp", "--ref", "ref")
    assert "--ref-format if this is not a" in refused.stderr
    done = rescore("eval", "hyp", "--ref", "ref", "--ref-format", "kaldi")
    assert " 0.00 " in done.stdout and " 10 " in done.stdout  # words without the ids


def test_trn_and_tables_may_have_any_name(tmp_path: Path, rescore: Run) -> None:
    (tmp_path / "hyp.ctm.trn").write_text("an owl (u-1)\n(u-2)\n")
    (tmp_path / "ref.stm.csv").write_text("id,ref\nu-1,an owl\nu-2,hoots\n")
    done = rescore("eval", "hyp.ctm.trn", "--ref", "ref.stm.csv")
    assert "33.33" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "command",
    [
        "eval - --ref -",
        "eval ref --ref - --ref -",
        "combine - - --name a --name b",
        "run - --dev -",
    ],
)
def test_standard_input_is_read_once(command: str, rescore: Run) -> None:
    Path("ref").write_text(lines("{0} an owl"))
    given = Path("ref").read_text() if command.startswith("eval") else LISTS
    done = rescore(*command.split(), input=given)
    assert (done.returncode, "- is given twice" in done.stderr) == (2, True)


@pytest.mark.parametrize("text", ["", "\n\n", "\ufeff", " \n"])
def test_an_empty_file_is_empty_in_every_place(text: str, rescore: Run) -> None:
    Path("nothing").write_text(text)
    Path("ref").write_text(lines("{0} an owl"))
    for command in (
        "eval nothing --ref ref",
        "eval ref --ref nothing",
        "convert nothing",
    ):
        done = rescore(*command.split())
        assert (done.returncode, "nothing: is empty" in done.stderr) == (2, True)


def test_speakers_of_an_stm_keep_their_names(rescore: Run) -> None:
    Path("heard.ctm").write_text("a 1 0.1 0.3 an\na 1 0.5 0.3 owl\na 1 2.1 0.3 hoots\n")
    Path("ref.stm").write_text("a 1 a_anna 0 1 an owl\na 1 a-bob 2 3 hoots\n")
    done = rescore(
        "eval", "heard.ctm", "--ref", "ref.stm", "--whole", "--by", "speaker"
    )
    assert {"a_anna", "a-bob"} <= set(done.stdout.split())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x", "x-1 on 5 10 may\nx-2 on 7 12 june\n"),
        ("d", "d-1 1 2 3 4\nd-2 5 6 7 8\n"),
        ("a.trn", "1 2 3 4 (d-1)\n4 of 5 6 men (d-2)\n"),
        ("set.stm.txt", "u-1 hello there\nu-2 bye now\n"),
        ("my.srt.hyp", "u-1 hello there\nu-2 bye now\n"),
        ("k.csv", "u-1 hello there, my friend\nu-2 bye now\n"),
        ("stray", "u-1 ▁ price list\nu-2 a @@ b\n"),
    ],
)
def test_texts_of_utterances_are_read_whatever_their_numbers_and_names(
    name: str, text: str, rescore: Run
) -> None:
    Path(name).write_text(text, encoding="utf-8")
    words = sum(len(line.split()) - 1 for line in text.splitlines())
    done = rescore("eval", name, "--ref", name)
    assert done.returncode == 0, done.stderr
    row = done.stdout.splitlines()[1].split()
    assert (row[1], row[-2:]) == ("0.00", [str(words), "2"])


@pytest.mark.parametrize("names", [("talk.wav", "chat.wav"), ("x/a.flac", "y/b.flac")])
def test_paths_of_sound_name_recordings(names: tuple[str, str], rescore: Run) -> None:
    for file in ("h.k", "r.k"):
        first, second = names
        Path(file).write_text(f"{first} hello you\n{second} bye now\n")
    done = rescore("eval", "h.k", "--ref", "r.k", "--whole")
    assert done.stdout.splitlines()[1].split()[-2:] == ["4", "2"], done.stderr
