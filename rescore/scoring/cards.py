"""Model cards: a folder's README.md, with a few values at its head between lines of `---`."""

from __future__ import annotations

import re
from pathlib import Path

from rescore.errors import UserError


def card(folder: Path) -> str:
    """The text of a model's card; empty where it has none."""
    path = folder / "README.md"
    try:
        return path.read_text(encoding="utf-8") if path.is_file() else ""
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read ({error})") from None


def card_value(folder: Path, key: str) -> str | None:
    """What the head of a card says under `key`."""
    head = re.match(r"---\n(.*?)\n---", card(folder), re.DOTALL)
    found = re.search(rf"^{re.escape(key)}:\s*(.+?)\s*$", head[1], re.MULTILINE) if head else None
    return found[1] if found else None
