"""N-best lists are no sentences. Law: each command that reads a text refuses lists of
each form, and the command that the line names writes a text that it takes.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from rescore.formats.sentences import read_sentences
from tests.conftest import Run

TEXTS = ["the owl hoots", "the fox runs", "a hen sleeps"] * 4


def rows() -> list[dict[str, object]]:
    made: list[dict[str, object]] = []
    for number, text in enumerate(TEXTS):
        hyps = [{"text": f"{text} wrong", "score": -1}, {"text": text, "score": -2}]
        made.append({"id": f"u{number}", "ref": text, "hyps": hyps})
    return made


def as_lines() -> str:
    return "".join(json.dumps(row) + "\n" for row in rows())


def as_object() -> str:
    entries = {}
    for number, text in enumerate(TEXTS):
        hypothesis = {"score": -1, "text": f"{text} wrong"}
        entries[f"u{number}"] = {"ref": text, "hyp_1": hypothesis}
    return json.dumps(entries, indent=1)


def as_table() -> str:
    lines = ["id,ref,text,score\n"]
    for number, text in enumerate(TEXTS):
        lines.append(f"u{number},{text},{text} wrong,-1\n")
    return "".join(lines)


def as_moses() -> str:
    return "".join(f"{n} ||| {t} wrong ||| -1 ||| -1\n" for n, t in enumerate(TEXTS))


FORMS = {"l.jsonl": as_lines, "l.json": as_object, "l.csv": as_table}
COMMANDS = {
    "a network": "train --lm tta --text {} --out lm --steps 1 --config small",
    "n-grams": "train --lm ngram -o 2 --text {} --out lm",
    "pairs": "train --lm lexical --pairs plain.txt {} --out lm",
    "perplexity": "score --text {} --lm tta-small",
    "frequencies": "frequencies plain.txt --corpus {} --lm tta-small",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, written in FORMS.items():
        (tmp_path / name).write_text(written(), encoding="utf-8")
    (tmp_path / "plain.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    return tmp_path


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("command", COMMANDS)
def test_lists_are_refused(rescore: Run, folder: Path, command: str, form: str) -> None:
    done = rescore(*shlex.split(COMMANDS[command].format(form)))
    assert done.returncode == 2, done.stderr
    error = done.stderr.splitlines()[-1]
    assert error.startswith(f"rescore: error: {form}: "), error
    assert f"rescore convert {form} --ref-text sentences.txt" in error
    assert not (folder / "lm").exists()


@pytest.mark.parametrize("form", FORMS)
def test_the_command_of_the_line_writes_the_references(
    rescore: Run, folder: Path, form: str
) -> None:
    done = rescore("convert", form, "--ref-text", "sentences.txt")
    assert done.returncode == 0 and not done.stdout, done.stderr
    assert list(read_sentences(folder / "sentences.txt")) == TEXTS
    both = rescore("convert", form, "--ref-text", "again.txt", "-o", "lists.jsonl")
    assert both.returncode == 0 and (folder / "lists.jsonl").exists()
    best = rescore("rerank", form, "--best", "best.txt")
    assert best.returncode == 0, best.stderr
    wrong = [f"{text} wrong" for text in TEXTS]
    assert list(read_sentences(folder / "best.txt")) == wrong
    scored = rescore("score", "--text", "sentences.txt", "--lm", "tta-small")
    assert scored.returncode == 0, scored.stderr


def test_lists_without_references(rescore: Run, folder: Path) -> None:
    (folder / "x.moses").write_text(as_moses())
    done = rescore("convert", "x.moses", "--ref-text", "sentences.txt")
    assert done.returncode == 2 and "no references" in done.stderr
    assert not (folder / "sentences.txt").exists()
    refused = rescore("train", "--lm", "ngram", "--text", "x.moses", "--out", "n")
    assert refused.returncode == 2 and "Moses" in refused.stderr


def test_a_kind_that_reads_lists_takes_them(rescore: Run, folder: Path) -> None:
    done = rescore("train", "--lm", "channel", "--text", "l.jsonl", "--out", "c")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "lines",
    [
        ["[laughter] so", "{ a } b", "1,000 owls, and a fox"],
        ["text", "score", "id ref text"],
        ["the owl, hoots", "a hen, sleeps", "a fox, runs"],
        ["a ||| owl", "|||", "score\t-1"],
        ["the owl\thoots", "a\then", "a\tfox"],
    ],
)
def test_sentences_are_taken(lines: list[str], tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("".join(f"{line}\n" for line in lines))
    assert list(read_sentences(tmp_path / "plain.txt")) == lines
