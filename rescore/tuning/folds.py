"""Cross-validation where there is no dev set: the parts, whole speakers or documents where ids show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rescore.errors import UserError
from rescore.metrics.significance import SPEAKER, speakers


@dataclass(frozen=True, slots=True)
class Folds:
    """The fold of each utterance, and what was kept together: `speaker` or `utterance`."""

    number: int
    unit: str
    of: list[int]


def split(ids: Sequence[str], number: int, pattern: str | None = None) -> Folds:
    """Cut a set into parts of about one size, the same for the same ids.

    Args:
        number: how many parts. pattern: where an id has its speaker or document; None for the usual place, and for
            single utterances where ids have none or there are fewer speakers than parts.

    Raises:
        UserError: there are fewer units than parts, or a given pattern does not match.
    """
    if number < 2:
        raise UserError(f"--folds {number}: at least 2 are needed")
    groups, unit = list(ids), "utterance"
    try:
        found = speakers(ids, pattern or SPEAKER)
    except UserError:
        if pattern:
            raise
        found = []
    if found and (pattern or number <= len(set(found)) < len(ids)):
        groups, unit = found, "speaker"
    sizes = Counter(groups)
    if len(sizes) < number:
        raise UserError(f"--folds {number}: only {len(sizes)} {unit}s; give fewer folds")
    loads = [0] * number
    place: dict[str, int] = {}
    for group, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):  # the largest first
        place[group] = loads.index(min(loads))
        loads[place[group]] += size
    return Folds(number, unit, [place[group] for group in groups])
