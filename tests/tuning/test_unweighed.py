"""Columns without a weight. Law: a run says so exactly where nothing gives the columns
of its lists a weight.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Run

SAID = "qe: no weight is given or tuned"
ROADS = {
    "nothing": ((), True),
    "risk": (("--decide", "mbr", "--scale", "1"), True),
    "a weight": (("--weight", "0.5"), False),
    "folds": (("--folds", "2"), False),
    "a dev set": (("--dev", "l.jsonl", "--dev-scores", "qe.csv"), False),
}


@pytest.mark.parametrize("road", ROADS)
def test_a_column_without_a_weight_is_told(
    rescore: Run, tmp_path: Path, road: str
) -> None:
    lines = []
    table = ["id,rank,qe\n"]
    for number in range(6):
        hyps = [{"text": "a x c", "score": -1}, {"text": "a b c", "score": -2}]
        row = {"id": f"u{number}", "ref": "a b c", "hyps": hyps}
        lines.append(json.dumps(row) + "\n")
        table += [f"u{number},1,-9\n", f"u{number},2,-1\n"]
    (tmp_path / "l.jsonl").write_text("".join(lines))
    (tmp_path / "qe.csv").write_text("".join(table))
    options, is_told = ROADS[road]
    done = rescore("l.jsonl", "--scores", "qe.csv", *options)
    assert done.returncode == 0, done.stderr
    assert (SAID in done.stderr) == is_told, done.stderr
    if is_told:
        assert SAID not in rescore("l.jsonl", *options).stderr
