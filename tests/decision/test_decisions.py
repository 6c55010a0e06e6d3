"""Minimum Bayes risk against its definition, and votes that can be counted by hand."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from rescore.asr import rover
from rescore.asr.features import RESPELLED
from rescore.columns import FIRST_PASS, FIRST_PASS_ORIGIN
from rescore.dataset import Dataset
from rescore.decision import (
    Choice,
    Decision,
    best,
    combine,
    posteriors,
    risk,
    sorted_by_score,
)
from rescore.decision.risk import compared
from rescore.errors import UserError
from rescore.formats import read, write
from rescore.metrics.alignment import align
from rescore.metrics.base import Metric, text_value
from rescore.metrics.counting import error_counts
from rescore.metrics.mt import Bleu, Chrf
from rescore.metrics.wer import CharacterErrorRate, ErrorRate
from rescore.nbest import Hypothesis, NbestList, tie_key, tie_order
from rescore.reports.figures import Figures
from rescore.tuning import scale
from rescore.tuning.scale import scale_grid, tune_scale
from tests.conftest import ROOT
from tests.decision.plain import (
    aligned,
    confusion_network,
    least_risk,
    losses,
    paired,
    vote,
)

SENTENCES = st.lists(
    st.lists(st.sampled_from(list("abc")), max_size=5), min_size=1, max_size=6
)
WEIGHTS = {"s2s": 1.0}


def nbest(*scored: tuple[str, float], reference: str = "a") -> NbestList:
    return NbestList(
        "u", [Hypothesis(text, {"s2s": score}) for text, score in scored], (reference,)
    )


@settings(max_examples=60, deadline=None)
@given(SENTENCES, st.sampled_from([0.1, 1.0, 3.0]))
def test_least_risk_is_the_definition(sentences: list[list[str]], scale: float) -> None:
    one = nbest(
        *((" ".join(words), -float(rank % 3)) for rank, words in enumerate(sentences))
    )
    known = [(words, rank % 3) for rank, words in enumerate(sentences)]
    # A text that a list has twice with equal scores is one hypothesis.
    weights = [
        np.exp(-scale * (rank % 3)) * (known.index(known[rank]) == rank)
        for rank in range(len(sentences))
    ]
    risks = [
        sum(
            p * error_counts([other], [words])[0].sum()
            for other, p in zip(sentences, weights, strict=True)
        )
        for words in sentences
    ]
    chosen = Choice(WEIGHTS, decision=Decision("mbr", scale)).texts(
        ErrorRate(), Dataset.of([one])
    )[0]
    assert risks[sentences.index(chosen.split())] == pytest.approx(min(risks))


@pytest.mark.parametrize("weight", [0.5, -0.5])
@pytest.mark.parametrize("name", ["best", "mbr", "rover"])
def test_minus_infinity_is_impossible_under_every_weight(
    name: str, weight: float
) -> None:
    metric = ErrorRate()
    scores = {"z z": (-1.0, -np.inf), "a b": (-2.0, -1.0), "a": (-3.0, -2.0)}
    one = NbestList(
        "u",
        [
            Hypothesis(text, {"s2s": s2s, "lm": lm})
            for text, (s2s, lm) in scores.items()
        ],
        ("a b",),
    )
    scale = None if name == "best" else 1.0
    (chosen,) = Choice(
        {"s2s": 1.0, "lm": weight}, decision=Decision(name, scale)
    ).texts(metric, Dataset.of([one]))
    assert "z" not in chosen
    assert (
        sorted_by_score(one, Choice({"s2s": 1.0, "lm": weight})).hypotheses[-1].text
        == "z z"
    )
    # not asked
    (chosen,) = Choice({"s2s": 1.0, "lm": 0.0}, decision=Decision(name, scale)).texts(
        metric, Dataset.of([one])
    )
    assert "z" in chosen


def test_sums_that_no_float_holds() -> None:
    one = NbestList(
        "u",
        [
            Hypothesis(text, {"s2s": score, "lm": score})
            for text, score in (("a", 1e308), ("b", -1e308))
        ],
    )
    for name in ("best", "mbr", "rover"):
        scale = None if name == "best" else 1.0
        assert Choice({"s2s": 2.0, "lm": 2.0}, decision=Decision(name, scale)).texts(
            ErrorRate(), Dataset.of([one])
        ) == ["a"]


def test_losses_are_the_metrics_own() -> None:
    texts = ["the old clock ticked", "the old cluck ticked", "an old clock ticked on"]
    one = nbest(*((text, -1.0) for text in texts))
    for metric, score in (
        (Bleu(tokenise="none"), sacrebleu.sentence_bleu),
        (Chrf(), sacrebleu.sentence_chrf),
    ):
        (matrix,) = losses(metric, [one])
        options = {"tokenize": "none"} if isinstance(metric, Bleu) else {}
        assert matrix[0, 2] == pytest.approx(
            100 - score(texts[0], [texts[2]], **options).score
        )
        assert np.diag(matrix) == pytest.approx(0)
    (words,) = losses(ErrorRate(), [one])
    assert words.tolist() == [[0, 1, 2], [1, 0, 3], [2, 3, 0]]


@pytest.mark.parametrize(
    "metric",
    [ErrorRate(), CharacterErrorRate(), Bleu(tokenise="none"), Chrf()],
    ids=lambda one: one.name,
)
@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 1.0, 5.0]))
def test_bounds_do_not_change_a_choice(metric: Metric, seed: int, scale: float) -> None:
    """Long lists, in which texts come twice, have scores that are equal, and are nearly
    or quite equally good.
    """
    random = np.random.default_rng(seed)
    texts = [
        " ".join(random.choice(list("abcd"), random.integers(0, 9))) for _ in range(30)
    ]
    scored = [(text, -float(random.integers(0, 6))) for text in [*texts, *texts[:5]]]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(risk, "SHORT", 3)
        patch.setattr(risk, "RARE", 0.2)
        (bounded,) = compared(metric, [nbest(*scored)])
        every = np.stack(
            [
                posteriors([np.array([score for _, score in scored])], each)[0]
                for each in (scale, 2.0)
            ]
        )
        chosen = bounded.choose(every)
        some = np.flatnonzero(random.random(len(scored)) < 0.7)
        fewer = every[:, some] / every[:, some].sum(axis=1, keepdims=True)
        chosen_of_some = bounded.among(some).choose(fewer)
    (whole,) = losses(metric, [nbest(*scored)])
    assert chosen.tolist() == [least_risk(whole, shares) for shares in every]
    assert chosen_of_some.tolist() == [
        least_risk(whole[np.ix_(some, some)], shares) for shares in fewer
    ]


@pytest.mark.parametrize(
    "metric",
    [ErrorRate(), CharacterErrorRate(), Bleu(tokenise="none"), Chrf()],
    ids=lambda one: one.name,
)
def test_losses_between_some_are_computed_once(metric: Metric) -> None:
    """Searches that keep other hypotheses of one list share losses, which are those of
    the definition; few pairs are computed beside the pairs of kept hypotheses.
    """
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(list("abcd"), 8)) for _ in range(40)]
    one = nbest(*[(text, 0.0) for text in [*texts, *texts[:5]]])
    (whole,) = losses(metric, [one])
    (shared,) = compared(metric, [one])
    pairs = 0
    square = shared._square
    compute = square._compute

    def counted(choices: np.ndarray, right: np.ndarray) -> np.ndarray:
        nonlocal pairs
        pairs += len(choices) * len(right)
        return compute(choices, right)

    square._compute = counted
    kept = np.arange(0)
    for _ in range(5):
        some = np.sort(random.choice(20, 10, replace=False)) + 25
        kept = np.union1d(kept, some % 40)
        matrix = shared.among(some).matrix()
        assert matrix.tolist() == whole[np.ix_(some, some)].tolist()
        fewer = some[2:7]
        matrix = shared.among(some).among(np.arange(2, 7)).matrix()
        assert matrix.tolist() == whole[np.ix_(fewer, fewer)].tolist()
    assert 10**2 < pairs == len(kept) ** 2


def test_a_pair_with_more_errors_than_its_edit_distance() -> None:
    random = np.random.default_rng(0)
    texts = ["".join(random.choice(list("abc"), 12)) for _ in range(300)]
    errors = error_counts(texts[1:], texts[:-1])
    for pair, counts in zip(pairwise(texts), errors.tolist(), strict=True):
        aligned_pairs = align(pair[1], pair[0])
        gaps = [sum(words[side] is None for words in aligned_pairs) for side in (1, 0)]
        assert counts == [
            sum(one != other for one, other in aligned_pairs) - sum(gaps),
            *gaps,
        ]
    assert any(
        errors.sum(axis=1) > [Levenshtein.distance(*pair) for pair in pairwise(texts)]
    )


def test_risk_prefers_the_middle_of_many() -> None:
    # The best single hypothesis is unlike all others, which agree with each other but
    # for a word.
    one = nbest(("x y z", -1.0), ("a b c", -1.2), ("a b d", -1.3), ("a b e", -1.3))
    assert Choice(WEIGHTS).texts(None, Dataset.of([one])) == ["x y z"]
    assert Choice(WEIGHTS, decision=Decision("mbr", 1.0)).texts(
        ErrorRate(), Dataset.of([one])
    ) == ["a b c"]
    # so sharp is the best alone
    assert Choice(WEIGHTS, decision=Decision("mbr", 50.0)).texts(
        ErrorRate(), Dataset.of([one])
    ) == ["x y z"]


def test_ties_are_deterministic() -> None:
    (same,) = compared(ErrorRate(), [nbest(("a a", 0.0), ("a a", 1.0), ("a a", 2.0))])
    assert same.choose(np.array([[0.25, 0.5, 0.25], [0.5, 0.5, 0.0]])).tolist() == [
        1,
        0,
    ]
    assert vote(confusion_network([["a"], ["b"]], [0.5, 0.5])) == ["a"]


@given(
    st.lists(
        st.tuples(
            st.sampled_from((-2.0, -1.0, -0.0, 0.0, None)),
            st.sampled_from((FIRST_PASS_ORIGIN, RESPELLED)),
            st.sampled_from((None, 0, 1, 2)),
        )
    )
)
def test_the_order_of_ties_is_the_order_of_one_key(
    rows: list[tuple[float | None, str, int | None]],
) -> None:
    """`tie_order` sorts by `tie_key` and the rank, one after another."""
    hypotheses = []
    for score, origin, rank in rows:
        scores = {} if score is None else {FIRST_PASS: score}
        hypotheses.append(Hypothesis("a", scores, origin, rank=rank))

    def key(place: int) -> tuple[bool, float, int]:
        return *tie_key(hypotheses[place]), hypotheses[place].rank or 0

    order = tie_order(NbestList("u", hypotheses))
    assert order == sorted(range(len(rows)), key=key)


def test_posteriors() -> None:
    assert posteriors([np.array([-1.0, -np.inf])], 2.0)[0].tolist() == [1, 0]
    assert posteriors([np.array([-np.inf, -np.inf])], 2.0)[0].tolist() == [1, 0]
    assert posteriors([np.array([-1e4, -1e4 - np.log(3)])], 1.0)[0] == pytest.approx(
        [0.75, 0.25]
    )


def test_votes() -> None:
    # No hypothesis has all words right; the vote has.
    sentences = ["the odd clock ticked", "the old clock licked", "an old clock ticked"]
    network = confusion_network(
        [sentence.split() for sentence in sentences], [0.4, 0.3, 0.3]
    )
    assert " ".join(vote(network)) == "the old clock ticked"
    assert all(sum(slot.values()) == pytest.approx(1) for slot in network)
    # A word that most do not have is left out, one that most have is put in.
    network = confusion_network(
        [["a", "b"], ["a", "c", "b"], ["a", "c", "b", "d"]], [0.4, 0.3, 0.3]
    )
    assert vote(network) == ["a", "c", "b"]


@settings(max_examples=60, deadline=None)
@given(SENTENCES)
def test_networks_hold_every_hypothesis(sentences: list[list[str]]) -> None:
    weights = np.arange(len(sentences), 0, -1) / sum(range(len(sentences) + 1))
    network = confusion_network(sentences, weights.tolist())
    assert all(sum(slot.values()) == pytest.approx(1) for slot in network)
    longest = max(map(len, sentences))
    assert len(network) >= longest
    words = sum(p * len(words) for words, p in zip(sentences, weights, strict=True))
    assert sum(
        mass for slot in network for word, mass in slot.items() if word is not None
    ) == pytest.approx(words)
    assert vote(confusion_network([sentences[0]] * 3, [0.2, 0.5, 0.3])) == sentences[0]


@settings(max_examples=80, deadline=None)
@given(SENTENCES)
def test_alignments_cost_the_least(sentences: list[list[str]]) -> None:
    weights = [0.4, 0.3, 0.2, 0.1, 0.05, 0.05][: len(sentences) - 1]
    network = confusion_network(sentences[:-1], weights)
    mass = sum(weights)
    words = sentences[-1]
    pairs = aligned(network, words, mass)
    assert [place for place, _ in pairs if place is not None] == [*range(len(network))]
    assert [word for _, word in pairs if word is not None] == words
    total = 0.0
    for place, word in pairs:
        if place is None:
            total += mass
        elif word is None:
            total += mass - network[place].get(None, 0.0)
        else:
            total += paired(network[place], word, mass)
    cost = mass * np.arange(len(words) + 1.0)
    for slot in network:
        row = cost + mass - slot.get(None, 0.0)
        for place, word in enumerate(words):
            match = cost[place] + paired(slot, word, mass)
            row[place + 1] = min(row[place + 1], match, row[place] + mass)
        cost = row
    assert total == pytest.approx(cost[-1])


def test_long_texts_are_voted_in_bounded_memory() -> None:
    random = np.random.default_rng(0)
    words = random.choice([f"w{number}" for number in range(500)], 2_000)
    texts = []
    for _ in range(3):
        wrong = random.permutation(words)
        texts.append(" ".join(np.where(random.random(2_000) < 0.1, wrong, words)))
    one = nbest(*((text, -1.0) for text in texts))
    tracemalloc.start()
    (voted,) = Choice(WEIGHTS, decision=Decision("rover", 1.0)).texts(
        None, Dataset.of([one])
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000 and (np.array(voted.split()) == words).mean() > 0.95


@pytest.mark.parametrize("name", ["mbr", "rover"])
def test_the_scale_is_tuned(name: str) -> None:
    random = np.random.default_rng(0)
    lists = [
        nbest(
            *(
                (" ".join(random.choice(list("abc"), 4)), float(random.normal()))
                for _ in range(6)
            ),
            reference=" ".join(random.choice(list("abc"), 4)),
        )
        for _ in range(30)
    ]
    tuned, _ = tune_scale(
        Choice(WEIGHTS, decision=Decision(name)), ErrorRate(), Dataset.of(lists)
    )
    values = [
        text_value(
            ErrorRate(),
            lists,
            Choice(WEIGHTS, decision=Decision(name, scale)).texts(
                ErrorRate(), Dataset.of(lists)
            ),
        )
        for scale in scale_grid([combine(nbest, Choice(WEIGHTS)) for nbest in lists])
    ]
    assert text_value(
        ErrorRate(),
        lists,
        Choice(WEIGHTS, decision=tuned).texts(ErrorRate(), Dataset.of(lists)),
    ) == min(values)
    # The sharpest posteriors leave the best hypothesis alone.
    sharp = Choice(WEIGHTS, decision=Decision(name, 1e6)).texts(
        ErrorRate(), Dataset.of(lists)
    )
    assert sharp == [
        one.hypotheses[index].text
        for one, index in zip(lists, best(lists, Choice(WEIGHTS)), strict=True)
    ]


def test_many_lists_are_aligned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    lists = read([ROOT / "data" / "test.json"])
    exact = tune_scale(
        Choice(WEIGHTS, decision=Decision("rover")), ErrorRate(), Dataset.of(lists)
    )
    alignments = []
    aligned_lists = rover.networks
    monkeypatch.setattr(
        rover, "networks", lambda *each: alignments.append(0) or aligned_lists(*each)
    )
    tune_scale(
        Choice(WEIGHTS, decision=Decision("rover")), ErrorRate(), Dataset.of(lists)
    )
    each = len(alignments)
    monkeypatch.setattr(scale, "MANY", sum(len(nbest.hypotheses) for nbest in lists))
    held = tune_scale(
        Choice(WEIGHTS, decision=Decision("rover")), ErrorRate(), Dataset.of(lists)
    )
    assert held[0] == exact[0] and (held[1] == exact[1]).all()
    assert len(alignments) - each < each / 5


def test_a_scale_is_needed() -> None:
    with pytest.raises(UserError, match="give --scale, or tune it"):
        Choice(WEIGHTS, decision=Decision("mbr")).texts(
            ErrorRate(), Dataset.of([nbest(("a", -1.0))])
        )


@pytest.mark.parametrize("last", [-1.0, -1.5])
def test_reranked_lists_keep_the_toolkits_order_of_equals(
    last: float, tmp_path: Path
) -> None:
    """The first of equal scores is the first pass, and the first of equally many errors
    is the oracle.
    """
    one = nbest(
        ("first", -1.0), ("second", -1.0 if last == -1.0 else -1.2), ("third", last)
    )
    for hypothesis, lm in zip(one.hypotheses, (-3.0, -2.0, -1.0), strict=True):
        hypothesis.scores["lm"] = lm
    weights = {"s2s": 0.5, "lm": 0.5}
    write([sorted_by_score(one, Choice(weights))], str(tmp_path / "o.jsonl"))
    (again,) = read([tmp_path / "o.jsonl"])
    assert [hypothesis.text for hypothesis in again.hypotheses] == [
        "third",
        "second",
        "first",
    ]
    assert (
        Choice(WEIGHTS).texts(None, Dataset.of([again])) == ["first"]
        and sorted_by_score(again, Choice(weights)) == again
    )
    figures = Figures(ErrorRate(), Dataset.of([replace(again, references=("word",))]))
    assert [text.text for text in figures.at(figures.oracle_indices())] == ["first"]


def test_of_equals_the_given_ones_come_first() -> None:
    """A respelled hypothesis has the first-pass score of its origin; the order of a
    file must not decide.
    """
    new, ours = (
        Hypothesis("new", {"s2s": -1.0}, RESPELLED),
        Hypothesis("given", {"s2s": -1.0}),
    )
    for hypotheses in ([new, ours], [ours, new]):
        nbest = NbestList("u", hypotheses)
        assert hypotheses[best([nbest], Choice({"s2s": 1.0}))[0]] is ours
        assert (
            sorted_by_score(nbest, Choice({"s2s": 1.0})).hypotheses[0].text == "given"
        )
    alone = NbestList("u", [new])
    assert best([alone], Choice({"s2s": 1.0})) == [0]
