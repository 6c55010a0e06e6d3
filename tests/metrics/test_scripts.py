"""Words of many scripts: where they end, which marks are letters, and capitals that
differ by language.
"""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest

from rescore.metrics import Normaliser, choose_metric
from rescore.unspaced import MARKS, SOUTHEAST_ASIAN
from tests.conftest import Run

UNSPACED = {
    "Khmer": "\u1797\u17b6\u179f\u17b6\u1781\u17d2\u1798\u17c2\u179a",
    "Lao": "\u0e9e\u0eb2\u0eaa\u0eb2\u0ea5\u0eb2\u0ea7",
    "Burmese": "\u1019\u103c\u1014\u103a\u1019\u102c\u1018\u102c\u101e\u102c",
    "Thai": "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22",
}
MARKED = {
    "Hindi": "\u0939\u093f\u0928\u094d\u0926\u0940",
    "Khmer": UNSPACED["Khmer"],
    "Burmese": UNSPACED["Burmese"],
    "Hebrew": "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd",
    "Arabic": "\u0645\u064e\u062f\u0652\u0631\u064e\u0633\u064e\u0629",
}


def eval_of(rescore: Run, folder: Path, reference: str, text: str, *more: str) -> str:
    (folder / "ref").write_text(f"u1 {reference}\nu2 {reference}\n", encoding="utf-8")
    (folder / "hyp").write_text(f"u1 {text}\nu2 {text}\n", encoding="utf-8")
    done = rescore("eval", "hyp", "--ref", "ref", *more)
    return done.stdout + done.stderr


@pytest.mark.parametrize("script", UNSPACED)
def test_the_mixed_error_rate_splits_scripts_without_blanks(script: str) -> None:
    text = UNSPACED[script]
    metric = choose_metric("mer", [])
    assert metric.words is not None and metric.words(f"{text} owl") == [*text, "owl"]
    counts = metric.statistics([text[:-1]], [(text,)])
    assert counts.tolist() == [[0, 1, 0, len(text)]]


@pytest.mark.parametrize("script", MARKED)
def test_marks_that_whisper_removes_are_told(
    rescore: Run, tmp_path: Path, script: str
) -> None:
    pytest.importorskip("whisper_normalizer", reason="needs whisper-normalizer")
    text = MARKED[script]
    said = eval_of(rescore, tmp_path, text, text, "--whisper-basic")
    assert "words fall apart; give --unicode-basic" in said
    more = ("--whisper-basic", "--drop-marks")
    if script in ("Hebrew", "Arabic"):
        assert "fall apart" not in eval_of(rescore, tmp_path, text, text, *more)
    assert len(Normaliser(unicode_basic=True)(text)) == 1


def test_whisper_is_told_nothing_of_texts_without_marks(
    rescore: Run, tmp_path: Path
) -> None:
    pytest.importorskip("whisper_normalizer", reason="needs whisper-normalizer")
    for text in ("an owl \u2764\ufe0f", "cafe\u0301", "\u0628\u062c\u0639"):
        assert "fall apart" not in eval_of(
            rescore, tmp_path, text, text, "--whisper-basic"
        )


def test_capitals_of_turkish(rescore: Run, tmp_path: Path) -> None:
    texts = ("\u0130STANBUL I\u015eIK var", "istanbul \u0131\u015f\u0131k var")
    said = eval_of(rescore, tmp_path, *texts)
    assert " 66.67 " in said and "give --language tr" in said
    said = eval_of(rescore, tmp_path, *texts, "--language", "tr")
    assert " 0.00 " in said and "|language:tr|" in said and "give --lang" not in said
    cased = ("--language", "tr", "--case-sensitive")
    assert " 66.67 " in eval_of(rescore, tmp_path, *texts, *cased)


def test_marks_of_arabic_and_hebrew_may_go(rescore: Run, tmp_path: Path) -> None:
    for script in ("Arabic", "Hebrew"):
        letters = unicodedata.normalize("NFD", MARKED[script])
        bare = "".join(one for one in letters if unicodedata.category(one) != "Mn")
        assert " 100.00 " in eval_of(rescore, tmp_path, MARKED[script], bare)
        said = eval_of(rescore, tmp_path, MARKED[script], bare, "--drop-marks")
        assert " 0.00 " in said and "|drop-marks:yes|" in said
    assert Normaliser(drop_marks=True)("\u0622\u0645") == ["\u0622\u0645"]  # a letter


def test_blanks_of_one_side_are_told(rescore: Run, tmp_path: Path) -> None:
    reference = "\u4eca\u5929\u5929\u6c14\u5f88\u597d"
    parted = " ".join(reference)
    for texts in ((reference, parted), (parted, reference)):
        said = eval_of(rescore, tmp_path, *texts, "--metric", "cer")
        assert "CER counts blanks" in said and "--split-characters" in said
    for text in (reference, parted):
        said = eval_of(rescore, tmp_path, text, text, "--metric", "cer")
        assert "counts blanks" not in said
    assert " 0.00 " in eval_of(rescore, tmp_path, *texts, "--metric", "mer")


def test_the_table_is_unicodes() -> None:
    regex = pytest.importorskip("regex", reason="needs regex")
    for code in range(0x20000):
        letter = chr(code)
        if regex.match(f"[{SOUTHEAST_ASIAN}]", letter):
            assert regex.match(r"\p{Line_Break=SA}", letter), hex(code)
        if regex.match(f"[{MARKS}]", letter):
            assert unicodedata.category(letter) in ("Mn", "Mc"), hex(code)


def test_groups_count_the_words_of_the_metric(rescore: Run, tmp_path: Path) -> None:
    text = "u1 a well-known owl hoots\nv1 three o'clock, twenty-five\n"
    (tmp_path / "ref").write_text(text)
    line = ("eval", "ref", "--ref", "ref", "--by", "^(.)", "--split-hyphens")
    for more, number in (((), 9), (("--metric", "cer"), 9)):
        done = rescore(*line, *more)
        (last,) = [row for row in done.stdout.splitlines() if row.startswith("macro")]
        assert last.split()[3] == str(number), done.stdout
