"""Texts of Kaldi's N-best lists without costs: when lines are hypotheses."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from rescore import formats
from rescore.formats.acoustic import are_alternatives, numbered_texts
from rescore.formats.source import Source, sniff
from tests.conftest import Run, assert_one_line_error

LISTS = (
    "a-u1-1 the old clock ticked\na-u1-2 the odd clock ticked\na-u1-3 the old clock\n"
    "a-u2-1 it was late\nb-u3-1 she ran home\nb-u3-2 she ran on home\n"
)
REFERENCES = "a-u1 the old clock ticked\na-u2 it was late\nb-u3 she ran on home\n"
IF_LISTS = "; if these are N-best lists: --format kaldi"
ONE_LIST = "utt-1 yes\nutt-2 no\n"
TEXTS = {
    "lists": (LISTS, True),
    "one list": ("u-1 the old clock\nu-2 the odd clock\n", False),
    "zero-padded ids of LibriSpeech": (
        "84-121-0000 the old clock\n84-121-0001 the odd clock\n"
        "84-122-0000 the old clock\n84-122-0001 the odd clock\n",
        False,
    ),
    "utterances of recordings": (
        "talk-1 the old clock ticked\ntalk-2 it was late\n"
        "call-1 she ran home\ncall-2 nobody saw her\n",
        False,
    ),
    "recordings of one sentence": (
        "s1-1 the old clock ticked\ns1-2 the old clock ticked\n"
        "s2-1 it was late\ns2-2 it was late\n",
        False,
    ),
    "a gap": (LISTS.replace("u1-2", "u1-9"), False),
    "numbers from 0": (LISTS.replace("u1-1", "u1-0"), False),
    "an utterance comes back": (LISTS + "a-u1-4 the old\n", False),
    "one text an utterance": ("a-1 the old\nb-1 the odd\nc-1 she ran\n", False),
    "plain lines": ("the old clock\nthe odd clock\n", False),
}


@pytest.mark.parametrize("name", TEXTS)
def test_lines_are_hypotheses_where_that_is_certain(name: str, tmp_path: Path) -> None:
    text, are_lists = TEXTS[name]
    (tmp_path / "text").write_text(text)
    source = Source(tmp_path / "text")
    assert are_alternatives(numbered_texts(source)) is are_lists
    assert (sniff(source) == "kaldi") is are_lists


def test_a_long_file_is_judged_by_its_whole_lines(tmp_path: Path) -> None:
    lines = []
    for number in range(1, 3_000):
        lines += [f"u{number}-1 the old clock ticked", f"u{number}-2 the odd clock"]
    (tmp_path / "text").write_text("\n".join(lines))
    assert sniff(Source(tmp_path / "text")) == "kaldi"
    assert len(formats.read([tmp_path / "text"])) == 2_999


@pytest.mark.parametrize("how", ["file", "gz", "stream"])
@pytest.mark.parametrize("command", ["eval", "convert"])
def test_references_say_that_lines_are_hypotheses(
    command: str, how: str, rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "ref").write_text("utt no\n")
    (tmp_path / "n").write_text(ONE_LIST)
    (tmp_path / "n.gz").write_bytes(gzip.compress(ONE_LIST.encode()))
    path = {"file": "n", "gz": "n.gz", "stream": "-"}[how]
    done = rescore(
        command, path, "--ref", "ref", input=ONE_LIST if path == "-" else None
    )
    assert done.returncode == 0
    assert "utterance utt)" in done.stderr  # one list without scores
    if command == "convert":
        assert '"id": "utt"' in done.stdout and '"utt-1"' not in done.stdout


def test_references_of_the_lines_say_that_these_are_utterances(
    rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "n").write_text(LISTS)
    (tmp_path / "ref").write_text(LISTS)
    done = rescore("eval", "n", "--ref", "ref")
    assert done.returncode == 0 and "6" in done.stdout.split("\n")[1].split()


def test_what_is_not_certain_is_asked(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "n").write_text(ONE_LIST)
    (tmp_path / "ref").write_text("yes\n")
    assert_one_line_error(rescore("convert", "n"), IF_LISTS)
    assert_one_line_error(rescore("eval", "n", "--ref", "ref"), IF_LISTS)
    (tmp_path / "n").write_text("utt-01 yes\nutt-02 no\n")
    for done in (rescore("convert", "n"), rescore("eval", "n", "--ref", "ref")):
        assert done.returncode and IF_LISTS not in done.stderr


def test_the_lists_are_read(tmp_path: Path) -> None:
    (tmp_path / "n").write_text(LISTS)
    (tmp_path / "ref").write_text(REFERENCES)
    lists = formats.read([tmp_path / "n"], references=tmp_path / "ref")
    assert [(nbest.id, len(nbest.hypotheses)) for nbest in lists] == [
        ("a-u1", 3),
        ("a-u2", 1),
        ("b-u3", 2),
    ]


@pytest.mark.parametrize("files", [("acwt",), ("lmwt",), ("lmwt.withlm", "acwt")])
def test_costs_of_one_kind_alone_are_told(
    files: tuple[str, ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "words_text").write_text("u-1 a\nu-2 b\n")
    for name in files:
        (tmp_path / name).write_text("u-1 3.0\nu-2 5.0\n")
    formats.read([tmp_path])
    assert ("costs, but no file of" in caplog.text) is (len(files) == 1)
