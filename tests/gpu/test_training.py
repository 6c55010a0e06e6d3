"""A GPU trains compiled networks in bf16, and the CPU reads what it trained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from rescore.lms import ComputeOptions, load, without_context
from rescore.lms.training.loop import training_precision
from tests.conftest import ROOT, SENTENCES, TINY, Run, write_json

TEXT = ROOT / "data" / "sentences.txt"


def losses(output: str) -> list[float]:
    """Return the validation losses that a training prints."""
    return [float(loss) for loss in re.findall(r"validation loss (\S+)", output)]


def test_bfloat16_is_the_default(cuda: str) -> None:
    supported = torch.cuda.is_bf16_supported()
    wanted = torch.bfloat16 if supported else torch.float32
    assert training_precision("auto", torch.device(cuda)) == wanted


@pytest.mark.parametrize("kind", ["tta", "bilm", "unilm"])
def test_networks_are_trained_and_read_on_the_cpu(
    kind: str,
    rescore: Run,
    tmp_path: Path,
    device: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = write_json(tmp_path / "config.json", TINY)
    out = tmp_path / kind
    usual = ("train", "--lm", kind, "--text", TEXT, "--config", config, "--size", "200")
    options = ("--batch-tokens", "1000", "--learning-rate", "0.01", "--device", device)
    first = rescore(*usual, *options, "--steps", "5", "--out", out)
    assert not first.returncode, first.stderr
    second = rescore(*usual, *options, "--steps", "120", "--out", out, "--resume")
    assert not second.returncode, second.stderr
    assert losses(second.stderr)[-1] < losses(first.stderr)[-1] - 0.3
    assert "cannot compile" not in caplog.text
    scores = []
    for name in (device, "cpu"):
        lm = load(f"{kind}:{out}", ComputeOptions(device=name, precision="float32"))
        scores.append([score.sum for score in lm.score(without_context(SENTENCES[:9]))])
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)
