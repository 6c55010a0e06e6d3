"""--field names columns of the files beside the lists, too: of references, source texts
and scores. Each file takes those that it has.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import rescore as package
from rescore import formats
from tests.conftest import Run, assert_one_line_error

LISTS = "utt,what,cost\nu1,an owl,1\nu1,a cowl,2\nu2,it few,1\nu2,it flew,2\n"
OF_LISTS = ("id=utt", "text=what", "score=-cost")
REFERENCES = {
    "refs.csv": "talk,truth,No.\nu2,it flew,1\nu1,an owl,2\n",
    "refs.tsv": "talk\ttruth\nu2\tit flew\nu1\tan owl\n",
    "refs.jsonl": '{"talk": "u2", "truth": "it flew"}\n'
    '{"talk": "u1", "truth": "an owl"}\n',
    "refs.json": '[{"talk": "u2", "truth": "it flew"},'
    ' {"talk": "u1", "truth": "an owl"}]',
}
OF_REFERENCES = ("id=talk", "ref=truth")
RIGHT = {"u1": "an owl", "u2": "it flew"}


def fields(*values: str) -> list[str]:
    return [part for value in values for part in ("--field", value)]


def by_convert(rescore: Run, ref: str, values: list[str]) -> None:
    done = rescore("convert", "lists.csv", "--ref", ref, *values, "-o", "out.jsonl")
    assert done.returncode == 0, done.stderr


def by_run(rescore: Run, ref: str, values: list[str]) -> None:
    done = rescore("lists.csv", "--ref", ref, *values, "-o", "out.jsonl")
    assert done.returncode == 0, done.stderr


def by_combine(rescore: Run, ref: str, values: list[str]) -> None:
    done = rescore(
        *("combine", "lists.csv", "best.txt", "--ref", ref, *values, "-o", "out.jsonl")
    )
    assert done.returncode == 0, done.stderr


def by_python(rescore: Run, ref: str, values: list[str]) -> None:
    field = {"id": ["utt", "talk"], "text": "what", "score": "-cost", "ref": "truth"}
    formats.write(package.read("lists.csv", ref, field=field), "out.jsonl")


@pytest.mark.parametrize("ref", REFERENCES)
@pytest.mark.parametrize("road", [by_convert, by_run, by_combine, by_python])
def test_each_file_takes_the_columns_that_it_has(
    road: Callable[..., None], ref: str, rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "lists.csv").write_text(LISTS)
    (tmp_path / "best.txt").write_text("u1 an owl\nu2 it flow\n")
    (tmp_path / ref).write_text(REFERENCES[ref])
    road(rescore, ref, fields(*OF_LISTS, *OF_REFERENCES))
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert {one["id"]: one["ref"] for one in map(json.loads, lines)} == RIGHT


@pytest.mark.parametrize("ref", REFERENCES)
def test_beside_texts_without_columns(ref: str, rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "best.txt").write_text("u1 an owl\nu2 it few\n")
    (tmp_path / ref).write_text(REFERENCES[ref])
    done = rescore("eval", "best.txt", "--ref", ref, *fields(*OF_REFERENCES))
    assert " 25.00 " in done.stdout, done.stderr


@pytest.mark.usefixtures("told_what_is_read")
def test_the_line_names_the_columns(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "best.txt").write_text("u1 an owl\nu2 it few\n")
    (tmp_path / "refs.csv").write_text(REFERENCES["refs.csv"])
    done = rescore("eval", "best.txt", "--ref", "refs.csv", *fields(*OF_REFERENCES))
    assert "refs.csv (ids from talk, references from truth)" in done.stderr


def test_sources_and_scores(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "lists.csv").write_text(LISTS)
    (tmp_path / "src.csv").write_text("talk;deutsch\nu2;es flog\nu1;eine Eule\n")
    (tmp_path / "qe.csv").write_text("talk,qe\nu1,3\nu1,2\nu2,1\nu2,4\n")
    done = rescore(
        *("convert", "lists.csv", "--src", "src.csv", "--scores", "qe.csv"),
        *fields(*OF_LISTS, "id=talk", "src=deutsch"),
        *("-o", "out.jsonl"),
    )
    assert done.returncode == 0, done.stderr
    first = json.loads((tmp_path / "out.jsonl").read_text().splitlines()[0])
    assert first["src"] == "eine Eule"
    assert first["hyps"][0]["scores"] == {"qe": 3.0}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((), "refs.csv: which column has the ids? Say it with --field id=NAME"),
        (("ref=thruth",), "refs.csv: which column has the ids?"),
        (("id=talk", "id=truth", "ref=truth"), "id=talk and id=truth: give each role"),
        (("id=talk", "ref=truth", "text=what"), "--field needs --format"),
    ],
)
def test_columns_that_no_file_has_or_that_two_roles_want(
    values: tuple[str, ...], said: str, rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "best.txt").write_text("u1 an owl\nu2 it few\n")
    (tmp_path / "refs.csv").write_text(REFERENCES["refs.csv"])
    done = rescore("eval", "best.txt", "--ref", "refs.csv", *fields(*values))
    assert_one_line_error(done, said)


def test_two_columns_of_one_role_in_the_lists(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "lists.csv").write_text(LISTS)
    values = fields("id=utt", "id=what", "text=what")
    done = rescore("convert", "lists.csv", *values, "-o", "out.jsonl")
    assert_one_line_error(done, "--field id=utt and id=what: give each role once")
