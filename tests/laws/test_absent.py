"""Law: an utterance that is not measured is counted in the signature, if its list or
its reference is absent, by each road.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.conftest import Run

NAMES = [f"u{number:02}" for number in range(30)]
ROADS = ("run l.csv", "eval l.trn", "eval l.trn l2.trn")


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize(
    ("no_list", "no_reference", "expected"),
    [
        ((), (), "30"),
        ((7,), (), "29of30"),
        ((), (7,), "29of30"),
        ((7, 8), (9,), "27of30"),
    ],
)
def test_what_is_absent_is_counted(
    road: str,
    no_list: tuple[int, ...],
    no_reference: tuple[int, ...],
    expected: str,
    rescore: Run,
) -> None:
    rows = ["id,text,score"]
    texts = []
    references = []
    for place, name in enumerate(NAMES):
        if place not in no_list:
            rows += [f"{name},the owl {place},-1", f"{name},a fowl {place},-2"]
            texts.append(f"the owl {place} ({name})")
        if place not in no_reference:
            references.append(f"the owl {place} ({name})")
    for name in ("l", "l2"):
        Path(f"{name}.csv").write_text("\n".join(rows) + "\n")
        Path(f"{name}.trn").write_text("\n".join(texts) + "\n")
    Path("ref.trn").write_text("\n".join(references) + "\n")
    done = rescore(*road.split(), "--ref", "ref.trn", "--allow-missing")
    assert done.returncode == 0, done.stderr
    counts = re.findall(r"lists:(\w+)@", done.stdout)
    assert counts and set(counts) == {expected}, done.stdout
    if expected != "30":
        done = rescore(*road.split(), "--ref", "ref.trn")
        assert done.returncode == 2 and "--allow-missing" in done.stderr


@pytest.mark.parametrize("road", ["eval", "combine"])
@pytest.mark.parametrize("with_ids", [False, True])
def test_references_of_the_first_lines(road: str, with_ids: bool, rescore: Run) -> None:
    """If there are fewer references than plain lines, they belong to the first lines,
    or to the lines with their numbers.
    """
    lines = [f"the owl {place} flew" for place in range(30)]
    for name in ("a.txt", "b.txt"):
        Path(name).write_text("\n".join(lines) + "\n")
    first = [f"{place} " if with_ids else "" for place in range(1, 13)]
    known = [ahead + line for ahead, line in zip(first, lines, strict=False)]
    Path("ref.txt").write_text("\n".join(known) + "\n")
    command = [road, "a.txt", "b.txt", "--ref", "ref.txt"]
    if road == "combine":
        command += ["-o", "o.jsonl"]
    done = rescore(*command, "--allow-missing")
    assert done.returncode == 0, done.stderr
    assert "no reference for 18 of 30" in done.stderr
    assert (
        with_ids
        or "its 12 lines are taken for the first of 30 utterances" in done.stderr
    )
    assert " 0.00 " in done.stdout
    if road == "eval":
        assert "lists:12of30@" in done.stdout
    assert rescore(*command).returncode == 2
