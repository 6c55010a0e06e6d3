"""At the command line: bench, the cache, precision, and streams."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from rescore.cli.options import InputOptions
from rescore.research.vectors import Embedder
from tests.conftest import ROOT, Run, assert_one_line_error, near, parsed
from tests.lms.test_ngram import ARPA

LISTS = ROOT / "data" / "test.json"


def test_bench(rescore: Run, model: Path, tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    options = ["--hypotheses", "30", "--lengths", "2,5", "--repeats", "1", "-o", "speed.json", "--plot", "speed.png"]
    done = rescore("bench", LISTS, "--lm", f"tta:{model}", "--lm", "ngram:lm.arpa", *options)
    assert done.returncode == 0, done.stderr
    assert "30 hypotheses of" in done.stdout
    figures = json.loads((tmp_path / "speed.json").read_text())
    tta, ngram = figures["models"]
    assert tta["lm"] == "tta" and tta["rate"] == pytest.approx(30 / tta["seconds"])
    assert [one["words"] for one in ngram["by_length"]] == [2, 5]
    assert all(one["milliseconds"] > 0 for one in tta["by_length"])
    assert (tmp_path / "speed.png").read_bytes().startswith(b"\x89PNG")


def test_bench_of_vectors(
    rescore: Run, models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    real = Embedder.sentences
    monkeypatch.setattr(
        Embedder, "sentences", lambda self, texts: [asked.append(len(texts)), real(self, texts)][1]
    )  # fmt: skip
    options = ["--hypotheses", "10", "--lengths", "4", "--repeats", "1", "--vectors", "-o", "speed.json"]
    lms = [item for kind in ("tta", "bilm") for item in ("--lm", f"{kind}:{models[kind]}")]
    done = rescore("bench", LISTS, *lms, *options)
    assert done.returncode == 0 and done.stdout.startswith("vectors of 10 hypotheses"), done.stderr
    assert [one["hypotheses"] for one in json.loads((tmp_path / "speed.json").read_text())["models"]] == [10, 10]
    assert asked.count(10) >= 4 and asked.count(1) >= 4  # to warm up and to measure; single sentences
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    assert_one_line_error(rescore("bench", LISTS, "--lm", "ngram:lm.arpa", "--vectors"), "has no vectors")


def test_bench_errors(rescore: Run, model: Path) -> None:
    lm = ("--lm", f"tta:{model}")
    assert_one_line_error(rescore("bench", LISTS, *lm, "--lengths", "5,x"), "expected numbers of words")
    assert_one_line_error(rescore("bench", LISTS, *lm, "--cache", "c"), "what is looked up cannot be measured")


def test_cache_is_used_by_the_next_command(rescore: Run, model: Path, tmp_path: Path) -> None:
    lm = ("--lm", f"tta:{model}")
    plain = rescore("score", LISTS, *lm)
    first = rescore("score", LISTS, *lm, "--cache", "cache")
    again = rescore("score", LISTS, *lm, "--cache", "cache", "--tokens", "tokens.jsonl")
    assert plain.returncode == 0 and first.stdout == again.stdout
    assert parsed(first.stdout) == near(plain.stdout)  # with a cache, batches are formed differently
    (file,) = (tmp_path / "cache").iterdir()
    assert json.loads((tmp_path / "tokens.jsonl").read_text().splitlines()[0])["tokens"]
    size = file.stat().st_size
    rescore("score", LISTS, *lm, "--cache", "cache", "--precision", "int8")
    assert len(list((tmp_path / "cache").iterdir())) == 2 and file.stat().st_size == size
    file.write_bytes(b"damaged" * 1000)
    done = rescore("score", LISTS, *lm, "--cache", "cache")
    assert (
        done.returncode == 0
        and "the scores are computed again" in done.stderr
        and parsed(done.stdout) == near(plain.stdout)
    )


def test_precision_and_batches_of_the_command_line(rescore: Run, model: Path) -> None:
    lm = ("--lm", f"tta:{model}")
    assert_one_line_error(
        rescore("score", LISTS, *lm, "--precision", "fp16", "--device", "cpu"), "not for cpu", "bf16 or int8"
    )
    assert_one_line_error(rescore("score", LISTS, *lm, "--batch-tokens", "0"), "--batch-tokens")
    small = rescore("score", LISTS, *lm, "--batch-tokens", "30")
    large = rescore("score", LISTS, *lm, "--batch-tokens", "30000")
    assert small.returncode == 0 and parsed(small.stdout) == near(large.stdout)


def test_a_bar_knows_how_much_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = InputOptions()
    assert inputs.count([str(LISTS)]) is None  # nobody looks
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert inputs.count([str(LISTS)]) == 2320
    assert inputs.count(["-"]) is None


def test_packed_lines_stream_through_pipes(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "lm.arpa").write_text(ARPA, encoding="utf-8")
    assert rescore("convert", LISTS, "-o", "lists.jsonl.gz").returncode == 0
    packed = (tmp_path / "lists.jsonl.gz").read_bytes()
    assert gzip.decompress(packed).count(b"\n") > 50
    done = subprocess.run(
        [sys.executable, "-m", "rescore", "score", "-", "--lm", "ngram:lm.arpa"],
        input=packed,
        capture_output=True,
        cwd=tmp_path,
        check=True,
    )
    assert done.stdout.decode() == rescore("score", LISTS, "--lm", "ngram:lm.arpa").stdout
