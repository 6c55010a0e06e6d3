"""A model that was trained on the references of the lists is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescore.errors import UserError
from rescore.lms import sketch as module
from rescore.lms.sketch import Sketch
from tests.conftest import ROOT, Run


def words(number: int) -> list[str]:
    return f"sentence {number} has a few words".split()


def sketch_of(numbers: range) -> Sketch:
    sketch = Sketch()
    assert len(list(sketch.watching(map(words, numbers)))) == len(numbers)
    return sketch


def test_share_of_a_small_text_is_exact(tmp_path: Path) -> None:
    sketch_of(range(100)).save(tmp_path / "s.npy")
    sketch = Sketch.load(tmp_path / "s.npy")
    assert sketch.share_of(map(words, range(90, 110))) == 0.5
    assert sketch.share_of([["too", "short"]]) == 0.0


def test_share_of_a_large_text_is_estimated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SKETCH_SIZE", 500)
    sketch = sketch_of(range(5000))
    assert sketch.share_of(map(words, range(5000))) == 1.0
    assert sketch.share_of(map(words, range(2500, 7500))) == pytest.approx(0.5, abs=0.1)
    assert sketch.share_of(map(words, range(5000, 9000))) == 0.0


def test_damaged(tmp_path: Path) -> None:
    (tmp_path / "s.npy").write_bytes(b"PK")
    with pytest.raises(UserError, match="damaged"):
        Sketch.load(tmp_path / "s.npy")


def test_run_and_compare_warn(rescore: Run, tmp_path: Path) -> None:
    seen, other = ROOT / "data" / "sentences.txt", tmp_path / "other.txt"
    other.write_text("".join(f"{' '.join(words(number))}\n" for number in range(50)))
    for name, text in (("seen", seen), ("other", other)):
        done = rescore("train", "--lm", "tta", "--text", str(text), "--out", name, "--config", "small", "--steps", "0")
        assert done.returncode == 0, done.stderr
    lists = str(ROOT / "data" / "test.json")
    done = rescore("compare", lists, "--dev", lists, "--lm", "tta:seen", "--lm", "tta:other")
    assert "tta:seen: the training text of this model contains 100 % of the references" in done.stderr
    assert "tta:seen: the training text of this model contains 100 % of the dev references" in done.stderr
    assert "tta:other: the training text" not in done.stderr
