"""Source texts for lists that have none, and the metric of translations without
them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rescore as package
from rescore import formats
from rescore.errors import UserError
from tests.conftest import Run, assert_one_line_error

MOSES = (
    "0 ||| the house ||| LM0= -1 ||| -1\n0 ||| a house ||| LM0= -2 ||| -2\n1 ||| an owl"
    " ||| LM0= -1 ||| -1\n"
)
TEXTS = ["das Haus", "eine Eule, sagt er"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("src.de", "das Haus\neine Eule, sagt er\n"),
        ("src.csv", 'src,id\n"eine Eule, sagt er",1\ndas Haus,0\n'),
        ("src.tsv", "id\tsrc\n0\tdas Haus\n1\teine Eule, sagt er\n"),
    ],
)
def test_sources_from_a_file(
    name: str, text: str, rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "nbest").write_text(MOSES, encoding="utf-8")
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert [
        nbest.source
        for nbest in package.read(tmp_path / "nbest", sources=tmp_path / name)
    ] == TEXTS
    assert rescore("convert", "nbest", "--src", name, "-o", "l.jsonl").returncode == 0
    assert [nbest.source for nbest in formats.read([tmp_path / "l.jsonl"])] == TEXTS


def test_sources_with_ids(rescore: Run, tmp_path: Path) -> None:
    lists = [
        {"id": f"u{number}", "hyps": [{"text": "a", "score": -1}]} for number in (1, 2)
    ]
    (tmp_path / "l.jsonl").write_text(
        "".join(json.dumps(entry) + "\n" for entry in lists), encoding="utf-8"
    )
    (tmp_path / "text").write_text(
        "u2 eine Eule, sagt er\nu1 das Haus\n", encoding="utf-8"
    )
    assert [
        nbest.source
        for nbest in formats.read([tmp_path / "l.jsonl"], sources=tmp_path / "text")
    ] == TEXTS
    (tmp_path / "text").write_text("u2 eine Eule\nu3 das Haus\n", encoding="utf-8")
    with pytest.raises(UserError, match="no source text for utterance u1"):
        formats.read([tmp_path / "l.jsonl"], sources=tmp_path / "text")
    (tmp_path / "t.csv").write_text("name,text\nu1,a\n", encoding="utf-8")
    assert_one_line_error(
        rescore("convert", "l.jsonl", "--src", "t.csv"),
        "t.csv: ",
        "which column has",
    )


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (MOSES, ()),
        (
            "the house\na house\nan owl\nan oil\n",
            ("--format", "opennmt", "--nbest-size", "2"),
        ),
        (
            (
                '{"translations": ["the house", "a house"], "scores": [-1, -2]}\n'
                '{"translations": ["an owl"], "scores": [-1]}\n'
            ),
            (),
        ),
    ],
    ids=["moses", "opennmt", "sockeye"],
)
def test_translations_without_a_source_are_measured_by_bleu(
    text: str, options: tuple[str, ...], rescore: Run, tmp_path: Path
) -> None:
    (tmp_path / "nbest").write_text(text, encoding="utf-8")
    (tmp_path / "ref").write_text("the house\nan owl\n", encoding="utf-8")
    assert "BLEU" in rescore("eval", "nbest", "--ref", "ref", *options).stdout
    assert (
        rescore(
            "convert", "nbest", "--ref", "ref", *options, "-o", "l.jsonl"
        ).returncode
        == 0
    )
    assert "BLEU" in rescore("run", "l.jsonl").stdout, "after a stage, too"
