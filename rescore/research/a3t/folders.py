"""Folders of models: config.json, model.safetensors, and a card."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from torch import nn

from rescore.errors import UserError, counted
from rescore.files import make_folder, parsed, read_json, write_text
from rescore.lms.checkpoint import read_tensors, write_tensors
from rescore.lms.folders import card_head, check_is_free

Config = TypeVar("Config")

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
LIMITS = {
    "rate": 192_000,
    "bands": 512,
    "d_model": 4_096,
    "layers": 64,
    "heads": 64,
}
"""Beyond these sizes a config.json is damaged, or made to fill the memory."""


def check_sizes(config: Any) -> None:
    """See that a network can have the sizes of a configuration.

    Raises:
        UserError: A size is out of its limits, or heads do not divide the width.
    """
    for name, most in LIMITS.items():
        value = getattr(config, name)
        if not 1 <= value <= most:
            raise UserError(f"{name} is {value}; it must be from 1 to {most:,}")
    if config.d_model % 2 or config.d_model % config.heads:
        raise UserError(
            f"d_model {config.d_model} is odd, or cannot be divided among"
            f" {config.heads} heads"
        )


def prepare(folder: Path) -> None:
    """Make the folder of a training.

    Raises:
        UserError: It holds a model, or cannot be made.
    """
    check_is_free(folder)
    make_folder(folder, f"--out {folder}")


def save(
    folder: Path,
    kind: str,
    config: Any,
    network: nn.Module,
    utterances: int,
    about: str,
) -> None:
    """Write weights, configuration and card.

    Args:
        kind: The kind of language model.
        config: A dataclass.
        utterances: How many the network was trained on.
        about: The text of the card.
    """
    weights = {name: value.contiguous() for name, value in network.state_dict().items()}
    write_tensors(folder / WEIGHTS, weights)
    values = {"kind": kind, **asdict(config)}
    write_text(folder / CONFIG, json.dumps(values, indent=1) + "\n")
    own = {"kind": kind, "trained_on": counted(utterances, "utterance")}
    head = card_head("automatic-speech-recognition", own)
    write_text(folder / "README.md", f"{head}\n\n{about}\n")


def kind_in(folder: Path) -> str:
    """Return the kind of model that a folder says it holds, or an empty string.

    Raises:
        UserError: The folder has no config.json, or it is not JSON.
    """
    values = read_json(folder / CONFIG)
    kind = values.get("kind") if isinstance(values, dict) else None
    return kind if isinstance(kind, str) else ""


def load_config(folder: Path, kind: str, config: type[Config]) -> Config:
    """Return the configuration of a model of a kind.

    Raises:
        UserError: The file is missing or damaged, or describes another model.
    """
    path = folder / CONFIG
    if kind_in(folder) != kind:
        raise UserError(
            f"{path}: describes no model of kind {kind}; train one with `rescore train"
            f" --lm {kind}`"
        )
    values = read_json(path)
    del values["kind"]
    return parsed(values, config, str(path))


def load_weights(folder: Path, network: nn.Module) -> None:
    """Put the weights of a folder into its network, and make it ready to score.

    Raises:
        UserError: The file is missing or damaged, or has other weights.
    """
    path = folder / WEIGHTS
    weights = read_tensors(path)
    wanted = {name: value.shape for name, value in network.state_dict().items()}
    for name in sorted(wanted.keys() | weights.keys()):
        shape = weights[name].shape if name in weights else None
        if shape != wanted.get(name):
            raise UserError(
                f"{path}: {name} is not as config.json asks for; the files belong to"
                " different models"
            )
    network.load_state_dict(weights)
    network.eval()
