"""Folders of models: their cards, and the digest of their files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from rescore.errors import UserError
from rescore.files import sha256

TOKENS_PER_WORD = "tokens_per_word"
"""The key of a card for the number of tokens that a word of the training text has."""


def card(folder: Path) -> str:
    """The text of a model's card; empty if it has none."""
    path = folder / "README.md"
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from None


def card_value(folder: Path, key: str) -> str | None:
    """The value of `key` in the head of a card."""
    head = re.match(r"---\n(.*?)\n---", card(folder), re.DOTALL)
    match = (
        re.search(rf"^{re.escape(key)}:\s*(.+?)\s*$", head[1], re.MULTILINE)
        if head
        else None
    )
    return match[1] if match else None


def tokens_per_word(folder: Path) -> float:
    """The number of tokens that a word of a model's training text has; 0 if its card
    does not say it.
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


def card_head(
    task: str, own: Mapping[str, object], figures: Mapping[str, float] | None = None
) -> str:
    """The head of a card in the form of the Hugging Face Hub, with our own keys.

    Args:
        task: the Hub's name of the task, such as fill-mask. own: our own keys; `kind`
            also names the model. figures: perplexities of held-out text, by name.
    """
    lines = ["---", "library_name: rescore", f"pipeline_tag: {task}", "license: other"]
    lines += [f"{key}: {value}" for key, value in own.items()]
    if figures:
        lines += [
            "model-index:",
            f"- name: {own['kind']}",
            "  results:",
            f"  - task: {{type: {task}}}",
        ]
        lines += [
            "    dataset: {type: text, name: held-out sentences of the training text}",
            "    metrics:",
        ]
        lines += [
            f"    - {{type: perplexity, name: {name}, value: {value:.2f}}}"
            for name, value in figures.items()
        ]
    return "\n".join([*lines, "---"])


def content_digest(folder: Path, settings: bytes = b"") -> bytes:
    """The digest of all files, or of the only file, and of settings that affect a
    model's scores.
    """
    digest = hashlib.sha256(sha256(folder) if folder.is_file() else b"")
    suffixes = (".json", ".txt", ".model", ".safetensors")
    for name in sorted(
        path.name
        for path in folder.glob("*")
        if path.suffix in suffixes and path.is_file()
    ):
        digest.update(name.encode() + sha256(folder / name))
    digest.update(settings)
    return digest.digest()
