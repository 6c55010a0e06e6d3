"""Where weights of the toolkit's components are tuned, each road prints the weights
with which the toolkit itself would choose the same texts; or it says in one line that
the toolkit's score is no weighted sum of the components, or that they do not tell the
weights.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from rescore import formats, pipeline
from rescore.columns import Column
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.decision import Choice
from rescore.nbest import Header, Hypothesis, NbestList
from rescore.reports import files
from rescore.reports.summary import render
from rescore.tuning import Weights
from rescore.tuning.components import Fit, toolkit_score
from rescore.tuning.phrases import effective_weights
from tests.conftest import run_main, write_json

TOOLKIT = {"decoder": 0.6, "ctc": 0.4, "TM0.1": -0.25, "TM0.2": 1.5}
"""The components of made lists, and their weights in the toolkit."""
WORDS = ("we", "go", "home", "now")

WRITTEN: dict[str, Callable[[float], float]] = {
    "four decimals": lambda score: round(score, 4),
    "six digits": lambda score: float(f"{score:.6g}"),
    "float32": lambda score: float(np.float32(score)),
    "double": lambda score: score,
}
"""How toolkits write a score."""


def lists(
    written: str = "double",
    number: int = 40,
    names: Sequence[str] = tuple(TOOLKIT),
    bonus: float = 0.0,
) -> list[NbestList]:
    """Return lists whose first pass is the sum of `TOOLKIT`, and a bonus per word."""
    draw = np.random.default_rng(7)
    shown = WRITTEN[written]
    header = Header(records=dict.fromkeys(names, Column.component("made")))
    every = []
    for index in range(number):
        hypotheses = []
        for rank in range(4):
            # three, four or five words, so that the bonus is no constant
            text = " ".join([*WORDS, *WORDS][rank : rank + 3 + (index + rank) % 3])
            parts = dict(zip(TOOLKIT, (-40 * draw.random(4)).tolist(), strict=True))
            total = sum(TOOLKIT[name] * score for name, score in parts.items())
            total += bonus * len(text.split())
            scores = {"s2s": shown(total)}
            scores |= {name: shown(parts[name]) for name in names}
            hypotheses.append(Hypothesis(text, scores))
        references = (hypotheses[index % 4].text,)
        every.append(NbestList(f"u{index}", hypotheses, references, header=header))
    return every


def told(line: str) -> dict[str, tuple[float, float]]:
    """Return the effective weight and the toolkit's weight of each component."""
    assert line.startswith("effective weights: ")
    found = re.findall(r"(\S+) (\S+) \(toolkit (\S+)\)", line)
    return {name: (float(ours), float(theirs)) for name, ours, theirs in found}


def by_decoder(
    every: Sequence[NbestList], effective: Mapping[str, float], weights: Weights
) -> list[str]:
    """Return the texts that the components alone choose, with the other columns."""
    others = {"s2s": 0.0}
    for name, weight in weights.weights.items():
        if name not in (*effective, "s2s"):
            others[name] = weight
    return Choice({**others, **effective}).texts(None, Dataset.of(every))


ASKED = {
    "--components": RunConfig(components=True, bagging=False),
    "--column": RunConfig(columns=("ctc",), bagging=False),
    "both": RunConfig(components=True, columns=("ctc",), bagging=False),
    "--word-bonus": RunConfig(components=True, word_bonus=True, bagging=False),
}


@pytest.mark.parametrize(("written", "asked"), list(product(WRITTEN, ASKED)))
def test_the_toolkit_would_choose_the_same_texts(written: str, asked: str) -> None:
    every = lists(written)
    outcome = pipeline.run(every, ASKED[asked], every)
    weights = outcome.weights
    assert weights.tuning.toolkit
    effective = weights.tuning.toolkit.effective(weights.weights)
    assert by_decoder(every, effective, weights) == outcome.texts
    assert outcome.texts != outcome.decided.first_pass_texts
    (line,) = effective_weights(weights.tuning.toolkit, weights.weights)
    for name, (ours, theirs) in told(line).items():
        assert ours == pytest.approx(effective[name], rel=1e-3, abs=1e-3)
        assert theirs == pytest.approx(TOOLKIT[name], abs=2e-4)
    assert line in render(outcome.results)


UNKNOWN = {
    "a length bonus": (lists(bonus=0.5), "is no weighted sum"),
    "a missing part": (lists(names=("decoder", "ctc", "TM0.1")), "is no weighted sum"),
    "few hypotheses": (lists(number=1), "do not determine"),
    "a doubled part": (
        [
            replace(
                nbest,
                header=Header(
                    records=dict(nbest.header.records, twice=Column.component("made"))
                ),
                hypotheses=[
                    replace(one, scores=one.scores | {"twice": 2 * one.scores["ctc"]})
                    for one in nbest.hypotheses
                ],
            )
            for nbest in lists()
        ],
        "do not determine",
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_weights_are_told_in_one_line(name: str) -> None:
    every, why = UNKNOWN[name]
    outcome = pipeline.run(every, ASKED["--components"], every)
    lines = render(outcome.results).splitlines()
    (line,) = [line for line in lines if line.startswith("effective weights")]
    assert why in line


PARTS: dict[str, Callable[[np.random.Generator], float]] = {
    "long": lambda draw: -40 * draw.random(),
    "whole": lambda draw: -float(draw.integers(0, 9)),
    "quarters": lambda draw: -float(draw.integers(0, 40)) / 4,
    "one decimal": lambda draw: round(-40 * draw.random(), 1),
    "large": lambda draw: -float(draw.integers(1_000, 90_000)),
    "small": lambda draw: round(-0.01 * draw.random(), 5),
    "same in all": lambda draw: -7.0,
    "whole numbers of tens": lambda draw: -10.0 * draw.integers(0, 9),
}
"""Kinds of components: the scores of one hypothesis."""
MIXED = (0.5, 0.3, -1.0, 0.2, 0.1, 0.25, 2.0, -0.4)
KINDS = {
    **{f"{number} components": [*PARTS][:number] for number in range(2, 9)},
    **{f"only {kind}": [kind] * 3 for kind in PARTS if kind != "same in all"},
    **{f"long and {kind}": ["long", kind] for kind in PARTS if kind != "long"},
}


def mixed(kinds: Sequence[str], missing: float = 0.0) -> list[NbestList]:
    """Return lists whose first pass is the sum of components of some kinds.

    Args:
        kinds: The kind of each component.
        missing: The size of a part of the sum that is no component.
    """
    draw = np.random.default_rng(11)
    names = [f"TM0.{number}" for number in range(1, len(kinds) + 1)]
    header = Header(records=dict.fromkeys(names, Column.component("made")))
    every = []
    for index in range(40):
        hypotheses = []
        for rank in range(4):
            scores = [float(PARTS[kind](draw)) for kind in kinds]
            total = float(np.dot(scores, MIXED[: len(kinds)]))
            total += missing * draw.random()
            columns = {"s2s": total, **dict(zip(names, scores, strict=True))}
            hypotheses.append(Hypothesis(" ".join(WORDS[: rank + 1]), columns))
        every.append(NbestList(f"u{index}", hypotheses, header=header))
    return every


@pytest.mark.parametrize("name", KINDS)
def test_numbers_of_each_kind_tell_the_weights(name: str) -> None:
    every = mixed(KINDS[name])
    names = [column for column in every[0].hypotheses[0].scores if column != "s2s"]
    toolkit = toolkit_score(Dataset.of(every), names)
    assert toolkit
    assert toolkit.fit is Fit.EXACT
    expected = pytest.approx(MIXED[: len(names)], rel=1e-3)
    assert [*toolkit.weights.values()] == expected


@pytest.mark.parametrize("name", ["only whole", "only quarters", "long and whole"])
def test_a_missing_part_smaller_than_a_whole_number_is_told(name: str) -> None:
    every = mixed(KINDS[name], missing=0.9)
    names = [column for column in every[0].hypotheses[0].scores if column != "s2s"]
    toolkit = toolkit_score(Dataset.of(every), names)
    assert toolkit
    assert toolkit.fit is Fit.INEXACT


def test_without_components_nothing_is_told() -> None:
    every = lists()
    outcome = pipeline.run(every, RunConfig(word_bonus=True, bagging=False), every)
    assert outcome.weights.tuning.toolkit is None
    assert "effective" not in render(outcome.results)


@pytest.fixture
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    formats.write(lists(), "dev.jsonl")
    yield


TUNE = "tune dev.jsonl --components --no-bagging -o w.json"
ROADS = {
    "tune": TUNE,
    "run": "run dev.jsonl --dev dev.jsonl --components --no-bagging",
    "folds": "run dev.jsonl --folds 2 --components --no-bagging",
    "rerank": "rerank dev.jsonl --weights w.json --best texts --report r.json",
    "mbr": "run dev.jsonl --dev dev.jsonl --components --decide mbr --no-bagging",
}


@pytest.mark.usefixtures("_in_folder")
@pytest.mark.parametrize("road", ROADS)
def test_each_road_prints_them_once(road: str) -> None:
    assert run_main(*TUNE.split()).returncode == 0
    done = run_main(*ROADS[road].split())
    assert done.returncode == 0, done.stderr
    printed = (done.stdout + done.stderr).splitlines()
    (line,) = [line for line in printed if line.startswith("effective weights: ")]
    assert [*told(line)] == [*TOOLKIT]


@pytest.mark.usefixtures("_in_folder")
def test_files_keep_them() -> None:
    for road in ("tune", "rerank"):
        assert run_main(*ROADS[road].split()).returncode == 0
    weights = Weights.load(Path("w.json"))
    assert weights.tuning.toolkit
    assert weights.tuning.toolkit.weights == pytest.approx(TOOLKIT)
    assert files.read(Path("r.json")).tuning.toolkit == weights.tuning.toolkit


@pytest.mark.usefixtures("_in_folder")
def test_older_weights_files_have_none() -> None:
    write_json(Path("old.json"), {"weights": {"s2s": 1.0, "ctc": 0.5}})
    done = run_main("rerank", "dev.jsonl", "--weights", "old.json", "--best", "texts")
    assert done.returncode == 0
    assert "effective" not in done.stdout + done.stderr
