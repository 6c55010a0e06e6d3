"""Errors by jiwer: the fast counts are jiwer's, and signatures name what was called."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import pytest
import sacrebleu.metrics.base
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from rescore.errors import UserError
from rescore.metrics import METRICS, Normaliser, choose_metric
from rescore.metrics.edits import edit_counts, jiwer_counts
from rescore.metrics.wer import (
    CharacterErrorRate,
    ErrorRate,
    MixedErrorRate,
    WordErrorRate,
)
from tests.conftest import OF_TEXTS, ROOT, Run, assert_one_line_error

LISTS = ROOT / "data" / "test.json"
UNITS = st.lists(st.tuples(st.text("ab c\u00e9\u4e00", max_size=12), st.text("ab c")))


@given(UNITS)
def test_fast_counts_are_jiwers(pairs: list[tuple[str, str]]) -> None:
    references = [reference for reference, _ in pairs]
    hypotheses = [hypothesis for _, hypothesis in pairs]
    counted = edit_counts(references, hypotheses).tolist()
    assert counted == jiwer_counts(references, hypotheses).tolist()
    assert len(counted) == len(pairs)


SENTENCE = st.lists(st.sampled_from(["a", "b", "B", "\u4e00\u4e01"]), max_size=7)
PAIRS = st.lists(st.tuples(SENTENCE, SENTENCE), min_size=1, max_size=8)


@given(PAIRS)
def test_word_errors_are_jiwers(pairs: list[tuple[list[str], list[str]]]) -> None:
    references = [" ".join(reference) for reference, _ in pairs]
    hypotheses = [" ".join(hypothesis) for _, hypothesis in pairs]
    metric = WordErrorRate(align="jiwer", normaliser=Normaliser(case_sensitive=True))
    rows = metric.statistics(hypotheses, [(text,) for text in references])
    output = jiwer.process_words(references, hypotheses)
    errors = [output.substitutions, output.deletions, output.insertions]
    assert rows.sum(axis=0)[:3].tolist() == errors
    if any(references):
        assert metric.values(rows.sum(axis=0)[None])[0] == pytest.approx(
            100 * output.wer
        )


@pytest.mark.parametrize(
    "metric",
    [WordErrorRate(align="jiwer"), MixedErrorRate(align="jiwer"), CharacterErrorRate()],
    ids=["WER", "MER", "CER"],
)
@given(PAIRS)
def test_reports_have_the_counts_of_the_search(
    metric: ErrorRate, pairs: list[tuple[list[str], list[str]]]
) -> None:
    """Also where the closest of several references counts."""
    hypotheses = [" ".join(hypothesis) for _, hypothesis in pairs]
    references = [(" ".join(text), "a b", "") for text, _ in pairs]
    np.testing.assert_array_equal(
        metric.statistics(hypotheses, references),
        metric.for_reports.statistics(hypotheses, references),
    )
    assert metric.for_reports is not metric and not metric.by_library


def test_the_alignments_differ_where_costs_do() -> None:
    """Three substitutions and a deletion are the fewest errors; in sclite three
    deletions and two insertions cost as much, and are taken first.
    """
    reference, hypothesis = "c c c b a", "b a a b"
    by_sclite = WordErrorRate().statistics([hypothesis], [(reference,)])
    by_jiwer = WordErrorRate(align="jiwer").statistics([hypothesis], [(reference,)])
    assert by_sclite.tolist() == [[0, 3, 2, 5]]
    assert by_jiwer.tolist() == [[3, 1, 0, 5]]


@pytest.mark.parametrize(("align", "errors"), [("sclite", 5), ("jiwer", 4)])
def test_the_losses_of_pairs_are_in_the_same_alignment(align: str, errors: int) -> None:
    losses = WordErrorRate(align=align).pair_losses(["b a a b", "c c c b a"])
    places = np.arange(2)
    assert losses(places[:1], places).tolist() == [[0, errors]]


def test_the_option_of_the_command_line(rescore: Run, tmp_path: Path) -> None:
    """The figures are jiwer's, the signature says so, and weights remember it."""
    by_jiwer = ("--align", "jiwer", "--report", "r.json", "--best", "best")
    done = rescore(LISTS, "--metric", "wer", *by_jiwer)
    assert done.returncode == 0, done.stderr
    (figures,) = json.loads((tmp_path / "r.json").read_text())["metrics"]
    assert "|tok:space|align:jiwer|" in figures["signature"]
    lists = json.loads(LISTS.read_text(encoding="utf-8"))
    best = dict(
        line.split(maxsplit=1) for line in (tmp_path / "best").read_text().splitlines()
    )
    references = [one["ref"].lower() for one in lists.values()]
    output = jiwer.process_words(references, [best[name].lower() for name in lists])
    counts = figures["counts"]["reranked"]
    assert counts["substitutions"] == output.substitutions
    assert counts["deletions"] == output.deletions
    assert counts["insertions"] == output.insertions
    assert figures["reranked"] == pytest.approx(100 * output.wer)


def test_kaldialign_and_jiwer_exclude_each_other() -> None:
    with pytest.raises(UserError, match="leave out one of the two options"):
        WordErrorRate(align="jiwer", normaliser=Normaliser(open_asr="en"))


def test_unknown_alignments_are_refused(rescore: Run) -> None:
    assert_one_line_error(rescore("eval", LISTS, "--align", "kaldi"), "kaldi")


CALLED = {
    "jiwer": (jiwer, "process_words"),
    "rapidfuzz": (Levenshtein, "opcodes"),
    "sacrebleu": (sacrebleu.metrics.base.Metric, "_extract_corpus_statistics"),
}
"""A function of each library that signatures name, which counts the figures."""


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, ()) for name in OF_TEXTS if name != "comet"),
        ("wer", ("--align", "jiwer")),
        ("mer", ("--align", "jiwer")),
    ],
)
def test_libraries_of_signatures_are_called(
    rescore: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    options: tuple[str, ...],
) -> None:
    """`comet` needs a model that is downloaded; tests/mt/test_comet.py has it. Metrics
    of meeteval are in tests/asr/test_sessions.py.
    """
    called: set[str] = set()

    def spy(library: str, function: Any) -> Any:
        def count(*arguments: Any, **named: Any) -> Any:
            # sacreBLEU scores one text to make its signature
            if any(isinstance(one, list) and len(one) > 1 for one in arguments):
                called.add(library)
            return function(*arguments, **named)

        return count

    for library, (place, attribute) in CALLED.items():
        monkeypatch.setattr(place, attribute, spy(library, getattr(place, attribute)))
    (tmp_path / "words").write_text("the\nclock\n")
    if "words" in METRICS[name].Options.__dataclass_fields__:
        options = (*options, "--words", "words")
    done = rescore("eval", LISTS, "--metric", name, *options)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    (signature,) = [line for line in lines if line.lower().startswith(f"{name}|")]
    versions = signature.partition("|rescore:")[2]
    named = set(re.findall(r"\|([\w-]+):", versions))
    assert named == called, signature


def test_signatures_of_error_rates_by_sclite_name_no_library() -> None:
    assert not choose_metric("wer", []).versions
