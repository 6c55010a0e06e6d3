"""The exact search against one that tries a weight in every interval."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from rescore.decision import Choice
from rescore.metrics.mt import Bleu
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList
from rescore.tuning.line import best_interval, swept, upper_envelopes
from tests.tuning.plain import best_weights as tune

SCORES = st.integers(-5, 5).map(float)


@settings(max_examples=200, deadline=None)
@given(
    st.tuples(st.integers(1, 4), st.integers(1, 8)).flatmap(
        lambda size: st.tuples(*[arrays.arrays(float, size, elements=SCORES)] * 2)
    )
)
def test_envelopes_are_the_maximum(lines: tuple[np.ndarray, np.ndarray]) -> None:
    found = upper_envelopes(*lines, 0.0, 1.0)
    by_columns = map(np.asfortranarray, lines)
    for ours, theirs in zip(found, upper_envelopes(*by_columns, 0.0, 1.0), strict=True):
        assert ours.tolist() == theirs.tolist()
    for row, (intercepts, slopes) in enumerate(zip(*lines, strict=True)):
        mine = np.flatnonzero(found.lists == row)
        winners = [found.first[row], *found.after[mine]]
        assert winners[:-1] == found.before[mine].tolist()
        edges = [0.0, *found.points[mine], 1.0]
        assert edges == sorted(edges)
        for (low, high), winner in zip(pairwise(edges), winners, strict=True):
            if high - low > 1e-9:
                scores = intercepts + (low + high) / 2 * slopes
                assert scores[winner] >= scores.max() - 1e-9
                same = np.flatnonzero(
                    (intercepts == intercepts[winner]) & (slopes == slopes[winner])
                )
                assert winner == same[0]  # of equals the first


def test_minus_infinity_never_wins() -> None:
    found = upper_envelopes(
        np.array([[-np.inf, -1.0], [-np.inf, -np.inf]]),
        np.array([[np.inf, 0.0], [np.nan, np.nan]]),
        0.0,
        1.0,
    )
    assert found.first.tolist() == [1, 0] and not len(found.points)


def lists_of(random: np.random.Generator, number: int) -> list[NbestList]:
    words = ["a", "b", "c", "d"]

    def text() -> str:
        return " ".join(random.choice(words, random.integers(0, 6)))

    def hypothesis() -> Hypothesis:
        return Hypothesis(
            text(),
            {"s2s": float(random.integers(-9, 0)), "lm": float(random.integers(-9, 0))},
        )

    return [
        NbestList(
            str(index),
            [hypothesis() for _ in range(random.integers(1, 6))],
            (text() + " a",),
        )
        for index in range(number)
    ]


def slow_best(metric: ErrorRate | Bleu, lists: list[NbestList]) -> float:
    """Try every pairwise crossing, and the middle between neighbours."""
    from rescore import decision
    from rescore.metrics import list_statistics, total, value

    crossings = {0.0, 1.0}
    for nbest in lists:
        for one in nbest.hypotheses:
            for other in nbest.hypotheses:
                rise = (one.scores["lm"] - one.scores["s2s"]) - (
                    other.scores["lm"] - other.scores["s2s"]
                )
                if rise:
                    point = (other.scores["s2s"] - one.scores["s2s"]) / rise
                    if 0 < point < 1:
                        crossings.add(point)
    ordered = sorted(crossings)
    statistics = list_statistics(metric, lists)
    values = []
    for low, high in pairwise(ordered):
        if high - low < 1e-12:
            continue
        middle = (low + high) / 2
        chosen = decision.best(lists, Choice({"s2s": 1 - middle, "lm": middle}))
        values.append(value(metric, total(statistics, chosen)))
    return max(values) if metric.higher_is_better else min(values)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_tuning_finds_what_trying_all_finds(seed: int, bleu: bool) -> None:
    from rescore import decision
    from rescore.metrics import list_statistics, total, value

    metric = Bleu(tokenise="none") if bleu else ErrorRate()
    lists = lists_of(np.random.default_rng(seed), 12)
    tuned = tune(metric, lists, ["lm"])
    slow = slow_best(metric, lists)
    expected = max(slow, tuned.first_pass) if bleu else min(slow, tuned.first_pass)
    assert abs(tuned.value - expected) < 1e-9
    # What is promised is what the decision gives at that weight.
    chosen = decision.best(lists, Choice({"s2s": 1 - tuned.lm["lm"], **tuned.lm}))
    assert (
        abs(value(metric, total(list_statistics(metric, lists), chosen)) - tuned.value)
        < 1e-9
    )
    assert tuned.helps == (abs(tuned.value - tuned.first_pass) > 0)


def test_weight_is_zero_where_the_lm_does_not_help() -> None:
    good, bad = (
        Hypothesis("a b", {"s2s": -1.0, "lm": -9.0}),
        Hypothesis("c d", {"s2s": -2.0, "lm": -1.0}),
    )
    tuned = tune(ErrorRate(), [NbestList("u", [bad, good], ("a b",))], ["lm"])
    assert (
        tuned.lm == {"lm": 0}
        and not tuned.helps
        and tuned.value == tuned.first_pass == 0
    )


def test_ties_go_to_the_middle_of_the_widest_interval() -> None:
    # By the LM the right one wins above 0.5; nothing changes up to 1.
    right, wrong = (
        Hypothesis("a", {"s2s": -2.0, "lm": -1.0}),
        Hypothesis("b", {"s2s": -1.0, "lm": -2.0}),
    )
    tuned = tune(ErrorRate(), [NbestList("u", [wrong, right], ("a",))], ["lm"])
    assert (tuned.low, tuned.high, tuned.lm) == (0.5, 1.0, {"lm": 0.75})


def test_best_interval_joins_equal_neighbours() -> None:
    edges, values = (
        np.array([0.0, 0.1, 0.2, 0.5, 0.55, 1.0]),
        np.array([3.0, 1.0, 1.0, 2.0, 1.0]),
    )
    best = best_interval(edges, values, higher_is_better=False)
    assert (best.low, best.high) == (0.55, 1.0)
    best = best_interval(edges[:5], values[:4], higher_is_better=False)
    assert (best.low, best.high) == (0.1, 0.5)


def test_sweep_covers_the_range() -> None:
    statistics = np.array([[[1, 0, 0, 2], [0, 0, 0, 2]]])
    edges, values = swept(
        ErrorRate(),
        statistics,
        upper_envelopes(np.array([[0.0, -1.0]]), np.array([[0.0, 4.0]]), 0.0, 1.0),
        0.0,
        1.0,
    )
    assert edges.tolist() == [0.0, 0.25, 1.0] and values.tolist() == [50.0, 0.0]
