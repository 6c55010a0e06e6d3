"""What a model says about itself: its card, the weight that it recommends, and a
shipped model's size and text.
"""

from __future__ import annotations

import json
import math

from rescore.errors import UserError
from rescore.files import read_json
from rescore.lms.backends import parse, shipped_models
from rescore.lms.folders import card, card_value


def model_card(spec: str) -> str:
    """The text of a model's README.md; empty where it has none."""
    return card(parse(spec).path)


def recommended_weight(spec: str) -> float:
    """The weight that the model's card recommends where there are no dev lists to
    tune on.
    """
    path = parse(spec).path
    if not path.exists():
        raise UserError(
            f"--lm {spec}: no such file or folder, so no recommended_weight; give a"
            " model that exists"
        )
    try:
        weight = float(card_value(path, "recommended_weight") or "none")
    except ValueError:
        weight = -1.0
    if not 0 <= weight <= 1:
        place = path / "README.md" if path.is_dir() else path
        raise UserError(
            f"{place}: no recommended_weight between 0 and 1 in its card; give --dev"
            " LISTS or --weight NUMBER"
        )
    return weight


def describe(name: str) -> list[str]:
    """A shipped model's parameters, layers, width, language, training text and
    recommended weight.
    """
    folder = shipped_models() / name
    config = read_json(folder / "config.json")
    # the header has all shapes; tensors are not read
    with open(folder / "model.safetensors", "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    parameters = sum(
        math.prod(about["shape"])
        for name, about in header.items()
        if name != "__metadata__"
    )
    about = [card_value(folder, key) or "" for key in ("language", "trained_on")]
    return [
        f"{parameters:,}",
        str(config["layers"]),
        str(config["d_model"]),
        *about,
        f"{recommended_weight(name):g}",
    ]
