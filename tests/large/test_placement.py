"""Models spread over devices and the disk, and in 4 or 8 bits, score as on one device; what is missing is said."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from rescore.errors import UserError
from rescore.large.placement import memory_limits
from rescore.lms import ComputeOptions, Question, load, without_context
from tests.conftest import SENTENCES, Run, assert_one_line_error, write_json
from tests.large.test_huggingface import SIZE, build

TEXTS = [f"the old clock {text}" for text in SENTENCES[:8]]


@pytest.fixture(scope="module", params=["llama", "bert"])
def spec(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = build(request.param, tmp_path_factory.mktemp(request.param), positions=100)
    return f"{'hf-masked' if request.param == 'bert' else 'hf-causal'}:{folder}"


def sums(spec: str, **computing: Any) -> list[float]:
    return [scores.sum for scores in load(spec, ComputeOptions(**computing)).score(without_context(TEXTS))]


@pytest.mark.parametrize("device", ["auto", "auto:cpu=50KB", "auto:cpu=100KB"])
def test_spread_models_score_the_same(spec: str, device: str) -> None:
    pytest.importorskip("accelerate")
    lm: Any = load(spec, ComputeOptions(device=device, precision="float32"))
    places = set(getattr(lm.network._model, "hf_device_map", {}).values())
    if device != "auto":
        assert "disk" in places, "the model is larger than the limit"
    found = [scores.sum for scores in lm.score(without_context(TEXTS))]
    assert found == pytest.approx(sums(spec, device="cpu"), abs=1e-4)
    assert lm.fingerprint == load(spec, ComputeOptions(device="cpu")).fingerprint


def test_a_spread_model_keeps_its_past(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    folder = build("llama", tmp_path, positions=300)
    prompt = f"{' '.join(SENTENCES[:5])} {{text}}"
    lms: list[Any] = [
        load(f"hf-causal:{folder}", ComputeOptions(device, "float32", 60, prompt))
        for device in ("auto:cpu=50KB", "cpu")
    ]
    assert all(lm.network.keeps_past for lm in lms)
    spread, usual = ([scores.sum for scores in lm.score(without_context(TEXTS))] for lm in lms)
    assert spread == pytest.approx(usual, abs=1e-4)


def test_translation_models_are_spread(tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    from tests.large.test_seq2seq import build as build_seq2seq

    folder = build_seq2seq("bart", tmp_path)
    questions = [Question(text, "das haus") for text in TEXTS]
    spread, usual = (
        [scores.sum for scores in load(f"hf-seq2seq:{folder}", ComputeOptions(device, "float32")).score(questions)]
        for device in ("auto:cpu=50KB", "cpu")
    )
    assert spread == pytest.approx(usual, abs=1e-4)


@pytest.mark.parametrize("bits", [4, 8])
def test_models_in_few_bits(bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("accelerate")
    pytest.importorskip("bitsandbytes")
    for name in ("hidden_size", "intermediate_size"):  # on a CPU, bitsandbytes reads whole blocks of 64
        monkeypatch.setitem(SIZE, name, 128)
    folder = build("llama", tmp_path / "whole", positions=100)
    kind = transformers.BitsAndBytesConfig(**{f"load_in_{bits}bit": True})
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, quantization_config=kind, device_map="cpu")
    small = tmp_path / "small"
    model.save_pretrained(small)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(small)
    assert f"load_in_{bits}bit" in (small / "config.json").read_text()
    lm: Any = load(f"hf-causal:{small}", ComputeOptions(device="cpu"))
    assert lm.precision == f"{bits}bit"
    rough, exact = (
        [scores.mean for scores in lm.score(without_context(TEXTS))],
        load(f"hf-causal:{folder}").score(without_context(TEXTS)),
    )
    assert rough == pytest.approx([scores.mean for scores in exact], abs=1.0 if bits == 4 else 0.2)
    assert rough != [scores.mean for scores in exact]
    with pytest.raises(UserError, match=f"--precision int8 is not for a model in {bits}bit"):
        load(f"hf-causal:{small}", ComputeOptions(device="cpu", precision="int8"))


@pytest.mark.parametrize("package", ["accelerate", "bitsandbytes"])
def test_what_is_missing_is_said(package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = build("llama", tmp_path)
    told = json.loads((folder / "config.json").read_text())
    stored = {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}
    (folder / "config.json").write_text(json.dumps({**told, **stored}))
    there = importlib.util.find_spec
    monkeypatch.setattr("rescore.large.placement.find_spec", lambda name: None if name == package else there("json"))
    message = rf"a model in 4bit needs {package}; install it with: pip install 'rescore\[large\]'"
    with pytest.raises(UserError, match=message):
        load(f"hf-causal:{folder}", ComputeOptions(device="cpu"))
    if package == "accelerate":
        with pytest.raises(UserError, match=r"--device auto needs accelerate; install it"):
            load(f"hf-causal:{folder}", ComputeOptions(device="auto"))


def test_limits(rescore: Run, tmp_path: Path) -> None:
    assert memory_limits("auto") is None
    assert memory_limits("auto:0=20GiB,cpu=64GB") == {0: "20GiB", "cpu": "64GB"}
    folder = build("gpt2", tmp_path / "m")
    lists = write_json(tmp_path / "l.json", {"u": {"ref": "a", "hyp_1": {"score": -1, "text": "a"}}})
    wrong = rescore("score", lists, "--lm", f"hf-causal:{folder}", "--device", "auto:cpu=much")
    assert_one_line_error(wrong, "--device auto:cpu=much: 'cpu=much' is no limit")


def test_other_models_take_what_there_is(models: dict[str, Path]) -> None:
    lm: Any = load(f"tta:{models['tta']}", ComputeOptions(device="auto"))
    assert lm.network._device.type == ("cuda" if torch.cuda.is_available() else "cpu")
