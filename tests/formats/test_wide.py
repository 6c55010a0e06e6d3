"""Law: the order of numbered columns in a table changes no list."""

from __future__ import annotations

import json
import logging
import random
from itertools import product
from pathlib import Path

import pytest

from rescore import formats
from rescore.errors import UserError, counted
from rescore.formats.source import ReadOptions
from rescore.formats.wide import numbered, stars
from rescore.ids import plain_id, without_zeros
from tests.conftest import Run, assert_one_line_error

NUMBERS = range(12)
ORDERS = {
    "of numbers": list(NUMBERS),
    "of the alphabet": sorted(NUMBERS, key=str),
    "backwards": list(reversed(NUMBERS)),
    "of chance": random.Random(1).sample(NUMBERS, len(NUMBERS)),
}
FIELDS = {"text": "text_*", "score": "avg_logprob_*"}


def table(texts: list[int], scores: list[int]) -> str:
    """Return a table with a column for each text and each score."""
    names = [f"text_{n}" for n in texts] + [f"avg_logprob_{n:02}" for n in scores]
    cells = [f"owl {n}" for n in texts] + [f"-{n}.5" for n in scores]
    return f"id,{','.join(names)}\nu1,{','.join(cells)}\n"


@pytest.mark.parametrize("texts", ORDERS)
@pytest.mark.parametrize("scores", ORDERS)
def test_a_text_has_the_score_of_its_number(
    texts: str, scores: str, tmp_path: Path
) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(table(ORDERS[texts], ORDERS[scores]))
    (nbest,) = formats.read([path], options=ReadOptions(fields=FIELDS))
    found = {h.text: h.scores["s2s"] for h in nbest.hypotheses}
    assert found == {f"owl {n}": -n - 0.5 for n in NUMBERS}


def test_texts_without_scores_are_ranked_by_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text(table(ORDERS["of the alphabet"], []))
    (nbest,) = formats.read([path], options=ReadOptions(fields={"text": "text_*"}))
    assert [h.text for h in nbest.hypotheses] == [f"owl {n}" for n in NUMBERS]


def test_names_that_differ_are_named(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("id,h1,h2,s1,s3\nu1,a,b,-1,-2\n")
    with pytest.raises(UserError, match=r"2 texts, h2 without .* s3 without a text"):
        formats.read([path], options=ReadOptions(fields={"text": "h*", "score": "s*"}))


@pytest.mark.parametrize(
    "name", ["007", "a-07", "1.05", "0.50", "00", "x.01", "1.0.02"]
)
def test_ids_and_columns_have_one_rule_of_leading_zeros(name: str) -> None:
    """Digits behind a decimal point are no number of their own: 1.05 is not 1.5."""
    assert stars(f"text_{name}", "text_*") == plain_id(name) == without_zeros(name)


@pytest.mark.parametrize("name", ["wide.csv", "wide.jsonl"])
@pytest.mark.parametrize("texts", [["text_*"], ["text_1", "text_2"]])
def test_columns_that_may_be_scores_are_named(
    name: str, texts: list[str], rescore: Run
) -> None:
    Path("wide.csv").write_text(
        "id,text_1,text_2,lp_1,lp_2,lang_1,lang_2,snr_1,ref\nu1,a,b,-1,-2,x,y,3,a\n"
    )
    Path("wide.jsonl").write_text(
        '{"id": "u1", "text_1": "a", "text_2": "b", "lp_1": -1, "lp_2": -2,'
        ' "lang_1": "x", "lang_2": "y", "snr_1": 3, "ref": "a"}\n'
    )
    line = ["run", name]
    for text in texts:
        line += ["--field", f"text={text}"]
    done = rescore(*line)
    said = "beside lp_1, lp_2; if these are the scores, give --field 'score=lp_*' "
    assert said in done.stderr
    done = rescore(*line, "--field", "score=lp_*")
    assert done.returncode == 0 and "beside" not in done.stderr


ROWS = {
    "wide.csv": "id,sample_0,sample_1,ref\nu1,an owl,a owl,an owl\n",
    "wide.tsv": "id\tsample_0\tsample_1\tref\nu1\tan owl\ta owl\tan owl\n",
    "wide.txt": "id,sample_0,sample_1,ref\nu1,an owl,a owl,an owl\n",
    "wide.jsonl": '{"id": "u1", "lp_0": -1, "lp_1": -2, "sample_0": "an owl",'
    ' "sample_1": "a owl", "ref": "an owl"}\n',
}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("command", ["run", "eval", "convert"])
def test_columns_of_texts_that_nobody_named(
    name: str, command: str, rescore: Run
) -> None:
    """The message names the option, which does what the message says."""
    Path(name).write_text(ROWS[name])
    field = "'text=sample_*'"
    assert_one_line_error(rescore(command, name), f"--field {field}")
    read = rescore("run", name, "--field", field.strip("'"))
    assert read.returncode == 0, read.stderr
    assert " 2 hypotheses" in read.stdout, read.stdout


def test_columns_without_a_family_are_only_listed() -> None:
    assert numbered(["id", "best1", "second", "words2"]) == ""


@pytest.mark.parametrize("group", ["speaker", "Speaker", "session_id", "system"])
@pytest.mark.parametrize("value", ["3", "ann"])
def test_a_pattern_takes_no_column_of_groups(
    group: str, value: str, tmp_path: Path
) -> None:
    (tmp_path / "wide.csv").write_text(
        f"id,h1,h2,s1,s2,{group}\nu0,a,b,-1,-2,{value}\n"
    )
    options = ReadOptions(fields={"text": "h*", "score": "s*"})
    (nbest,) = formats.read([tmp_path / "wide.csv"], options=options)
    scores = [one.scores["s2s"] for one in nbest.hypotheses]
    assert scores == [-1, -2] and nbest.fields == {group: value}


@pytest.mark.parametrize("name", ["wide.csv", "wide.jsonl"])
@pytest.mark.parametrize("option", ["--by", "--speaker"])
def test_a_pattern_takes_no_column_that_an_option_names(
    name: str, option: str, rescore: Run
) -> None:
    """The column names groups in this call; without the option, it has a score."""
    rows = []
    for number in range(3):
        row = {"id": f"u{number}", "ref": "a", "h1": "a", "h2": "b"}
        rows.append(row | {"s1": -1, "s2": -2, "Shift": number})
    lines = [json.dumps(row) for row in rows]
    if name.endswith(".csv"):
        lines = [",".join(rows[0])]
        lines += [",".join(map(str, row.values())) for row in rows]
    Path(name).write_text("\n".join([*lines, ""]))
    typed = ["eval", name, "--field", "text=h*", "--field", "score=s*"]
    refused = rescore(*typed)
    assert "of 3 scores, Shift without a text" not in refused.stdout
    assert_one_line_error(refused, "Shift without a text")
    done = rescore(*typed, option, "Shift")
    assert done.returncode == 0, done.stderr


PLACES = ["h1", "h2", "h3"]
EMPTY = {"wide.csv": ["", " "], "wide.tsv": [""], "wide.jsonl": [None, "", " "]}


def wide(name: str, texts: list[str | None]) -> str:
    """Return a row with a cell for each text, behind a full row; both have a score that
    is no text.
    """
    rows = [["u0", "a", "b", "c", -1], ["u1", *texts, -1]]
    head = ["id", *PLACES, "h1_logprob"]
    if name.endswith(".jsonl"):
        records = [dict(zip(head, row, strict=True)) for row in rows]
        return "".join(json.dumps(record) + "\n" for record in records)
    mark = "\t" if name.endswith(".tsv") else ","
    return "".join(mark.join(map(str, row)) + "\n" for row in [head, *rows])


@pytest.mark.parametrize("name", EMPTY)
@pytest.mark.parametrize("empty", list(product([False, True], repeat=len(PLACES))))
def test_an_empty_cell_is_no_hypothesis_unless_it_is_the_best(
    name: str, empty: tuple[bool, ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The best text of a row may be a silence, an empty text."""
    caplog.set_level(logging.INFO, "rescore.understood")
    for nothing in EMPTY[name]:
        caplog.clear()
        texts = [nothing if is_empty else "owl" for is_empty in empty]
        (tmp_path / name).write_text(wide(name, texts))
        options = ReadOptions(fields={"text": "h*"})
        _, nbest = formats.read([tmp_path / name], options=options)
        heard = ["" if is_empty else "owl" for is_empty in empty[:1]]
        heard += ["owl" for is_empty in empty[1:] if not is_empty]
        assert [h.text for h in nbest.hypotheses] == heard
        left_out = sum(empty[1:])
        said = f"{counted(left_out, 'empty cell')} w"
        assert (said in caplog.text) == (left_out > 0 and not all(empty))
        assert ("no text in its columns" in caplog.text) == all(empty)
        assert ("it is the best" in caplog.text) == (empty[0] and not all(empty))


def test_an_empty_text_with_a_score_is_a_hypothesis(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("id,h1,h2,h3,s1,s2,s3\nu1,,,owl,-1,,-3\n")
    fields = {"text": "h*", "score": "s*"}
    (nbest,) = formats.read([path], options=ReadOptions(fields=fields))
    assert [(h.text, h.scores["s2s"]) for h in nbest.hypotheses] == [
        ("", -1.0),
        ("owl", -3.0),
    ]


def test_lists_of_texts_keep_their_empty_texts(tmp_path: Path) -> None:
    """Only in a table an empty cell says nothing."""
    path = tmp_path / "lists.jsonl"
    path.write_text('{"id": "u1", "text": ["owl", "", null]}\n')
    (nbest,) = formats.read([path])
    assert [h.text for h in nbest.hypotheses] == ["owl", "", ""]
