"""Neighbouring utterances: lists are told what was recognised before and after them in the same recording."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from rescore.errors import UserError
from rescore.nbest import FIRST_PASS, NbestList, in_context, pair
from rescore.scoring.base import LanguageModel


def context_of(lm: LanguageModel) -> tuple[int, int]:
    """How many neighbours before and after a hypothesis a model reads."""
    found: tuple[int, int] = getattr(lm, "context", (0, 0))
    return found


def question(lm: LanguageModel, nbest: NbestList, text: str) -> str:
    """What a model is asked about a hypothesis: it alone, with its source, or among its neighbours.

    Raises:
        UserError: the model reads a source, and there is none.
    """
    before, after = context_of(lm)
    if before or after:
        return in_context(text, nbest.before[-before:] if before else (), nbest.after[:after])
    if not getattr(lm, "reads_source", False):
        return text
    if nbest.source is None:
        raise UserError(f"utterance {nbest.id}: no source text, which {lm.name} reads; give lists that have it")
    return pair(nbest.source, text)


def for_model(lm: LanguageModel, lists: Iterable[NbestList]) -> Iterator[NbestList]:
    """The lists with the neighbours that a model reads, if it reads any."""
    before, after = context_of(lm)
    return with_neighbours(lists, before, after) if before or after else iter(lists)


def recording(nbest_id: str) -> str:
    """What the utterance is a part of: the id up to its last `-`, `_`, `.`, `/` or `:`, such as the chapter 84-121123
    of 84-121123-0005. Ids without one, such as numbers of lines, are all of one recording."""
    return re.sub(r"(^|[-_./:])[^-_./:]*$", "", nbest_id)


def recording_of(nbest: NbestList) -> str:
    """What was said of the list, or what its id says."""
    return recording(nbest.id) if nbest.recording is None else nbest.recording


def with_neighbours(lists: Iterable[NbestList], before: int, after: int) -> Iterator[NbestList]:
    """Each list with the 1-best of at most so many lists before and after it in its recording, as a stream.

    Raises:
        UserError: the lists of a recording do not follow each other in the order of their numbers.
    """
    window: deque[tuple[NbestList, str]] = deque()  # those before the one that is next, it, and those after it
    place = 0  # of the one that is next
    done: set[int] = set()
    last: NbestList | None = None

    def complete(index: int) -> NbestList:
        texts = [text for _, text in window]
        return replace(
            window[index][0],
            before=tuple(texts[max(0, index - before) : index]),
            after=tuple(texts[index + 1 : index + 1 + after]),
        )

    for nbest in lists:
        name = recording_of(nbest)
        if last is not None and recording_of(last) != name:
            while place < len(window):
                yield complete(place)
                place += 1
            done.add(hash(recording_of(last)))
            window.clear()
            place = 0
        if (last is not None and _comes_before(nbest, last)) or hash(name) in done:
            raise UserError(
                f"utterance {nbest.id}: stands behind {last.id if last else ''}; a model that reads neighbours needs "
                "the utterances of a recording one after another; sort the lists by id"
            )
        window.append((nbest, best_text(nbest)))
        last = nbest
        if len(window) - place > after:
            yield complete(place)
            place += 1
        if place > before:
            window.popleft()
            place -= 1
    while place < len(window):
        yield complete(place)
        place += 1


def best_text(nbest: NbestList) -> str:
    """The hypothesis that the first pass likes best; the first one, where there is no first-pass score."""
    return max(nbest.hypotheses, key=lambda one: one.scores.get(FIRST_PASS, 0.0)).text


def _comes_before(one: NbestList, other: NbestList) -> bool:
    """Whether the numbers at the ends of two ids are in falling order, in a recording that the ids tell."""
    if recording(one.id) != recording(other.id) or one.recording is not None:
        return False
    ends = [nbest_id[len(recording(nbest_id)) :].lstrip("-_./:") for nbest_id in (one.id, other.id)]
    return all(end.isdigit() for end in ends) and int(ends[0]) < int(ends[1])
