"""Law: the lines about weights, votes and the decision are the same with and without
references, for lists of one system and of several.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from rescore import formats
from rescore.asr.systems import combined
from rescore.nbest import Hypothesis, NbestList
from rescore.parts import DECISIONS
from tests.conftest import quick_folder, run_main

SYSTEMS = {"good": 0.1, "fair": 0.2, "poor": 0.3}
"""The share of words that each system has wrong."""


def outputs(hypotheses: int) -> dict[str, list[NbestList]]:
    """Return the lists of each system."""
    chance = random.Random(5)
    every: dict[str, list[NbestList]] = {name: [] for name in SYSTEMS}
    for number in range(30):
        words = chance.choices("abcdefgh", k=6)
        for name, share in SYSTEMS.items():
            heard: dict[str, float] = {}
            for place in range(hypotheses):
                text = list(words)
                for index in range(len(text)):
                    if chance.random() < share:
                        text[index] = chance.choice("abcdefgh")
                heard.setdefault(" ".join(text), -float(place))
            entries = [Hypothesis(text, {"s2s": heard[text]}) for text in heard]
            every[name].append(NbestList(f"u{number}", entries, (" ".join(words),)))
    return every


@pytest.fixture(scope="module", autouse=True)
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with quick_folder(tmp_path_factory.mktemp("lines")):
        every = {"one": outputs(4)["fair"], "several": list(combined(outputs(2)))}
        for name, lists in every.items():
            formats.write(lists, f"{name}.jsonl")
            hidden = [replace(nbest, references=()) for nbest in lists]
            formats.write(hidden, f"{name}.hidden.jsonl")
            refs = [f"{nbest.references[0]} ({nbest.id})" for nbest in lists]
            Path(f"{name}.trn").write_text("\n".join([*refs, ""]))
        yield


def about_choice(line: str) -> set[str]:
    """Return the lines about the choice that a command prints."""
    done = run_main(*line.split())
    assert done.returncode == 0, done.stderr
    lines = set()
    for text in [*done.stdout.splitlines(), *done.stderr.splitlines()]:
        if text.startswith(("weights:", "lambda:", "votes:", "decision:")):
            lines.add(text)
    assert lines
    return lines


ROADS = ["", "--dev {}.jsonl"]


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("decision", DECISIONS.shipped)
@pytest.mark.parametrize("lists", ["one", "several"])
def test_the_words_are_the_same(lists: str, decision: str, road: str) -> None:
    line = f"run {lists}.hidden.jsonl --best out.trn --decide {decision} {road}"
    line = line.format(lists)
    if not road and decision != "best":
        line += " --scale 1"
    with_references = about_choice(f"{line} --ref {lists}.trn")
    assert about_choice(line) == with_references
