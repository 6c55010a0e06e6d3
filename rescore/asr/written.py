"""Words as they are written beside words as they are compared: normalisation changes,
joins and drops words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from rapidfuzz.distance import Levenshtein

from rescore.metrics.normalise import Normaliser


@dataclass(slots=True, eq=False)
class Piece:
    """A stretch of a text, and the words that it is compared as."""

    text: str
    """The piece as it is written."""
    written: tuple[str, ...]
    """Its words as they are written: several if normalisation joins words ("twenty one"
    becomes "21").
    """
    words: tuple[str, ...]
    """Its words as they are compared; empty for a piece that does not count, such as a
    filler.
    """
    glued: bool = False
    """Whether no blank stands before it, as between Chinese characters."""

    @property
    def tokens(self) -> list[Token]:
        """The words of the piece; each word refers to the piece."""
        return [Token.of(self, place) for place in range(len(self.words))]


class Token(str):
    """A word as it is compared, with a reference to its piece of the text."""

    __slots__ = ("piece", "place")
    piece: Piece
    place: int
    """Among the words of the piece."""

    @classmethod
    def of(cls, piece: Piece, place: int) -> Token:
        token = cls(piece.words[place])
        token.piece, token.place = piece, place
        return token

    @property
    def written(self) -> str:
        """The written form of a word that has a piece of its own."""
        return self.piece.text if len(self.piece.words) == 1 else str(self)


def pieces_of(text: str, normaliser: Normaliser) -> list[Piece]:
    """The pieces of the text from left to right: written words with their compared
    words.

    A word whose normalisation depends on its sentence forms one piece with its
    neighbours.
    """
    written = [
        (part, place > 0)
        for word in text.split()
        for place, part in enumerate(normaliser.split(word))
    ]
    words = [_alone(normaliser, part) for part, _ in written]
    apart = [word for part_words in words for word in part_words]
    whole = normaliser(text)
    if apart == whole:
        return [
            Piece(part, (part,), part_words, glued)
            for (part, glued), part_words in zip(written, words, strict=True)
        ]
    ends = _ends([len(part_words) for part_words in words], apart, whole)
    pieces, begin, last = [], 0, 0
    for place, end in enumerate(ends, 1):
        if end is not None:
            covered = written[begin:place]
            shown = "".join(
                part if glued else f" {part}" for part, glued in covered
            ).strip()
            pieces.append(
                Piece(
                    shown,
                    tuple(part for part, _ in covered),
                    tuple(whole[last:end]),
                    covered[0][1],
                )
            )
            begin, last = place, end
    return pieces


def tokens_of(text: str, normaliser: Normaliser) -> list[Token]:
    """The words of a text as the normaliser returns them, each with its written
    form.
    """
    return [token for piece in pieces_of(text, normaliser) for token in piece.tokens]


@lru_cache(maxsize=1 << 16)
def _alone(normaliser: Normaliser, word: str) -> tuple[str, ...]:
    """The words of a text of one word."""
    return tuple(normaliser(word))


def _ends(
    lengths: Sequence[int], apart: Sequence[str], whole: Sequence[str]
) -> list[int | None]:
    """For each word, its end in `whole`; None if the word forms one piece with the next
    word.

    Args:
        lengths: how many of `apart` each has.
    """
    ends: dict[int, int] = {}
    # the words between two ends are one piece
    for block in Levenshtein.editops(apart, whole).as_matching_blocks():
        for place in range(block.size + 1):
            ends.setdefault(block.a + place, block.b + place)
    ends[len(apart)] = len(whole)
    return [ends.get(end) for end in np.cumsum(lengths).tolist()]


def rewritten(tokens: Sequence[Token]) -> str:
    """The text that tokens were made of, as it was written; of a piece that is not
    complete, the words.
    """
    text, place = "", 0
    while place < len(tokens):
        token = tokens[place]
        run = tokens[place : place + len(token.piece.words)]
        whole = [
            neighbour.place for neighbour in run if neighbour.piece is token.piece
        ] == list(range(len(token.piece.words)))
        text += "" if not text or (token.piece.glued and token.place == 0) else " "
        text += token.piece.text if whole else str(token)
        place += len(run) if whole else 1
    return text
