"""Sums of sufficient statistics give what jiwer and sacreBLEU give on the whole."""

from __future__ import annotations

import jiwer
import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.metrics import choose_metric, list_statistics, oracle, total, value
from rescore.metrics.base import check_measurable
from rescore.metrics.mt import Bleu, Chrf, Ter, looks_tokenised
from rescore.metrics.significance import paired_randomisation
from rescore.metrics.wer import CharacterErrorRate, ErrorRate
from rescore.nbest import Hypothesis, NbestList

TEXT = st.lists(st.sampled_from(list("abcdef")), max_size=8).map(" ".join)
PAIRS = st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(PAIRS)
def test_character_error_rate_is_jiwers(pairs: list[tuple[str, str]]) -> None:
    references, hypotheses = (
        [f"x {reference}".strip() for reference, _ in pairs],
        [text for _, text in pairs],
    )
    metric = CharacterErrorRate()
    sums = metric.statistics(
        hypotheses, [(reference,) for reference in references]
    ).sum(axis=0)
    output = jiwer.process_characters(references, hypotheses)
    assert value(metric, sums) == pytest.approx(100 * output.cer)
    assert sums.tolist()[:3] == [
        output.substitutions,
        output.deletions,
        output.insertions,
    ]


@settings(max_examples=30, deadline=None)
@given(PAIRS)
def test_chrf_and_ter_are_sacrebleus(pairs: list[tuple[str, str]]) -> None:
    references, hypotheses = (
        [f"x{reference}" for reference, _ in pairs],
        [text for _, text in pairs],
    )
    for metric, corpus in (
        (Chrf(), sacrebleu.corpus_chrf),
        (Ter(), sacrebleu.corpus_ter),
    ):
        rows = metric.statistics(hypotheses, [(reference,) for reference in references])
        assert value(metric, rows.sum(axis=0)) == pytest.approx(
            corpus(hypotheses, [references]).score
        )
        sentences = [
            corpus([text], [[reference]]).score
            for text, reference in zip(hypotheses, references, strict=True)
        ]
        assert metric.sentence_values(rows) == pytest.approx(sentences)
        assert metric.versions["sacrebleu"] == sacrebleu.__version__


def test_ter_with_several_references() -> None:
    rows = Ter().statistics(["a b c", "d"], [("a x c", "a b c d"), ("d",)])
    wanted = (
        sacrebleu.metrics.TER().corpus_score(["a b c"], [["a x c"], ["a b c d"]]).score
    )
    assert Ter().values(rows[:1])[0] == pytest.approx(wanted)


@settings(max_examples=60, deadline=None)
@given(PAIRS)
def test_sentence_bleu_is_sacrebleus(pairs: list[tuple[str, str]]) -> None:
    bleu = Bleu(tokenise="none")
    rows = bleu.statistics(
        [text for _, text in pairs], [(f"x {reference}",) for reference, _ in pairs]
    )
    expected = [
        sacrebleu.sentence_bleu(text, [f"x {reference}"], tokenize="none").score
        for reference, text in pairs
    ]
    assert bleu.sentence_values(rows) == pytest.approx(expected)
    assert bleu.values(rows) == pytest.approx(
        [
            sacrebleu.corpus_bleu([text], [[f"x {reference}"]], tokenize="none").score
            for reference, text in pairs
        ]
    )


@settings(max_examples=60, deadline=None)
@given(PAIRS, st.sampled_from(["none", "13a", "char"]))
def test_bleu_is_sacrebleus(pairs: list[tuple[str, str]], tokenise: str) -> None:
    references, hypotheses = (
        [f"x, {reference}." for reference, _ in pairs],
        [text for _, text in pairs],
    )
    metric = Bleu(tokenise=tokenise)
    sums = metric.statistics(
        hypotheses, [(reference,) for reference in references]
    ).sum(axis=0)
    expected = sacrebleu.corpus_bleu(
        hypotheses, [references], tokenize=tokenise, force=True
    ).score
    assert value(metric, sums) == pytest.approx(expected)


def test_several_references() -> None:
    """The fewest errors; of one each, sclite takes the deletion, which costs less than
    a substitution.
    """
    counts = ErrorRate().statistics(
        ["a b c", "d", "a b"], [("a x c", "a b c d"), ("d",), ("a c", "x b", "x y b")]
    )
    assert counts.tolist() == [[0, 1, 0, 4], [0, 0, 0, 1], [1, 0, 0, 2]]
    bleu = Bleu(tokenise="none")
    sums = bleu.statistics(["a b c d e"], [("x", "a b c d e")]).sum(axis=0)
    assert value(bleu, sums) == pytest.approx(100)


def test_signatures_name_settings_and_versions() -> None:
    assert ErrorRate().settings == {"case": "lc", "tok": "space", "align": "sclite"}
    assert Bleu(tokenise="none").settings["tok"] == "none" and Bleu(
        tokenise="none"
    ).versions == {"sacrebleu": sacrebleu.__version__}
    assert CharacterErrorRate().versions.keys() == {"jiwer", "rapidfuzz"}


def lists() -> list[NbestList]:
    one = NbestList(
        "u1", [Hypothesis("a c", {"s2s": -1}), Hypothesis("a b", {"s2s": -2})], ("a b",)
    )
    two = NbestList(
        "u2", [Hypothesis("", {"s2s": -1}), Hypothesis("", {"s2s": -3})], ("c d",)
    )
    return [one, two]


def test_oracle_takes_the_first_of_equals() -> None:
    metric = ErrorRate()
    statistics = list_statistics(metric, lists())
    assert oracle(metric, statistics) == [1, 0]
    assert value(metric, total(statistics, [1, 0])) == 50


def test_references_are_needed() -> None:
    with pytest.raises(UserError, match="utterance u: no reference"):
        list_statistics(ErrorRate(), [NbestList("u", [Hypothesis("a")])])
    empty = [NbestList("u", [Hypothesis("a")], ("",))]
    with pytest.raises(UserError, match="all references are empty"):
        check_measurable(ErrorRate(), Dataset.of(empty), "no")
    (counts,) = list_statistics(ErrorRate(), empty)
    assert np.isnan(value(ErrorRate(), counts[0]))
    assert ErrorRate().details(counts[0])["insertions"] == 1


def test_choice_of_metric() -> None:
    asr = [NbestList("u", [Hypothesis("a")], ("A b .",))]
    mt = [NbestList("u", [Hypothesis("a")], ("a b .",), source="x")]
    plain = [NbestList("u", [Hypothesis("a")], ("A b.",), source="x")]
    assert choose_metric(None, Dataset.of(asr)).name == "WER"
    assert choose_metric(None, Dataset.of(mt)).settings["tok"] == "none"
    assert choose_metric(None, Dataset.of(plain)).settings["tok"] == "13a"
    assert choose_metric("cer", mt).name == "CER"
    assert not looks_tokenised([])


def test_paired_randomisation() -> None:
    metric = ErrorRate()
    random = np.random.default_rng(0)
    noise = [np.array([n, 0, 0, 10]) for n in random.integers(0, 4, 200)]
    same = [
        np.array([n, 0, 0, 10]) for n in random.permutation([row[0] for row in noise])
    ]
    better = [np.array([max(0, row[0] - 1), 0, 0, 10]) for row in noise]
    assert paired_randomisation(metric, noise, better, trials=999) == pytest.approx(
        1 / 1000
    )
    assert paired_randomisation(metric, noise, same, trials=999) > 0.9
    assert paired_randomisation(metric, noise, noise, trials=99) == 1
