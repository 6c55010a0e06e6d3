"""Model folders: written and read back, and refused in one line where something is
wrong.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from rescore.errors import UserError
from rescore.lms import checkpoint
from rescore.lms.config import NetworkConfig
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.vocabulary import train_wordpiece


def test_round_trip(model: Path) -> None:
    network, tokenizer = checkpoint.load(model)
    again, _ = checkpoint.load(model)
    assert tokenizer.vocab_size == network.config.vocab_size
    for one, other in zip(network.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other) and one.dtype == torch.float32


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", b"{", "not valid JSON"),
        ("config.json", b'{"kind": "tta", "depth": 3}', "unknown field 'depth'"),
        ("config.json", b'{"heads": 0}', "heads is 0"),
        ("tokenizer.json", b"{}", "not a tokenizer.json"),
        ("tokenizer.json", None, "no such file"),
        ("model.safetensors", b"\x80\x02pickle", "not a whole safetensors file"),
        ("model.safetensors", None, "safetensors only"),
    ],
)
def test_damaged_folder(
    model: Path, tmp_path: Path, file: str, content: bytes | None, message: str
) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "copy"))
    (folder / file).unlink()
    if content is not None:
        (folder / file).write_bytes(content)
    with pytest.raises(UserError, match=message):
        checkpoint.load(folder)


def test_shapes_must_fit(model: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "copy"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "d_ff": 128}))
    with pytest.raises(UserError, match=r"config\.json asks for"):
        checkpoint.load(folder)


def test_normalisation_lives_in_the_tokenizer(tokenizer: Tokenizer) -> None:
    one, other = tokenizer.encode(
        ["MISTER HALE wasn't late", "Mister Hale, wasn\u2019t late!"]
    )
    assert one == other
    quoted, plain, accents = tokenizer.encode(
        ["'the caf\u00e9'", "the cafe", "the cafe\u0301"]
    )
    assert quoted == plain == accents


def test_text_normalisation_keeps_case_and_marks() -> None:
    made = train_wordpiece(["Hello , world .", "hello world"], 100, "text")
    upper, lower = made.encode(["Hello, world.", "hello world"])
    assert upper != lower and len(upper) > len(lower)


def test_config_checks() -> None:
    with pytest.raises(UserError, match="cannot be divided"):
        NetworkConfig(d_model=30, heads=4)
    with pytest.raises(UserError, match="kind 'elmo'"):
        NetworkConfig(kind="elmo")


@pytest.mark.parametrize("number_format", [torch.int8, torch.float8_e4m3fn])
def test_weights_in_another_number_format(
    number_format: torch.dtype, models: dict[str, Path], tmp_path: Path
) -> None:
    """Are refused: as they are, they would give wrong scores."""
    folder = tmp_path / "tta"
    shutil.copytree(models["tta"], folder)
    file = folder / "model.safetensors"
    weights = {}
    for name, value in checkpoint.read_tensors(file).items():
        weights[name] = value.to(number_format)
    checkpoint.write_tensors(file, weights)
    with pytest.raises(UserError, match=r"has numbers in the format .*convert them"):
        checkpoint.load(folder)
