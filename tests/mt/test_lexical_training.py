"""Word translation models: arrays give what loops over dictionaries give."""

from __future__ import annotations

import math
import random
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescore.mt.lexical import estimation
from rescore.mt.lexical.model import Alignment, LexicalModel, union
from tests.conftest import Run, assert_one_line_error, write_json
from tests.mt import lexical_definition

WORDS = ["der", "die", "das", "haus", "alte", "neue", "uhr", "tickt", "laut", "und", "nicht", "steht"]


def pairs(number: int = 60, seed: int = 3) -> list[tuple[str, str]]:
    """Made up: word for word, some words swapped, lost or added."""
    draw = random.Random(seed)
    found = []
    for _ in range(number):
        source = draw.choices(WORDS, k=draw.randint(1, 8))
        target = [word.upper()[::-1].lower() for word in source if draw.random() > 0.1] or ["x"]
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
    monkeypatch.setattr(estimation, "PART", 4 * limit)  # the smaller limit makes many parts and portions
    monkeypatch.setattr(estimation, "PORTION", limit)
    monkeypatch.setattr(estimation, "LEAST", 0.0)
    corpus = estimation.read([pairs()], cut)
    source, target = corpus.sides
    table, alignment, perplexity = estimation.estimate(
        source.with_null(), target, len(corpus.vocabulary) + 1, tmp_path, Alignment(tension), (3, 4)
    )
    counts, moved, likelihoods = lexical_definition.estimate(
        [(one.split(), other.split()) for one, other in pairs()], 3, 4 if tension else 0, tension
    )
    assert alignment.tension == (None if moved is None else pytest.approx(moved, rel=1e-9))
    assert perplexity == pytest.approx(np.exp(-likelihoods[-1] / len(target.ids)), rel=1e-9)
    number = {"": 0, **corpus.vocabulary}
    given, predicted = (np.array([number[pair[side]] for pair in counts]) for side in (0, 1))
    assert len(table.words) == len(counts)
    totals = np.bincount(given, list(counts.values()), len(number))
    np.testing.assert_allclose(table.totals, totals, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(table.look_up(given, predicted), list(counts.values()), rtol=1e-6)  # kept in float32
    assert likelihoods[:3] == sorted(likelihoods[:3])


def test_counts_are_exact_before_they_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[estimation.Part] = []
    monkeypatch.setattr(estimation, "_table", lambda parts, totals, frequencies: kept.extend(parts))
    corpus = estimation.read([pairs()], cut)
    source, target = corpus.sides
    estimation.estimate(source.with_null(), target, len(corpus.vocabulary) + 1, tmp_path, Alignment(4.0), (3, 4))
    counts, _, _ = lexical_definition.estimate([(a.split(), b.split()) for a, b in pairs()], 3, 4, 4.0)
    words = ["", *corpus.vocabulary]
    found = {
        (words[given], words[predicted]): count
        for part in kept
        for given, predicted, count in zip(part.given, part.predicted, part.counts, strict=True)
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
        (tmp_path / name).write_text("".join(f"{pair[side]}\n" for pair in pairs()), encoding="utf-8")
    return tmp_path


TRAIN = ("train", "--lm", "lexical", "--pairs", "a.txt", "b.txt", "--out")


def test_the_command_writes_the_same_folder_twice(rescore: Run, files: Path) -> None:
    for out in ("one", "two"):
        done = rescore(*TRAIN, out)
        assert done.returncode == 0, done.stderr
    names = {path.name for path in (files / "one").iterdir()}
    assert names == {"model.safetensors", "config.json", "vocabulary.json", "tokenizer.json", "README.md"}
    for name in names:
        assert (files / "one" / name).read_bytes() == (files / "two" / name).read_bytes()
    assert "| training data | 60 pairs" in (files / "one" / "README.md").read_text()
    assert "iteration 10: perplexity" in done.stderr


def test_subwords(rescore: Run, files: Path) -> None:
    done = rescore(*TRAIN, "lm", "--pieces", "100", "--alignment", "none")
    assert done.returncode == 0, done.stderr
    model = LexicalModel.load(files / "lm")
    assert model.config.unit == "subword" and model.config.alignment["direct"].tension is None
    pieces = model.cut(["Hausuhr"])[0]
    assert len(pieces) > 1 and pieces[1].startswith("##")


def test_lists_are_further_pairs(rescore: Run, files: Path) -> None:
    hypotheses = {"hyp_1": {"score": -2, "text": "worse"}, "hyp_2": {"score": -1, "text": "better"}}
    write_json(files / "l.json", {"u": {"ref": "unseen", "src": "besser", **hypotheses}})
    done = rescore(*TRAIN, "lm", "--pieces", "0", "--lists", "l.json")
    assert done.returncode == 0, done.stderr
    vocabulary = LexicalModel.load(files / "lm").vocabulary
    assert {"besser", "better"} <= vocabulary.keys() and not {"worse", "unseen"} & vocabulary.keys()
    write_json(files / "l.json", {"u": {"ref": "x", **hypotheses}})
    assert_one_line_error(rescore(*TRAIN, "lm", "--lists", "l.json"), "u", "no source")


OTHER = {"haus": "maison", "uhr": "montre"}


@pytest.fixture
def texts(files: Path) -> tuple[str, ...]:
    """Arguments for the text of `files` and another text, which translates some words in another way."""
    for side, name in enumerate(("c.txt", "d.txt")):
        chosen = [[OTHER.get(word, word) if side else word for word in pair[0].split()] for pair in pairs(40, seed=4)]
        (files / name).write_text("".join(f"{' '.join(words)}\n" for words in chosen), encoding="utf-8")
    return (*TRAIN, "lm", "--pairs", "c.txt", "d.txt", "--pieces", "0")


def test_counts_of_several_texts_are_added(
    rescore: Run, files: Path, texts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimation, "LEAST", 0.0)
    done = rescore(*texts, "--pairs-weight", "0.25", "--pairs-weight", "2")
    assert done.returncode == 0 and "weights of the texts: 0.25, 2" in done.stderr, done.stderr
    model = LexicalModel.load(files / "lm")
    number = {"": 0, **model.vocabulary}
    expected: dict[tuple[int, int], float] = defaultdict(float)
    frequencies: dict[str, float] = defaultdict(float)
    for weight, names in ((0.25, ("a.txt", "b.txt")), (2, ("c.txt", "d.txt"))):
        source, target = (cut((files / name).read_text().splitlines()) for name in names)
        counts, _, _ = lexical_definition.estimate(list(zip(source, target, strict=True)), 5, 5, 4.0)
        for pair, count in counts.items():
            expected[number[pair[0]], number[pair[1]]] += weight * count
        for word in number:
            frequencies[word] += weight * sum(line.count(word) for line in target)
    givens, predicted = (np.array([pair[side] for pair in expected]) for side in (0, 1))
    table = model.tables["direct"]
    np.testing.assert_allclose(table.look_up(givens, predicted), list(expected.values()), rtol=1e-6, atol=1e-30)
    np.testing.assert_allclose(table.totals, np.bincount(givens, list(expected.values()), len(number)), rtol=1e-9)
    assert [math.ceil(frequencies[word]) for word in model.vocabulary] == table.frequencies[1:].tolist()
    card = (files / "lm" / "README.md").read_text()
    assert "| training data | 100 pairs" in card and "| weights of texts | 60 pairs at 0.25, 40 pairs at 2 |" in card


@pytest.mark.parametrize("alike", [0, 1])
def test_weights_are_learned_on_a_dev_text(rescore: Run, files: Path, texts: tuple[str, ...], alike: int) -> None:
    for place, name in enumerate(("ab", "cd")[alike]):
        lines = (files / f"{name}.txt").read_text().splitlines()[-20:]
        (files / f"dev{place}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = rescore(*texts, "--dev-pairs", "dev0.txt", "dev1.txt")
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("weights of the texts: ")]
    weights = [float(number) for number in line.partition(": ")[2].split(", ")]
    assert weights[alike] > 4 * weights[1 - alike] and max(weights) <= 1


def test_options_of_several_texts(rescore: Run, texts: tuple[str, ...]) -> None:
    dev = ("--dev-pairs", "a.txt", "b.txt")
    assert_one_line_error(rescore(*texts, "--pairs-weight", "1"), "2 --pairs, but 1 --pairs-weight")
    assert_one_line_error(rescore(*texts, "--pairs-weight", "1", "--pairs-weight", "0"), "--pairs-weight")
    assert_one_line_error(rescore(*texts, *dev, "--pairs-weight", "1"), "exclude each other")
    assert_one_line_error(rescore(*TRAIN, "lm", *dev), "are for several --pairs")
    assert_one_line_error(rescore(*texts, "--pairs", "none.txt", "b.txt"), "none.txt: no such file")
    unified = ("train", "--lm", "unified", "--out", "lm", "--pairs", "a.txt", "b.txt", "--pairs", "c.txt", "d.txt")
    assert_one_line_error(rescore(*unified), "--lm unified takes --pairs once")


def test_errors_are_one_line(rescore: Run, files: Path) -> None:
    (files / "short.txt").write_text("x\n", encoding="utf-8")
    (files / "empty.txt").write_text("\n", encoding="utf-8")
    start = ("train", "--lm", "lexical", "--out", "lm")
    assert_one_line_error(rescore(*start), "--pairs SOURCE TARGET")
    assert_one_line_error(rescore(*start, "--pairs", "a.txt", "short.txt"), "short.txt: has 1 line,")
    assert_one_line_error(rescore(*start, "--pairs", "short.txt", "empty.txt"), "no pair with words on both sides")
    assert_one_line_error(rescore(*start, "--pairs", "a.txt", "none.txt"), "none.txt: no such file")
    assert_one_line_error(rescore(*TRAIN, "lm", "--text", "a.txt"), "it does not apply to --lm lexical")
    assert_one_line_error(rescore(*TRAIN, "lm", "--steps", "5"), "it does not apply to --lm lexical")
    assert_one_line_error(
        rescore("train", "--lm", "ngram", "--out", "lm", "--text", "a.txt", "--alignment", "none"),
        "--alignment is for lexical, a3t; it does not apply to --lm ngram",
    )
    assert not (files / "lm").exists()
