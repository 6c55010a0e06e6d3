"""The lexicon beside a model: how often words stand in its training text, for `--respell`."""

from __future__ import annotations

import hashlib
import lzma
import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path

from rescore.errors import UserError
from rescore.files import replacing
from rescore.formats.source import read_lines
from rescore.lms.neural.tokenizer import Tokenizer

NAME = "lexicon.txt.xz"
"""The file's name in a model's folder."""
LEAST = 3
"""How often a word has to stand in a text: what is rarer is often a misprint."""
GIVEN = 100
"""The count of a word that a user gives: as of one that is known well, but not among the commonest."""


class Lexicon:
    """Counts of words in lower case; `total` is of all words of the text, those that were left out among them."""

    def __init__(
        self, counts: Mapping[str, int], total: int, source: str = "", listed: frozenset[str] = frozenset()
    ) -> None:
        self.counts = dict(counts)
        self.listed = listed
        """Words that a user gave."""
        self.total = total
        self.source = source
        """The file it was read from, for messages."""

    def __contains__(self, word: str) -> bool:
        return word in self.counts

    @cached_property
    def _unknown(self) -> float:
        return math.log(LEAST / 2 / self.total)

    def log_prob(self, word: str) -> float:
        """Natural log of the word's share of the text; half of that of the rarest word for one that is not there."""
        count = self.counts.get(word)
        return math.log(count / self.total) if count else self._unknown

    def with_words(self, words: Iterable[str]) -> Lexicon:
        """The lexicon with a user's words, in lower case, each counted `GIVEN` times at least."""
        listed = frozenset(map(str.lower, words))
        new = {word: max(GIVEN, self.counts.get(word, 0)) for word in listed}
        return Lexicon(self.counts | new, self.total, self.source, self.listed | listed)

    @cached_property
    def digest(self) -> str:
        """Twelve hexadecimal digits that say which words and counts these are and which a user gave, for signatures."""
        counts = (f"{word} {count}" for word, count in sorted(self.counts.items()))
        lines = "\n".join([*counts, *(f"listed {word}" for word in sorted(self.listed))])
        return hashlib.sha256(f"{self.total}\n{lines}".encode()).hexdigest()[:12]

    @classmethod
    def count(cls, sentences: Iterable[Iterable[str]], least: int = LEAST) -> Lexicon:
        """Count the words of sentences, which are in lower case, and keep those of letters that come often enough."""
        counts: Counter[str] = Counter()
        for words in sentences:
            counts.update(words)
        kept = {word: count for word, count in counts.items() if count >= least and spelled(word)}
        return cls(kept, counts.total())

    def save(self, path: Path) -> None:
        """Write lines `word count`, by word, after a line with the total; packed with xz."""
        lines = [f"{word} {count}" for word, count in sorted(self.counts.items())]
        with replacing(path) as temporary:
            temporary.write_bytes(lzma.compress("\n".join([str(self.total), *lines, ""]).encode()))

    @classmethod
    def load(cls, path: Path) -> Lexicon:
        """Read what `save` wrote.

        Raises:
            UserError: the file is absent or damaged.
        """
        lines = read_lines(path)
        counts: dict[str, int] = {}
        total = 0
        try:
            total = int(next(lines, ""))
            for line in lines:
                word, count = line.split()
                counts[word] = int(count)
        except ValueError:
            number = len(counts) + 2 if total else 1
            raise UserError(
                f"{path}: line {number}: expected a word and its count; write the file anew with `rescore train`"
            ) from None
        if not counts:
            raise UserError(f"{path}: has no words; write the file anew with `rescore train`")
        return cls(counts, max(total, sum(counts.values())), str(path))


def spelled(word: str) -> bool:
    """Whether a word is one of letters, with apostrophes perhaps: what may be looked up, and respelled."""
    letters = word.replace("'", "")
    return bool(letters) and all(unicodedata.category(letter)[0] == "L" for letter in letters)


CHUNK = 10_000
"""Lines that are normalised together."""


def write(text: Path, tokenizer: Tokenizer, out: Path) -> None:
    """Count the words of a text as the tokenizer normalises them, and write the lexicon into a model's folder."""
    Lexicon.count(_sentences(text, tokenizer)).save(out / NAME)


def _sentences(text: Path, tokenizer: Tokenizer) -> Iterator[list[str]]:
    lines = read_lines(text)
    while chunk := list(islice(lines, CHUNK)):
        for words in tokenizer.words(chunk):
            yield [word.lower() for word in words]
