"""The input around a sentence: its neighbours, its source, and the case of its letters."""

from __future__ import annotations

import hashlib
import logging
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from rescore.errors import UserError
from rescore.lms.base import LanguageModel, Question, TokenScores, Wrapped, capabilities_of
from rescore.nbest import FIRST_PASS, NbestList, ranking

log = logging.getLogger(__name__)


def sentence_case(text: str) -> str:
    """Lower case, but for the first letter."""
    lower = text.lower()
    first = next((index for index, letter in enumerate(lower) if letter.isalpha()), 0)
    return lower[:first] + lower[first : first + 1].upper() + lower[first + 1 :]


CASES: dict[str, Callable[[str], str]] = {"lower": str.lower, "upper": str.upper, "sentence": sentence_case}


class Recased(Wrapped):
    """A language model that is given its texts, their sources and neighbours in another case."""

    def __init__(self, lm: LanguageModel, case: str) -> None:
        """`case` is a key of `CASES`."""
        super().__init__(lm)
        self._case = case

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(f"{self._case} {self._lm.fingerprint}".encode()).hexdigest()

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question, in their order."""
        return super().score([self._recased(question) for question in questions])

    def as_scored(self, questions: Sequence[Question]) -> Iterator[tuple[int, TokenScores]]:
        """Places of questions with their results, in the order of the model."""
        return super().as_scored([self._recased(question) for question in questions])

    def _recased(self, question: Question) -> Question:
        case = CASES[self._case]
        source = None if question.source is None else case(question.source)
        before, after = tuple(map(case, question.before)), tuple(map(case, question.after))
        return replace(question, text=case(question.text), source=source, before=before, after=after)


@dataclass(frozen=True, slots=True)
class WithNeighbours:
    """A list in its recording."""

    nbest: NbestList
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """The 1-best of the lists before and after it, as many as the model reads that reads most of them."""


def ask(lm: LanguageModel, placed: WithNeighbours, texts: Iterable[str]) -> list[Question]:
    """The questions about texts of a list, with the context that the model reads."""
    nbest, capabilities = placed.nbest, capabilities_of(lm)
    before, after = capabilities.context
    source = nbest.source if capabilities.source else None
    if source is None and capabilities.source:
        raise UserError(f"utterance {nbest.id}: no source text, which {lm.name} reads; give lists that have it")
    if nbest.audio is None and capabilities.audio:
        raise UserError(f"utterance {nbest.id}: no recording, which {lm.name} listens to; give --audio")
    audio = nbest.audio if capabilities.audio else None
    before_text, after_text = placed.before[len(placed.before) - before :] if before else (), placed.after[:after]
    return [Question(text, source, before_text, after_text, audio) for text in texts]


def in_place(lms: Iterable[LanguageModel], lists: Iterable[NbestList]) -> Iterator[WithNeighbours]:
    """The lists with as many neighbours as one of the models reads, as a stream."""
    sizes = [capabilities_of(lm).context for lm in lms]
    before, after = (max(numbers) for numbers in zip((0, 0), *sizes, strict=True))
    return with_neighbours(lists, before, after) if before or after else map(WithNeighbours, lists)


def recording(nbest_id: str) -> str:
    """The recording that an id names: the id up to its last `-`, `_`, `.`, `/` or `:`, such as the chapter 84-121123 of
    84-121123-0005. Ids without a separator, such as line numbers, belong to one recording."""
    return re.sub(r"(^|[-_./:])[^-_./:]*$", "", nbest_id)


def recording_of(nbest: NbestList) -> str:
    """The recording of a list: the given one, else the one that the id names."""
    return recording(nbest.id) if nbest.recording is None else nbest.recording


def with_neighbours(lists: Iterable[NbestList], before: int, after: int) -> Iterator[WithNeighbours]:
    """Each list with the 1-best texts of at most `before` and `after` neighbouring lists of its recording,
    as a stream."""
    number, alone = 0, True
    for _, recording_lists in groupby(_in_order(lists), key=recording_of):
        for placed in _within_a_recording(recording_lists, before, after):
            yield placed
            number += 1
            alone &= not (placed.before or placed.after)
    if number > 1 and alone:
        log.warning(
            "no utterance has a neighbour in its recording; give --recordings FILE with the recording of each utterance"
        )


def _within_a_recording(lists: Iterable[NbestList], before: int, after: int) -> Iterator[WithNeighbours]:
    previous: deque[str] = deque(maxlen=before)
    waiting: deque[NbestList] = deque()

    def first() -> WithNeighbours:
        nbest = waiting.popleft()
        placed = WithNeighbours(nbest, tuple(previous), tuple(map(best_text, islice(waiting, after))))
        previous.append(best_text(nbest))
        return placed

    for nbest in lists:
        waiting.append(nbest)
        if len(waiting) > after:
            yield first()
    while waiting:
        yield first()


def _in_order(lists: Iterable[NbestList]) -> Iterator[NbestList]:
    """The lists, as long as recordings follow each other and their utterances' numbers rise."""
    ended: set[int] = set()  # hashes: names of millions of recordings would fill the memory
    last: NbestList | None = None
    for nbest in lists:
        if last is not None:
            if recording_of(last) != recording_of(nbest):
                ended.add(hash(recording_of(last)))
            if hash(recording_of(nbest)) in ended or _comes_before(nbest, last):
                raise UserError(
                    f"utterance {nbest.id}: comes after {last.id}; a model that reads neighbours needs the "
                    "utterances of a recording one after another; sort the lists by id"
                )
        last = nbest
        yield nbest


def best_text(nbest: NbestList) -> str:
    """The best hypothesis by first-pass score (`ranking`); without scores, the first hypothesis."""
    return nbest.hypotheses[
        ranking(nbest, [hypothesis.scores.get(FIRST_PASS, 0.0) for hypothesis in nbest.hypotheses])[0]
    ].text


def _comes_before(nbest: NbestList, previous: NbestList) -> bool:
    """Whether the number at the end of an id is smaller than the number of the previous id, within a recording that
    both ids name."""
    if recording(nbest.id) != recording(previous.id) or nbest.recording is not None:
        return False
    ends = [nbest_id[len(recording(nbest_id)) :].lstrip("-_./:") for nbest_id in (nbest.id, previous.id)]
    if not all(end.isascii() and end.isdigit() for end in ends):
        return False
    numbers = [end.lstrip("0") for end in ends]  # an id may have more digits than Python makes a number of
    return (len(numbers[0]), numbers[0]) < (len(numbers[1]), numbers[1])
