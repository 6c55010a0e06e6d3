"""The utterances before and after an utterance in its recording, for models that read
them.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby, islice

from rescore.errors import UserError
from rescore.lms.base import WithNeighbours
from rescore.nbest import FIRST_PASS, NbestList, ranking

log = logging.getLogger(__name__)


def recording(nbest_id: str) -> str:
    """The recording that an id names: the id up to its last `-`, `_`, `.`, `/` or `:`,
    such as the chapter 84-121123 of 84-121123-0005. Ids without a separator, such as
    line numbers, belong to one recording.
    """
    return re.sub(r"(^|[-_./:])[^-_./:]*$", "", nbest_id)


def recording_of(nbest: NbestList) -> str:
    """The recording of a list: the given one, else the one that the id names."""
    return recording(nbest.id) if nbest.recording is None else nbest.recording


def with_neighbours(
    lists: Iterable[NbestList], before: int, after: int
) -> Iterator[WithNeighbours]:
    """Each list with the 1-best texts of at most `before` and `after` neighbouring
    lists of its recording, as a stream.
    """
    number, alone = 0, True
    for _, recording_lists in groupby(_in_order(lists), key=recording_of):
        for placed in _within_a_recording(recording_lists, before, after):
            yield placed
            number += 1
            alone &= not (placed.before or placed.after)
    if number > 1 and alone:
        log.warning(
            "no utterance has a neighbour in its recording; give --recordings FILE with"
            " the recording of each utterance"
        )


def _within_a_recording(
    lists: Iterable[NbestList], before: int, after: int
) -> Iterator[WithNeighbours]:
    previous: deque[str] = deque(maxlen=before)
    waiting: deque[NbestList] = deque()

    def first() -> WithNeighbours:
        nbest = waiting.popleft()
        placed = WithNeighbours(
            nbest, tuple(previous), tuple(map(best_text, islice(waiting, after)))
        )
        previous.append(best_text(nbest))
        return placed

    for nbest in lists:
        waiting.append(nbest)
        if len(waiting) > after:
            yield first()
    while waiting:
        yield first()


def _in_order(lists: Iterable[NbestList]) -> Iterator[NbestList]:
    """The lists, as long as recordings follow each other and their utterances' numbers
    rise.
    """
    # hashes: names of millions of recordings would fill the memory
    ended: set[int] = set()
    last: NbestList | None = None
    for nbest in lists:
        if last is not None:
            if recording_of(last) != recording_of(nbest):
                ended.add(hash(recording_of(last)))
            if hash(recording_of(nbest)) in ended or _comes_before(nbest, last):
                raise UserError(
                    f"utterance {nbest.id}: comes after {last.id}; a model that reads"
                    " neighbours needs the utterances of a recording one after"
                    " another; sort the lists by id"
                )
        last = nbest
        yield nbest


def best_text(nbest: NbestList) -> str:
    """The best hypothesis by first-pass score (`ranking`); without scores, the first
    hypothesis.
    """
    return nbest.hypotheses[
        ranking(
            nbest,
            [hypothesis.scores.get(FIRST_PASS, 0.0) for hypothesis in nbest.hypotheses],
        )[0]
    ].text


def _comes_before(nbest: NbestList, previous: NbestList) -> bool:
    """Whether the number at the end of an id is smaller than the number of the previous
    id, within a recording that both ids name.
    """
    if recording(nbest.id) != recording(previous.id) or nbest.recording is not None:
        return False
    ends = [
        re.fullmatch(r"[-_./:]*([0-9]{1,18})", each.id[len(recording(each.id)) :])
        for each in (nbest, previous)
    ]
    numbers = [int(end[1]) for end in ends if end]
    return len(numbers) == 2 and numbers[0] < numbers[1]
