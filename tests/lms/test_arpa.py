"""ARPA files in NumPy against the definition of back-off and against KenLM."""

from __future__ import annotations

import gzip
import math
import random
import sys
from pathlib import Path

import pytest

from rescore.errors import UserError
from rescore.lms import load, without_context
from rescore.lms import ngram as training
from rescore.lms.arpa import ArpaModel
from tests.conftest import ROOT, SENTENCES
from tests.lms.test_ngram import ARPA, definition

TEXTS = [
    "the old clock",
    "clock the the old",
    "the owl old",
    "",
    "owl owl",
    "the old clock the old",
    "<unk> the",
]


@pytest.fixture
def arpa(tmp_path: Path) -> Path:
    path = tmp_path / "lm.arpa"
    path.write_text(ARPA, encoding="utf-8")
    return path


def test_equals_the_definition(arpa: Path) -> None:
    for text, found in zip(TEXTS, ArpaModel(arpa).score(TEXTS), strict=True):
        assert found.tokens == [*text.split(), "</s>"]
        assert found.log_probs == pytest.approx(definition(text.split()), abs=1e-5)
        assert found.unknown == tuple(
            index for index, word in enumerate(text.split()) if word in ("owl", "<unk>")
        )


def test_many_sentences_equal_the_definition(arpa: Path) -> None:
    chance = random.Random(1)
    texts = [
        " ".join(chance.choices(["the", "old", "clock", "owl"], k=chance.randrange(9)))
        for _ in range(300)
    ]
    for text, found in zip(texts, ArpaModel(arpa).score(texts), strict=True):
        assert found.log_probs == pytest.approx(definition(text.split()), abs=1e-5)
        assert found.sum == pytest.approx(sum(definition(text.split())), abs=1e-4)
        assert found.unknown == tuple(
            index for index, word in enumerate(text.split()) if word == "owl"
        )


@pytest.mark.tools
def test_is_what_scores_without_kenlm(
    arpa: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kenlm")
    with_kenlm = load(f"ngram:{arpa}")
    packed = arpa.with_name("lm.arpa.gz")
    packed.write_bytes(gzip.compress(ARPA.encode()))
    monkeypatch.setitem(sys.modules, "kenlm", None)
    for path in (arpa, packed):
        without = load(f"ngram:{path}")
        for ours, kenlms in zip(
            without.score(without_context(TEXTS)),
            with_kenlm.score(without_context(TEXTS)),
            strict=True,
        ):
            assert ours.sum == pytest.approx(kenlms.sum, abs=1e-4)
            assert ours.tokens == kenlms.tokens and ours.unknown == kenlms.unknown
    assert load(f"ngram:{arpa}").fingerprint == with_kenlm.fingerprint


@pytest.mark.tools
def test_equals_kenlm_on_a_pruned_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("kenlm")
    programs = training.find_tool
    monkeypatch.setattr(
        training,
        "find_tool",
        lambda name: None if name == "build_binary" else programs(name),
    )
    settings = {
        "order": 4,
        "prune": "0,0,1",
        "discount_fallback": True,
        "out": tmp_path,
    }
    training.train(
        training.NgramKind.Options(text=(ROOT / "data" / "sentences.txt",), **settings)
    )
    shuffled = [
        " ".join(random.Random(text).sample(text.split(), len(text.split())))
        for text in SENTENCES[:50]
    ]
    texts = [*SENTENCES[:50], *shuffled, "xylophones the"]
    expected = load(f"ngram:{tmp_path / 'lm.arpa'}").score(without_context(texts))
    found = ArpaModel(tmp_path / "lm.arpa").score(texts)
    for ours, kenlms in zip(found, expected, strict=True):
        assert ours.log_probs == pytest.approx(kenlms.log_probs, abs=1e-4)
        assert ours.unknown == kenlms.unknown


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\data\\", "data", "first line is not"),
        ("\\end\\\n", "", "is it truncated"),
        ("ngram 2=5", "ngram 2=6", "it has 5 2-grams, its head says 6"),
        ("-0.4\told clock\t-0.25", "-0.4", "is not a 2-gram"),
        ("-1.6\tclock\t-0.3", "-1.6\told\t-0.3", "a 1-gram is listed twice"),
        (
            "-0.9\tthe clock\t0",
            "-0.9\tthe owl\t0",
            "'owl' in a 2-gram is not among the 1-grams",
        ),
        (
            "-0.25\tthe old clock",
            "-0.25\told the clock",
            "'old the clock' is listed, but not its first 2 words",
        ),
        ("-0.6\tthe old", "x\tthe old", "could not convert"),
        ("\\2-grams:", "\\3-grams:", "where \\\\2-grams: was expected"),
    ],
)
def test_damaged_files(arpa: Path, old: str, new: str, message: str) -> None:
    arpa.write_text(ARPA.replace(old, new), encoding="utf-8")
    with pytest.raises(UserError, match=message):
        ArpaModel(arpa)


@pytest.mark.tools
def test_a_file_without_unk(arpa: Path) -> None:
    arpa.write_text(
        ARPA.replace("-2.0\t<unk>\t0\n", "").replace("ngram 1=6", "ngram 1=5"),
        encoding="utf-8",
    )
    (found,) = ArpaModel(arpa).score(["owl"])
    assert found.unknown == (0,)
    pytest.importorskip("kenlm")
    (kenlms,) = load(f"ngram:{arpa}").score(without_context(["owl"]))
    assert found.sum == pytest.approx(kenlms.sum, abs=1e-3)


@pytest.mark.parametrize("kenlm", [True, False])
def test_files_without_blank_lines(
    kenlm: bool, arpa: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = load(f"ngram:{arpa}").score(without_context(TEXTS))
    lines = "\n".join(line for line in ARPA.splitlines() if line)
    # KenLM needs the line behind the head
    head = lines if not kenlm else lines.replace("\\1-grams:", "\n\\1-grams:")
    arpa.write_text(head + "\n", encoding="utf-8")
    if not kenlm:
        monkeypatch.setitem(sys.modules, "kenlm", None)
    scores = load(f"ngram:{arpa}").score(without_context(TEXTS))
    assert [score.sum for score in scores] == pytest.approx(
        [score.sum for score in expected], abs=1e-4
    )


@pytest.mark.parametrize("kenlm", [True, False])
def test_a_model_without_unknown_words(
    kenlm: bool,
    arpa: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An unknown word costs what a rare word does, and not 230 nats."""
    lines = [line for line in ARPA.splitlines() if "<unk>" not in line]
    head = next(line for line in lines if line.startswith("ngram 1="))
    lines[lines.index(head)] = f"ngram 1={int(head.partition('=')[2]) - 1}"
    whole = load(f"ngram:{arpa}").fingerprint
    arpa.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if not kenlm:
        monkeypatch.setitem(sys.modules, "kenlm", None)
    lm = load(f"ngram:{arpa}")
    assert "has no <unk>" in caplog.text and lm.fingerprint != whole
    known, unknown = lm.score(without_context(["the old clock", "the old xylophone"]))
    assert -40 < unknown.sum < known.sum and unknown.unknown == (2,)
    assert unknown.log_probs.sum() == pytest.approx(unknown.sum, abs=1e-4)
    assert unknown.log_probs[2] <= -7 * math.log(10) + 1e-4
