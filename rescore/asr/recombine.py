"""New hypotheses that combine parts of a list's hypotheses."""

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
from rescore.asr.written import Token, rewritten, tokens_of
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
"""How far estimates are drawn to the mean of the list's edits, against the square of
one hypothesis' error.
"""
DEFAULT_NUMBER = 20
CUT = Normaliser(case_sensitive=True, split_mixed=True)
"""Cuts texts for every metric alike, as lists are recombined before a metric is
known.
"""


class Edit(NamedTuple):
    """Words of a text, from `start` to before `end`, and their replacement."""

    start: int
    end: int
    words: tuple[Token, ...]


def edits_between(text: Sequence[Token], other: Sequence[Token]) -> tuple[Edit, ...]:
    """The spans in which `other` differs from `text`, from left to right, in an
    alignment with the fewest errors.
    """
    edits, start, begin = [], 0, 0
    # the last one is empty, at both ends
    for block in Levenshtein.editops(text, other).as_matching_blocks():
        if (start, begin) != (block.a, block.b):
            edits.append(Edit(start, block.a, tuple(other[begin : block.b])))
        start, begin = block.a + block.size, block.b + block.size
    return tuple(edits)


def recombine(nbest: NbestList, number: int = DEFAULT_NUMBER) -> NbestList:
    """The list with up to `number` further hypotheses, of the origin `RECOMBINED`.

    Raises:
        UserError: the list has scores of models, which the new hypotheses would lack.
        New hypotheses also lack component scores, which have weights only on request
        (--components).
    """
    refuse_scored(nbest, "recombine")
    # of equally good hypotheses, the edits start from the first
    ordered = in_tie_order(nbest)
    scores = np.array(ordered.column(FIRST_PASS))
    new: list[Hypothesis] = []
    words = [tokens_of(hypothesis.text, CUT) for hypothesis in ordered.hypotheses]
    finite = np.flatnonzero(np.isfinite(scores))
    if len(finite):
        known = set(map(tuple, words))
        usable = [words[place] for place in finite]
        for estimate, combined in combinations(
            usable, scores[finite], number + len(known)
        ):
            if combined not in known and len(new) < number:
                known.add(combined)
                new.append(
                    Hypothesis(rewritten(combined), {FIRST_PASS: estimate}, RECOMBINED)
                )
    return replace(nbest, hypotheses=[*nbest.hypotheses, *new])


def combinations(
    hypotheses: Sequence[Sequence[Token]], scores: npt.NDArray[np.float64], number: int
) -> list[tuple[float, tuple[Token, ...]]]:
    """The combinations of edits with the best estimated scores, the best first, of
    hypotheses with finite scores; of equally good hypotheses, edits apply to the first.
    """
    top = int(scores.argmax())
    best = hypotheses[top]
    sets = [edits_between(best, hypothesis) for hypothesis in hypotheses]
    edits = sorted(set().union(*sets))
    gains = estimate(sets, edits, scores - scores[top])
    # Partial combinations, by score: the edits chosen so far, and the end of the last
    # edit.
    beam: list[tuple[float, tuple[Edit, ...]]] = [(float(scores[top]), ())]
    for edit, gain in zip(edits, gains.tolist(), strict=True):
        if len(beam) == 2 * number and beam[0][0] + gain <= beam[-1][0]:
            continue  # nothing that has it would stay
        longer = [
            (score + gain, (*chosen, edit))
            for score, chosen in beam
            if not chosen or _follows(chosen[-1], edit)
        ]
        beam = sorted([*beam, *longer], key=lambda item: -item[0])[: 2 * number]
    return [(score, _apply(best, chosen)) for score, chosen in beam]


def estimate(
    sets: Sequence[Sequence[Edit]],
    edits: Sequence[Edit],
    differences: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """(edits,) the effect of each edit on the score.

    The least squares of `differences` as sums over each hypothesis' edits, drawn to the
    mean of an edit, at most 0: no edit of the best hypothesis is better than none.
    """
    where = {edit: index for index, edit in enumerate(edits)}
    has = np.zeros((len(sets), len(edits)))
    for row, own_edits in zip(has, sets, strict=True):
        row[[where[edit] for edit in own_edits]] = 1.0
    total = has.sum()
    if not total:
        return np.zeros(len(edits))
    mean = min(0.0, float(differences.sum() / total))
    rest = differences - has.sum(axis=1) * mean
    # (X'X + rI)^-1 X' = X' (XX' + rI)^-1: whichever matrix is smaller, as long lists
    # have thousands of edits.
    gains: npt.NDArray[np.float64] = mean + (
        np.linalg.solve(has.T @ has + RIDGE * np.eye(len(edits)), has.T @ rest)
        if len(edits) <= len(sets)
        else has.T @ np.linalg.solve(has @ has.T + RIDGE * np.eye(len(sets)), rest)
    )
    return np.minimum(gains, 0.0)


def _follows(last: Edit, edit: Edit) -> bool:
    """Whether an edit is behind another one; of two insertions at one place only one
    can be.
    """
    return edit.start >= last.end and edit[:2] != last[:2]


def _apply(best: Sequence[Token], edits: Sequence[Edit]) -> tuple[Token, ...]:
    words: list[Token] = []
    at = 0
    for edit in edits:
        words += [*best[at : edit.start], *edit.words]
        at = edit.end
    return (*words, *best[at:])


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
        cls, options: Options, config: RunConfig, dev: Sequence[NbestList] | None
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
        if not isinstance(lists, list):  # a stream stays one
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
