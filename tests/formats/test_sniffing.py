"""What a path holds is found out in time that grows with the file, and by what is in
it.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from rescore import formats
from rescore.formats.source import JsonPeek
from tests.conftest import Run, assert_one_line_error


@pytest.mark.parametrize(
    "content",
    [
        "\n" * 65_530,
        '{"' + '\\"' * 32_700,
        '{"' + "\\" * 65_000,
        "[" * 32_700,
        "\n[" * 32_700,
        '{"text": "a", "timestamps": [], "tokens": []}\n' + "a" * 200_000 + "\n",
        "a:" * 32_700,
        "a" + " " * 65_000 + ":",
    ],
    ids=[
        "newlines",
        "quotes",
        "backslashes",
        "brackets",
        "lines of brackets",
        "letters",
        "colons",
        "blanks",
    ],
)
def test_nothing_runs_for_ever(content: str, rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(content)
    began = time.process_time()
    rescore("convert", "x")
    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    "value",
    [
        {"a": 1},
        {"a": {"b": [{"c": '"'}]}},
        [{"a": "\\", "b": {"c": 1}}],
        {"a\\\"'": []},
    ],
)
def test_outline(value: object) -> None:
    found = JsonPeek.of(json.dumps(value))
    first = value[0] if isinstance(value, list) else value
    assert isinstance(first, dict)
    assert found.keys == tuple(first)
    assert found.inner == next(
        (tuple(one) for one in first.values() if isinstance(one, dict)), ()
    )
    assert found.lines == isinstance(value, dict)


def test_a_decode_folder_that_holds_json_lines(rescore: Run, tmp_path: Path) -> None:
    best = tmp_path / "dec/logdir/output.1/1best_recog"
    best.mkdir(parents=True)
    (best / "text").write_text("u1 A\n")
    (best / "score").write_text("u1 -1\n")
    assert rescore("convert", "dec", "-o", "dec/lists.jsonl").returncode == 0
    (tmp_path / "dec/lists.jsonl").write_text(
        '{"id": "other", "hyps": [{"text": "a", "score": -1}]}\n'
    )
    assert formats.read([tmp_path / "dec"])[0].id == "u1"
    (tmp_path / "parts").mkdir()
    (tmp_path / "dec/lists.jsonl").rename(tmp_path / "parts/1.jsonl")
    assert formats.read([tmp_path / "parts"])[0].id == "other"


def test_long_first_lines(tmp_path: Path) -> None:
    hyps = [{"text": "a", "score": -1.0, "scores": {"tta": -2.0}}]
    lines = [{"id": name, "ref": "word " * 40_000, "hyps": hyps} for name in ("u", "v")]
    (tmp_path / "l").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = formats.read([tmp_path / "l"])
    assert [nbest.hypotheses[0].scores for nbest in found] == [
        {"s2s": -1.0, "tta": -2.0}
    ] * 2


@pytest.mark.parametrize("name", ["utts", "columns", "hyps", "id"])
def test_any_id_in_native_objects(name: str, tmp_path: Path) -> None:
    entry = {"ref": "a", "hyp_1": {"score": -1.0, "text": "a"}}
    for ids in ([name], [name, "u"], ["u", name]):
        (tmp_path / "l.json").write_text(json.dumps(dict.fromkeys(ids, entry)))
        lists = formats.read([tmp_path / "l.json"])
        assert [nbest.id for nbest in lists] == ids
        formats.write(lists, str(tmp_path / "m.json"))
        assert formats.read([tmp_path / "m.json"]) == lists


@pytest.mark.parametrize("literal", ["{[]}", "[1]", "7", "['a'", "{}"])
def test_literals_that_are_no_words(literal: str, rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "recogs").write_text(f"c-1:\thyp={literal}\n")
    assert_one_line_error(
        rescore("convert", "recogs"), "recogs: line 1: expected a list of words"
    )


def test_ids_that_get_lost(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "l.jsonl").write_text(
        '{"id": "007", "hyps": [{"text": "a & b", "score": -1}]}\n'
    )
    assert_one_line_error(
        rescore("convert", "l.jsonl", "--to", "moses"), "'007' has leading zeros"
    )
    (tmp_path / "l.jsonl").write_text(
        '{"id": "7", "hyps": [{"text": "a & b | &lt;", "score": -1}]}\n'
    )
    assert rescore("convert", "l.jsonl", "--to", "moses", "-o", "m").stderr == ""
    assert formats.read([tmp_path / "m"])[0].hypotheses[0].text == "a & b | &lt;"
