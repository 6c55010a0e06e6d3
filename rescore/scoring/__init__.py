"""Language models by name, and the shipped checkpoints."""

from __future__ import annotations

import re
from pathlib import Path

from rescore.errors import UserError
from rescore.scoring.base import NORMS, LanguageModel, TokenScores, add_column, column_name

__all__ = [
    "NORMS",
    "LanguageModel",
    "TokenScores",
    "add_column",
    "column_name",
    "load",
    "model_card",
    "recommended_weight",
    "shipped",
]

KINDS = ("tta", "bilm", "unilm", "unilm-bw")
OPTIONS = {"bilm": ("intact",)}
"""Other readings of a kind, named between the kind and the path."""


def shipped_models() -> Path:
    """The folder of shipped checkpoints: inside an installed package, or beside the package in a checkout."""
    package = Path(__file__).parents[1]
    return package / "models" if (package / "models").is_dir() else package.parent / "models"


def parse(spec: str) -> tuple[str, Path]:
    """`KIND[:OPTION][:DIR]` -> the back-end, `KIND` or `KIND:OPTION`, and the model's folder.

    Raises:
        UserError: the kind is unknown, or nothing is shipped for it.
    """
    kind, _, rest = spec.partition(":")
    if kind not in KINDS:
        raise UserError(f"--lm {spec}: {kind!r} is not one of {', '.join(KINDS)}; give KIND or KIND:DIR")
    option, _, path = rest.partition(":")
    if option in OPTIONS.get(kind, ()):
        backend = f"{kind}:{option}"
    else:
        backend, path = kind, rest
    folder = Path(path) if path else shipped_models() / kind
    if not path and not folder.is_dir():
        raise UserError(f"--lm {spec}: no {kind} is shipped; train one and give it as {backend}:DIR")
    return backend, folder


def load(spec: str, device: str | None = None) -> LanguageModel:
    """The language model that --lm names.

    Raises:
        UserError: the name is unknown, or the model's files are missing or damaged.
    """
    backend, folder = parse(spec)
    from rescore.scoring.neural import NEURAL

    return NEURAL[backend](folder, device=device)


def model_card(spec: str) -> str:
    """The text of a model's README.md; empty where it has none."""
    card = parse(spec)[1] / "README.md"
    return card.read_text(encoding="utf-8") if card.is_file() else ""


def recommended_weight(spec: str) -> float:
    """The weight that the model's card recommends where there are no dev lists to tune on.

    Raises:
        UserError: the card is absent or says none.
    """
    match = re.search(r"^recommended_weight:\s*(0|1|0?\.\d+)\s*$", model_card(spec), re.MULTILINE)
    if not match:
        card = parse(spec)[1] / "README.md"
        raise UserError(f"{card}: no recommended_weight between 0 and 1; give --dev LISTS or --weight NUMBER")
    return float(match[1])


def shipped() -> list[tuple[str, float]]:
    """The shipped models and their recommended weights."""
    return [(kind, recommended_weight(kind)) for kind in KINDS if (shipped_models() / kind).is_dir()]
