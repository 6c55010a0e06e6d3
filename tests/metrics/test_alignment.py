"""Alignments against the cheapest of all, and counts against sclite itself."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescore import decision, formats
from rescore.decision import Choice
from rescore.metrics import Normaliser, list_statistics
from rescore.metrics.alignment import _diagonals, _last_steps, align, table_size
from rescore.metrics.counting import MOST, batches, error_counts
from rescore.metrics.wer import ErrorRate, WordErrorRate
from tests.conftest import ROOT, shared

WORDS = st.lists(st.sampled_from(list("abcd")), max_size=9)


def counts_of(pairs: list[tuple[str | None, str | None]]) -> list[int]:
    return [
        sum(None not in (ours, theirs) and ours != theirs for ours, theirs in pairs),
        sum(theirs is None for _, theirs in pairs),
        sum(ours is None for ours, _ in pairs),
    ]


def cheapest(reference: tuple[str, ...], hypothesis: tuple[str, ...]) -> int:
    @cache
    def cost(i: int, j: int) -> int:
        if not i or not j:
            return 3 * (i + j)
        change = 4 * (reference[i - 1] != hypothesis[j - 1])
        return min(cost(i - 1, j - 1) + change, cost(i - 1, j) + 3, cost(i, j - 1) + 3)

    return cost(len(reference), len(hypothesis))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=8))
def test_counts_are_those_of_the_cheapest_alignment(
    pairs: list[tuple[list[str], list[str]]],
) -> None:
    found = error_counts(
        [reference for reference, _ in pairs], [hypothesis for _, hypothesis in pairs]
    )
    for (reference, hypothesis), row in zip(pairs, found.tolist(), strict=True):
        aligned = align(reference, hypothesis)
        assert [ours for ours, _ in aligned if ours is not None] == reference
        assert [theirs for _, theirs in aligned if theirs is not None] == hypothesis
        assert row == counts_of(aligned)
        assert 4 * row[0] + 3 * row[1] + 3 * row[2] == cheapest(
            tuple(reference), tuple(hypothesis)
        )


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=8))
def test_long_texts_have_the_counts_of_short_texts(
    pairs: list[tuple[list[str], list[str]]],
) -> None:
    references = [reference for reference, _ in pairs]
    hypotheses = [hypothesis for _, hypothesis in pairs]
    short = error_counts(references, hypotheses)
    for most in (30, MOST):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("rescore.metrics.counting.LONG", -1)
            patch.setattr("rescore.metrics.counting.MOST", most)
            long = error_counts(references, hypotheses)
        assert long.tolist() == short.tolist()


def test_long_texts_that_are_alike_have_small_tables() -> None:
    """A table has a row for each word of the reference, and the columns that cheapest
    alignments can pass.
    """
    words = list(map(str, range(5000)))
    heard = [*words[:100], "x", *words[101:4000], *words[4010:], "y"]
    low, high = _diagonals(words, heard)
    steps = _last_steps(words, heard, low, high)
    assert steps.size == table_size(words, heard) < 20 * 5001
    edits = [pair for pair in align(words, heard) if pair[0] != pair[1]]
    gone = [(word, None) for word in words[4000:4010]]
    assert edits == [("100", "x"), *gone, (None, "y")]


@pytest.mark.parametrize(("limit", "number"), [("BATCH", 7), ("LETTERS", 100)])
def test_batches_change_nothing(
    limit: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    texts = [
        [
            "".join(word)
            for word in random.choice(list("ab"), (random.integers(0, 40), 2))
        ]
        for _ in range(80)
    ]
    whole = error_counts(texts[:40], texts[40:])
    assert len(list(batches(texts[:40], texts[40:]))) == 1
    monkeypatch.setattr(f"rescore.metrics.counting.{limit}", number)
    assert len(list(batches(texts[:40], texts[40:]))) > 5
    assert (error_counts(texts[:40], texts[40:]) == whole).all()


@pytest.mark.parametrize("align", ["sclite", "jiwer"])
def test_more_words_than_characters(
    align: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number of a word is a character: texts beyond the limit are counted apart."""
    texts = [f"{number} {number + 1}" for number in range(50)]
    metric = WordErrorRate(align=align).for_reports
    whole = metric.statistics(texts, [(text,) for text in texts[::-1]])
    monkeypatch.setattr("rescore.metrics.counting.LETTERS", 10)
    monkeypatch.setattr("rescore.metrics.counting.chr", limited_chr, raising=False)
    found = metric.statistics(texts, [(text,) for text in texts[::-1]])
    assert (found == whole).all()


def limited_chr(number: int) -> str:
    """Return a character, as if there were ten."""
    assert number < 10
    return chr(number)


def sclite() -> str:
    found = shutil.which("sclite") or shutil.which("sclite", path="/usr/lib/sctk/bin")
    if found is None:
        pytest.skip("needs sclite (Debian's package sctk)")
    return found


def sclite_counts(
    folder: Path, references: list[str], hypotheses: list[str]
) -> list[list[int]]:
    """Substitutions, deletions, insertions of each utterance as sclite counts them."""
    for name, texts in (("ref.trn", references), ("hyp.trn", hypotheses)):
        lines = [f"{text} (spk-{index:06d})\n" for index, text in enumerate(texts)]
        (folder / name).write_text("".join(lines), encoding="utf-8")
    command = [
        sclite(),
        "-r",
        "ref.trn",
        "trn",
        "-h",
        "hyp.trn",
        "trn",
        "-i",
        "rm",
        "-o",
        "pra",
        "-n",
        "out",
    ]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    text = (folder / "out.pra").read_text(encoding="utf-8")
    found = re.findall(
        r"^id: \(spk-(\d+)\)\nScores: \(#C #S #D #I\) \d+ (\d+) (\d+) (\d+)",
        text,
        re.MULTILINE,
    )
    table = {int(number): [int(count) for count in counts] for number, *counts in found}
    return [table[index] for index in range(len(references))]


@pytest.mark.tools
def test_random_counts_are_sclites(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    texts = [
        " ".join(random.choice(list("aBcD"), random.integers(1, 25)))
        for _ in range(600)
    ]
    found = ErrorRate().statistics(texts[300:], [(text,) for text in texts[:300]])
    assert found[:, :3].tolist() == sclite_counts(tmp_path, texts[:300], texts[300:])


@pytest.mark.tools
@pytest.mark.parametrize("lists", ["shipped", "librispeech-other"])
def test_counts_of_all_hypotheses_are_sclites(lists: str, tmp_path: Path) -> None:
    path = (
        ROOT / "data" / "test.json"
        if lists == "shipped"
        else shared("librispeech-other/test.json")
    )
    read = formats.read([path])
    statistics = np.concatenate(list_statistics(ErrorRate(), read))
    references = [nbest.references[0] for nbest in read for _ in nbest.hypotheses]
    hypotheses = [hypothesis.text for nbest in read for hypothesis in nbest.hypotheses]
    assert statistics[:, :3].tolist() == sclite_counts(tmp_path, references, hypotheses)
    assert len(decision.best(read, Choice({"s2s": 1.0}))) == len(read)


def test_rows_of_an_array_are_sequences_of_words() -> None:
    """Each row is a new object, and may have the identity of one before it."""
    references = np.array([["a", "b"], ["c", "d"], ["e", "f"]])
    hypotheses = np.array([["a", "x"], ["y", "z"], ["e", "f"]])
    assert error_counts(references, hypotheses).sum(axis=1).tolist() == [1, 2, 0]  # type: ignore[arg-type]


def test_what_counts_as_the_same_word() -> None:
    def words(text: str, **options: bool) -> str:
        return " ".join(Normaliser(**options)(text))

    text = "It's a Well-Known “fact”, <unk>!"
    assert words(text) == text.lower()
    assert words(text, case_sensitive=True) == text
    assert words("a well-known fact", split_hyphens=True) == "a well known fact"
    assert words(text, drop_punctuation=True) == "it's a well-known fact unk"
    assert (
        words("it's <unk> Ann\u2019s", drop_apostrophes=True, drop_unknown=True)
        == "its anns"
    )
    settings = ErrorRate(
        normaliser=Normaliser(case_sensitive=True, drop_unknown=True)
    ).settings
    assert (settings["case"], settings["drop-unknown"]) == (
        "mixed",
        "yes",
    ) and ErrorRate().settings["case"] == "lc"


def test_empty_references_count_insertions() -> None:
    assert ErrorRate().statistics(["a b", ""], [("",), ("a",)]).tolist() == [
        [0, 0, 2, 0],
        [0, 1, 0, 1],
    ]
