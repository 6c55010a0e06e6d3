"""Law: every road that tunes weights or votes on few lists says so, once."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import pytest

import rescore as package
from rescore import formats
from rescore.asr.mixture import Mixture
from rescore.asr.systems import combined
from rescore.dataset import Dataset
from rescore.decision import Decision
from rescore.nbest import Hypothesis, NbestList
from rescore.tuning.lists import ENOUGH, tell_order, warn_of_few
from tests.conftest import Run
from tests.test_roads import arpa


def scored(number: int) -> list[NbestList]:
    """Return lists with a column of a model."""
    lists = []
    for index in range(number):
        hypotheses = []
        for rank, text in enumerate(("an owl", "a cowl")):
            scores = {"s2s": -float(rank + index % 3), "lm": -float(rank)}
            hypotheses.append(Hypothesis(f"{text} {index}", scores))
        lists.append(NbestList(f"u{index}", hypotheses, (f"an owl {index}",)))
    return lists


def voted(number: int) -> list[NbestList]:
    """Return lists of three systems."""
    systems = {}
    for name, text in {"a": "an owl", "b": "a cowl", "c": "an owl"}.items():
        lists = []
        for index in range(number):
            hypothesis = Hypothesis(f"{text} {index}", {"s2s": 0.0})
            lists.append(NbestList(f"u{index}", [hypothesis], (f"an owl {index}",)))
        systems[name] = lists
    return list(combined(systems))


WEIGHTS = "weights and scales"


@pytest.mark.parametrize(
    ("number", "systems", "told"),
    [
        (ENOUGH - 1, False, [WEIGHTS]),
        (ENOUGH, False, []),
        (ENOUGH, True, ["votes"]),
        (Mixture.enough - 1, True, ["votes"]),
        (Mixture.enough, True, []),
    ],
)
def test_few_lists_are_told(
    number: int, systems: bool, told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_few(Dataset((voted if systems else scored)(number)))
    tuned_on = f" that are tuned on {number} lists"
    assert [message.partition(tuned_on)[0] for message in caplog.messages] == told


ROADS = {
    "run": "run test.jsonl --dev dev.jsonl",
    "folds": "run test.jsonl --folds 2",
    "tune": "tune dev.jsonl -o w.json",
    "compare": "compare test.jsonl --dev dev.jsonl --lm ngram:lm --lm ngram:other",
}
GIVEN = "run test.jsonl --weight 1"


@pytest.mark.parametrize("road", [*ROADS.values(), GIVEN])
def test_every_road_tells_few_lists_once(road: str, rescore: Run) -> None:
    formats.write(scored(20), "test.jsonl")
    formats.write(scored(21), "dev.jsonl")
    for name, shift in (("lm", 0.0), ("other", 0.3)):
        Path(name).mkdir()
        (Path(name) / "lm.arpa").write_text(arpa(shift))
    done = rescore(*road.split())
    assert done.returncode == 0, done.stderr
    expected = 0 if road == GIVEN else 1
    assert done.stderr.count("lists vary much by chance") == expected


@pytest.mark.parametrize("how", [("--folds", "2"), ("--dev", "dev.jsonl")])
def test_nothing_is_told_where_nothing_is_tuned(
    how: tuple[str, ...], rescore: Run
) -> None:
    """The first pass has no weight that varies."""
    for name in ("test", "dev"):
        lists = scored(20)
        for nbest in lists:
            for hypothesis in nbest.hypotheses:
                del hypothesis.scores["lm"]
        formats.write(lists, f"{name}.jsonl")
    done = rescore("run", "test.jsonl", *how)
    assert done.returncode == 0, done.stderr
    assert "vary much by chance" not in done.stderr


def test_votes_on_few_lists_are_told(
    rescore: Run, caplog: pytest.LogCaptureFixture
) -> None:
    formats.write(voted(20), "dev.jsonl")
    done = rescore("dev.jsonl", "--folds", "2", "--decide", "rover")
    assert done.stderr.count("votes that are tuned on 20 lists") == 1
    assert (
        "votes that are tuned" not in rescore("dev.jsonl", "--decide", "rover").stderr
    )
    caplog.clear()
    package.tune(voted(20), decision="rover")
    assert caplog.text.count("votes that are tuned on 20 lists") == 1


@pytest.mark.parametrize("second", [-math.log(2), -1.0])
def test_a_list_of_one_hypothesis_does_not_hide_that_others_have_no_scores(
    second: float, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    two = [Hypothesis("a", {"s2s": 0.0}), Hypothesis("b", {"s2s": second})]
    alone = [Hypothesis("c", {"s2s": -3.0})]
    lists = Dataset([NbestList("u", two), NbestList("v", alone)])
    tell_order(Decision("mbr"), lists)
    assert ("counts the order" in caplog.text) is (second == -math.log(2))
