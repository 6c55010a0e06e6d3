"""Objects of files: every form says the same of the same content."""

import io
import json
from pathlib import Path

import pytest

from rescore.errors import UserError
from rescore.formats.objects import objects_of
from rescore.formats.source import Source

ROWS = [{"id": "u1", "text": "a b"}, {"id": "u2", "text": "c"}]
FORMS = {
    "lines.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS),
    "list.json": json.dumps(ROWS),
    "table.csv": "id,text\nu1,a b\n\nu2,c\n",
    "semicolons.csv": "id;text\nu1;a b\nu2;c\n",
    "table.tsv": "id\ttext\nu1\ta b\nu2\tc\n",
}
PLACES = {"lines.jsonl": "line 2", "list.json": "entry 2", "table.csv": "line 4"}


@pytest.mark.parametrize("name", FORMS)
def test_forms_agree(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(FORMS[name])
    objects = list(objects_of(Source(path)))
    assert [each.value for each in objects] == ROWS
    assert [each.number for each in objects] == [1, 2]
    if name in PLACES:
        assert objects[1].place == f"{path}: {PLACES[name]}"


def test_one_value_is_one_object(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps(ROWS[0], indent=1))
    (only,) = objects_of(Source(path))
    assert only == (ROWS[0], str(path), 1)


def test_a_cell_of_several_lines_is_one_cell(tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    path.write_text('id,text\nu1,"a\nb, ""c"""\n')
    (only,) = objects_of(Source(path))
    assert only.value == {"id": "u1", "text": 'a\nb, "c"'}


def test_a_table_is_read_as_a_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "table.csv"
    path.write_text("id,text\n" + "u,a\n" * 100_000)
    reads = 0
    readline = io.TextIOWrapper.readline

    class Counted(io.TextIOWrapper):
        def readline(self, *arguments: int) -> str:  # type: ignore[override]
            nonlocal reads
            reads += 1
            return readline(self, *arguments)

    monkeypatch.setattr("rescore.formats.source.io.TextIOWrapper", Counted)
    next(objects_of(Source(path)))
    assert reads < 10


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,text\nu1\n", "line 2: expected 2 columns, as in the first line"),
        ("id,id\nu1,a\n", "line 1: column 'id' is duplicated"),
        ('id,text\nu1,"a\n', "line 2: unexpected end of data"),
    ],
)
def test_a_damaged_table_names_its_line(
    text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(UserError) as error:
        list(objects_of(Source(path)))
    assert f"{path}: {message}" in str(error.value)
