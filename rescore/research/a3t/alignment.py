"""Which letter or phone each frame of a spectrogram belongs to: from a CTM, or from a CTC model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from rescore.errors import UserError
from rescore.formats.source import Source
from rescore.formats.text import as_number
from rescore.lms.base import ComputeOptions
from rescore.lms.folders import find
from rescore.nbest import Audio

if TYPE_CHECKING:
    from rescore.large.speech import CtcModel

CTC = "hf-ctc"
EDGE = 0.25
"""Seconds of a letter before and behind the frames in which a CTC model names it, at most."""
Span = tuple[float, float]
"""Start and end of a letter, in seconds."""


class TooShortError(UserError):
    """A recording that is too short for a text."""


def letters_of(text: str) -> str:
    """The letters of a text, without blanks, in lower case."""
    return "".join(text.lower().split())


Lexicon = Mapping[str, tuple[str, ...]]
"""The phones of each word, in lower case; empty if the letters of words are read."""


def read_lexicon(path: Path) -> Lexicon:
    """`word phone phone ...` a line, as Kaldi has it; of several pronunciations the first.

    Raises:
        UserError: a line has no phones.
    """
    lexicon: dict[str, tuple[str, ...]] = {}
    for place, line in Source(path).filled():
        word, *phones = line.split()
        if not phones:
            raise UserError(f"{place}: expected `word phone phone ...`")
        lexicon.setdefault(word.lower(), tuple(phones))
    return lexicon


def units_of(text: str, lexicon: Lexicon) -> list[str]:
    """The letters of a text, or the phones; a word that is not in the lexicon is a phone of its own."""
    return [unit for word in text.lower().split() for unit in (lexicon.get(word, (word,)) if lexicon else word)]


def unit_spans(spans: Sequence[Span], text: str, lexicon: Lexicon) -> list[Span]:
    """The spans of the units of a text from the spans of its letters: a word's phones are equally long."""
    if not lexicon:
        return list(spans)
    result, letters = [], iter(spans)
    for word in text.lower().split():
        own = list(islice(letters, len(word)))
        result += equal_parts((own[0][0], own[-1][1]), len(units_of(word, lexicon)))
    return result


def owners(spans: Sequence[Span], frames: int, seconds: float) -> Tensor:
    """The letter that each frame belongs to, from 1; 0 before the first and behind the last: (frames,).

    A frame between two letters belongs to the nearer letter, if it is not further than 50 ms from it.

    Args:
        seconds: from a frame to the next.
    """
    result = torch.zeros(frames, dtype=torch.long)
    if not spans:
        return result
    times = torch.arange(frames) * seconds
    starts, ends = torch.tensor(spans).T
    away = torch.maximum(starts - times[:, None], times[:, None] - ends).clamp_min(0)
    distance, nearest = away.min(1)
    return torch.where(distance <= 0.05, nearest + 1, 0)


def equal_parts(span: Span, number: int) -> list[Span]:
    """A span cut into parts of one length."""
    step = (span[1] - span[0]) / number
    return [(span[0] + place * step, span[0] + (place + 1) * step) for place in range(number)]


def divided(words: Sequence[tuple[Span, str]]) -> list[Span]:
    """The spans of letters whose words' spans are known: a word's letters are equally long."""
    return [part for span, word in words for part in equal_parts(span, len(letters_of(word)))]


def read_ctm(path: Path) -> dict[str, list[tuple[Span, str]]]:
    """`utterance channel start duration token`: the tokens of each utterance, in order of time.

    Raises:
        UserError: a line is not of this form.
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
    return {name: sorted(tokens) for name, tokens in words.items()}


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

    def spans(self, audio: Audio, text: str) -> list[Span]:
        """The span of each letter of a text.

        Raises:
            UserError: the file has no such utterance, or other words in it.
        """
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
        """
        Raises:
            UserError: the folder is no CTC model.
        """
        self.folder = folder
        from rescore.large.speech import CtcModel

        self._model: CtcModel = CtcModel(CTC, folder, ComputeOptions(device="cpu"))

    def spans(self, audio: Audio, text: str) -> list[Span]:
        """The span of each letter of a text.

        Raises:
            UserError: the recording cannot be used or is too short for the text, or the model's tokens are not letters.
        """
        placed = self._model.align(audio, text)
        if placed is None:
            raise TooShortError(f"utterance {audio.name}: {audio.path}: too short for {text[:60]!r}")
        spans = [
            span for span, token in zip(placed, self._model.tokens(text), strict=True) if token not in ("|", " ", "▁")
        ]
        spans = widened(spans)
        if len(spans) != len(letters_of(text)):
            raise UserError(f"{self.folder}: tokens of several letters cannot be placed; give a CTC model of letters")
        return spans


def aligner(name: str) -> Ctm | CtcAligner:
    """What --align names: a CTM, or `hf-ctc:DIR`.

    Raises:
        UserError: it cannot be read.
    """
    kind, _, path = name.partition(":")
    if kind == CTC:
        return CtcAligner(find(Path(path))[0])
    return Ctm(Path(name), read_ctm(Path(name)))
