"""The saved state of a training: how it is read, and whether it belongs to a training.

A state has the key of its training (`rescore.keys`): all options that are not harmless,
and what they came to.
"""

from __future__ import annotations

import logging
from pathlib import Path

from safetensors import SafetensorError, safe_open
from torch import Tensor

from rescore.errors import UserError
from rescore.keys import Key, differences, shown
from rescore.lms.config import REMOVED

log = logging.getLogger(__name__)

ADJUSTABLE = (
    *("learning_rate", "dropout", "weight_decay", "warmup", "decay", "precision"),
    *("steps", "minutes"),
)
"""The options that a resumed training may change; a line names each change."""
LENGTH = ("steps", "minutes")
"""Options of these that a user changes to train for longer."""


def read_state(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """Return the metadata and the tensors of a saved state.

    Args:
        path: The file.

    Raises:
        UserError: The file is damaged.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {}
            for name in file.keys():  # noqa: SIM118 (no mapping)
                tensors[name] = file.get_tensor(name)
            return file.metadata(), tensors
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: not a whole safetensors file ({error})") from None


def of_earlier(before: Key, now: Key, usual: Key) -> Key:
    """Return the key of a saved state, which versions before 0.3 wrote with fewer
    entries.

    They have the options of the objective together, as texts and only those that are
    set, and fields of networks that are gone. Of other entries that they lack nothing
    is known.

    Args:
        before: The key.
        now: The key of this training.
        usual: The options of the objective, with their defaults.
    """
    if LENGTH[0] in before:
        return before
    objective = {**usual, **before.get("objective", {})}
    for name, value in objective.items():
        if str(value) == str(now.get(name)):
            objective[name] = now[name]
    network = dict(before.get("network", {}))
    for name in REMOVED:
        if not network.get(name):
            network.pop(name, None)
    known = {name: value for name, value in before.items() if value != ""}
    known.pop("objective", None)
    return {**now, **known, **objective, "network": network}


def check_same(path: Path, before: Key, now: Key) -> None:
    """Check that a saved state belongs to this training, and tell which of the options
    that may change are other than before.

    The length of the training may change; options that decide the batches or the
    network may not.

    Args:
        path: The file of the state, for the message.
        before: The key of the state.
        now: The key of this training.

    Raises:
        UserError: Something else differs.
    """
    changed = differences(before, now)
    for different in changed:
        if different.name.replace("-", "_") not in ADJUSTABLE:
            raise UserError(
                f"{path}: was made with {different.name} {shown(different.before)}, not"
                f" {shown(different.now)}; resume with the same, or start in another"
                " folder"
            )
    for different in changed:
        level = logging.WARNING
        if different.name in LENGTH:
            level = logging.INFO
        log.log(
            level,
            "--%s was %s before, and is %s now",
            different.name,
            shown(different.before),
            shown(different.now),
        )
