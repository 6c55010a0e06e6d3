"""Kneser-Ney in NumPy against its definition in dictionaries, against itself, and
against KenLM's lmplz.
"""

from __future__ import annotations

import math
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rescore.errors import UserError
from rescore.lms import kneser_ney, load, without_context
from rescore.lms.arpa import ArpaModel
from rescore.lms.lexicon import Lexicon
from rescore.lms.ngram import find_tool
from tests.conftest import SENTENCES, Run, assert_one_line_error, shared
from tests.lms.kneser_ney_definition import Definition

WORDS = "abcde"
TEXTS = st.lists(
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=6), min_size=1, max_size=25
)
THRESHOLDS = st.sampled_from([(), (0, 1), (0, 0, 1), (1,), (0, 2)])
REAL = [sentence.split() for sentence in SENTENCES]
LMPLZ = pytest.mark.skipif(
    find_tool("lmplz") is None, reason="needs KenLM's lmplz on PATH: make kenlm"
)


def estimated(
    path: Path,
    text: Sequence[Sequence[str]],
    order: int,
    thresholds: Sequence[int] = (),
) -> ArpaModel:
    kneser_ney.estimate(text, order, path, thresholds, fallback=True)
    return ArpaModel(path)


def shuffled(text: Sequence[Sequence[str]], number: int) -> list[str]:
    """Sentences of a text, and the same words in an order that the text does not have;
    an unknown word among them.
    """
    draw = random.Random(1)
    some = draw.sample(list(text), min(number, len(text)))
    return [" ".join(words) for words in some] + [
        " ".join(draw.sample([*words, "?"], len(words) + 1)) for words in some
    ]


TINY = 1e-90


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS, order=st.integers(2, 4), thresholds=THRESHOLDS)
def test_equals_the_definition(
    tmp_path: Path, text: list[list[str]], order: int, thresholds: tuple[int, ...]
) -> None:
    model = estimated(tmp_path / "lm.arpa", text, order, thresholds[:order])
    definition = Definition(text, order, thresholds[:order], fallback=True)
    sentences = shuffled(text, 5)
    for sentence, scores in zip(sentences, model.score(sentences), strict=True):
        # an ARPA file holds no probability of 0
        expected = np.maximum(definition.score(sentence.split()), TINY)
        assert np.maximum(scores.log_probs, np.log(TINY)) == pytest.approx(
            np.log(expected), abs=1e-5
        )


def test_equals_the_definition_with_discounts_of_the_text(tmp_path: Path) -> None:
    definition = Definition(REAL[:120], 3, (), fallback=True)
    # the text is large enough for this order's own
    assert definition.discounts[0] != [0, 0.5, 1, 1.5]
    model = estimated(tmp_path / "lm.arpa", REAL[:120], 3)
    sentences = shuffled(REAL[:120], 6)
    for sentence, scores in zip(sentences, model.score(sentences), strict=True):
        # an ARPA file holds no probability of 0
        expected = np.maximum(definition.score(sentence.split()), TINY)
        assert np.maximum(scores.log_probs, np.log(TINY)) == pytest.approx(
            np.log(expected), abs=1e-5
        )


@pytest.mark.parametrize("thresholds", [(), (0, 0, 1), (2,)])
def test_probabilities_of_each_context_sum_to_one(
    tmp_path: Path, thresholds: tuple[int, ...]
) -> None:
    model = estimated(tmp_path / "lm.arpa", REAL, 3, thresholds)
    lines = (tmp_path / "lm.arpa").read_text(encoding="utf-8").splitlines()
    listed = [line.split("\t")[1] for line in lines if "\t" in line]
    words = [ngram for ngram in listed if " " not in ngram and ngram != "<s>"]
    contexts = ["", *random.Random(2).sample(REAL, 5), ["no", "such"], ["<unk>"]]
    for context in [" ".join(words[:2]) for words in contexts]:
        last = [
            scores.log_probs[-2]
            for scores in model.score(
                [f"{context} {word}" for word in words if word != "</s>"]
            )
        ]
        end = model.score([context])[0].log_probs[-1]
        assert np.exp([*last, end]).sum() == pytest.approx(1, abs=1e-4)


def test_contexts_and_suffixes_of_each_ngram_are_listed(tmp_path: Path) -> None:
    """KenLM's tries need both; only contexts have a back-off."""
    estimated(tmp_path / "lm.arpa", REAL, 4, (0, 1))
    rows = [
        line.split("\t")
        for line in (tmp_path / "lm.arpa").read_text(encoding="utf-8").splitlines()
        if "\t" in line
    ]
    backoffs = {tuple(row[1].split()): row[2] if len(row) > 2 else None for row in rows}
    longer = [ngram for ngram in backoffs if len(ngram) > 1]
    assert len(longer) > 200 and all(
        ngram[:-1] in backoffs and ngram[1:] in backoffs for ngram in longer
    )
    assert {
        backoffs[ngram]
        for ngram in backoffs
        if len(ngram) < 4 and ngram[-1] in ("</s>", "<unk>")
    } == {"0"}
    assert all(
        (value is None) == (len(ngram) == 4) for ngram, value in backoffs.items()
    )


def test_refused_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lm.arpa"
    with pytest.raises(
        UserError, match=r"too small to estimate .* --discount-fallback"
    ):
        kneser_ney.estimate([["a", "b"]], 2, path)
    with pytest.raises(UserError, match="has the word <s>, which"):
        kneser_ney.estimate([["a", "<s>"]], 2, path)
    monkeypatch.setattr(kneser_ney, "MAX_WORDS", 3)
    assert kneser_ney.estimate([["a", "b", "c"]], 2, path, fallback=True) == 1
    with pytest.raises(UserError, match="more than 3 words"):
        kneser_ney.estimate([["a", "b"], ["c", "d"]], 2, path, fallback=True)


@pytest.fixture
def no_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rescore.lms.ngram.find_tool", lambda name: None)


@pytest.mark.usefixtures("no_tools")
def test_training_without_kenlms_programs(
    rescore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.txt").write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    train = ("train", "--lm", "ngram", "-o", "3", "--text", "t.txt", "--out")
    done = rescore(*train, "lm", "--prune", "0,0,1", "--discount-fallback")
    assert done.returncode == 0 and "lmplz is not on PATH" in done.stderr
    assert sorted(path.name for path in (tmp_path / "lm").iterdir()) == [
        "README.md",
        "lexicon.txt.xz",
        "lm.arpa",
        "tokenizer.json",
    ]
    sentence = SENTENCES[0]
    (scores,) = load("ngram:lm").score(without_context([sentence]))
    definition = estimated(tmp_path / "own.arpa", REAL, 3, (0, 0, 1)).score([sentence])[
        0
    ]
    assert scores.sum == pytest.approx(definition.sum, abs=1e-3)
    assert_one_line_error(
        rescore(*train, "two", "--prune", "1,0"), "--prune 1,0: no number may be less"
    )
    assert_one_line_error(
        rescore(*train, "two", "--prune", "0,0,0,1"), "4 numbers for n-grams of order 3"
    )
    monkeypatch.setattr(kneser_ney, "MAX_WORDS", 3)
    done = rescore(*train, "two")
    assert (
        done.returncode == 2
        and "takes KenLM's lmplz" in done.stderr
        and "cmake" in done.stderr
    )


def test_a_text_may_be_a_pipe(rescore: Run, tmp_path: Path) -> None:
    """The model and its lexicon are the same as with a file."""
    (tmp_path / "t.txt").write_text(4 * ("\n".join(SENTENCES) + "\n"), encoding="utf-8")
    train = "train --lm ngram -o 2 --discount-fallback --text"
    assert rescore(*train.split(), "t.txt", "--out", "file").returncode == 0
    command = f'"{sys.executable}" -m rescore {train} <(cat t.txt) --out pipe'
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for name in ("lexicon.txt.xz", "tokenizer.json"):
        assert (tmp_path / "pipe" / name).read_bytes() == (
            tmp_path / "file" / name
        ).read_bytes()
    assert Lexicon.load(tmp_path / "pipe" / "lexicon.txt.xz").counts


def lmplz(path: Path, text: Path, *options: object) -> ArpaModel:
    command = [
        find_tool("lmplz"),
        "-S",
        "64M",
        "-T",
        path.parent,
        "--text",
        text,
        "--arpa",
        path,
        *options,
    ]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    return ArpaModel(path)


def assert_same(ours: ArpaModel, theirs: ArpaModel, sentences: list[str]) -> None:
    for own, expected in zip(
        ours.score(sentences), theirs.score(sentences), strict=True
    ):
        assert own.sum == pytest.approx(expected.sum, abs=1e-4) and math.isfinite(
            own.sum
        )
        assert own.log_probs == pytest.approx(expected.log_probs, abs=1e-4)


@LMPLZ
@pytest.mark.tools
@pytest.mark.parametrize(("order", "prune"), [(2, ""), (3, "0 0 1"), (4, "1"), (5, "")])
def test_equals_lmplz(tmp_path: Path, order: int, prune: str) -> None:
    text = tmp_path / "text"
    text.write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    options = ["--prune", *prune.split()] if prune else []
    theirs = lmplz(
        tmp_path / "lmplz.arpa", text, "-o", order, *options, "--discount_fallback"
    )
    ours = estimated(
        tmp_path / "own.arpa", REAL, order, [int(number) for number in prune.split()]
    )
    assert_same(ours, theirs, shuffled(REAL, 200))


@LMPLZ
@pytest.mark.tools
def test_equals_lmplz_on_real_text(tmp_path: Path) -> None:
    lines = (
        (shared("librispeech") / "dev_other" / "text")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    sentences = [line.split()[1:] for line in lines]
    learnt, held_out = sentences[:2500], sentences[2500:]
    text = tmp_path / "text"
    text.write_text(
        "".join(" ".join(words) + "\n" for words in learnt), encoding="utf-8"
    )
    theirs = lmplz(tmp_path / "lmplz.arpa", text, "-o", 3, "--discount_fallback")
    assert_same(
        estimated(tmp_path / "own.arpa", learnt, 3),
        theirs,
        [" ".join(words) for words in held_out],
    )
