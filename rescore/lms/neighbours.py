"""The utterances before and after an utterance in its recording, for models that read
them.
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import groupby, islice

from rescore.columns import FIRST_PASS
from rescore.errors import UserError
from rescore.ids import without_ending
from rescore.lms.base import WithNeighbours
from rescore.nbest import NbestList, ranking

log = logging.getLogger(__name__)


def recording(nbest_id: str) -> str:
    """Return the recording that an id names.

    It is the id up to its last `-`, `_`, `.`, `/` or `:`, such as the chapter 84-121123
    of 84-121123-0005. Ids without a separator, such as line numbers, belong to one
    recording, whose name is empty.

    Args:
        nbest_id: The id of an utterance.
    """
    # an audio file is the utterance; its ending names no recording
    name = without_ending(nbest_id)
    return re.sub(r"(^|[-_./:])[^-_./:]*$", "", name)


def recording_of(nbest: NbestList) -> str:
    """Return the recording of a list: its own field, or else the recording that the id
    names.

    Args:
        nbest: The list.
    """
    return recording(nbest.id) if nbest.recording is None else nbest.recording


def with_neighbours(
    lists: Iterable[NbestList], before: int, after: int
) -> Iterator[WithNeighbours]:
    """Yield each list with the 1-best texts of its neighbours in its recording.

    Args:
        lists: The lists, in the order of speech.
        before: Neighbours before a list, at most.
        after: Neighbours after a list, at most.

    Raises:
        UserError: The lists are not in the order of speech.
    """
    number = 0
    all_alone = True
    for _, recording_lists in groupby(_in_order(lists), key=recording_of):
        for placed in _within_a_recording(recording_lists, before, after):
            yield placed
            number += 1
            if placed.before or placed.after:
                all_alone = False
    if number > 1 and all_alone:
        log.warning(
            "no utterance has a neighbour in its recording; give --recordings FILE with"
            " the recording of each utterance"
        )


def _within_a_recording(
    lists: Iterable[NbestList], before: int, after: int
) -> Iterator[WithNeighbours]:
    """Yield each list of a recording with its neighbours."""
    previous: deque[str] = deque(maxlen=before)
    waiting: deque[NbestList] = deque()

    def first() -> WithNeighbours:
        """Take the first waiting list; the lists behind it are its neighbours."""
        nbest = waiting.popleft()
        following = tuple(map(best_text, islice(waiting, after)))
        placed = WithNeighbours(nbest, tuple(previous), following)
        previous.append(best_text(nbest))
        return placed

    for nbest in lists:
        waiting.append(nbest)
        if len(waiting) > after:
            yield first()
    while waiting:
        yield first()


def _in_order(lists: Iterable[NbestList]) -> Iterator[NbestList]:
    """Yield the lists, and raise an error where a recording goes on after another one,
    or the numbers of its utterances do not rise.
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
    """Return the best text of a list by first-pass score (`ranking`); without scores,
    the first text.

    Args:
        nbest: The list.
    """
    scores = []
    for hypothesis in nbest.hypotheses:
        scores.append(hypothesis.scores.get(FIRST_PASS, 0.0))
    best = ranking(nbest, scores)[0]
    return nbest.hypotheses[best].text


def _comes_before(nbest: NbestList, previous: NbestList) -> bool:
    """Return whether an id ends with a smaller number than the previous id, within a
    recording that both ids name.
    """
    name = recording(nbest.id)
    if nbest.recording is not None or name != recording(previous.id):
        return False
    number = _number(nbest.id[len(name) :])
    number_before = _number(previous.id[len(name) :])
    if number is None or number_before is None:
        return False
    return number < number_before


def _number(end: str) -> int | None:
    """Return the number at the end of an id, behind its recording."""
    match = re.fullmatch(r"[-_./:]*([0-9]{1,18})", end)
    return int(match[1]) if match else None
