"""Counts of the words of a training text, for `--respell`: a file that training writes
beside a model.
"""

from __future__ import annotations

import hashlib
import lzma
import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

from rescore.errors import UserError
from rescore.files import replacing
from rescore.formats.text import read_lines
from rescore.nbest import in_parts

NAME = "lexicon.txt.xz"
"""The file's name in a model's folder."""
LEAST = 3
"""Least count of a word in the lexicon; rarer words are often misprints."""
GIVEN = 100
"""The count of a word that a user gives: well known, but not among the most
frequent.
"""

AGAIN = "write the file again with `rescore train`"


@dataclass(eq=False)
class Lexicon:
    """Counts of words in lower case; `total` counts all words of the text, including
    those left out.
    """

    counts: Mapping[str, int]
    total: int
    listed: frozenset[str] = frozenset()
    """Words that a user gave."""

    def __contains__(self, word: str) -> bool:
        return word in self.counts

    def log_prob(self, word: str) -> float:
        """Natural log of the word's share of the text; unknown words have half the
        share of the rarest word.
        """
        return math.log(self.counts.get(word, LEAST / 2) / self.total)

    def with_words(self, words: Iterable[str]) -> Lexicon:
        """The lexicon with a user's words, in lower case, each counted `GIVEN` times at
        least.
        """
        listed = frozenset(map(str.lower, words))
        new = {word: max(GIVEN, self.counts.get(word, 0)) for word in listed}
        return Lexicon({**self.counts, **new}, self.total, self.listed | listed)

    @cached_property
    def digest(self) -> str:
        """Twelve hexadecimal digits that say which words and counts these are and which
        a user gave, for signatures.
        """
        counts = (f"{word} {count}" for word, count in sorted(self.counts.items()))
        lines = "\n".join(
            [*counts, *(f"listed {word}" for word in sorted(self.listed))]
        )
        return hashlib.sha256(f"{self.total}\n{lines}".encode()).hexdigest()[:12]

    @classmethod
    def count(cls, sentences: Iterable[Iterable[str]]) -> Lexicon:
        """Count the words of sentences in lower case, and keep frequent words of
        letters.
        """
        counts = Counter(word.lower() for words in sentences for word in words)
        kept = {
            word: count
            for word, count in counts.items()
            if count >= LEAST and spelled(word)
        }
        return cls(kept, counts.total())

    def save(self, path: Path) -> None:
        """Write lines `word count`, by word, after a line with the total; packed
        with xz.
        """
        lines = [f"{word} {count}" for word, count in sorted(self.counts.items())]
        with replacing(path) as temporary:
            temporary.write_bytes(
                lzma.compress("\n".join([str(self.total), *lines, ""]).encode())
            )

    @classmethod
    def load(cls, path: Path) -> Lexicon:
        """Read what `save` wrote."""
        lines = read_lines(path)
        try:
            total = int(next(lines, ""))
            counts = {word: int(count) for word, count in map(str.split, lines)}
        except ValueError:
            raise UserError(
                f"{path}: expected a total, then a word and its count per line; {AGAIN}"
            ) from None
        if not counts:
            raise UserError(f"{path}: has no words; {AGAIN}")
        return cls(counts, max(total, sum(counts.values())))


def spelled(word: str) -> bool:
    """Whether a word has only letters and apostrophes, so that it may be looked up and
    respelled.
    """
    letters = word.replace("'", "")
    return bool(letters) and all(
        unicodedata.category(letter)[0] == "L" for letter in letters
    )


CHUNK = 10_000
"""Lines that are normalised together."""


def chunks(texts: Sequence[Path]) -> Iterator[list[str]]:
    """The lines of some texts, as many as are normalised together."""
    return in_parts(chain.from_iterable(map(read_lines, texts)), CHUNK)
