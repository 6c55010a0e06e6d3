"""A folder in Hugging Face's layout before anything in it is loaded: what it has, how large, and what it decides."""

from __future__ import annotations

import hashlib
from pathlib import Path

from rescore.errors import UserError
from rescore.files import read_json
from rescore.networks.config import LARGEST

_MANY = (
    "vocab_size",
    "_size",
    "d_model",
    "n_embd",
    "n_inner",
    "ffn_dim",
    "_embeddings",
    "n_positions",
    "heads",
    "n_head",
)
SIZES = {"layers": LARGEST["layers"], "n_layer": LARGEST["layers"], **dict.fromkeys(_MANY, LARGEST["vocab_size"])}
"""Endings of names in the library's configurations, and how large what they name may be."""


def check_sizes(folder: Path) -> None:
    """Refuse what a damaged or hostile config.json would make the library build before it looks at any weights.

    Raises:
        UserError: a number of layers is beyond that of any network, or another size is.
    """
    path = folder / "config.json"
    values = read_json(path) if path.is_file() else {}
    for name, value in values.items() if isinstance(values, dict) else ():
        most = next((number for ending, number in SIZES.items() if name.endswith(ending)), None)
        if isinstance(value, int) and most is not None and value > most:
            raise UserError(f"{path}: {name} is {value}; at most {most:,} are allowed")


def check_files(folder: Path) -> None:
    """See that a model is there whose weights can be read without executing anything.

    Raises:
        UserError: a file is missing.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; expected config.json, *.safetensors and a tokenizer in it")
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder}: no config.json in it; expected a model in Hugging Face's layout")
    if not any(folder.glob("*.safetensors")):
        pickled = sorted([*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.ckpt")])
        found = f" ({pickled[0].name} is pickled, and loading it could execute code)" if pickled else ""
        raise UserError(f"{folder}: no *.safetensors in it{found}; save the model with safe_serialization=True")


def content_digest(folder: Path, settings: bytes = b"") -> bytes:
    """Of all files that decide what a model says, and of settings that do."""
    digest = hashlib.sha256()
    suffixes = (".json", ".txt", ".model", ".safetensors")
    for name in sorted(path.name for path in folder.iterdir() if path.suffix in suffixes and path.is_file()):
        with open(folder / name, "rb") as file:
            digest.update(name.encode() + hashlib.file_digest(file, "sha256").digest())
    digest.update(settings)
    return digest.digest()
