"""What was respelled."""

from __future__ import annotations

from dataclasses import replace

from rescore.metrics import choose_metric
from rescore.nbest import Hypothesis, NbestList, Origin
from rescore.reports.analysis import Changes, analyse
from rescore.reports.analysis import render as render_analysis
from rescore.reports.words import Respelled, respellings
from rescore.tuning.weights import Weights


def heard(text: str, *more: str, reference: str) -> NbestList:
    hypotheses = [Hypothesis(text, {"s2s": -1.0, "edits": 0.0})]
    hypotheses += [Hypothesis(one, {"s2s": -1.0, "edits": 1.0}, Origin.RESPELLED) for one in more]
    return NbestList("u", hypotheses, (reference,))


LISTS = [
    heard("the old lanter", "the old lantern", reference="the old lantern"),
    heard("an old lanter", "an old lantern", reference="an old banter"),
    heard("HOWLESS can it be", "HOW ELSE can it be", reference="how else can it be"),
    heard("the lanter", "the lantern", reference="the lanter"),
    heard("the clokc", "the clock", reference="the clock"),
]
TEXTS = ["the old lantern", "an old lantern", "HOW ELSE can it be", "the lantern", "the clokc"]


def test_an_example() -> None:
    metric = choose_metric("wer", LISTS)
    found = respellings(metric, LISTS, TEXTS)
    assert found == [Respelled("lanter", "lantern", 3, (1, 1, 1)), Respelled("howless", "how else", 1, (1, 0, 0))]


def test_the_analysis_counts_them() -> None:
    metric = choose_metric("wer", LISTS)
    weights = Weights({"s2s": 1.0, "edits": 0.1}, "given")
    found = analyse(metric, LISTS, weights, TEXTS)
    assert found.respelled == Changes(4, 2, 1, 1)
    assert "respelled words: 4, better 2, worse 1, neither 1" in render_analysis(found)
    plain = [NbestList(nbest.id, [Hypothesis(nbest.hypotheses[0].text, {"s2s": -1.0})], ("x",)) for nbest in LISTS]
    assert analyse(metric, plain, Weights({"s2s": 1.0}, "given")).respelled is None


def test_the_order_of_the_file_as_the_first_pass() -> None:
    lists = [
        replace(nbest, hypotheses=[replace(one, scores={"s2s": -float(rank)}) for rank, one in enumerate(some)])
        for nbest in LISTS
        for some in [nbest.hypotheses]
    ]
    metric = choose_metric("wer", lists)
    assert respellings(metric, lists, TEXTS) == respellings(metric, LISTS, TEXTS)
    lists = [replace(nbest, hypotheses=nbest.hypotheses[1:]) for nbest in LISTS]
    assert respellings(metric, lists, TEXTS) == []


def test_without_references() -> None:
    metric = choose_metric("wer", LISTS)
    lists = [NbestList(nbest.id, nbest.hypotheses) for nbest in LISTS]
    found = respellings(metric, lists, TEXTS)
    assert found[0] == Respelled("lanter", "lantern", 3, None)
    assert respellings(metric, lists, ["the old lanter"] * 5) == []
