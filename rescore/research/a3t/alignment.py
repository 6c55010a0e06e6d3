"""Which letter each frame of a spectrogram belongs to: from the times of a CTM, or from a CTC model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rescore.errors import UserError
from rescore.formats.audio import digest, samples
from rescore.formats.source import Source
from rescore.formats.text import as_number
from rescore.large.hub import find
from rescore.lms.base import ComputeOptions
from rescore.nbest import Audio

if TYPE_CHECKING:
    from rescore.large.ctc import CtcModel

CTC = "hf-ctc"
EDGE = 0.25
"""Seconds of a letter before and behind the frames in which a CTC model names it, at most."""
NEAR = 0.05
"""Seconds from a letter within which a frame still belongs to it."""
Span = tuple[float, float]
"""Start and end of a letter, in seconds."""


class TooShortError(UserError):
    """A recording that is too short for a text."""


def letters_of(text: str) -> str:
    """The letters of a text, without blanks, in lower case."""
    return "".join(text.lower().split())


def owners(spans: Sequence[Span], frames: int, seconds: float) -> Tensor:
    """The letter that each frame belongs to, from 1; 0 for silence: (frames,).

    A frame between two letters belongs to the nearer letter, if it is at most `NEAR` away.

    Args:
        seconds: from a frame to the next.
    """
    if not spans:
        return torch.zeros(frames, dtype=torch.long)
    times = torch.arange(frames) * seconds
    starts, ends = torch.tensor(spans).T
    away = torch.maximum(starts - times[:, None], times[:, None] - ends).clamp_min(0)
    distance, nearest = away.min(1)
    return torch.where(distance <= NEAR, nearest + 1, 0)


def divided(words: Sequence[tuple[Span, str]]) -> list[Span]:
    """The spans of letters whose words' spans are known: a word's letters are equally long."""
    spans = []
    for (start, end), word in words:
        number = len(letters_of(word))
        step = (end - start) / max(number, 1)
        spans += [(start + place * step, start + (place + 1) * step) for place in range(number)]
    return spans


def widened(spans: Sequence[Span]) -> list[Span]:
    """Spans that meet half-way: CTC models name a letter in few of its frames. The outer edges move by `EDGE`."""
    inner = [(end + start) / 2 for (_, end), (start, _) in pairwise(spans)]
    starts = [spans[0][0] - EDGE, *inner] if spans else []
    ends = [*inner, spans[-1][1] + EDGE] if spans else []
    return [
        (max(own, start - EDGE), min(other, end + EDGE))
        for own, other, (start, end) in zip(starts, ends, spans, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Ctm:
    """Times of words or letters from a file."""

    path: Path
    words: Mapping[str, list[tuple[Span, str]]]

    @classmethod
    def read(cls, path: Path) -> Ctm:
        """Read lines of `utterance channel start duration token`.

        Raises:
            UserError: a line has another form.
        """
        words: dict[str, list[tuple[Span, str]]] = {}
        for place, line in Source(path).filled():
            if line.startswith(";;"):
                continue
            cells = line.split()
            if len(cells) < 5:
                raise UserError(f"{place}: expected `utterance channel start duration word`")
            start, size = as_number(cells[2], place, "start"), as_number(cells[3], place, "duration")
            words.setdefault(cells[0], []).append(((start, start + size), cells[4]))
        return cls(path, {name: sorted(tokens) for name, tokens in words.items()})

    def spans(self, audio: Audio, text: str) -> list[Span]:
        """The span of each letter of a text."""
        words = self.words.get(audio.name, [])
        if letters_of("".join(word for _, word in words)) != letters_of(text):
            spoken = " ".join(word for _, word in words)
            raise UserError(
                f"{self.path}: utterance {audio.name} is {spoken[:60]!r} there, but {text[:60]!r} in the text"
            )
        return divided(words)


class CtcAligner:
    """Letters placed by a CTC model of letters."""

    def __init__(self, folder: Path) -> None:
        from rescore.large.ctc import CtcModel

        self.folder = folder
        self._model: CtcModel = CtcModel(CTC, folder, ComputeOptions(device="cpu"))
        self._last: tuple[Any, Tensor] = (None, torch.zeros(0, 0))
        """A recording, and its frames: hypotheses about it come one after another."""

    def spans(self, audio: Audio, text: str) -> list[Span]:
        """The span of each letter of a text."""
        key = (audio, digest(audio))
        if self._last[0] != key:
            with torch.inference_mode():
                self._last = (key, self._model.frames(audio))
        frames, ids = self._last[1], self._model.ids(text)
        placed = viterbi(frames, ids, self._model.blank)
        if placed is None:
            raise TooShortError(f"utterance {audio.name}: {audio.path}: too short for {text[:60]!r}")
        seconds = len(samples(audio, self._model.rate)) / self._model.rate / len(frames)
        spans = widened(
            [
                (start * seconds, end * seconds)
                for (start, end), token in zip(placed, self._model.names(ids)[0], strict=True)
                if token not in ("|", " ", "▁")
            ]
        )
        if len(spans) != len(letters_of(text)):
            raise UserError(f"{self.folder}: tokens of several letters cannot be placed; give a CTC model of letters")
        return spans


def viterbi(frames: Tensor, ids: Sequence[int], blank: int) -> list[tuple[int, int]] | None:
    """The frames of each token on the best CTC path, without blanks; None if no path has room.

    Args:
        frames: log-probabilities, (frames, vocabulary).
    """
    states = [blank]
    for token in ids:
        states += [token, blank]
    labels = torch.tensor(states)
    emitted = frames[:, labels].numpy()
    may_skip = np.zeros(len(states), dtype=bool)
    may_skip[3::2] = labels[3::2].numpy() != labels[1:-2:2].numpy()
    score = np.full(len(states), -np.inf)
    score[:2] = emitted[0, :2]
    back = np.zeros(emitted.shape, dtype=np.int64)
    for time in range(1, len(emitted)):
        ways = np.full((3, len(states)), -np.inf)
        ways[0], ways[1, 1:] = score, score[:-1]
        ways[2, 2:] = np.where(may_skip[2:], score[:-2], -np.inf)
        back[time] = ways.argmax(0)
        score = ways.max(0) + emitted[time]
    state = len(states) - 1
    if len(states) > 1 and score[-2] > score[-1]:
        state -= 1
    if score[state] == -np.inf:
        return None
    path = [state]
    for time in range(len(emitted) - 1, 0, -1):
        state -= int(back[time, state])
        path.append(state)
    places = np.array(path[::-1])
    frames_of = [np.flatnonzero(places == 2 * token + 1) for token in range(len(ids))]
    return [(int(own[0]), int(own[-1]) + 1) for own in frames_of]


def aligner(name: str) -> Ctm | CtcAligner:
    """What --align names: a CTM, or `hf-ctc:DIR`."""
    kind, _, path = name.partition(":")
    return CtcAligner(find(Path(path))[0]) if kind == CTC else Ctm.read(Path(name))
