"""Recordings and their texts, and models that listen to them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rescore.errors import UserError, counted
from rescore.formats.audio import check_length, recordings
from rescore.formats.ids import ByName
from rescore.formats.text import table
from rescore.lms.base import Capabilities, Question, Streamed, TokenScores
from rescore.nbest import NO_AUDIO, Audio

LONGEST = 60.0
"""Seconds of an utterance that the networks read, all of it at once."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """A recording and its text."""

    audio: Audio
    text: str
    """In lower case, with single blanks."""


def plain(text: str) -> str:
    """Return a text as the networks read it: in lower case, with single blanks."""
    return " ".join(text.lower().split())


def read_utterances(audio: Sequence[str], texts: Sequence[Path]) -> list[Utterance]:
    """Return the utterances of Kaldi texts with their recordings.

    Args:
        audio: As `rescore.formats.audio.recordings` takes it.
        texts: Files with lines of `utterance words`.

    Raises:
        UserError: There are no utterances, or an utterance has no recording, a
            recording that is too long, or no words.
    """
    where = ", ".join(audio) or "--audio"
    known = ByName(recordings(audio), where)
    utterances = []
    for path in texts:
        for name, words in table(path).items():
            recording = known.get(name)
            if recording is None:
                raise UserError(f"{path}: utterance {name}: no recording in {where}")
            if not words:
                raise UserError(
                    f"{path}: utterance {name}: no words; remove the line, or add them"
                )
            recording = replace(recording, name=name)
            check_length(recording, "the network", LONGEST)
            utterances.append(Utterance(recording, plain(words)))
    if not utterances:
        raise UserError("no utterances to train on; give --audio PATH and --text FILE")
    return utterances


def amount(utterances: int, seconds: float) -> str:
    """Return how much speech there is, as words."""
    return f"{counted(utterances, 'utterance')}, {seconds / 60:.1f} minutes of speech"


class Listener(Streamed):
    """A language model that scores all hypotheses about a recording together."""

    name: str
    capabilities: Capabilities

    @abstractmethod
    def hear(self, audio: Audio, texts: Sequence[str]) -> list[TokenScores]:
        """Return the scores of texts given a recording."""

    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        """Yield places of questions with their scores, one recording after another.

        Without a recording (`NO_AUDIO`) a score is 0.
        """
        places: dict[Audio, list[int]] = {}
        for place, question in enumerate(questions):
            if question.audio is None:
                raise UserError(
                    f"{self.name} listens to the recording of an utterance; give"
                    " --audio"
                )
            places.setdefault(question.audio, []).append(place)
        for audio, own in places.items():
            if audio == NO_AUDIO:
                for place in own:
                    yield place, TokenScores([], np.zeros(0))
                continue
            check_length(audio, self.name, self.capabilities.audio)
            scores = self.hear(audio, [questions[place].text for place in own])
            yield from zip(own, scores, strict=True)
