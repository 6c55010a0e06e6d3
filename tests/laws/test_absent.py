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
