"""Cross-validation where there is no dev set: the parts, whole speakers or documents where ids show them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rescore.decision import Decision
from rescore.errors import UserError
from rescore.metrics.base import Metric
from rescore.metrics.resampling import SPEAKER, speakers
from rescore.nbest import NbestList, content_hash
from rescore.tuning.tune import TuningOptions, tune


@dataclass(frozen=True, slots=True)
class Folds:
    """How a set is cut into parts."""

    number: int
    """How many."""
    unit: str
    """What is kept together: `speaker` or `utterance`."""
    fold: list[int]
    """The part of each utterance."""

    def signature(self, lists: Sequence[NbestList]) -> str:
        """Where weights tuned in folds come from, for signatures."""
        return f"{self.number}folds,by={self.unit},{len(lists)}@{content_hash(lists)}"


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


def tuned_in_folds(
    folds: Folds, metric: Metric, lists: Sequence[NbestList], columns: Sequence[str], options: TuningOptions
) -> list[str]:
    """The text chosen for each list with weights tuned on the other folds."""
    texts = [""] * len(lists)
    for fold in range(folds.number):
        mine = [index for index, place in enumerate(folds.fold) if place == fold]
        rest = [nbest for nbest, place in zip(lists, folds.fold, strict=True) if place != fold]
        weights, _ = tune(metric, rest, columns, "the other folds", options)
        chosen = [lists[index] for index in mine]
        decision: Decision = weights.decision
        for index, text in zip(mine, decision.texts(metric, chosen, weights.of), strict=True):
            texts[index] = text
    return texts
