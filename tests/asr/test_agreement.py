"""Error rates and votes without references."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import rescore
from rescore import UserError
from rescore.asr.agreement import Agreement, distances_of, without_majority
from rescore.asr.mixture import Mixture
from rescore.asr.systems import combined
from rescore.columns import FIRST_PASS
from rescore.config import RunConfig, with_option
from rescore.lms import LanguageModel
from rescore.metrics import METRICS
from rescore.nbest import Hypothesis, NbestList
from rescore.plan import resolve
from rescore.rescorer import Rescorer
from tests.conftest import ROOT, Run

WORDS = [f"w{number}" for number in range(300)]


def heard(words: Sequence[str], rate: float, draw: random.Random) -> list[str]:
    """Words with errors of a rate, each drawn by itself."""
    result = []
    for word in words:
        if draw.random() >= rate:
            result.append(word)
        elif draw.random() < 0.7:
            result.append(draw.choice(WORDS))
    return result


def systems(
    rates: Sequence[float], seed: int = 1, number: int = 200
) -> dict[str, list[NbestList]]:
    """Systems that err independently at these rates."""
    draw = random.Random(seed)
    said = [[draw.choice(WORDS) for _ in range(12)] for _ in range(number)]
    outputs = {}
    for place, rate in enumerate(rates):
        lists = []
        for row, words in enumerate(said):
            text = " ".join(heard(words, rate, draw))
            hypothesis = Hypothesis(text, {FIRST_PASS: 0.0})
            lists.append(NbestList(f"u{row}", [hypothesis], (" ".join(words),)))
        outputs["abcdefgh"[place]] = lists
    return outputs


def family(
    said: Sequence[list[str]],
    names: str,
    shared: float,
    own: float,
    draw: random.Random,
) -> dict[str, list[NbestList]]:
    """Systems that share errors of one rate, and have errors of their own."""
    common = [heard(words, shared, draw) for words in said]
    outputs = {}
    for name in names:
        lists = []
        for row, words in enumerate(common):
            text = " ".join(heard(words, own, draw))
            lists.append(NbestList(f"u{row}", [Hypothesis(text, {FIRST_PASS: 0.0})]))
        outputs[name] = lists
    return outputs


def words_of(lists: Sequence[NbestList]) -> list[list[str]]:
    """The words of the references."""
    return [nbest.references[0].split() for nbest in lists]


def seen(outputs: dict[str, list[NbestList]]) -> tuple[dict[str, float], list[float]]:
    """The votes, and the estimates in percent."""
    result = Agreement.of(list(combined(outputs)), list(outputs), str.split)
    return result.votes, [one.rate for one in result.estimates().values()]


def test_independent_errors_are_estimated() -> None:
    rates = (0.04, 0.08, 0.12, 0.2, 0.3)
    votes, estimates = seen(systems(rates))
    assert np.allclose(estimates, [100 * rate for rate in rates], rtol=0.2, atol=1)
    ordered = list(votes.values())
    assert ordered == sorted(ordered, reverse=True) and ordered[0] == 1.0
    result = Agreement.of(list(combined(systems(rates))), "abcde", str.split)
    for one, rate in zip(result.estimates().values(), rates, strict=True):
        assert one.low < one.rate < one.high
        assert one.low - 1 < 100 * rate < one.high + 1


def test_the_example_of_the_documentation() -> None:
    """docs/combine.md: of 100 words, the systems have 3, 6 and 18 wrong."""
    wrong = {"a": range(3), "b": range(3, 9), "c": range(9, 27)}
    outputs = {}
    for name, places in wrong.items():
        lists = []
        for start in range(0, 100, 10):
            words = []
            for place in range(start, start + 10):
                words.append(f"{name}{place}" if place in places else WORDS[place])
            hypothesis = Hypothesis(" ".join(words), {FIRST_PASS: 0.0})
            lists.append(NbestList(f"u{start}", [hypothesis]))
        outputs[name] = lists
    votes, estimates = seen(outputs)
    assert estimates == pytest.approx([3, 6, 18])
    assert [round(vote, 2) for vote in votes.values()] == [1, 0.99, 0.68]
    told = (ROOT / "docs" / "combine.md").read_text("utf-8")
    assert "the estimates 3, 6 and 18" in told and "votes 1, 0.99 and 0.68" in told


@pytest.mark.parametrize("number", [2, 3, 4, 6])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_systems_of_equal_quality_have_equal_votes(number: int, seed: int) -> None:
    votes, _ = seen(systems([0.1] * number, seed))
    assert list(votes.values()) == pytest.approx([1.0] * number, abs=0.005)


def test_estimates_within_the_tolerance_decide_ties() -> None:
    """With equal votes the first system wins, here the worst."""
    outputs = systems((0.17, 0.09, 0.12))
    lists = list(combined(outputs))
    votes, _ = seen(outputs)
    assert votes["b"] == 1.0 > votes["c"] > votes["a"] > 0.98
    result = Agreement.of(lists, list(outputs), str.split)
    assert "in a tie, a clearly lower estimate wins" in result.why_equal
    by_agreement = rescore.evaluate(lists, decision="rover").reranked
    equal = rescore.evaluate(lists, decision="rover", votes="equal").reranked
    better = {name: outputs[name] for name in "bca"}
    ordered = rescore.evaluate(
        list(combined(better)), decision="rover", votes="equal"
    ).reranked
    assert by_agreement is not None and equal is not None and ordered is not None
    assert by_agreement == pytest.approx(ordered)
    assert by_agreement < 0.8 * equal


def test_estimates_that_hardly_differ_leave_ties_to_the_first_system() -> None:
    """Two equally good systems and a poor one: the first of the two has the ties."""
    votes, estimates = seen(systems((0.1, 0.1, 0.17)))
    assert abs(np.log(estimates[0] / estimates[1])) > 0
    assert votes["a"] == votes["b"] == 1.0 > votes["c"] > 0.98


def test_a_copied_system_counts_once() -> None:
    outputs = systems((0.1, 0.1, 0.1))
    outputs["copy"] = outputs["c"]
    votes, _ = seen(outputs)
    expected = {"a": 1.0, "b": 1.0, "c": 0.5, "copy": 0.5}
    assert votes == pytest.approx(expected, abs=0.005)


def test_two_pairs_that_share_errors_have_equal_votes() -> None:
    outputs = systems((0.1, 0.1))
    outputs |= family(words_of(outputs["a"]), "cd", 0.12, 0.05, random.Random(3))
    votes, _ = seen(outputs)
    assert set(votes.values()) == {1.0}


def test_relatives_share_votes_and_do_not_judge_each_other() -> None:
    outputs = systems((0.12, 0.12, 0.12, 0.12))
    outputs |= family(words_of(outputs["a"]), "xy", 0.07, 0.055, random.Random(3))
    votes, estimates = seen(outputs)
    assert all(votes[name] > 0.98 for name in "abcd")
    assert all(0.5 < votes[name] < 0.85 for name in "xy")
    # as if each were judged by the other, these would be about 9
    assert all(10.5 < estimate < 13.5 for estimate in estimates[-2:])


def test_two_systems_say_nothing_about_each_other() -> None:
    votes, estimates = seen(systems((0.05, 0.4)))
    assert votes == {"a": 1.0, "b": 1.0}
    assert estimates == []


def test_two_copies_and_a_third_say_nothing() -> None:
    outputs = systems((0.1, 0.1))
    outputs["copy"] = outputs["b"]
    votes, estimates = seen(outputs)
    assert votes == {"a": 1.0, "b": 0.5, "copy": 0.5}
    assert estimates == []


def two_pairs() -> dict[str, list[NbestList]]:
    """Two independent systems, and two of a family."""
    outputs = systems((0.1, 0.1))
    return outputs | family(words_of(outputs["a"]), "cd", 0.12, 0.05, random.Random(3))


def copies(number: int) -> dict[str, list[NbestList]]:
    """One system under several names."""
    (one,) = systems((0.1,)).values()
    return dict.fromkeys("abcdefgh"[:number], one)


@pytest.mark.parametrize(
    ("outputs", "reason"),
    [
        (systems((0.05, 0.4)), "nothing tells which of two systems"),
        (systems((0.1, 0.1, 0.1)), "within a factor of 2.0 of their median"),
        (systems([0.1] * 6), "within a factor of 1.2 of their median"),
        (two_pairs(), "two pairs of systems agree"),
        (copies(3), "within a factor of 2.0"),
        (copies(4), "within a factor of 1.5"),
        (systems((0.04, 0.08, 0.12, 0.2, 0.3)), ""),
    ],
)
def test_why_votes_are_equal(outputs: dict[str, list[NbestList]], reason: str) -> None:
    result = Agreement.of(list(combined(outputs)), list(outputs), str.split)
    assert reason in result.why_equal
    assert bool(result.why_equal) == bool(reason)


@pytest.mark.parametrize("rates", [(0.05, 0.1, 0.2), (0.04, 0.08, 0.12, 0.2, 0.3)])
def test_a_sample_needs_no_new_distances(rates: Sequence[float]) -> None:
    outputs = systems(rates)
    lists = list(combined(outputs))
    distances = distances_of(lists, list(outputs), str.split)
    for seed in range(3):
        places = np.random.default_rng(seed).integers(0, len(lists), len(lists))
        own = Agreement(list(outputs), distances.of_lists(places))
        sample = [lists[place] for place in places]
        again = Agreement.of(sample, list(outputs), str.split)
        assert own.votes == pytest.approx(again.votes)
        assert own.is_estimated == again.is_estimated == bool(again.estimates())


def test_a_text_that_systems_share_is_cut_into_words_once() -> None:
    cut: list[str] = []

    def words(text: str) -> list[str]:
        cut.append(text)
        return text.split()

    scores = {FIRST_PASS: 0.0}
    texts = {"a": "one two", "b": "one two", "c": "one"}
    systems = {}
    for name, text in texts.items():
        systems[name] = [NbestList("u", [Hypothesis(text, scores)])]
    distances = distances_of(list(combined(systems)), "abc", words)
    assert sorted(cut) == ["one", "one two"]
    assert distances.edits.tolist() == [[0, 1, 1]]
    assert distances.lengths.tolist() == [[2, 1.5, 1.5]]


def test_an_utterance_that_a_system_lacks_does_not_count() -> None:
    whole = systems((0.05, 0.1, 0.2))
    _, before = seen(whole)
    whole["c"] = whole["c"][:150]
    _, after = seen(whole)
    assert np.allclose(before, after, rtol=0.3, atol=1)


def test_estimated_votes_lower_the_error_rate() -> None:
    lists = list(combined(systems((0.4, 0.35, 0.3, 0.05, 0.1))))
    by_agreement = rescore.evaluate(lists, decision="rover")
    equal = rescore.evaluate(lists, decision="rover", votes="equal")
    assert by_agreement.reranked is not None and equal.reranked is not None
    assert by_agreement.reranked < 0.8 * equal.reranked
    assert "|votes:agreement|" in by_agreement.signature
    mixture = by_agreement.choice.mixture
    assert isinstance(mixture, Mixture) and mixture.estimated
    assert equal.choice.mixture is None


def test_votes_are_refused_where_nothing_reads_them() -> None:
    lists = list(combined(systems((0.1, 0.2, 0.3), number=20)))
    weights = rescore.tune(lists)
    with pytest.raises(UserError, match="the weights have votes"):
        rescore.evaluate(lists, weights, votes="equal")
    single = systems((0.1,), number=20)["a"]
    with pytest.raises(UserError, match="not combined"):
        rescore.evaluate(single, votes="equal")
    with pytest.raises(UserError):
        rescore.tune(lists, votes="equal")


def test_votes_are_refused_before_models_are_loaded() -> None:
    def load() -> list[LanguageModel]:
        raise AssertionError("a model is loaded")

    config = with_option(RunConfig(lms=("tta",), weights=(0.3,)), "votes", "equal")
    with pytest.raises(UserError, match="--votes equal: the lists are not combined"):
        resolve(config, systems((0.1,), number=20)["a"], load=load)
    with pytest.raises(UserError, match="serve takes no votes"):
        Rescorer(lambda sentences: [0.0 for _ in sentences], 0.3, config)


def test_no_reference_is_read() -> None:
    outputs = systems((0.1, 0.2, 0.3))
    for lists in outputs.values():
        for nbest in lists:
            nbest.references = ("nothing of this was said",)
    assert seen(outputs) == seen(systems((0.1, 0.2, 0.3)))


def test_words_are_compared_as_the_metric_does() -> None:
    outputs = systems((0.1, 0.1, 0.1), number=30)
    for nbest in outputs["a"]:
        hypothesis = nbest.hypotheses[0]
        nbest.hypotheses[0] = Hypothesis(hypothesis.text.upper(), hypothesis.scores)
    words = METRICS["wer"]().words
    result = Agreement.of(list(combined(outputs)), list(outputs), words)
    assert min(result.votes.values()) > 0.98


@pytest.mark.parametrize(
    ("rates", "is_far"), [((0.04, 0.25, 0.3), True), ((0.15, 0.2, 0.25), False)]
)
def test_a_system_far_better_than_all_others_is_told(
    rescore: Run, tmp_path: Path, rates: tuple[float, ...], is_far: bool
) -> None:
    paths = []
    for name, lists in systems(rates).items():
        rows = (f"{one.hypotheses[0].text} ({one.id})\n" for one in lists)
        (tmp_path / f"{name}.trn").write_text("".join(rows), encoding="utf-8")
        paths.append(f"{name}.trn")
    done = rescore("combine", *paths, "-o", "all.jsonl")
    assert done.returncode == 0, done.stderr
    assert ("a is estimated to be far better" in done.stderr) == is_far


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        ((0.06, 0.1, 0.1, 0.1), 0.3),  # not far better: half of all votes
        ((0.04, 0.1, 0.1, 0.1), 1.0),  # below half of the median
    ],
)
def test_one_system_alone_decides_only_if_it_is_far_better(
    rates: tuple[float, ...], expected: float
) -> None:
    """The votes of C^-1 1 gave one of fourteen systems 1, all others 0.007 or less."""
    votes = without_majority(np.array([1.0, 0.1, 0.1, 0.1]), np.array(rates))
    assert votes.tolist() == pytest.approx([expected, 0.1, 0.1, 0.1])
    equal = np.array([1.0, 0.5, 0.5])
    assert without_majority(equal, np.array([0.1, 0.1, 0.1])).tolist() == equal.tolist()


@pytest.mark.parametrize("own", [0.0, 0.002, 0.01])
def test_relatives_of_almost_equal_quality_have_almost_equal_votes(own: float) -> None:
    """The votes of C^-1 1 give one of two near relatives almost all votes."""
    outputs = systems((0.1, 0.13, 0.16, 0.2, 0.25))
    draw = random.Random(7)
    relative = []
    for nbest in outputs["a"]:
        text = " ".join(heard(nbest.hypotheses[0].text.split(), own, draw))
        relative.append(NbestList(nbest.id, [Hypothesis(text, {FIRST_PASS: 0.0})]))
    outputs["r"] = relative
    votes, _ = seen(outputs)
    assert votes["r"] == pytest.approx(votes["a"], rel=0.15)
    assert 0.3 < votes["a"] < 0.8


def test_effective_number_of_voters() -> None:
    outputs = systems((0.1, 0.1, 0.1))
    result = Agreement.of(list(combined(outputs)), list(outputs), str.split)
    assert result.voter_count == pytest.approx(3.0, abs=0.01)
    outputs["copy"] = outputs["c"]
    result = Agreement.of(list(combined(outputs)), list(outputs), str.split)
    assert result.voter_count == pytest.approx(3.6, abs=0.01)
