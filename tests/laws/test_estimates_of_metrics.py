"""Law: the table of `combine` names the metric that it estimates without references: a
metric of edit distances is estimated in its own unit, other metrics of words have an
estimated WER, and metrics without words have no estimate.
"""

from __future__ import annotations

import random

import pytest

from rescore import metrics
from rescore.asr.commands.combine import _table
from rescore.asr.systems import combined
from rescore.dataset import Dataset
from rescore.metrics.normalise import EXACT
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList
from rescore.parts import METRICS

NEED_MORE = ("comet", "cpwer", "tcpwer", "bwer", "uwer", "recall", "precision", "f1")
"""Metrics that need a model, speakers or words, which `combine` does not take."""
NAMES = [name for name in METRICS.shipped if name not in NEED_MORE]
OWN = {"WER": "estimated WER", "CER": "estimated CER", "MER": "estimated MER"}
"""The heads of the metrics that are estimated themselves."""


def lists() -> list[NbestList]:
    """Return lists of three systems, each with a wrong letter in some of its words."""
    chance = random.Random(7)
    letters = "abcdefgh"
    systems: dict[str, list[NbestList]] = {"a": [], "b": [], "c": []}
    for number in range(60):
        words = ["".join(chance.choices(letters, k=6)) for _ in range(6)]
        for own in systems.values():
            heard = []
            for word in words:
                place = chance.randrange(6)
                changed = word[:place] + chance.choice("xyz") + word[place + 1 :]
                heard.append(changed if chance.random() < 0.2 else word)
            text = Hypothesis(" ".join(heard), {"s2s": 0.0})
            systems_list = NbestList(f"u{number}", [text], (" ".join(words),))
            own.append(systems_list)
    return list(combined(systems))


class OfAnotherPackage(ErrorRate):
    """A metric of words that is not the edit distance of all words."""

    name = "SWER"


OWN_METRIC = OfAnotherPackage()


@pytest.mark.parametrize("name", [*NAMES, "own"])
def test_the_head_names_the_estimate(name: str) -> None:
    some = Dataset(lists())
    metric = OWN_METRIC if name == "own" else metrics.choose_metric(name, some)
    head, first, *_ = _table(some, metric, metric.words or EXACT).splitlines()
    if metric.words is None:
        assert "estimated" not in head and "CI" not in head
        return
    assert f" {OWN.get(metric.name, 'estimated WER')}  " in head
    cells = first.split()
    value, estimate = float(cells[1]), float(cells[2])
    if metric.name in OWN:
        assert 0.7 * value < estimate < 1.1 * value
