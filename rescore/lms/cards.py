"""What a model says about itself: its card, the weight that it recommends, and a
shipped model's size and text.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from rescore.errors import UserError
from rescore.files import read_json
from rescore.lms.backends import parse, shipped, shipped_models
from rescore.lms.folders import card, card_value

FASTER = "tta"
"""The shipped model that is tried first."""
ACCURATE = "tta-large"
"""The shipped model with the lowest error rates."""
ADVICE = (
    f"for English, take {ACCURATE} for accuracy, {FASTER} for speed (2.4 times as fast)"
)
"""Which shipped model to take."""


def model_card(name: str) -> str:
    """Return the text of a model's README.md; empty if it has none.

    Args:
        name: A model as --lm takes it, or the folder of a model.

    Raises:
        UserError: There is no such model, or the file cannot be read.
    """
    folder = Path(name)
    if name not in shipped() and card(folder):
        return card(folder)
    return card(parse(name, option="").path)


def recommended_weight(spec: str) -> float:
    """Return the weight that a model's card recommends where there are no dev lists to
    tune on.

    Args:
        spec: The value of --lm.

    Raises:
        UserError: The value is not valid, or the card has no weight between 0 and 1.
    """
    path = parse(spec).path
    if not path.exists():
        raise UserError(
            f"--lm {spec}: no such file or folder, so no recommended_weight; give a"
            " model that exists"
        )
    weight = weight_of(path)
    if weight is None:
        place = path / "README.md" if path.is_dir() else path
        raise UserError(
            f"{place}: no recommended_weight between 0 and 1 in its card; give --dev"
            " LISTS or --weight NUMBER"
        )
    return weight


def weight_of(folder: Path) -> float | None:
    """Return the weight that the card of a model recommends.

    Args:
        folder: The folder of the model.

    Returns:
        The weight; None if the card has no weight between 0 and 1.

    Raises:
        UserError: The card cannot be read.
    """
    try:
        weight = float(card_value(folder, "recommended_weight") or "none")
    except ValueError:
        return None
    return weight if 0 <= weight <= 1 else None


WEIGHT_SPREAD = "weight_spread"
"""The key of a card with the standard deviation, within a list, of the first-pass
scores that the recommended weight was tuned on: sums of log-probabilities, in nats.
"""


def weight_spread(spec: str) -> float | None:
    """Return how much the scores of a list differ on which a card's weight was tuned.

    Args:
        spec: The value of --lm.

    Returns:
        The standard deviation in nats; None if the card does not say it.

    Raises:
        UserError: The value is not valid, or the card's value is no positive number.
    """
    path = parse(spec).path
    written = card_value(path, WEIGHT_SPREAD)
    if written is None:
        return None
    try:
        spread = float(written)
    except ValueError:
        spread = -1.0
    if not 0 < spread < math.inf:
        place = path / "README.md" if path.is_dir() else path
        raise UserError(
            f"{place}: {WEIGHT_SPREAD} is {written:.40}; write a number above 0, or"
            " remove the line"
        )
    return spread


def describe(name: str) -> list[str]:
    """Return facts about a shipped model, as `rescore models` prints them.

    Args:
        name: The name of the model.

    Returns:
        Parameters, layers, width, language, training text and recommended weight.

    Raises:
        UserError: A file of the model is absent or damaged.
    """
    folder = shipped_models() / name
    config = read_json(folder / "config.json")
    # the head of the file has all shapes; tensors are not read
    with open(folder / "model.safetensors", "rb") as file:
        size = int.from_bytes(file.read(8), "little")
        head = json.loads(file.read(size))
    parameters = 0
    for tensor, about in head.items():
        if tensor != "__metadata__":
            parameters += math.prod(about["shape"])
    return [
        f"{parameters:,}",
        str(config["layers"]),
        str(config["d_model"]),
        card_value(folder, "language") or "",
        card_value(folder, "trained_on") or "",
        f"{recommended_weight(name):g}",
    ]
