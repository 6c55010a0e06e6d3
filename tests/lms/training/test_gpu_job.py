"""The job for a GPU, with a tiny network on the CPU: all of the text is packed, and
pieces go on from each other.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from rescore.lms import checkpoint
from rescore.lms.config import NetworkConfig
from rescore.lms.tokenizer import Tokenizer
from tests.conftest import ROOT, SENTENCES

DOCUMENTS = [SENTENCES[start : start + 37] for start in range(0, len(SENTENCES), 37)]


def run(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "benchmarks" / "gpu" / script), *arguments]
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
        timeout=300,
    )


def test_packs_a_text_and_trains_on_it_piece_by_piece(
    tmp_path: Path, tokenizer: Tokenizer
) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    (tmp_path / "text").write_text(
        "\n\n".join("\n".join(document) for document in DOCUMENTS)
    )
    packing = (
        "text",
        "--tokenizer",
        "tokenizer.json",
        "--out",
        "shards",
        "--megabytes",
        "0.006",
    )
    done = run(tmp_path, "pack.py", *packing)
    assert done.returncode == 0, done.stderr
    shards = sorted((tmp_path / "shards").iterdir())
    assert len(shards) == 2 and all(shard.stat().st_size <= 6_000 for shard in shards)
    found = []
    for shard in map(load_file, shards):
        sentences = np.split(shard["ids"], np.cumsum(shard["lengths"].astype(int))[:-1])
        assert shard["documents"].sum() == len(sentences)
        found += [" ".join(map(str, sentence)) for sentence in sentences]
    assert sorted(found) == sorted(
        " ".join(map(str, ids)) for ids in tokenizer.encode(SENTENCES)
    )

    config = NetworkConfig(
        "tta", tokenizer.vocab_size, layers=1, d_model=16, heads=2, d_ff=32
    )
    config.save(tmp_path / "config.json")
    usual = (
        "--state",
        "state",
        "--tokenizer",
        "tokenizer.json",
        "--config",
        "config.json",
        "--device",
        "cpu",
    )
    losses = []
    for number, more in enumerate([(), ("--last",)]):
        short = (
            "--steps",
            "25",
            "--batch-tokens",
            "500",
            "--held-out",
            "20",
            "--learning-rate",
            "0.01",
        )
        done = run(tmp_path, "piece.py", str(shards[number]), *usual, *short, *more)
        assert done.returncode == 0, done.stderr
        progress = json.loads((tmp_path / "state" / "progress.json").read_text())
        assert progress["pieces"] == number + 1
        losses.append(progress["loss"])
    assert losses[1] < losses[0]
    assert checkpoint.load(tmp_path / "state", "tta")[0].config == config
