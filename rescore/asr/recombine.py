"""New hypotheses that combine parts of the hypotheses of a list.

A hypothesis is the best hypothesis of its list with some edits. The effect of each edit
on the score is estimated from the scores of the list. A new hypothesis has a set of
edits that no hypothesis of the list has.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from rescore.asr.features import RECOMBINED
from rescore.asr.systems import refuse_scored
from rescore.asr.written import ComparedWord, rewritten, tokens_of
from rescore.columns import FIRST_PASS
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.expansion import Expansion
from rescore.metrics.normalise import Normaliser
from rescore.nbest import Hypothesis, NbestList, in_tie_order
from rescore.options import Declared, option
from rescore.pace import paced

log = logging.getLogger(__name__)

RIDGE = 0.3
"""Weight of the distance of estimates from the mean of the list's edits, beside the
squared error of a hypothesis.
"""
DEFAULT_NUMBER = 20
"""New hypotheses of a list."""
CUT = Normaliser(case_sensitive=True, split_mixed=True)
"""Cuts texts for every metric alike, as lists are recombined before a metric is
known.
"""


class Edit(NamedTuple):
    """Words of a text, from `start` to before `end`, and their replacement."""

    start: int
    end: int
    words: tuple[ComparedWord, ...]


def edits_between(
    text: Sequence[ComparedWord], other: Sequence[ComparedWord]
) -> tuple[Edit, ...]:
    """Return the spans in which `other` differs from `text`, from left to right, in an
    alignment with the fewest errors.

    Args:
        text: The words to which edits apply.
        other: The words after the edits.
    """
    edits = []
    start = 0
    begin = 0
    # the last one is empty, at both ends
    for block in Levenshtein.editops(text, other).as_matching_blocks():
        if (start, begin) != (block.a, block.b):
            edits.append(Edit(start, block.a, tuple(other[begin : block.b])))
        start = block.a + block.size
        begin = block.b + block.size
    return tuple(edits)


def recombine(nbest: NbestList, number: int = DEFAULT_NUMBER) -> NbestList:
    """Return the list with further hypotheses, of the origin `RECOMBINED`.

    New hypotheses lack component scores, which have weights only on request
    (--components).

    Args:
        nbest: The list.
        number: The number of new hypotheses, at most.

    Raises:
        UserError: The list has scores of models, which the new hypotheses would lack.
    """
    refuse_scored(nbest, "recombine")
    # of equally good hypotheses, the edits start from the first
    ordered = in_tie_order(nbest)
    scores = np.array(ordered.column(FIRST_PASS))
    finite = np.flatnonzero(np.isfinite(scores))
    if not len(finite):
        return replace(nbest, hypotheses=list(nbest.hypotheses))
    words = [tokens_of(hypothesis.text, CUT) for hypothesis in ordered.hypotheses]
    known = set(map(tuple, words))
    usable = [words[place] for place in finite]
    new: list[Hypothesis] = []
    versions = combinations(usable, scores[finite], number + len(known))
    for estimated, combined in versions:
        if combined not in known and len(new) < number:
            known.add(combined)
            text = rewritten(combined)
            new.append(Hypothesis(text, {FIRST_PASS: estimated}, RECOMBINED))
    return replace(nbest, hypotheses=[*nbest.hypotheses, *new])


def combinations(
    hypotheses: Sequence[Sequence[ComparedWord]],
    scores: npt.NDArray[np.float64],
    number: int,
) -> list[tuple[float, tuple[ComparedWord, ...]]]:
    """Return the combinations of edits with the best estimated scores, the best first.

    Of equally good hypotheses, edits apply to the first.

    Args:
        hypotheses: The words of each hypothesis.
        scores: The score of each hypothesis, finite, of shape (hypotheses,).
        number: Partial combinations are kept up to twice this number.

    Returns:
        The estimated score and the words of each combination.
    """
    top = int(scores.argmax())
    best = hypotheses[top]
    sets = [edits_between(best, hypothesis) for hypothesis in hypotheses]
    edits = sorted(set().union(*sets))
    gains = estimate(sets, edits, scores - scores[top])
    # Partial combinations, by score: the edits chosen so far.
    beam: list[tuple[float, tuple[Edit, ...]]] = [(float(scores[top]), ())]
    for edit, gain in zip(edits, gains.tolist(), strict=True):
        if len(beam) == 2 * number and beam[0][0] + gain <= beam[-1][0]:
            continue  # nothing that has it would stay
        longer = list(beam)
        for score, chosen in beam:
            if not chosen or _follows(chosen[-1], edit):
                longer.append((score + gain, (*chosen, edit)))
        longer.sort(key=lambda item: -item[0])
        beam = longer[: 2 * number]
    return [(score, _apply(best, chosen)) for score, chosen in beam]


def estimate(
    sets: Sequence[Sequence[Edit]],
    edits: Sequence[Edit],
    differences: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Return the effect of each edit on the score.

    The least squares of `differences` as sums over each hypothesis' edits, drawn to the
    mean of an edit, at most 0: no edit of the best hypothesis is better than none.

    Args:
        sets: The edits of each hypothesis.
        edits: All edits.
        differences: The score of each hypothesis minus the best score (hypotheses,).

    Returns:
        Effects of shape (edits,).
    """
    where = {edit: place for place, edit in enumerate(edits)}
    has = np.zeros((len(sets), len(edits)))
    for row, own in zip(has, sets, strict=True):
        for edit in own:
            row[where[edit]] = 1.0
    total = has.sum()
    if not total:
        return np.zeros(len(edits))
    mean = min(0.0, float(differences.sum() / total))
    rest = differences - has.sum(axis=1) * mean
    # (X'X + rI)^-1 X' = X' (XX' + rI)^-1: the smaller matrix is inverted, as long lists
    # have thousands of edits.
    if len(edits) <= len(sets):
        ridge = RIDGE * np.eye(len(edits))
        gains = np.linalg.solve(has.T @ has + ridge, has.T @ rest)
    else:
        ridge = RIDGE * np.eye(len(sets))
        gains = has.T @ np.linalg.solve(has @ has.T + ridge, rest)
    return np.minimum(mean + gains, 0.0)


def _follows(last: Edit, edit: Edit) -> bool:
    """Return whether an edit is behind another one; of two insertions at one place
    only one can be.
    """
    return edit.start >= last.end and edit[:2] != last[:2]


def _apply(
    best: Sequence[ComparedWord], edits: Sequence[Edit]
) -> tuple[ComparedWord, ...]:
    """Return the words of the best hypothesis after edits."""
    words: list[ComparedWord] = []
    done = 0
    for edit in edits:
        words += best[done : edit.start]
        words += edit.words
        done = edit.end
    return (*words, *best[done:])


class Recombining(Expansion):
    """Hypotheses that combine what others have in different places."""

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        recombine: int = option(
            0,
            "Add up to K hypotheses to each list, combined from parts of its"
            " hypotheses.",
            metavar="K",
            low=0,
        )

    def __init__(self, number: int) -> None:
        self._number = number

    @classmethod
    def made(
        cls, options: Options, config: RunConfig, dev: Dataset | None
    ) -> Recombining:
        return cls(options.recombine)

    def check_components(self, lists: Dataset, names: Sequence[str]) -> None:
        if names:
            raise UserError(
                "--components and --recombine exclude each other: recombined"
                f" hypotheses have no score {names[0]}"
            )

    def __call__(
        self, lists: Iterable[NbestList], dev: bool = False
    ) -> Iterator[NbestList]:
        if not isinstance(lists, Sequence):  # a stream stays one
            return (recombine(nbest, self._number) for nbest in lists)
        longer = [
            recombine(nbest, self._number)
            for nbest in paced(lists, "recombined %d of %d lists")
        ]
        before, after = (
            sum(len(nbest.hypotheses) for nbest in some) for some in (lists, longer)
        )
        log.info(
            "--recombine %d adds %s hypotheses to %s",
            self._number,
            f"{after - before:,}",
            f"{before:,}",
        )
        return iter(longer)
