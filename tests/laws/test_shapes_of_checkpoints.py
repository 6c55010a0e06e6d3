"""Law: for each kind of network, a checkpoint whose tensors do not fit its config.json
is refused in one line that names file, tensor and shapes, and the check neither draws
random numbers nor imports PyTorch's compiler.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from rescore.errors import UserError
from rescore.lms import checkpoint
from rescore.lms.config import NetworkConfig
from rescore.parts import KINDS
from tests.conftest import ROOT

NETWORKS = [name for name in KINDS.names if KINDS[name].is_network]
PROGRAM = """
import sys
from pathlib import Path
from rescore.lms import checkpoint
from rescore.lms.config import NetworkConfig
for folder in sys.argv[1:]:
    checkpoint.build_without_memory(NetworkConfig.load(Path(folder, "config.json")))
    assert "torch._dynamo" not in sys.modules, folder
"""
"""Python code that computes the shapes of model folders."""


def shapes(tensors: dict[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def with_all_parts(config: NetworkConfig) -> NetworkConfig:
    """Return the configuration with each part that networks of its kind can have."""
    for part in ("embedding_norm", "output_transform", "output_bias"):
        with suppress(UserError, TypeError):  # the kind has no such part
            config = replace(config, **{part: True})
    return config


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_shapes_are_those_of_the_network(config: NetworkConfig, kind: str) -> None:
    plain = config.of_kind(kind)
    for own in (plain, with_all_parts(plain)):
        state = torch.get_rng_state()
        outline = checkpoint.build_without_memory(own).state_dict()
        assert torch.equal(torch.get_rng_state(), state)
        assert {tensor.device.type for tensor in outline.values()} == {"meta"}
        assert shapes(outline) == shapes(checkpoint.build(own).state_dict())


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_tensor_that_does_not_fit_is_refused(
    models: dict[str, Path], tmp_path: Path, kind: str
) -> None:
    folder = Path(shutil.copytree(models[kind], tmp_path / "model"))
    path = folder / "model.safetensors"
    weights = load_file(path)

    def refusal(damaged: dict[str, Tensor]) -> str:
        save_file(damaged, path)
        with pytest.raises(UserError) as refused:
            checkpoint.load(folder)
        return str(refused.value)

    for name, tensor in weights.items():
        longer = torch.zeros(tensor.shape[0] + 1, *tensor.shape[1:])
        shape, wanted = tuple(longer.shape), tuple(tensor.shape)
        said = f"{path}: {name} is {shape}, config.json asks for {wanted}"
        assert refusal(weights | {name: longer}) == said
    others = {other: weights[other] for other in weights if other != name}
    said = f"{path}: {name} is nothing, config.json asks for {wanted}"
    assert refusal(others) == said
    said = f"{path}: a.new is {shape}, config.json asks for nothing"
    assert refusal(weights | {"a.new": longer}) == said


def test_the_shapes_take_no_compiler(models: dict[str, Path]) -> None:
    folders = [str(models[kind]) for kind in NETWORKS]
    subprocess.run([sys.executable, "-c", PROGRAM, *folders], cwd=ROOT, check=True)
