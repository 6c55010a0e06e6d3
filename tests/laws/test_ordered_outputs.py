"""Law: `eval` and `combine` pair outputs with other ids in the same way: by plain
references in one order.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.conftest import Run

LINES = [f"the owl {place} flew over the barn" for place in range(6)]
WITH = ("--ref", "ref.txt", "--ref-format", "plain")


def write(name: str, ids: list[str], lines: list[str]) -> None:
    """Write a table of lines with ids."""
    rows = [f"{own},{line}\n" for own, line in zip(ids, lines, strict=True)]
    Path(name).write_text("id,text\n" + "".join(rows))


def test_outputs_with_other_ids_are_paired_by_order(rescore: Run) -> None:
    Path("ref.txt").write_text("\n".join(LINES) + "\n")
    ids = [f"line_1_{place}" for place in range(6)]
    write("a.csv", ids, LINES)
    write("b.csv", [f"r1_l{place}" for place in range(6)], LINES)
    taken = "taken in the order of a"
    done = rescore("eval", "a.csv", "b.csv", *WITH)
    assert done.returncode == 0 and taken in done.stderr, done.stderr
    done = rescore("combine", "a.csv", "b.csv", *WITH, "-o", "o.jsonl")
    assert done.returncode == 0 and taken in done.stderr, done.stderr
    lists = list(map(json.loads, Path("o.jsonl").read_text().splitlines()))
    assert [each["id"] for each in lists] == ids
    assert [each["ref"] for each in lists] == LINES
    assert all(len(each["hyps"]) == 1 for each in lists)
    done = rescore("combine", "a.csv", "b.csv", "-o", "o.jsonl")
    assert done.returncode == 2 and "--ref-format plain" in done.stderr


def test_ids_count_before_the_order(rescore: Run) -> None:
    """References whose lines have the order of one system say nothing of another with
    ids of its own that fit."""
    Path("ref.txt").write_text("\n".join(LINES) + "\n")
    ids = [f"u{place}" for place in range(6)]
    write("a.csv", ids, LINES)
    write("b.csv", [f"x/{own}.wav" for own in reversed(ids)], LINES[::-1])
    done = rescore("combine", "a.csv", "b.csv", *WITH, "-o", "o.jsonl")
    assert done.returncode == 0, done.stderr
    lists = list(map(json.loads, Path("o.jsonl").read_text().splitlines()))
    assert all(len(each["hyps"]) == 1 for each in lists)
