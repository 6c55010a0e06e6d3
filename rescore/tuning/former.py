"""Weights files of former versions, in the form of today.

Schema `rescore/weights/1` is of version 0.2: what is known of the tuning lists stands
in the form of a signature. In `rescore/weights/2`, of 0.3 before its release, the
record of the tuning lies beside the weights, not under `tuning`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rescore.errors import UserError
from rescore.files import parsed
from rescore.tuning.record import TunedBy

FIRST = "rescore/weights/1"
SCHEMAS = (FIRST, "rescore/weights/2")
"""Former schemas that are read."""
BESIDE = {
    "columns": "columns",
    "options": "options",
    "unproven": "unproven",
    "toolkit": "toolkit",
    "fold_weights": "of_folds",
}
"""Keys that lay beside the weights, and the fields of `Tuning` that have them today."""
RECORDS = ("tuned", "tuned_for")
"""Keys of objects whose fields are fields of `Tuning` today."""
CONDITIONS = ("condition", "conditions", "excluded_in")
"""Keys of 0.2 for weights that differed from list to list (`--condition`)."""


def as_today(values: dict[str, Any], schema: str, place: str) -> dict[str, Any]:
    """Return the values of a weights file with the record of the tuning under `tuning`.

    Values that a person wrote, without such a record, stay as they are.

    Args:
        values: The values of the file.
        schema: Its schema.
        place: The file, for messages.

    Raises:
        UserError: The weights differ from list to list, or a record is damaged.
    """
    today = dict(values)
    if schema == FIRST:
        today = _second(today, place)
    tuning: dict[str, Any] = {}
    for name in RECORDS:
        record = today.pop(name, None)
        if record is not None:
            tuning |= parsed(record, dict[str, Any], f"{place}: {name}")
    for former, name in BESIDE.items():
        if former in today:
            tuning[name] = today.pop(former)
    if tuning:
        today["tuning"] = tuning
    return today


def key_of(values: Mapping[str, Any], field: str) -> str:
    """Return the key of a file of a former version for a field of today, for messages.

    Args:
        values: The values of the file.
        field: The place of the field, such as `tuning.of_folds[...].weights`.
    """
    in_tuning = re.fullmatch(r"tuning\.(\w+)(.*)", field)
    if in_tuning is None or "tuning" in values:
        return field
    name, rest = in_tuning.groups()
    for former, today in BESIDE.items():
        if name == today:
            name = former
    for record in RECORDS:
        if isinstance(values.get(record), dict) and name in values[record]:
            return f"{record}.{name}{rest}"
    if "decide" in values.get("options", ()):
        rest = rest.replace(".decision", ".decide", 1)
    return f"{name}{rest}"


def _second(values: dict[str, Any], place: str) -> dict[str, Any]:
    """Return the values of a file of 0.2 in the form of the second schema."""
    if any(values.get(name) for name in CONDITIONS):
        raise UserError(
            f"{place}: weights of 0.2 for conditions (--condition), which this version"
            " does not have; tune again"
        )
    origin = parsed(values.get("origin", ""), str, f"{place}: origin")
    source = origin.removeprefix("tuned on ")
    tuned = of_signature(parsed(values.get("tuned", ""), str, f"{place}: tuned"))
    second = {**values, "tuned": {**tuned, "source": source}}
    options = values.get("options")
    if isinstance(options, dict) and "decide" in options:
        second["options"] = {**options, "decision": options["decide"]}
    return second


def of_signature(text: str) -> dict[str, Any]:
    """Return the fields of `Tuning` that the field `tuned` of a signature shows.

    Args:
        text: The field, as `Tuning.signature` writes it: `5folds,by=speaker,90@2-0b1f`.
    """
    by = TunedBy.GIVEN
    fields: dict[str, Any] = {}
    how: dict[str, str] = {}
    for part in text.split(","):
        number, at, digest = part.partition("@")
        name, equals, value = part.partition("=")
        if at and number.isdecimal():
            by = TunedBy.DEV
            fields |= {"lists": int(number), "digest": digest}
        elif name == "by":
            fields["unit"] = value
        elif equals:
            how[name] = value
        elif part == "card":
            by = TunedBy.CARD
        elif part == "forced":
            fields["forced"] = True
        elif part.removesuffix("folds").isdecimal():
            fields["folds"] = int(part.removesuffix("folds"))
    if "folds" in fields:
        by = TunedBy.FOLDS
    if not text:
        by = TunedBy.TEXTS
    return {**fields, "by": by.value, "how": how}
