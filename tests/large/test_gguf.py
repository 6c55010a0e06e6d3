"""A GGUF file gives the scores of the folder that has the same weights."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from rescore.errors import UserError
from rescore.lms import load, without_context
from tests.conftest import SENTENCES
from tests.large.llama import save


def test_a_file_scores_as_the_folder(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = save(tmp_path / "llama")
    alone = tmp_path / "alone"
    alone.mkdir()
    # no file of the folder stands beside it
    shutil.copy(folder / "model.gguf", alone / "tiny.gguf")
    questions = without_context(SENTENCES[:5])
    capfd.readouterr()
    ours, theirs = load(f"hf-causal:{alone / 'tiny.gguf'}"), load(f"hf-causal:{folder}")
    for one, other in zip(ours.score(questions), theirs.score(questions), strict=True):
        assert one.log_probs == pytest.approx(other.log_probs, abs=1e-4)
    assert (
        ours.fingerprint
        != theirs.fingerprint
        == load(f"hf-causal:{folder}").fingerprint
    )
    assert capfd.readouterr().err == ""
    (alone / "tiny.gguf").write_bytes((alone / "tiny.gguf").read_bytes()[:2000])
    with pytest.raises(UserError, match=r"tiny.gguf: transformers cannot load it"):
        load(f"hf-causal:{alone / 'tiny.gguf'}")


def test_an_absent_file_is_no_name_on_the_hub() -> None:
    with pytest.raises(UserError, match=r"nope.gguf: no such file"):
        load("hf-causal:nope.gguf")


def test_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    monkeypatch.setattr("rescore.large.hub.find_spec", lambda name: None)
    with pytest.raises(
        UserError,
        match=r"a.gguf: GGUF files need the package gguf; install it: pip install",
    ):
        load(f"hf-causal:{tmp_path / 'a.gguf'}")
