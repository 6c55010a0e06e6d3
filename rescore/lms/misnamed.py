"""What a name or a path that no model has may stand for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rescore.errors import did_you_mean
from rescore.files import read_json
from rescore.parts import KINDS


def fitting(path: Path) -> str:
    """The kind of model that a folder (by its config.json) or a file (by its name)
    holds; empty if it is not known.
    """
    if path.is_file():
        held = path.name
    elif not (path / "config.json").is_file() or not isinstance(
        config := read_json(path / "config.json"), dict
    ):
        return ""
    elif config.get("kind") in KINDS:
        return str(config["kind"])
    else:
        held = str(config.get("architectures"))
    for name, kind in KINDS.loaded():
        if kind.holds and re.search(kind.holds, held):
            return name
    return ""


def advice(spec: str, shipped: Sequence[str]) -> str:
    """What to give to --lm in the place of a spec whose first part is no kind and no
    shipped model.
    """
    first, _, place = spec.partition(":")
    for path in filter(None, (place, spec)):
        if kind := fitting(Path(path)):
            return (
                f"is no kind of model; {path} holds a model of another kind: give --lm"
                f" {kind}:{path}"
            )
    known = [*shipped, *(name for name in KINDS.names if name not in shipped)]
    similar = [name for name in known if name.startswith(f"{first}-")]
    meant = (
        f"; did you mean {' or '.join(similar)}?"
        if similar
        else did_you_mean(first, known)
    )
    return f"is not one of {', '.join(known)}{meant or '; give KIND or KIND:PATH'}"
