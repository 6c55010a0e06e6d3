"""A GPU gives the scores of the CPU, by default in bf16, within its memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import rescore
from rescore.lms import ComputeOptions, load, without_context
from rescore.lms.backends import shipped
from rescore.lms.config import NetworkConfig
from rescore.lms.devices import choose_device, choose_precision
from rescore.parts import KINDS
from tests.conftest import ROOT, SENTENCES, Run

LISTS = ROOT / "data" / "test.json"
NBEST = rescore.read(LISTS)[:10]
TEXTS = [hypothesis.text for nbest in NBEST for hypothesis in nbest.hypotheses]


def networks() -> list[str]:
    """Return the shipped networks, and each option that changes how they score."""
    names = []
    for name in shipped():
        kind = name.split("-")[0]
        if not KINDS[kind].is_network:
            continue
        names.append(name)
        config = NetworkConfig.load(ROOT / "models" / name / "config.json")
        if "intact" in KINDS[kind].options:
            names.append(f"{name}:intact")
        if config.neighbours[0]:
            names.append(f"{name}:context={config.neighbours[0]}")
    return names


def sums(name: str, texts: list[str], **computing: Any) -> list[float]:
    """Return the scores of texts, natural log."""
    lm = load(name, ComputeOptions(**computing))
    return [score.sum for score in lm.score(without_context(texts))]


def test_the_gpu_and_bf16_are_the_default(cuda: str) -> None:
    chosen = choose_device(None)
    assert chosen.type == cuda
    supported = torch.cuda.is_bf16_supported()
    assert choose_precision(None, chosen) == ("bf16" if supported else "fp16")
    lm = load("tta-small")
    assert next(lm.network.network.parameters()).device.type == cuda


@pytest.mark.parametrize("name", networks())
def test_scores_equal_those_of_the_cpu(name: str, device: str) -> None:
    ours = sums(name, TEXTS, device=device, precision="float32")
    wanted = sums(name, TEXTS, device="cpu", precision="float32")
    assert ours == pytest.approx(wanted, abs=1e-3)


@pytest.mark.parametrize("name", networks())
def test_scores_do_not_depend_on_the_batch(name: str, device: str) -> None:
    lm = load(name, ComputeOptions(device=device, precision="float32"))
    questions = without_context(TEXTS[:30])
    together = [score.sum for score in lm.score(questions)]
    alone = [lm.score([question])[0].sum for question in questions]
    assert together == pytest.approx(alone, abs=1e-3)


@pytest.mark.parametrize(("precision", "limit"), [("bf16", 0.3), ("fp16", 0.1)])
@pytest.mark.parametrize("name", networks())
def test_short_numbers_are_near(
    name: str, precision: str, limit: float, device: str
) -> None:
    """The mean change of a score, natural log; scores are about -60."""
    if precision == "fp16" and device == "cpu":
        pytest.skip("fp16 needs a GPU")
    ours = sums(name, TEXTS, device=device, precision=precision)
    wanted = sums(name, TEXTS, device="cpu", precision="float32")
    changes = [abs(one - other) for one, other in zip(ours, wanted, strict=True)]
    assert sum(changes) / len(changes) < limit


def test_memory_does_not_grow_with_the_text(cuda: str) -> None:
    """Texts of several batches take no more memory than those of two batches."""
    lm = load("tta-small", ComputeOptions(device=cuda))
    free, _ = torch.cuda.mem_get_info()
    peaks = []
    for repeats in (2, 8):
        tokens = lm.network.batch_tokens * repeats
        texts = []
        for number in range(tokens // 12):
            texts.append(f"{SENTENCES[number % len(SENTENCES)]} {'a' * (number % 7)}")
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        lm.score(without_context(texts))
        peaks.append(torch.cuda.max_memory_allocated())
    assert peaks[1] < 1.2 * peaks[0]
    assert peaks[1] < free / 3


def test_the_commands_choose_as_on_the_cpu(
    rescore: Run, tmp_path: Path, device: str
) -> None:
    figures = []
    for name in (device, "cpu"):
        report = tmp_path / f"{name}.json"
        weight = ("--weight", "0.4", "--precision", "float32", "--device", name)
        done = rescore("run", LISTS, "--lm", "tta-small", *weight, "--report", report)
        assert done.returncode == 0, done.stderr
        figures.append(json.loads(report.read_text())["metrics"])
    assert figures[0] == figures[1]


@pytest.mark.parametrize("kind", ["hf-causal", "hf-masked"])
def test_models_of_transformers_score_as_on_the_cpu(
    kind: str, tmp_path: Path, device: str
) -> None:
    pytest.importorskip("transformers")
    from tests.large.test_huggingface import build

    folder = build({"hf-causal": "gpt2", "hf-masked": "bert"}[kind], tmp_path / kind)
    texts = SENTENCES[:20]
    ours = sums(f"{kind}:{folder}", texts, device=device, precision="float32")
    wanted = sums(f"{kind}:{folder}", texts, device="cpu", precision="float32")
    assert ours == pytest.approx(wanted, abs=1e-3)
