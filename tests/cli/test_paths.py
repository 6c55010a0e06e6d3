"""No output destroys another one or an input, whichever the command."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from rescore.cli.bridge import entry_of
from rescore.cli.main import COMMANDS
from tests.conftest import Run, assert_one_line_error, parameters_of, write_json
from tests.lms.test_ngram import ARPA

ENTRY = {
    "ref": "the old",
    "hyp_1": {"score": -1, "text": "the owl"},
    "hyp_2": {"score": -2, "text": "the old"},
}
LM = ("--lm", "ngram:lm.arpa")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, bytes]:
    """What is there, and has to stay."""
    write_json(tmp_path / "l.json", {"u1": ENTRY, "u2": ENTRY})
    write_json(tmp_path / "w.json", {"weights": {"s2s": 1}})
    (tmp_path / "lm.arpa").write_text(ARPA)
    (tmp_path / "text").write_text("the old\n")
    (tmp_path / "link").symlink_to("l.json")
    return {path.name: path.read_bytes() for path in tmp_path.iterdir()}


@pytest.mark.parametrize(
    "arguments",
    [
        ["score", "l.json", *LM, "--tokens", "f", "-o", "f"],
        ["score", "l.json", *LM, "--tokens", "l.json", "-o", "f"],
        ["score", "l.json", *LM, "-o", "./lm.arpa"],
        ["score", "--text", "text", *LM, "-o", "text"],
        ["rerank", "l.json", "--report", "f", "--table", "f"],
        ["rerank", "l.json", "--weights", "w.json", "--best", "w.json"],
        ["rerank", "l.json", "-o", "link"],
        ["l.json", *LM, "--dev", "l.json", "--table", "f.md", "--table", "f.md"],
        ["l.json", *LM, "--dev", "l.json", "--html", "f", "--best", "f"],
        ["tune", "l.json", "-o", "l.json"],
        ["convert", "l.json", "-o", "l.json"],
        ["convert", "l*.json", "-o", "l.json"],
        ["eval", "text", "--ref", "text", "--report", "text"],
        ["report", "w.json", "-o", "w.json"],
        ["similarity", "text", *LM, "-o", "text"],
    ],
    ids=" ".join,
)
def test_refused(
    rescore: Run, tmp_path: Path, files: dict[str, bytes], arguments: list[str]
) -> None:
    assert_one_line_error(rescore(*arguments), "writ", "give ")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == files


def test_a_folder_that_there_is_not(rescore: Run, files: dict[str, bytes]) -> None:
    """It is said before the model is looked for."""
    for option in ("-o", "--best", "--report", "--html", "--save-weights"):
        done = rescore(
            "l.json", "--lm", "tta:nowhere", "--dev", "l.json", option, "no/such/file"
        )
        assert_one_line_error(
            done,
            "no/such/file: there is no folder no/such to write it in; make it first",
        )
    assert_one_line_error(
        rescore("score", "l.json", "--lm", "tta:nowhere", "-o", "no/l.json"),
        "there is no folder no",
    )


def test_allowed(rescore: Run, files: dict[str, bytes]) -> None:
    assert (
        rescore(
            "score", "l.json", *LM, "-o", "/dev/null", "--tokens", "/dev/null"
        ).returncode
        == 0
    )
    assert rescore("convert", "-", "-o", "-", input=files["l.json"]).returncode == 0
    assert (
        rescore(
            "rerank", "l.json", "--report", "r", "--table", "r.md", "--best", "r.txt"
        ).returncode
        == 0
    )


def test_every_file_is_an_input_or_an_output() -> None:
    for name in COMMANDS:
        for parameter in parameters_of(name):
            if "FILE" in (parameter.metavar or "") or isinstance(
                parameter, click.Argument
            ):
                entry = entry_of(parameter)
                assert entry is not None
                known = entry.about.reads + bool(entry.about.writes)
                assert known == 1 or parameter.name in (
                    *("name", "folder"),
                    "by",  # a field, a file or a regular expression
                ), parameter.name


def test_links_that_lead_in_a_circle(rescore: Run, tmp_path: Path) -> None:
    write_json(tmp_path / "lists.json", {"u": {"hyp_1": {"score": -1, "text": "a"}}})
    (tmp_path / "loop").symlink_to("loop")
    for output in ("loop", "loop/r.jsonl"):
        assert_one_line_error(
            rescore("convert", "lists.json", "-o", output),
            "Too many levels of symbolic links",
        )


def test_lists_and_texts_go_to_several_files(
    rescore: Run, files: dict[str, bytes], tmp_path: Path
) -> None:
    """Each of several files has what it has alone."""

    def written(*names: str) -> list[bytes]:
        return [(tmp_path / name).read_bytes() for name in names]

    lists = ("-o", "a.csv", "-o", "a.jsonl")
    texts = ("--best", "a.trn", "--best", "a.txt")
    for command in ("run", "rerank", "convert"):
        for name in ("1.csv", "1.jsonl"):
            rescore(command, "l.json", "-o", name)
        rescore(command, "l.json", *lists)
        assert written("a.csv", "a.jsonl") == written("1.csv", "1.jsonl")
        if command == "convert":
            continue
        for name in ("1.trn", "1.txt"):
            rescore(command, "l.json", "--best", name)
        rescore(command, "l.json", *lists, *texts)
        assert written("a.trn", "a.txt") == written("1.trn", "1.txt")
        assert written("a.csv", "a.jsonl") == written("1.csv", "1.jsonl")
