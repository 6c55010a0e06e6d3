"""New hypotheses from old ones: the lists of several systems merged, parts of hypotheses recombined."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.metrics.alignment import Edit, edits_between
from rescore.metrics.normalise import EXACT, Normaliser
from rescore.nbest import (
    FIRST_PASS,
    Column,
    Hypothesis,
    NbestList,
    Origin,
    component_columns,
    free_name,
    in_tie_order,
    score_columns,
)

log = logging.getLogger(__name__)

MISSING = "missing."
MERGED = "merged"


def merge(
    first: Sequence[NbestList], others: Mapping[str, Sequence[NbestList]], normaliser: Normaliser | None = None
) -> Iterator[NbestList]:
    """The lists of the first system, with the hypotheses and the scores of the others.

    A text that several systems propose is one hypothesis. The first system gives the first-pass score; its hypotheses
    keep their origin, and hypotheses from other systems alone have the origin `MERGED`.

    Args:
        others: lists by the name of their column. normaliser: says which texts are the same; None for exact texts.

    Raises:
        UserError: an utterance is not in the first lists, these have scores of models, which the new hypotheses would
            lack, or two columns would have the same name.
    """
    known = {nbest.id for nbest in first}
    systems = {}
    for name, lists in others.items():
        column = free_name(name)
        if column != name:
            log.warning("the column of system %s is called %s, because the name %s is reserved", name, column, name)
        systems[column] = {nbest.id: nbest for nbest in lists}
        unknown = next((nbest.id for nbest in lists if nbest.id not in known), None)
        if unknown is not None:
            raise UserError(
                f"{name}: utterance {unknown} is not in the lists of the first system; give the same set of each"
            )
        absent = len(known) - len(systems[column])
        if absent:
            log.warning(
                "%s: %d of %d utterances are missing; for them, the hypotheses come from the other systems",
                name,
                absent,
                len(known),
            )
    for nbest in first:
        refuse_scored(nbest, "merge")
        yield _merged(nbest, {name: lists.get(nbest.id) for name, lists in systems.items()}, normaliser or EXACT)


def _merged(nbest: NbestList, others: Mapping[str, NbestList | None], normaliser: Normaliser) -> NbestList:
    def key(text: str) -> str:
        return " ".join(normaliser(text))

    taken = {column for hypothesis in nbest.hypotheses for column in hypothesis.scores}
    for name in others:
        if name in taken:
            raise UserError(f"{name}: the lists of the first system have a column of that name; rename the file")
    systems = {name: _best_scores(theirs, key) for name, theirs in others.items()}
    hypotheses = [
        replace(
            hypothesis,
            scores={MISSING + FIRST_PASS: 0.0, **hypothesis.scores, **_scores(key(hypothesis.text), systems)},
        )
        for hypothesis in nbest.hypotheses
    ]
    present = {key(hypothesis.text) for hypothesis in nbest.hypotheses}
    columns = (FIRST_PASS, *component_columns(nbest))
    absent = {name: worst(nbest.column(name)) for name in columns} | _missing(nbest) | {MISSING + FIRST_PASS: 1.0}
    for theirs in others.values():
        for hypothesis in theirs.hypotheses if theirs else ():
            text = _words(hypothesis.text)
            if key(text) not in present:
                present.add(key(text))
                hypotheses.append(
                    Hypothesis(text, {**absent, **_scores(key(text), systems)}, Origin.MERGED, hypothesis.times)
                )
    names = [*others, *(MISSING + system for system in (FIRST_PASS, *others))]
    columns_of_systems = {name: Column.component(MERGED) for name in names}
    return replace(nbest, hypotheses=hypotheses, provenance={**nbest.provenance, **columns_of_systems})


def lacking(nbest: NbestList) -> dict[str, float]:
    """The columns of merged lists for a text that no other system has: as in a list without it."""
    merged = [name for name in component_columns(nbest) if nbest.provenance[name].model == MERGED]
    columns = {name: worst(nbest.column(name)) for name in merged} | _missing(nbest)
    return columns | {MISSING + FIRST_PASS: 0.0} if columns else columns


def _missing(nbest: NbestList) -> dict[str, float]:
    """Of merged lists the columns that say for each system whether it lacks a text: this one, they do."""
    return {name: 1.0 for name in component_columns(nbest) if name.startswith(MISSING)}


def worst(scores: Sequence[float]) -> float:
    """The worst finite score, or 0: -inf for an unknown score would make a text impossible."""
    return min(filter(math.isfinite, scores), default=0.0)


def _words(text: str) -> str:
    return " ".join(text.split())


def _best_scores(nbest: NbestList | None, key: Callable[[str], str]) -> dict[str, float]:
    """The first-pass score of each text by its normalised form; the best score of duplicate texts."""
    scores: dict[str, float] = {}
    for hypothesis in nbest.hypotheses if nbest else []:
        text, score = key(hypothesis.text), hypothesis.scores[FIRST_PASS]
        scores[text] = max(score, scores.get(text, score))
    return scores


def _scores(words: str, systems: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    columns = {}
    for name, scores in systems.items():
        columns[name] = scores[words] if words in scores else worst(list(scores.values()))
        columns[MISSING + name] = float(words not in scores)
    return columns


RIDGE = 0.3
"""How far estimates are drawn to the mean of the list's edits, against the square of one hypothesis' error."""
DEFAULT_NUMBER = 20


def recombine(nbest: NbestList, number: int = DEFAULT_NUMBER) -> NbestList:
    """The list with up to `number` further hypotheses, of the origin `RECOMBINED`.

    Raises:
        UserError: the list has scores of models, which the new hypotheses would lack. New hypotheses also lack
            component scores, which have weights only on request (--components).
    """
    refuse_scored(nbest, "recombine")
    ordered = in_tie_order(nbest)  # of equally good hypotheses, the edits start from the first
    scores = np.array(ordered.column(FIRST_PASS))
    absent = lacking(nbest)
    new: list[Hypothesis] = []
    if np.isfinite(scores).all():
        known = {_words(hypothesis.text) for hypothesis in nbest.hypotheses}
        words = [hypothesis.text.split() for hypothesis in ordered.hypotheses]
        for estimate, text in combinations(words, scores, number + len(known)):
            if text not in known and len(new) < number:
                known.add(text)
                new.append(Hypothesis(text, {**absent, FIRST_PASS: estimate}, Origin.RECOMBINED))
    return replace(nbest, hypotheses=[*nbest.hypotheses, *new])


def refuse_scored(nbest: NbestList, verb: str) -> None:
    """
    Raises:
        UserError: the list has scores of models; `verb` names the refused operation.
    """
    if columns := score_columns(nbest):
        raise UserError(f"utterance {nbest.id}: has scores {columns[0]} already; {verb} lists before they are scored")


def combinations(
    hypotheses: Sequence[Sequence[str]], scores: npt.NDArray[np.float64], number: int
) -> list[tuple[float, str]]:
    """The combinations of edits with the best estimated scores, the best first.

    Args:
        hypotheses: words of each. scores: (hypotheses,), finite; of equally good hypotheses, edits apply to the first.
    """
    top = int(scores.argmax())
    best = hypotheses[top]
    sets = [edits_between(best, hypothesis) for hypothesis in hypotheses]
    edits = sorted(set().union(*sets))
    gains = estimate(sets, edits, scores - scores[top])
    # Partial combinations, by score: the edits chosen so far, and the end of the last edit.
    beam: list[tuple[float, tuple[Edit, ...]]] = [(float(scores[top]), ())]
    for edit, gain in zip(edits, gains.tolist(), strict=True):
        if len(beam) == 2 * number and beam[0][0] + gain <= beam[-1][0]:
            continue  # nothing that has it would stay
        longer = [(score + gain, (*chosen, edit)) for score, chosen in beam if not chosen or _follows(chosen[-1], edit)]
        beam = sorted([*beam, *longer], key=lambda item: -item[0])[: 2 * number]
    return [(score, _apply(best, chosen)) for score, chosen in beam]


def estimate(
    sets: Sequence[Sequence[Edit]], edits: Sequence[Edit], differences: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The effect of each edit on the score: (edits,).

    The least squares of `differences` as sums over each hypothesis' edits, drawn to the mean of an edit, at most 0: no
    edit of the best hypothesis is better than none.
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
    # (X'X + rI)^-1 X' = X' (XX' + rI)^-1: whichever matrix is smaller, as long lists have thousands of edits.
    gains: npt.NDArray[np.float64] = mean + (
        np.linalg.solve(has.T @ has + RIDGE * np.eye(len(edits)), has.T @ rest)
        if len(edits) <= len(sets)
        else has.T @ np.linalg.solve(has @ has.T + RIDGE * np.eye(len(sets)), rest)
    )
    return np.minimum(gains, 0.0)


def _follows(last: Edit, edit: Edit) -> bool:
    """Whether an edit is behind another one; of two insertions at one place only one can be."""
    return edit.start >= last.end and edit[:2] != last[:2]


def _apply(best: Sequence[str], edits: Sequence[Edit]) -> str:
    words: list[str] = []
    at = 0
    for edit in edits:
        words += [*best[at : edit.start], *edit.words]
        at = edit.end
    return " ".join([*words, *best[at:]])
