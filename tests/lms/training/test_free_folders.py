"""No training writes over a model, of whatever kind."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Run, assert_one_line_error

TRAININGS = {
    "ngram": ("--order", "2", "--text", "text.txt", "--discount-fallback"),
    "lexical": ("--pairs", "text.txt", "text.txt", "--pieces", "0"),
    "channel": ("--text", "lists.jsonl"),
}


@pytest.mark.parametrize("kind", TRAININGS)
def test_a_model_stays(kind: str, rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("a b c\na c\nb a\n" * 4, encoding="utf-8")
    lists = '{"id": "u", "ref": "a b", "hyps": [{"text": "a c", "score": -1.0}]}\n'
    (tmp_path / "lists.jsonl").write_text(lists, encoding="utf-8")
    train = ("train", "--lm", kind, *TRAININGS[kind], "--out", "lm")
    first = rescore(*train)
    assert first.returncode == 0, first.stderr
    before = {path: path.read_bytes() for path in (tmp_path / "lm").iterdir()}
    assert_one_line_error(
        rescore(*train), "--out lm: holds a model; give another folder, or delete"
    )
    assert {path: path.read_bytes() for path in (tmp_path / "lm").iterdir()} == before
    said = " ".join(rescore("train", "--lm", kind, "--help").stdout.split())
    assert "which may hold no model yet" in said


def test_a_full_disk_is_named(
    rescore: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NumPy says how many items it wrote, and no reason."""

    def full(*arguments: object) -> None:
        raise OSError("29058 requested and 3040 written")

    (tmp_path / "text.txt").write_text("a b c\na c\nb a\n" * 4, encoding="utf-8")
    monkeypatch.setattr("rescore.mt.lexical.estimation.np.save", full)
    done = rescore("train", "--lm", "lexical", *TRAININGS["lexical"], "--out", "lm")
    assert done.returncode == 2
    *_, last = done.stderr.splitlines()
    assert last == "rescore: error: lm: No space left on device"
