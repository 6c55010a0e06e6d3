"""What a user's expression finds in ids: the speaker, the group, the question."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import re2

from rescore.errors import UserError
from rescore.ids import short


def groups_of_ids(
    ids: Sequence[str],
    pattern: str,
    option: str,
    instead: str = "another expression",
    needs_group: bool = False,
) -> list[str]:
    """Return what an expression finds in each id.

    Args:
        ids: Ids of utterances; of paths of audio files, the names are searched before
            the folders.
        pattern: A regular expression; its first group is returned, without a group the
            whole match.
        option: The option and its value, for messages.
        instead: What to give where the expression does not match.
        needs_group: Whether the expression must have a group.

    Raises:
        UserError: The expression is invalid, has no group, or does not match an id.
    """
    expression = _compiled(pattern, option)
    if needs_group and not expression.groups:
        raise UserError(
            f"{option}: the expression has no group; put the part of the id that names"
            " the group in (parentheses)"
        )
    group = min(1, expression.groups)
    labels = []
    for name in ids:
        # folders may have hyphens, too
        match = expression.search(short(name)) or expression.search(name)
        label = match[group] if match else None
        if label is None:
            raise UserError(
                f"utterance {name}: {option} does not match it; give {instead}"
            )
        labels.append(label)
    return labels


def _compiled(pattern: str, option: str) -> Any:
    """Return a compiled expression of RE2."""
    options = re2.Options()
    options.log_errors = False  # RE2 writes to stderr itself
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0].decode()
    except UnicodeEncodeError:
        reason = "not UTF-8"
    name = option.partition(" ")[0]
    raise UserError(
        f"{name}: {pattern!r} is not a regular expression of RE2 ({reason})"
    )
