"""No line, result or key of a file vanishes in silence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rescore import formats
from rescore.columns import reserved_columns
from rescore.errors import UserError
from rescore.formats.shapes import read_shape
from rescore.formats.source import ReadOptions
from tests.conftest import Run

ANSWER = {"status_code": 200, "body": {"choices": [{"message": {"content": "an owl"}}]}}
FAILED: dict[str, dict[str, Any]] = {
    "a limit": {"response": {"status_code": 429, "body": {"error": {"code": "x"}}}},
    "no choices": {"response": {"status_code": 200, "body": {"choices": []}}},
    "no answer": {"response": None, "error": {"code": "batch_expired"}},
    "no text": {"response": {"status_code": 200, "body": {"choices": [{}]}}},
    "null": {
        "response": {"body": {"choices": [{"message": {"content": None}}]}},
    },
}


@pytest.mark.parametrize("name", FAILED)
def test_a_failed_request_of_a_batch_is_an_empty_hypothesis(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines: list[dict[str, Any]] = [
        {"custom_id": "1", "response": ANSWER},
        {"custom_id": "2", **FAILED[name]},
        {"custom_id": "3", "response": ANSWER},
    ]
    path = tmp_path / "batch.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    lists = list(formats.iterate([path]))
    texts = [(nbest.id, nbest.hypotheses[0].text) for nbest in lists]
    assert texts == [("1", "an owl"), ("2", ""), ("3", "an owl")]
    assert "read as an empty text" in caplog.text
    assert "batch.jsonl: line 2" in caplog.text
    with pytest.raises(UserError, match=r"line 2.*--strict"):
        list(formats.iterate([path], strict=True))


@pytest.mark.parametrize("empty", [{"nbest": []}, {"nbest": None}, {}])
def test_a_result_without_alternatives_keeps_its_id_and_reference(
    empty: dict[str, Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "mine.toml").write_text(
        'results = "items[]"\nid = "id"\nref = "ref"\nalternatives = "nbest[]"\n'
        'text = "t"\nsparse = true\n'
    )
    items = [
        {"id": "u1", "ref": "a", "nbest": [{"t": "a"}]},
        {"id": "u2", "ref": "b c", **empty},
    ]
    (tmp_path / "call.json").write_text(json.dumps({"items": items}))
    options = ReadOptions(shape=read_shape(str(tmp_path / "mine.toml")))
    lists = formats.read([tmp_path / "call.json"], options=options)
    assert [(one.id, one.references, one.hypotheses[0].text) for one in lists] == [
        ("u1", ("a",), "a"),
        ("u2", ("b c",), ""),
    ]
    assert "1 result has no hypothesis; read as an empty text" in caplog.text


OWN = {
    "snr": (12.5, "12.5"),
    "noisy": (True, "true"),
    "tags": (["x", "y"], '["x", "y"]'),
    "accent": ("us", "us"),
    "speaker": (7, "7"),
    "story": ("a " * 80, " ".join("a" * 80)),
    "place": ({"city": "Ulm"}, '{"city": "Ulm"}'),
}


@pytest.mark.parametrize("form", ["jsonl", "json"])
@pytest.mark.parametrize("key", OWN)
def test_native_lists_keep_keys_of_their_own(
    key: str, form: str, tmp_path: Path
) -> None:
    value, text = OWN[key]
    hypotheses = [{"text": "a", "score": -1.0}, {"text": "b", "score": -2.0}]
    lists: Any = {"id": "u1", key: value, "hyps": hypotheses}
    if form == "json":
        lists = {"u1": {key: value, "hyp_1": hypotheses[0], "hyp_2": hypotheses[1]}}
    path = tmp_path / f"lists.{form}"
    path.write_text(json.dumps(lists))
    for _ in range(2):  # read, and read what was written
        (nbest,) = formats.iterate([path])
        assert nbest.fields == {key: text}
        path = tmp_path / f"again.{form}"
        formats.write([nbest], str(path))


def test_numbers_of_hypotheses_are_columns_and_the_rest_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "lists.jsonl"
    one = {"text": "a", "score": -1.0, "conf": 0.5, "why": "x", "good": True}
    path.write_text(json.dumps({"id": "u1", "hyps": [one]}) + "\n")
    (nbest,) = formats.iterate([path])
    assert nbest.hypotheses[0].scores == {"s2s": -1.0, "conf": 0.5}
    assert "1 hypothesis has a key why, which was not read" in caplog.text
    assert "1 hypothesis has a key good, which was not read" in caplog.text


@pytest.mark.parametrize("form", ["csv", "tsv"])
def test_columns_that_commands_write_are_read(
    form: str, rescore: Run, tmp_path: Path
) -> None:
    """A table has the numbers of each reserved column, and their role."""
    columns = {}
    for name, reserved in reserved_columns().items():
        if name not in ("s2s", "first", "sum"):
            record = {"model": "m", "fingerprint": "x", "norm": "sum", "precision": ""}
            columns[name] = {**record, "role": reserved.role.value}
    hypotheses = [
        {"text": text, "score": -rank, "scores": dict.fromkeys(columns, float(rank))}
        for rank, text in enumerate(("a", "b"), 1)
    ]
    nbest = {"id": "u1", "ref": "a", "hyps": hypotheses, "columns": columns}
    (tmp_path / "l.jsonl").write_text(json.dumps(nbest) + "\n")
    assert rescore("convert", "l.jsonl", "-o", f"l.{form}").returncode == 0
    done = rescore("eval", f"l.{form}")
    assert done.returncode == 0, done.stderr
    (read,) = formats.iterate([tmp_path / f"l.{form}"])
    for name, column in columns.items():
        assert read.column(name) == [1.0, 2.0]
        assert read.role(name) == column["role"]
