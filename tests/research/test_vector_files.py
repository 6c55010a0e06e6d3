"""`rescore embed`: files of vectors."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load_file

from rescore.lms import load
from rescore.research import vector_files
from rescore.research.vectors import Embedder
from tests.conftest import SENTENCES, Run, assert_one_line_error

TEXTS = [*SENTENCES[:3], "", "the"]
ENDINGS = [".npy", ".safetensors", ".jsonl", ".jsonl.gz"]


def read(path: Path) -> npt.NDArray[Any]:
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".safetensors":
        return load_file(path)["vectors"]
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    records = [json.loads(line) for line in data.splitlines()]
    return np.array([record["vector"] for record in records])


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("together", [2, 5, 1_000])
def test_files_hold_the_vectors_of_all_lines(
    rescore: Run,
    models: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
    together: int,
) -> None:
    monkeypatch.setattr(vector_files, "SENTENCES_TOGETHER", together)
    (tmp_path / "t.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    done = rescore("embed", "t.txt", "--lm", f"tta:{models['tta']}", "-o", f"v{ending}")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    found = read(tmp_path / f"v{ending}")
    expected = Embedder([load(f"tta:{models['tta']}")]).sentences(TEXTS)
    assert found == pytest.approx(expected, abs=1e-5)
    assert found.shape == (5, 32)
    assert not found[3].any()


@pytest.mark.parametrize("ending", ENDINGS)
def test_empty_lines_first(
    rescore: Run,
    models: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ending: str,
) -> None:
    """More of them than are embedded together: they are as wide as the others."""
    monkeypatch.setattr(vector_files, "SENTENCES_TOGETHER", 10)
    (tmp_path / "t.txt").write_text("\n" * 25 + "the\n", encoding="utf-8")
    lms = ("--lm", f"tta:{models['tta']}", "--lm", f"unilm:{models['unilm']}")
    done = rescore("embed", "t.txt", *lms, "-o", f"v{ending}")
    assert done.returncode == 0, done.stderr
    found = read(tmp_path / f"v{ending}")
    assert found.shape == (26, 64)
    assert not found[:25].any()
    assert found[25].all()


def test_streams(rescore: Run, models: dict[str, Path]) -> None:
    """From standard input to standard output, as JSON Lines."""
    lm = ("--lm", f"tta:{models['tta']}")
    done = rescore("embed", "-", *lm, "-o", "-", input="the old clock\n")
    assert done.returncode == 0, done.stderr
    (record,) = map(json.loads, done.stdout.splitlines())
    assert record["text"] == "the old clock"
    assert len(record["vector"]) == 32


def test_vectors_of_tokens(
    rescore: Run, models: dict[str, Path], tmp_path: Path
) -> None:
    (tmp_path / "t.txt").write_text("the old clock\n\n", encoding="utf-8")
    command = ("embed", "t.txt", "--lm", f"tta:{models['tta']}", "--tokens")
    assert rescore(*command, "-o", "v.jsonl").returncode == 0
    first, empty = map(json.loads, (tmp_path / "v.jsonl").read_text().splitlines())
    embedder = Embedder([load(f"tta:{models['tta']}")])
    tokens, vectors = embedder.tokens(["the old clock"])[0]
    assert first["tokens"] == tokens
    assert np.array(first["vectors"]) == pytest.approx(vectors, abs=1e-6)
    assert empty == {"text": "", "tokens": [], "vectors": []}
    done = rescore(*command, "-o", "w.jsonl", "--special-tokens")
    assert done.returncode == 0, done.stderr
    first, empty = map(json.loads, (tmp_path / "w.jsonl").read_text().splitlines())
    assert first["tokens"] == ["[BOS]", *tokens, "[EOS]"]
    assert empty["tokens"] == []


def test_errors(rescore: Run, models: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("the\n", encoding="utf-8")
    (tmp_path / "empty").write_text("", encoding="utf-8")
    tta = ("--lm", f"tta:{models['tta']}")
    unilm = ("--lm", f"unilm:{models['unilm']}")
    for arguments, message in (
        (("t.txt", *tta, "-o", "v.txt"), "v.txt: vectors are written to .npy, .safe"),
        (("t.txt", *tta, "-o", "v.npy", "--tokens"), "v.npy: vectors of tokens are"),
        (("t.txt", *tta, "-o", "v.npy", "--layer", "9"), "not between 0 and 3"),
        (("t.txt", *unilm, "-o", "v.npy", "--special-tokens"), "leave out --special"),
        (("t.txt", *tta, *unilm, "-o", "v.jsonl", "--tokens"), "give one --lm"),
        (("empty", *tta, "-o", "v.npy"), "empty: is empty; expected one sentence"),
        (("t.txt", *tta), "Missing option"),
    ):
        assert_one_line_error(rescore("embed", *arguments), message)
    assert not list(tmp_path.glob("v.*"))
