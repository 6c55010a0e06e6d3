"""Folders of models: the kind of a folder, its card, and the digest of its files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from rescore.errors import UserError
from rescore.files import read_json, sha256
from rescore.parts import KINDS

TOKENS_PER_WORD = "tokens_per_word"
"""The key of a card for the number of tokens that a word of the training text has."""


MODELS = ("config.json", "model.safetensors", "lm.binary", "lm.arpa")
"""Files of models; where one of them is, a training writes no other model."""
CONTENT = (".json", ".txt", ".model", ".safetensors")
"""Endings of the files that decide a model's scores."""


def fitting(path: Path) -> str:
    """Return the kind of a model that is a folder or a file; empty if it is not known.

    Args:
        path: A folder, which config.json describes, or a file, whose name tells.
    """
    if path.is_file():
        return _kind_that_holds(path.name)
    if not (path / "config.json").is_file():
        return ""
    config = read_json(path / "config.json")
    if not isinstance(config, dict):
        return ""
    if config.get("kind") in KINDS:
        return str(config["kind"])
    return _kind_that_holds(str(config.get("architectures")))


def _kind_that_holds(name: str) -> str:
    """Return the kind that has a file or an architecture of this name; empty if there
    is none.
    """
    for kind_name, kind in KINDS.loaded():
        if kind.holds and re.search(kind.holds, name):
            return kind_name
    return ""


def card(folder: Path) -> str:
    """Return the text of a model's card; empty if it has none.

    Args:
        folder: The folder of the model.

    Raises:
        UserError: The card cannot be read.
    """
    path = folder / "README.md"
    if not path.is_file():
        return ""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from None


def card_value(folder: Path, key: str) -> str | None:
    """Return a value in the head of a card; None if the card does not have it.

    Args:
        folder: The folder of the model.
        key: The key of the value.

    Raises:
        UserError: The card cannot be read.
    """
    head = re.match(r"---\n(.*?)\n---", card(folder), re.DOTALL)
    if head is None:
        return None
    line = re.search(rf"^{re.escape(key)}:\s*(.+?)\s*$", head[1], re.MULTILINE)
    return line[1] if line else None


def tokens_per_word(folder: Path) -> float:
    """Return the number of tokens that a word of a model's training text has.

    Args:
        folder: The folder of the model.

    Returns:
        The number; 0 if the model's card does not say it.

    Raises:
        UserError: The card says something that is not such a number.
    """
    written = card_value(folder, TOKENS_PER_WORD)
    try:
        number = float(written or 0)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise UserError(
            f"{folder / 'README.md'}: {TOKENS_PER_WORD} is {written}; write a number,"
            " or remove the line"
        )
    return number


def check_is_free(out: Path) -> None:
    """Check, before anything is read, that a training writes over no model.

    Args:
        out: The folder of the model to be written; it may be absent.

    Raises:
        UserError: The folder holds a model of any kind.
    """
    if card_value(out, "kind") or any((out / name).is_file() for name in MODELS):
        raise UserError(
            f"--out {out}: holds a model; give another folder, or delete this one"
        )


def card_head(
    task: str, own: Mapping[str, object], figures: Mapping[str, float] | None = None
) -> str:
    """Return the head of a card in the form of the Hugging Face Hub.

    Args:
        task: The Hub's name of the task, such as fill-mask.
        own: Keys of our own; `kind` also names the model.
        figures: Perplexities of held-out text, by name; None for no figures.
    """
    lines = ["---", "library_name: rescore", f"pipeline_tag: {task}", "license: other"]
    lines += [f"{key}: {value}" for key, value in own.items()]
    if figures:
        lines += [
            "model-index:",
            f"- name: {own['kind']}",
            "  results:",
            f"  - task: {{type: {task}}}",
            "    dataset: {type: text, name: held-out sentences of the training text}",
            "    metrics:",
        ]
        for name, value in figures.items():
            lines.append(
                f"    - {{type: perplexity, name: {name}, value: {value:.2f}}}"
            )
    lines.append("---")
    return "\n".join(lines)


def content_digest(folder: Path, settings: bytes = b"") -> bytes:
    """Return the digest of a model's files and settings.

    Args:
        folder: The folder of the model, or its only file.
        settings: Settings that affect the model's scores.
    """
    digest = hashlib.sha256()
    if folder.is_file():
        digest.update(sha256(folder))
    for path in sorted(folder.glob("*"), key=lambda path: path.name):
        if path.suffix in CONTENT and path.is_file():
            digest.update(path.name.encode() + sha256(path))
    digest.update(settings)
    return digest.digest()
