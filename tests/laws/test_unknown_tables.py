"""Law: a table whose columns nobody knows is asked about in every place of every
command, and its rows are never read as texts.
"""

from __future__ import annotations

import gzip
import json
import lzma
from pathlib import Path

import pytest

from tests.conftest import Run

ROWS = [("name", "said", "more"), *((f"u{place}", "an owl", "x") for place in "123")]
TABLES = {
    "wide.csv": (3, ","),
    "two.csv": (2, ","),
    "two.tsv": (2, "\t"),
    "SEMI.CSV": (2, ";"),
    "two.csv.gz": (2, ","),
    "two.tsv.xz": (2, "\t"),
    "table": (3, ","),
}
"""Tables by their names: the number of columns, and the delimiter."""
HYPOTHESES = "which column has the hypotheses? Say it with --field text=NAME (name, "
PLACES = {
    "eval FILE --ref ref": HYPOTHESES,
    "convert FILE": HYPOTHESES,
    "run FILE --ref ref": HYPOTHESES,
    "combine FILE ref": HYPOTHESES,
    "combine FILE FILE --name a --name b": HYPOTHESES,
    "combine lists.jsonl FILE": HYPOTHESES,
    "eval ref --ref FILE": "references",
    "eval lines --ref FILE": "references",
    "eval lists.jsonl --ref FILE": "references",
    "run lists.jsonl --ref ref --dev lists.jsonl --dev-ref FILE": "references",
    "combine lists.jsonl ref --ref FILE": "references",
    "convert lists.jsonl --src FILE": "sources",
}
"""What each command asks for."""


def written(name: str) -> None:
    """A table, lists, Kaldi text and plain lines of the same utterances."""
    columns, delimiter = TABLES[name]
    text = "".join(delimiter.join(row[:columns]) + "\n" for row in ROWS).encode()
    pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(Path(name).suffix, bytes)
    Path(name).write_bytes(pack(text))
    lists = [{"id": row[0], "hyps": [{"text": "an owl"}]} for row in ROWS[1:]]
    Path("lists.jsonl").write_text("".join(json.dumps(own) + "\n" for own in lists))
    Path("ref").write_text("".join(f"{row[0]} an owl\n" for row in ROWS[1:]))
    Path("lines").write_text("an owl\n" * len(ROWS))


@pytest.mark.parametrize("name", TABLES)
def test_an_unknown_table_is_asked_about(name: str, rescore: Run) -> None:
    written(name)
    for command, told in PLACES.items():
        done = rescore(*command.replace("FILE", name).split())
        role = {"references": "ref", "sources": "src"}.get(told)
        if role is not None:
            told = f"which columns have the ids and the {told}? Say it with --field"
            told += f" id=NAME --field {role}=NAME (name, "
        assert done.returncode == 2, command
        assert f"{name}: {told}" in done.stderr, (command, done.stderr)


@pytest.mark.parametrize("name", TABLES)
def test_the_answer_is_taken(name: str, rescore: Run) -> None:
    written(name)
    fields = ("--field", "id=name", "--field", "text=said")
    done = rescore("eval", name, "--ref", "ref", *fields)
    assert " 0.00 " in done.stdout, done.stderr
    fields = ("--field", "id=name", "--field", "ref=said")
    done = rescore("eval", "lists.jsonl", "--ref", name, *fields)
    assert " 0.00 " in done.stdout, done.stderr


TEXTS = {
    "kaldi.tsv": "u1\tan owl\nu2\tan owl\nu3\tan owl\n",
    "biased.tsv": "".join(f'u{place}\tan owl\t["owl"]\n' for place in "123"),
    "letters.tsv": "anna\tan owl\nbob\tan owl\n",
    "marks.tsv": "anna_x\tan owl\nbob_y\tan owl\ncarl_z\tan owl\n",
    "one.csv": "an owl\nan owl\nan owl\n",
    "commas": "well, an owl, yes\nno, an owl, no\nan owl, too, yes\n",
}
"""Texts under the name of a table, or with commas."""


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_no_tables(name: str, rescore: Run) -> None:
    Path(name).write_text(TEXTS[name])
    done = rescore("eval", name, "--ref", name)
    assert "which column" not in done.stderr
    assert " 0.00 " in done.stdout or "begin with the same words" in done.stderr
