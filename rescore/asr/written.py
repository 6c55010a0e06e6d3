"""Words as they are written beside words as they are compared: normalisation changes,
joins and drops words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from rapidfuzz.distance import Levenshtein

from rescore.metrics.normalise import Normaliser


@dataclass(slots=True, eq=False)
class WrittenPiece:
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
    def tokens(self) -> list[ComparedWord]:
        """The compared words of the piece; each word refers to the piece."""
        return [ComparedWord.of(self, place) for place in range(len(self.words))]


class ComparedWord(str):
    """A word as it is compared, with a reference to its piece of the text."""

    __slots__ = ("piece", "place")
    piece: WrittenPiece
    place: int
    """Among the words of the piece."""

    @classmethod
    def of(cls, piece: WrittenPiece, place: int) -> ComparedWord:
        """Return a word of a piece.

        Args:
            piece: The piece.
            place: The number of the word, among the compared words of the piece.
        """
        token = cls(piece.words[place])
        token.piece = piece
        token.place = place
        return token

    @property
    def written(self) -> str:
        """The written form of a word that has a piece of its own."""
        return self.piece.text if len(self.piece.words) == 1 else str(self)


def pieces_of(text: str, normaliser: Normaliser) -> list[WrittenPiece]:
    """Return the pieces of a text from left to right: written words with their compared
    words.

    A word whose normalisation depends on its sentence forms one piece with its
    neighbours.

    Args:
        text: The text.
        normaliser: Says how words are compared.
    """
    alone: list[WrittenPiece] = []
    apart: list[str] = []
    for word in text.split():
        glued = False
        for part in normaliser.split(word):
            words = _alone(normaliser, part)
            alone.append(WrittenPiece(part, (part,), words, glued))
            apart += words
            glued = True
    whole = normaliser(text)
    if apart == whole:
        return alone
    pieces = []
    begin = 0
    last = 0
    lengths = [len(piece.words) for piece in alone]
    for place, end in enumerate(_ends(lengths, apart, whole), 1):
        if end is not None:
            pieces.append(_merged(alone[begin:place], tuple(whole[last:end])))
            begin = place
            last = end
    return pieces


def _merged(pieces: Sequence[WrittenPiece], words: tuple[str, ...]) -> WrittenPiece:
    """Return neighbouring pieces of one written word each as one piece.

    Args:
        pieces: The pieces.
        words: The words that they are compared as, together.
    """
    first = pieces[0]
    if len(pieces) == 1 and first.words == words:  # nearly always
        return first
    text = first.text
    for piece in pieces[1:]:
        text += piece.text if piece.glued else f" {piece.text}"
    written = tuple(piece.text for piece in pieces)
    return WrittenPiece(text, written, words, first.glued)


def tokens_of(text: str, normaliser: Normaliser) -> list[ComparedWord]:
    """Return the words of a text as the normaliser returns them, each with its written
    form.

    Args:
        text: The text.
        normaliser: Says how words are compared.
    """
    tokens = []
    for piece in pieces_of(text, normaliser):
        tokens += piece.tokens
    return tokens


@lru_cache(maxsize=1 << 16)
def _alone(normaliser: Normaliser, word: str) -> tuple[str, ...]:
    """Return the words of a text of one word."""
    return tuple(normaliser(word))


def _ends(
    lengths: Sequence[int], apart: Sequence[str], whole: Sequence[str]
) -> list[int | None]:
    """Return for each word its end in `whole`; None if the word forms one piece with
    the next word.

    Args:
        lengths: The number of words of `apart` that belong to each word.
        apart: The compared words of each word alone.
        whole: The compared words of the text.
    """
    ends: dict[int, int] = {}
    # the words between two ends are one piece
    for block in Levenshtein.editops(apart, whole).as_matching_blocks():
        for place in range(block.size + 1):
            ends.setdefault(block.a + place, block.b + place)
    ends[len(apart)] = len(whole)
    return [ends.get(end) for end in accumulate(lengths)]


def rewritten(tokens: Sequence[ComparedWord]) -> str:
    """Return the text that tokens were made of, as it was written; of a piece that is
    not complete, the words.

    Args:
        tokens: Tokens of one or more texts.
    """
    text = ""
    place = 0
    while place < len(tokens):
        token = tokens[place]
        piece = token.piece
        run = tokens[place : place + len(piece.words)]
        if text and not (piece.glued and token.place == 0):
            text += " "
        if _is_complete(piece, run):
            text += piece.text
            place += len(run)
        else:
            text += token
            place += 1
    return text


def _is_complete(piece: WrittenPiece, tokens: Sequence[ComparedWord]) -> bool:
    """Return whether tokens are all words of a piece in their order."""
    if len(tokens) != len(piece.words):
        return False
    for place, token in enumerate(tokens):
        if token.piece is not piece or token.place != place:
            return False
    return True
