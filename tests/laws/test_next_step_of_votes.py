"""After a vote of several systems without the weight of a language model, `analyse`
names no language model, for any gain of the vote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from rescore import formats
from rescore.asr.systems import combined
from rescore.nbest import NbestList
from rescore.parts import DECISIONS
from tests import test_roads
from tests.conftest import run_main
from tests.laws.test_vote_rows import SYSTEMS, outputs

REFERENCES = {
    "as spoken": lambda nbest: nbest.references,
    "as the first system": lambda nbest: (nbest.hypotheses[0].text,),
    "other words": lambda nbest: ("x y",),
    "unknown letters": lambda nbest: ("слово",),
}
"""The references of the lists: with them the vote gains much, little or nothing."""
VOTES = ("tuned", "untuned", "a model of weight 0")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    test_roads.fewer_samples(monkeypatch)
    yield


def lists(references: str, with_model: bool) -> list[NbestList]:
    """Return lists of several systems; a model scores all texts alike."""
    every = []
    for nbest in combined(outputs()):
        nbest = replace(nbest, references=REFERENCES[references](nbest))
        if with_model:
            for hypothesis in nbest.hypotheses:
                hypothesis.scores["lm"] = -1.0
        every.append(nbest)
    return every


@pytest.mark.parametrize(
    ("references", "votes", "decision"),
    list(product(REFERENCES, VOTES, sorted(DECISIONS.shipped))),
)
def test_the_next_step_is_no_language_model(
    references: str, votes: str, decision: str
) -> None:
    formats.write(lists(references, votes == VOTES[2]), "l.jsonl")
    weights = []
    if votes != "untuned":
        line = f"tune l.jsonl -o w.json --decide {decision}"
        if decision != "best":
            line += " --scale 1"
        tuned = run_main(*line.split())
        assert tuned.returncode == 0, tuned.stderr
        assert set(json.loads(Path("w.json").read_text())["mixture"]["votes"]) == {
            *SYSTEMS
        }
        weights = ["--weights", "w.json"]
    done = run_main("analyse", "l.jsonl", *weights)
    assert done.returncode == 0, done.stderr
    _, _, outlook = done.stdout.partition("Is it worth it?")
    outlook, _, _ = outlook.partition("\n\n")
    assert "\nnext" in outlook
    assert not re.search(r"\bLM\b|language model", outlook)
