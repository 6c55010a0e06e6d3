"""Several weights at once: against single ones, against random points, and against what
the decision gives.
"""

from __future__ import annotations

import random
from itertools import groupby

import numpy as np
import pytest

from rescore import decision, pace, pipeline
from rescore.columns import FIRST_PASS, WORDS
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.decision import Choice
from rescore.metrics import list_statistics, total, value
from rescore.metrics.mt import Bleu
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList
from rescore.plan import resolve
from rescore.tuning.objective import TuningObjective
from rescore.tuning.search import optimise
from rescore.tuning.weights import Weights
from tests.tuning.plain import best_weights as tune

COLUMNS = ["one", "two"]


def lists_of(seed: int, number: int = 20, longest: int = 6) -> list[NbestList]:
    random = np.random.default_rng(seed)

    def text() -> str:
        return " ".join(random.choice(["a", "b", "c", "d"], random.integers(1, 7)))

    def hypothesis() -> Hypothesis:
        return Hypothesis(
            text(),
            {name: float(random.normal(-9, 3)) for name in (FIRST_PASS, *COLUMNS)},
        )

    return [
        NbestList(
            str(index),
            [hypothesis() for _ in range(random.integers(1, longest + 1))],
            (text(),),
        )
        for index in range(number)
    ]


def value_at(
    metric: ErrorRate | Bleu, lists: list[NbestList], weights: dict[str, float]
) -> float:
    return value(
        metric,
        total(list_statistics(metric, lists), decision.best(lists, Choice(weights))),
    )


@pytest.mark.parametrize(
    "metric", [ErrorRate(), Bleu(tokenise="none")], ids=["WER", "BLEU"]
)
@pytest.mark.parametrize("seed", range(5))
def test_several_weights_beat_single_ones_and_random_points(
    metric: ErrorRate | Bleu, seed: int
) -> None:
    lists = lists_of(seed)
    sign = 1 if metric.higher_is_better else -1
    tuned = tune(metric, lists, COLUMNS, bonuses=[WORDS])
    weights = Weights.interpolation(tuned.lm, bonuses=tuned.bonuses)
    # what is promised is what comes
    assert value_at(metric, lists, weights.weights) == pytest.approx(tuned.value)
    for column in COLUMNS:
        assert sign * (tuned.value - tune(metric, lists, [column]).value) >= 0
    random = np.random.default_rng(seed)
    for _ in range(100):
        first, one, two = random.dirichlet(np.ones(3)).tolist()
        point = {
            FIRST_PASS: first,
            "one": one,
            "two": two,
            WORDS: float(random.normal(scale=2)),
        }
        assert sign * (tuned.value - value_at(metric, lists, point)) >= -1e-9


def test_a_word_bonus_can_be_all_that_helps() -> None:
    short, long = (
        Hypothesis("a", {"s2s": -1.0, "lm": -1.0}),
        Hypothesis("a b", {"s2s": -4.0, "lm": -4.0}),
    )
    lists = [NbestList("u", [short, long], ("a b",))]
    assert not tune(ErrorRate(), lists, ["lm"]).helps
    tuned = tune(ErrorRate(), lists, ["lm"], bonuses=[WORDS])
    assert tuned.helps and tuned.value == 0 and tuned.bonuses[WORDS] > 3


def test_nothing_helps() -> None:
    good = Hypothesis("a", {"s2s": -1.0, "one": -9.0, "two": -9.0})
    bad = Hypothesis("b", {"s2s": -2.0, "one": -1.0, "two": -1.0})
    tuned = tune(
        ErrorRate(), [NbestList("u", [bad, good], ("a",))], COLUMNS, bonuses=[WORDS]
    )
    assert (
        tuned.lm == {"one": 0, "two": 0}
        and tuned.bonuses == {WORDS: 0}
        and not tuned.helps
    )


def test_the_same_seed_finds_the_same_weights() -> None:
    lists = lists_of(1)
    assert tune(ErrorRate(), lists, COLUMNS, [WORDS]) == tune(
        ErrorRate(), lists, COLUMNS, [WORDS]
    )


def test_minus_infinite_scores_do_not_spread() -> None:
    lists = lists_of(2)
    lists[0].hypotheses[0].scores["one"] = -np.inf
    tuned = tune(ErrorRate(), lists, COLUMNS, bonuses=[WORDS])
    weights = Weights.interpolation(tuned.lm, bonuses=tuned.bonuses)
    assert value_at(ErrorRate(), lists, weights.weights) == pytest.approx(tuned.value)


def vertices_and_beside(lists: list[NbestList], bonus: bool) -> list[dict[str, float]]:
    """A point in every cell of the plane of two weights: beside each crossing of two
    ties, or of a tie and the edge.
    """
    lines = (
        [(0.0, 1.0, 0.0), (1.0, -1.0, 0.0)]
        if bonus
        else [(0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (1.0, -1.0, -1.0)]
    )
    names = [FIRST_PASS, "one", WORDS if bonus else "two"]
    for nbest in lists:
        rows = np.array([nbest.column(name) for name in names]).T
        for i in range(len(rows)):
            for j in range(i):
                first, one, other = rows[i] - rows[j]
                lines.append((first, one - first, other if bonus else other - first))
    points = []
    table = np.array(lines)
    for i in range(len(table)):
        for j in range(i):
            matrix = table[[i, j], 1:]
            if abs(np.linalg.det(matrix)) > 1e-12:
                points.append(np.linalg.solve(matrix, -table[[i, j], 0]))
    near = [
        point + 1e-6 * np.array(step)
        for point in points
        for step in ((1, 1), (1, -1), (-1, 1), (-1, -1), (0, 1), (1, 0))
    ]
    if bonus:
        return [{FIRST_PASS: 1 - x, "one": x, WORDS: y} for x, y in near if 0 <= x <= 1]
    return [
        {FIRST_PASS: 1 - x - y, "one": x, "two": y}
        for x, y in near
        if x >= 0 and y >= 0 and x + y <= 1
    ]


@pytest.mark.long
@pytest.mark.parametrize(
    "bonus", [False, True], ids=["two models", "a model and a word bonus"]
)
@pytest.mark.parametrize("seed", range(6))
def test_two_weights_are_the_best_of_all_cells(seed: int, bonus: bool) -> None:
    lists = lists_of(seed, 5, longest=8)
    tuned = tune(
        ErrorRate(),
        lists,
        ["one"] if bonus else COLUMNS,
        bonuses=[WORDS] if bonus else [],
    )
    statistics = list_statistics(ErrorRate(), lists)
    brute = min(
        value(ErrorRate(), total(statistics, decision.best(lists, Choice(point))))
        for point in vertices_and_beside(lists, bonus)
    )
    assert tuned.value == pytest.approx(min(brute, tuned.first_pass))


@pytest.mark.parametrize("score", [-1e308, 1e308, -1.7e308])
def test_scores_at_the_end_of_what_numbers_can_say(score: float) -> None:
    """A word bonus is looked for as far as scores differ, and that far is infinite
    twice over.
    """
    lists = lists_of(3)
    lists[0].hypotheses = [
        Hypothesis("a", {FIRST_PASS: score}),
        Hypothesis("b c", {FIRST_PASS: -1.0}),
    ]
    metric = ErrorRate()
    found = tune(metric, lists, [], [WORDS])
    assert np.isfinite(found.bonuses[WORDS])
    weights = {FIRST_PASS: 1.0, **found.bonuses}
    assert value_at(metric, lists, weights) <= value_at(
        metric, lists, {FIRST_PASS: 1.0}
    )


def test_useless_columns_hide_no_useful_one() -> None:
    chance, lists = random.Random(14), []
    for index in range(60):
        reference, hyps = [chance.choice("abcde") for _ in range(5)], []
        for _ in range(5):
            heard = [
                chance.choice("abcde") if chance.random() < 0.3 else word
                for word in reference
            ]
            errors = sum(
                word != right for word, right in zip(heard, reference, strict=True)
            )
            deviations = {"s2s": 1.5, "x": 3.0}
            scores = {
                name: chance.gauss(-errors, deviation)
                for name, deviation in deviations.items()
            }
            hyps.append(
                Hypothesis(
                    " ".join(heard),
                    scores | {name: chance.gauss(0, 3) for name in ("y", "z")},
                )
            )
        lists.append(NbestList(str(index), hyps, (" ".join(reference),)))
    tuned = {
        columns: (
            pipeline.tune(
                resolve(RunConfig(columns=columns), dev=lists), Dataset.of(lists)
            ).weights
        )
        for columns in (("x",), ("x", "y", "z"), ("y", "z"))
    }
    assert tuned["x",]["x"] > 0
    assert tuned["x", "y", "z"] == tuned["x",] | {"y": 0.0, "z": 0.0}
    assert tuned["y", "z"] == {"s2s": 1.0, "y": 0.0, "z": 0.0}


@pytest.mark.parametrize(("many", "samples"), [(40, 20), (39, 5)])
def test_many_lists_have_fewer_samples(
    many: int, samples: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, sample = [], TuningObjective.sample
    monkeypatch.setattr(
        TuningObjective,
        "sample",
        lambda self, random: drawn.append(1) or sample(self, random),
    )
    monkeypatch.setattr("rescore.tuning.search.MANY", many)
    optimise(TuningObjective.of(ErrorRate(), lists_of(1, 40), [FIRST_PASS, *COLUMNS]))
    assert len(drawn) == samples


def test_searches_without_a_column_are_one_loop_of_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line names the samples; the searches over fewer columns are counted."""
    monkeypatch.setattr(pace, "FIRST", 0.0)
    monkeypatch.setattr(pace, "EVERY", 0.0)
    caplog.set_level("INFO")
    lists = lists_of(3)
    tune(ErrorRate(), lists, COLUMNS, [WORDS])
    loops = [line.partition(":")[0] for line in caplog.messages if "to go" in line]
    assert len(set(loops)) == len([name for name, _ in groupby(loops)])
    assert sum(name.startswith("weights of") for name in set(loops)) <= 1
