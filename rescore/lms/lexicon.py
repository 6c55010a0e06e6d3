"""Counts of the words of a training text, for `--respell`: a file that training writes
beside a model.
"""

from __future__ import annotations

import hashlib
import lzma
import math
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

from rescore.errors import UserError
from rescore.files import replacing
from rescore.formats.sentences import read_lines, read_text
from rescore.nbest import in_parts

NAME = "lexicon.txt.xz"
"""The file's name in a model's folder."""
LEAST = 3
"""Least count of a word in the lexicon; rarer words are often misprints."""
GIVEN = 100
"""The count of a word from a user's list: well known, but not among the most
frequent.
"""

AGAIN = "write the file again with `rescore train`"


@dataclass(eq=False)
class Lexicon:
    """Counts of words in lower case."""

    counts: Mapping[str, int]
    """The count of each word that is kept."""
    total: int
    """Number of all words of the text, with those that are not kept."""
    listed: frozenset[str] = frozenset()
    """Words from a user's list."""

    def __contains__(self, word: str) -> bool:
        """Return whether a word in lower case is kept."""
        return word in self.counts

    def log_prob(self, word: str) -> float:
        """Return the natural log of a word's share of the text; unknown words have half
        the share of the rarest word.

        Args:
            word: A word in lower case.
        """
        return math.log(self.counts.get(word, LEAST / 2) / self.total)

    def with_words(self, words: Iterable[str]) -> Lexicon:
        """Return the lexicon with a user's words, each counted `GIVEN` times at least.

        Args:
            words: The words, in any case.
        """
        listed = frozenset(map(str.lower, words))
        new = {word: max(GIVEN, self.counts.get(word, 0)) for word in listed}
        return Lexicon({**self.counts, **new}, self.total, self.listed | listed)

    @cached_property
    def digest(self) -> str:
        """Twelve hexadecimal digits for signatures: the hash of the words, their counts
        and the user's list.
        """
        lines = [f"{word} {count}" for word, count in sorted(self.counts.items())]
        lines += [f"listed {word}" for word in sorted(self.listed)]
        content = f"{self.total}\n" + "\n".join(lines)
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    @classmethod
    def count(cls, sentences: Iterable[Iterable[str]]) -> Lexicon:
        """Return the frequent words of sentences, in lower case. A word has only
        letters and apostrophes.

        Args:
            sentences: The words of each sentence.
        """
        counts: Counter[str] = Counter()
        for words in sentences:
            counts.update(map(str.lower, words))
        kept = {}
        for word, count in counts.items():
            if count >= LEAST and spelled(word):
                kept[word] = count
        return cls(kept, counts.total())

    def save(self, path: Path) -> None:
        """Write a line with the total, then lines `word count`, by word, packed with
        xz.

        Args:
            path: The file.
        """
        lines = [str(self.total)]
        lines += [f"{word} {count}" for word, count in sorted(self.counts.items())]
        text = "\n".join(lines) + "\n"
        with replacing(path) as temporary:
            temporary.write_bytes(lzma.compress(text.encode()))

    @classmethod
    def load(cls, path: Path) -> Lexicon:
        """Read what `save` wrote.

        Args:
            path: The file.

        Raises:
            UserError: The file is absent or damaged, or has no words.
        """
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
    """Return whether a word has only letters and apostrophes, so that it may be looked
    up and respelled.

    Args:
        word: The word.
    """
    letters = word.replace("'", "")
    if not letters:
        return False
    return all(unicodedata.category(letter)[0] == "L" for letter in letters)


CHUNK = 10_000
"""Lines that are normalised together."""


def chunks(
    texts: Sequence[Path], read: Callable[[Path], Iterator[str]] = read_text
) -> Iterator[list[str]]:
    """Return an iterator over the lines of texts, in lists of lines that are normalised
    together.

    Args:
        texts: The files.
        read: Yields the lines of a file.
    """
    return in_parts(chain.from_iterable(map(read, texts)), CHUNK)
