"""At the command line: the cache, precision, and streams."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

from tests.conftest import ROOT, Run, assert_one_line_error, near, parsed, some_lists
from tests.lms.test_ngram import ARPA

LISTS = ROOT / "data" / "test.json"


def test_cache_is_used_by_the_next_command(
    rescore: Run, model: Path, tmp_path: Path
) -> None:
    lm, lists = ("--lm", f"tta:{model}"), some_lists(tmp_path, "test", 10)
    plain = rescore("score", lists, *lm)
    first = rescore("score", lists, *lm, "--cache", "cache")
    again = rescore("score", lists, *lm, "--cache", "cache", "--tokens", "tokens.jsonl")
    assert plain.returncode == 0 and first.stdout == again.stdout
    # with a cache, batches are formed differently
    assert parsed(first.stdout) == near(plain.stdout)
    (file,) = (tmp_path / "cache").iterdir()
    assert json.loads((tmp_path / "tokens.jsonl").read_text().splitlines()[0])["tokens"]
    size = file.stat().st_size
    rescore("score", lists, *lm, "--cache", "cache", "--precision", "int8")
    assert (
        len(list((tmp_path / "cache").iterdir())) == 2 and file.stat().st_size == size
    )
    file.write_bytes(b"damaged" * 1000)
    assert_one_line_error(
        rescore("score", lists, *lm, "--cache", "cache"), file.name, "delete it"
    )


def test_precision_and_batches_of_the_command_line(
    rescore: Run, model: Path, tmp_path: Path
) -> None:
    lm, lists = ("--lm", f"tta:{model}"), some_lists(tmp_path, "test", 10)
    assert_one_line_error(
        rescore("score", lists, *lm, "--precision", "fp16", "--device", "cpu"),
        "not for cpu",
        "bf16 or int8",
    )
    assert_one_line_error(
        rescore("score", lists, *lm, "--batch-tokens", "0"), "--batch-tokens"
    )
    small = rescore("score", lists, *lm, "--batch-tokens", "30")
    large = rescore("score", lists, *lm, "--batch-tokens", "30000")
    assert small.returncode == 0 and parsed(small.stdout) == near(large.stdout)


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
    assert (
        done.stdout.decode() == rescore("score", LISTS, "--lm", "ngram:lm.arpa").stdout
    )
