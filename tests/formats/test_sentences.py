"""Sentences to train on or to score: ids are told, because they would be words."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescore import errors
from rescore.errors import installed_by
from rescore.formats.sentences import LOOKED_AT, read_sentences
from tests.conftest import ROOT, SENTENCES, TINY, Run, write_json

TEXTS = {
    "plain": ("{text}", ""),
    "kaldi": ("spk1-{number:04} {text}", "each line begins with an id"),
    "trn": ("{text} (spk1-{number:04})", "each line ends with an id in brackets"),
    "one word for all": ("chapter7 {text}", ""),
    "one remark for all": ("{text} (laughter)", ""),
}


@pytest.mark.parametrize("name", TEXTS)
def test_ids_are_told(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pattern, warning = TEXTS[name]
    lines = []
    for number in range(2 * LOOKED_AT):
        text = SENTENCES[number % len(SENTENCES)]
        lines.append(pattern.format(text=text, number=number))
    path = tmp_path / "text"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert list(read_sentences(path)) == lines
    messages = [record.getMessage() for record in caplog.records]
    assert [warning in message for message in messages] == [True] * bool(warning)


@pytest.mark.parametrize("kind", ["ngram", "unilm"])
def test_a_training_tells_once(kind: str, rescore: Run, tmp_path: Path) -> None:
    text = tmp_path / "text"
    lines = [f"u{number} {line}\n" for number, line in enumerate(SENTENCES)]
    text.write_text("".join(lines), encoding="utf-8")
    options = ["--text", text, "--out", tmp_path / "lm"]
    if kind == "ngram":
        options.append("--discount-fallback")
    else:
        config = write_json(tmp_path / "config.json", TINY)
        options += ["--steps", "1", "--config", config, "--size", "200"]
    done = rescore("train", "--lm", kind, *options)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("each line begins with an id") == 1


def test_an_extra_is_installed_from_the_checkout() -> None:
    assert installed_by("serve") == f"pip install '{ROOT}[serve]'"


def test_an_extra_of_an_installed_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "rescore" / "errors.py"))
    assert installed_by("serve") == "pip install 'rescore[serve]'"
