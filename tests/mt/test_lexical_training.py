"""Word translation models: arrays give what loops over dictionaries give."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescore.mt.lexical import estimation
from rescore.mt.lexical.model import Alignment, LexicalModel, union
from tests.conftest import Run, assert_one_line_error
from tests.mt import lexical_definition

WORDS = [
    "der",
    "die",
    "das",
    "haus",
    "alte",
    "neue",
    "uhr",
    "tickt",
    "laut",
    "und",
    "nicht",
    "steht",
]


def pairs(number: int = 60, seed: int = 3) -> list[tuple[str, str]]:
    """Made up: word for word, some words swapped, lost or added."""
    draw = random.Random(seed)
    found = []
    for _ in range(number):
        source = draw.choices(WORDS, k=draw.randint(1, 8))
        target = [
            word.upper()[::-1].lower() for word in source if draw.random() > 0.1
        ] or ["x"]
        if draw.random() < 0.3:
            draw.shuffle(target)
        found.append((" ".join(source), " ".join(target)))
    return found


def cut(texts: list[str]) -> list[list[str]]:
    return [text.split() for text in texts]


@pytest.mark.parametrize("tension", [None, 4.0])
@pytest.mark.parametrize("limit", [1 << 20, 40])
def test_equal_to_the_definition(
    tension: float | None, limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the smaller limit makes many parts and portions
    monkeypatch.setattr(estimation, "PART", 4 * limit)
    monkeypatch.setattr(estimation, "PORTION", limit)
    monkeypatch.setattr(estimation, "LEAST", 0.0)
    corpus = estimation.read([pairs()], cut)
    source, target = corpus.sides
    table, alignment, perplexity = estimation.estimate(
        source.with_null(),
        target,
        len(corpus.vocabulary) + 1,
        tmp_path,
        Alignment(tension),
        (3, 4),
    )
    counts, moved, likelihoods = lexical_definition.estimate(
        [(one.split(), other.split()) for one, other in pairs()],
        3,
        4 if tension else 0,
        tension,
    )
    assert alignment.tension == (
        None if moved is None else pytest.approx(moved, rel=1e-9)
    )
    assert perplexity == pytest.approx(
        np.exp(-likelihoods[-1] / len(target.ids)), rel=1e-9
    )
    number = {"": 0, **corpus.vocabulary}
    given, predicted = (
        np.array([number[pair[side]] for pair in counts]) for side in (0, 1)
    )
    assert len(table.words) == len(counts)
    totals = np.bincount(given, list(counts.values()), len(number))
    np.testing.assert_allclose(table.totals, totals, rtol=1e-9, atol=1e-12)
    # kept in float32
    np.testing.assert_allclose(
        table.look_up(given, predicted), list(counts.values()), rtol=1e-6
    )
    assert likelihoods[:3] == sorted(likelihoods[:3])


def test_counts_are_exact_before_they_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[estimation.PredictedPart] = []
    monkeypatch.setattr(
        estimation, "_table", lambda parts, totals, frequencies: kept.extend(parts)
    )
    corpus = estimation.read([pairs()], cut)
    source, target = corpus.sides
    estimation.estimate(
        source.with_null(),
        target,
        len(corpus.vocabulary) + 1,
        tmp_path,
        Alignment(4.0),
        (3, 4),
    )
    counts, _, _ = lexical_definition.estimate(
        [(a.split(), b.split()) for a, b in pairs()], 3, 4, 4.0
    )
    words = ["", *corpus.vocabulary]
    found = {
        (words[given], words[predicted]): count
        for part in kept
        for given, predicted, count in zip(
            part.given, part.predicted, part.counts, strict=True
        )
    }
    assert found.keys() == counts.keys()
    for pair, count in counts.items():
        assert found[pair] == pytest.approx(count, rel=1e-9, abs=1e-15)


@settings(max_examples=100, deadline=None)
@given(one=st.sets(st.integers(0, 20)), other=st.sets(st.integers(0, 20)))
def test_unions(one: set[int], other: set[int]) -> None:
    arrays = (np.array(sorted(some), dtype=np.int64) for some in (one, other))
    assert union(*arrays).tolist() == sorted(one | other)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for side, name in enumerate(("a.txt", "b.txt")):
        (tmp_path / name).write_text(
            "".join(f"{pair[side]}\n" for pair in pairs()), encoding="utf-8"
        )
    return tmp_path


TRAIN = ("train", "--lm", "lexical", "--pairs", "a.txt", "b.txt", "--out")


def test_the_command_writes_the_same_folder_twice(rescore: Run, files: Path) -> None:
    for out in ("one", "two"):
        done = rescore(*TRAIN, out)
        assert done.returncode == 0, done.stderr
    names = {path.name for path in (files / "one").iterdir()}
    assert names == {
        "model.safetensors",
        "config.json",
        "vocabulary.json",
        "tokenizer.json",
        "README.md",
    }
    for name in names:
        assert (files / "one" / name).read_bytes() == (
            files / "two" / name
        ).read_bytes()
    assert "| training data | 60 pairs" in (files / "one" / "README.md").read_text()
    assert "iteration 10: perplexity" in done.stderr


def test_subwords(rescore: Run, files: Path) -> None:
    done = rescore(*TRAIN, "lm", "--pieces", "100", "--alignment", "none")
    assert done.returncode == 0, done.stderr
    model = LexicalModel.load(files / "lm")
    assert (
        model.config.unit == "subword"
        and model.config.alignment["direct"].tension is None
    )
    pieces = model.cut(["Hausuhr"])[0]
    assert len(pieces) > 1 and pieces[1].startswith("##")


def test_errors_are_one_line(rescore: Run, files: Path) -> None:
    (files / "short.txt").write_text("x\n", encoding="utf-8")
    (files / "empty.txt").write_text("\n", encoding="utf-8")
    start = ("train", "--lm", "lexical", "--out", "lm")
    assert_one_line_error(rescore(*start), "--pairs SOURCE TARGET")
    assert_one_line_error(
        rescore(*start, "--pairs", "a.txt", "short.txt"), "short.txt: has 1 line,"
    )
    assert_one_line_error(
        rescore(*start, "--pairs", "short.txt", "empty.txt"),
        "no pair with words on both sides",
    )
    assert_one_line_error(
        rescore(*start, "--pairs", "a.txt", "none.txt"), "none.txt: no such file"
    )
    assert_one_line_error(
        rescore(*TRAIN, "lm", "--text", "a.txt"), "train --lm lexical takes no --text"
    )
    assert_one_line_error(
        rescore(*TRAIN, "lm", "--steps", "5"), "train --lm lexical takes no --steps"
    )
    assert_one_line_error(
        rescore(
            "train",
            "--lm",
            "ngram",
            "--out",
            "lm",
            "--text",
            "a.txt",
            "--alignment",
            "none",
        ),
        "train --lm ngram takes no --alignment; give it to --lm lexical",
    )
    assert not (files / "lm").exists()
