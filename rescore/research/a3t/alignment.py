"""Which letter, or which phone, each frame of a spectrogram belongs to.

The times of letters come from a CTM or from a CTC recogniser. The network may read
phones instead of letters; the phones of a word share its time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from rescore.errors import UserError, counted
from rescore.formats.audio import digest
from rescore.formats.source import Source
from rescore.formats.times import Span
from rescore.nbest import Audio
from rescore.research.a3t.ctc import Heard, viterbi
from rescore.research.a3t.options import PREFIX
from rescore.research.a3t.recogniser import load_recogniser
from rescore.research.a3t.utterances import plain

EDGE = 0.25
"""Seconds that a letter may begin before, and end after, the frames in which a CTC
recogniser names it.
"""
NEAR = 0.05
"""Seconds from a letter up to which a frame between letters belongs to it."""

Lexicon = Mapping[str, tuple[str, ...]]
"""The phones of each word; empty for a network that reads letters."""


class ImpossibleError(UserError):
    """A text that cannot be that of a recording."""


# --- units: letters or phones --------------------------------------------------------


def letters_of(text: str) -> str:
    """Return the letters of a text, in lower case, without blanks."""
    return "".join(plain(text).split())


def units_of(text: str, lexicon: Lexicon) -> list[str]:
    """Return the letters of a text; with a lexicon, its phones.

    A word that is not in the lexicon is a phone of its own.
    """
    if not lexicon:
        return list(letters_of(text))
    units: list[str] = []
    for word in plain(text).split():
        units += lexicon.get(word, (word,))
    return units


def read_lexicon(path: Path) -> Lexicon:
    """Return the phones of words; of several pronunciations the first.

    Args:
        path: Lines of `word phone phone ...`, as Kaldi has them.

    Raises:
        UserError: A line has no phones.
    """
    lexicon: dict[str, tuple[str, ...]] = {}
    for place, line in Source(path).filled():
        word, *phones = line.split()
        if not phones:
            raise UserError(f"{place}: expected `word phone phone ...`")
        lexicon.setdefault(word.lower(), tuple(phones))
    return lexicon


# --- times ---------------------------------------------------------------------------


class Aligner(Protocol):
    """Knows when the letters of a text are spoken."""

    def spans(self, audio: Audio, text: str) -> list[Span]:
        """Return the time of each letter, in seconds.

        Raises:
            ImpossibleError: The recording is too short for the text.
            UserError: The text cannot be aligned for another reason.
        """
        ...


class Ctm:
    """Times of words, or of letters, in a file: `utterance channel start duration
    word`. The letters of a word are equally long.
    """

    def __init__(self, path: Path) -> None:
        """
        Raises:
            UserError: A line is of another form.
        """
        self.path = path
        self._words: dict[str, list[tuple[Span, str]]] = {}
        for place, line in Source(path).filled():
            if line.startswith(";;"):
                continue
            cells = line.split()
            if len(cells) < 5:
                raise UserError(
                    f"{place}: expected `utterance channel start duration word`"
                )
            name, _, start, duration, word, *_ = cells
            span = Span.read(start, duration, place, duration=True)
            self._words.setdefault(name, []).append((span, word))
        for words in self._words.values():
            words.sort()

    def spans(self, audio: Audio, text: str) -> list[Span]:
        words = self._words.get(audio.name, [])
        spoken = " ".join(word for _, word in words)
        if letters_of(spoken) != letters_of(text):
            raise UserError(
                f"{self.path}: utterance {audio.name} is {spoken[:60]!r} there, but"
                f" {text[:60]!r} in the text"
            )
        spans: list[Span] = []
        for span, word in words:
            spans += equal_parts(span, len(letters_of(word)))
        return spans


class CtcAligner:
    """Places letters on the best path of a CTC recogniser of letters."""

    def __init__(self, folder: Path) -> None:
        """
        Raises:
            UserError: The folder holds no CTC model.
        """
        self.recogniser = load_recogniser(folder)
        self._last: tuple[str, Heard] | None = None

    def _hear(self, audio: Audio) -> Heard:
        """Return the probabilities of labels in a recording.

        Those of the last recording are kept: hypotheses about it follow each other.
        """
        key = digest(audio)
        if self._last is None or self._last[0] != key:
            self._last = (key, self.recogniser.hear(audio))
        return self._last[1]

    def spans(self, audio: Audio, text: str) -> list[Span]:
        recogniser = self.recogniser
        heard = self._hear(audio)
        labels = recogniser.labels(text)
        placed = viterbi(heard.log_probs, labels, recogniser.blank)
        if placed is None:
            raise ImpossibleError(
                f"utterance {audio.name}: {audio.path}: too short for {text[:60]!r}"
            )
        spans = []
        for (first, end), name in zip(placed, recogniser.names(labels), strict=True):
            if name.strip(" |▁"):
                spans.append(Span(first * heard.seconds, end * heard.seconds))
        if len(spans) != len(letters_of(text)):
            raise UserError(
                f"{recogniser.folder}: its tokens are no single letters; give a CTC"
                " model of letters"
            )
        return widened(spans)


def load_aligner(name: str) -> Ctm | CtcAligner:
    """Return what --align names: a CTM, or `ctc:DIR`.

    Raises:
        UserError: It cannot be read.
    """
    if name.startswith(PREFIX):
        return CtcAligner(Path(name.removeprefix(PREFIX)))
    return Ctm(Path(name))


def equal_parts(span: Span, number: int) -> list[Span]:
    """Return a span cut into parts of one length."""
    step = (span.end - span.start) / number
    return [
        Span(span.start + place * step, span.start + (place + 1) * step)
        for place in range(number)
    ]


def widened(spans: Sequence[Span]) -> list[Span]:
    """Return spans that meet half-way, because a CTC recogniser names a letter in few
    of its frames. No edge moves by more than `EDGE`.
    """
    if not spans:
        return []
    result = []
    borders = [(first.end + second.start) / 2 for first, second in pairwise(spans)]
    starts = [0.0, *borders]
    ends = [*borders, float("inf")]
    for span, start, end in zip(spans, starts, ends, strict=True):
        earliest = max(start, span.start - EDGE)
        latest = min(end, span.end + EDGE)
        result.append(Span(earliest, latest))
    return result


def unit_spans(spans: Sequence[Span], text: str, lexicon: Lexicon) -> list[Span]:
    """Return the times of the units of a text, given those of its letters."""
    if not lexicon:
        return list(spans)
    result: list[Span] = []
    letter = 0
    for word in plain(text).split():
        first, last = spans[letter], spans[letter + len(word) - 1]
        whole = Span(first.start, last.end)
        result += equal_parts(whole, len(units_of(word, lexicon)))
        letter += len(word)
    return result


def owners(spans: Sequence[Span], frames: int, seconds: float) -> Tensor:
    """Return the unit that each frame belongs to.

    A frame between two units belongs to the nearer unit, if that is at most `NEAR`
    seconds away.

    Args:
        spans: Of the units of a text.
        frames: Their number.
        seconds: From a frame to the next.

    Returns:
        Places of units, from 1; 0 for silence; (frames,).
    """
    if not spans:
        return torch.zeros(frames, dtype=torch.long)
    times = torch.arange(frames)[:, None] * seconds
    starts, ends = torch.tensor(spans).T
    away = torch.maximum(starts - times, times - ends).clamp_min(0)
    distance, nearest = away.min(dim=1)
    return torch.where(distance <= NEAR, nearest + 1, 0)


def check_lexicon(lexicon: Lexicon, texts: Sequence[str]) -> None:
    """See that a lexicon has all words of the training texts.

    Raises:
        UserError: A word is absent.
    """
    if not lexicon:
        return
    words = {word for text in texts for word in text.split()}
    absent = words - lexicon.keys()
    if absent:
        raise UserError(
            f"--lexicon: {counted(len(absent), 'word')} not in it, such as"
            f" {min(absent)!r}; add them"
        )
