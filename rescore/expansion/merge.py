"""Lists of several recognisers for the same utterances, as one: each system's score is a column with its own weight.

What a system did not propose gets the worst scores of its list, and 1 in a column `missing.SYSTEM`, whose weight says
how much worse that is. Both are tuned as parts of the first pass are (`--components`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from rescore.errors import UserError
from rescore.nbest import COMBINED, FIRST_PASS, Column, Hypothesis, NbestList, component_columns

log = logging.getLogger(__name__)

MISSING = "missing."
MERGED = "merged"


def merge(first: Sequence[NbestList], others: Mapping[str, Sequence[NbestList]]) -> Iterator[NbestList]:
    """The lists of the first system, with the hypotheses and the scores of the others.

    A text that several systems propose is one hypothesis. The first pass is that of the first system: what only others
    propose has 1 in the column `combined`, like all hypotheses that the first system did not give.

    Args:
        others: lists by the name of their column.

    Raises:
        UserError: an utterance is not in the first lists, or a column would have the name of another one.
    """
    known = {nbest.id for nbest in first}
    found = {}
    for name, lists in others.items():
        found[name] = {nbest.id: nbest for nbest in lists}
        unknown = next((nbest.id for nbest in lists if nbest.id not in known), None)
        if unknown is not None:
            raise UserError(
                f"{name}: utterance {unknown} is not in the lists of the first system; give the same set of each"
            )
        absent = len(known) - len(found[name])
        if absent:
            log.warning("%s: %d of %d utterances are missing; there the others decide", name, absent, len(known))
    for nbest in first:
        yield _merged(nbest, {name: lists.get(nbest.id) for name, lists in found.items()})


def _merged(nbest: NbestList, others: Mapping[str, NbestList | None]) -> NbestList:
    systems = {FIRST_PASS: _best_scores(nbest)} | {name: _best_scores(other) for name, other in others.items()}
    taken = {column for hypothesis in nbest.hypotheses for column in hypothesis.scores} - {FIRST_PASS}
    for name in others:
        if name in taken or name == FIRST_PASS:
            raise UserError(f"{name}: the lists of the first system have a column of that name; rename the file")
    hypotheses = [
        replace(
            one, scores={**one.scores, **_scores(one.text, systems), COMBINED: 0.0, FIRST_PASS: one.scores[FIRST_PASS]}
        )
        for one in nbest.hypotheses
    ]
    present = set(systems[FIRST_PASS])
    worst = {name: min(nbest.column(name)) for name in component_columns(nbest)}
    for name in others:
        for text in systems[name]:
            if text not in present:
                present.add(text)
                hypotheses.append(Hypothesis(text, {**worst, **_scores(text, systems), COMBINED: 1.0}))
    components = {name: Column.component(MERGED) for name in [*others, *(MISSING + system for system in systems)]}
    return replace(nbest, hypotheses=hypotheses, provenance={**nbest.provenance, **components})


def lacking(nbest: NbestList) -> dict[str, float]:
    """The columns of merged lists for a text that no other system has: as in a list without it."""
    merged = [name for name in component_columns(nbest) if nbest.provenance[name].model == MERGED]
    found = {name: 1.0 if name.startswith(MISSING) else min(nbest.column(name)) for name in merged}
    return found | {MISSING + FIRST_PASS: 0.0} if found else found


def _best_scores(nbest: NbestList | None) -> dict[str, float]:
    """The first-pass score of each text; the best of those that a list has twice."""
    scores: dict[str, float] = {}
    for hypothesis in nbest.hypotheses if nbest else []:
        text, score = " ".join(hypothesis.text.split()), hypothesis.scores[FIRST_PASS]
        scores[text] = max(score, scores.get(text, score))
    return scores


def _scores(text: str, systems: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    words = " ".join(text.split())
    columns = {}
    for name, scores in systems.items():
        columns[name] = scores.get(words, min(scores.values(), default=0.0))
        columns[MISSING + name] = float(words not in scores)
    return columns
