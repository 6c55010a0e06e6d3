"""Sets of lists: which columns they have, how they overlap, and tuning in folds."""

from __future__ import annotations

import logging
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rescore.decision import Decision
from rescore.errors import UserError
from rescore.lms import is_pseudo
from rescore.metrics.base import Metric
from rescore.metrics.significance import SPEAKER, speakers
from rescore.nbest import FIRST_PASS, TOKENS, NbestList, content_hash, score_columns
from rescore.tuning.tune import tune
from rescore.tuning.weights import TuningOptions, Weights

log = logging.getLogger(__name__)

LARGE_SET = 500
"""Lists from which on a bonus can be tuned beside a single weight without fitting accidents."""

SCALE_RATIO = 5.0
"""Ratio of spreads of first-pass scores from which on two sets cannot have the same weights."""


def model_columns(nbest: NbestList) -> list[str]:
    """The columns that language models gave, as far as the list records it; else all beside the first pass.

    A toolkit's own features are not tuned beside a language model that was added, by whatever road it was added.
    """
    found = score_columns(nbest)
    return [name for name in found if name in nbest.provenance] or found


def choose_columns(lists: Sequence[NbestList], asked: Sequence[str] = (), nth: int | None = None) -> list[str]:
    """The columns to tune: those asked for, or those of language models; of these the `nth` (from 1) alone.

    Raises:
        UserError: there are not so many.
    """
    columns = [name for name in dict.fromkeys(asked) if name != FIRST_PASS] if asked else model_columns(lists[0])
    if nth is None:
        return columns
    columns = [name for name in columns if name in lists[0].provenance] or columns
    if nth > len(columns):
        raise UserError(f"--nth {nth}: the lists have {len(columns)} columns of LM scores ({', '.join(columns)})")
    return [columns[nth - 1]]


def suits_word_bonus(columns: Sequence[str]) -> bool:
    """Whether a word bonus is tuned, if nobody says it: beside several language models."""
    return len(columns) > 1


def suits_token_bonus(lists: Sequence[NbestList], columns: Sequence[str]) -> bool:
    """Whether a token bonus is tuned, if nobody says it.

    That is on `LARGE_SET` lists or more, with their tokens counted, beside a column of pseudo-log-likelihoods: these
    say little about how long a sentence should be.
    """
    known = lists[0].provenance
    pseudo = any(is_pseudo(known[name].model) for name in columns if name in known)
    return len(lists) >= LARGE_SET and pseudo and TOKENS in lists[0].hypotheses[0].scores


def warn_of_single(lists: Sequence[NbestList]) -> None:
    """Say so where no list leaves a choice."""
    if lists and all(len(nbest.hypotheses) == 1 for nbest in lists):
        log.warning(
            "every list has one hypothesis, so there is nothing to choose from: have the decoder write more, such as "
            "with --nbest 10"
        )


def warn_of_overlap(lists: Sequence[NbestList], dev: Sequence[NbestList]) -> None:
    """Say so where dev and test share utterances: of one id, with the same references."""
    known = {(nbest.id, nbest.references) for nbest in dev}
    shared = [nbest.id for nbest in lists if (nbest.id, nbest.references) in known]
    if shared:
        log.warning(
            "%d of %d test utterances are in the dev lists, too (%s); figures on them flatter",
            len(shared),
            len(lists),
            shared[0],
        )


def warn_of_scales(lists: Sequence[NbestList], dev: Sequence[NbestList]) -> None:
    """Say so where the first-pass scores of dev and test differ in scale: then weights of the one are wrong here."""
    of_test, of_dev = _spread(lists), _spread(dev)
    if of_test and of_dev and max(of_test / of_dev, of_dev / of_test) > SCALE_RATIO:
        log.warning(
            "first-pass scores of a list differ by %.3g in the dev lists and by %.3g in the test lists (medians): are "
            "both sums, or both means, of the same system? Weights tuned on the one do not fit the other",
            of_dev,
            of_test,
        )


def _spread(lists: Sequence[NbestList]) -> float:
    """The median over lists of the difference between the best and the worst first-pass score."""
    scores = [nbest.column(FIRST_PASS) for nbest in lists if len(nbest.hypotheses) > 1]
    spreads = [max(some) - min(some) for some in scores if math.isfinite(min(some))]
    return statistics.median(spreads) if spreads else 0.0


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
) -> tuple[list[str], list[Weights]]:
    """The text chosen for each list with weights tuned on the other folds, and the weights of each fold."""
    texts, each = [""] * len(lists), []
    for fold in range(folds.number):
        mine = [index for index, place in enumerate(folds.fold) if place == fold]
        rest = [nbest for nbest, place in zip(lists, folds.fold, strict=True) if place != fold]
        weights, _ = tune(metric, rest, columns, "the other folds", options)
        each.append(weights)
        chosen = [lists[index] for index in mine]
        decision: Decision = weights.decision
        for index, text in zip(mine, decision.texts(metric, chosen, weights.of), strict=True):
            texts[index] = text
    return texts, each
