"""ARPA files in NumPy: scores n-grams without KenLM. It is slower; scores agree within
1e-4.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise, repeat
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError, counted
from rescore.lms.base import TokenScores, Values

BEGIN = "<s>"
END = "</s>"
UNKNOWN = "<unk>"
LOG_10 = math.log(10)
UNKNOWN_LOG_10 = -7.0
"""log10 p of an unknown word where the file has no `<unk>`: rarer than nearly all known
words. KenLM's -100 (230 nats) for a single unknown word would outweigh everything else
in a sentence.
"""
LINES = 100_000
"""Lines that are read together."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


class _Order:
    """The n-grams of one order, sorted by their keys: (place of the first n - 1 words)
    * words + (last word).
    """

    def __init__(self, keys: Ints, log_probs: Floats, backoffs: Floats) -> None:
        """Sort n-grams; the three arrays are (k,), and the numbers are log10."""
        order = np.argsort(keys, kind="stable")
        self.keys = keys[order]
        self.log_probs = log_probs[order]
        self.backoffs = backoffs[order]

    def find(self, keys: Ints) -> Ints:
        """Return the place of each key; -1 for keys that are not listed or negative."""
        places = np.full(len(keys), -1, dtype=np.int64)
        if not len(self.keys):
            return places
        # in order, neighbouring keys lie near each other in memory
        order = np.argsort(keys)
        order = order[np.searchsorted(keys[order], 0) :]
        wanted = keys[order]
        near = np.searchsorted(self.keys, wanted).clip(max=len(self.keys) - 1)
        places[order] = np.where(self.keys[near] == wanted, near, -1)
        return places


class ArpaModel:
    """A back-off n-gram model: p(w | h) = p(h w) if it is listed, else backoff(h) * p(w
    | shorter h) (Katz 1987).
    """

    def __init__(self, path: Path) -> None:
        """Read a file. Memory: 16 bytes per n-gram, and the words.

        Args:
            path: The file, plain or gzip.

        Raises:
            UserError: The file is no ARPA file, or is damaged.
        """
        self._words: dict[str, int] = {}
        self._orders: list[_Order] = []
        try:
            with _opened(path) as file:
                self._read(file)
        except (OSError, EOFError, ValueError) as error:
            raise UserError(
                f"{path}: not an ARPA file that can be read ({error})"
            ) from None
        self.closed = UNKNOWN not in self._words
        """Whether the file has no `<unk>`."""
        self._unknown = self._words.get(UNKNOWN, -1)

    def score(self, texts: Sequence[str]) -> list[TokenScores]:
        """Return the scores of each text, whose last token is `</s>`.

        Args:
            texts: Words between blanks.
        """
        rows = [[*text.split(), END] for text in texts]
        starts = np.cumsum([0, *(len(row) + 1 for row in rows)])
        sequence = chain.from_iterable((BEGIN, *row) for row in rows)
        # all words of all texts in one pass without a Python frame per word
        words = np.fromiter(
            map(self._words.get, sequence, repeat(-1)), np.int64, starts[-1]
        )
        unknown = (words < 0) | (words == self._unknown)
        words[unknown] = self._unknown
        values = self._log_probs(words, starts) * LOG_10
        results = []
        bounds = starts.tolist()
        for row, tokens in enumerate(rows):
            own = slice(bounds[row] + 1, bounds[row + 1])
            places = tuple(np.flatnonzero(unknown[own]).tolist())
            results.append(TokenScores(tokens, values[own], places))
        return results

    def _log_probs(self, words: Ints, starts: Ints) -> Values:
        """Return log10 p of each word (k,) given the words before it in its sentence;
        sentences begin at `starts`.

        The n-grams that end at a position are found order by order, each by the place
        of its first n - 1 words, which end one position earlier. All positions at once.
        """
        unigrams = self._orders[0]
        place = unigrams.find(words)
        result = np.where(place < 0, UNKNOWN_LOG_10, unigrams.log_probs[place])
        result = result.astype(np.float64)
        begins = np.zeros(len(words), dtype=bool)
        begins[starts[:-1]] = True
        for shorter, order in pairwise(self._orders):
            history = np.concatenate([[-1], place[:-1]])
            history[begins] = -1
            place = order.find(history * len(self._words) + words)
            place[(history < 0) | (words < 0)] = -1
            backoff = np.where(history < 0, 0.0, shorter.backoffs[history])
            result = np.where(place < 0, result + backoff, order.log_probs[place])
        return result

    def _read(self, file: IO[str]) -> None:
        """Read a file, section by section."""
        counts = self._read_head(file)
        for n, count in enumerate(counts, 1):
            if self._marker != f"\\{n}-grams:":
                raise ValueError(
                    f"found {self._marker[:40]!r} where \\{n}-grams: was expected"
                )
            keys, log_probs, backoffs = self._section_arrays(file, n)
            if len(keys) != count:
                raise ValueError(
                    f"it has {len(keys)} {n}-grams, its head says {count}; is it"
                    " truncated?"
                )
            if count:  # a short text has no long n-grams
                self._orders.append(_Order(keys, log_probs, backoffs))
        if not counts or self._marker != "\\end\\":
            raise ValueError("it does not end with \\end\\; is it truncated?")

    def _read_head(self, file: IO[str]) -> list[int]:
        """Read up to the mark of the first section, which is kept; return the number of
        n-grams of each order.
        """
        first = ""
        line = ""
        for line in file:
            first = line.strip()
            if first:
                break
        if first != "\\data\\":
            raise ValueError("its first line is not \\data\\")
        counts = []
        for line in file:
            if line.startswith("ngram "):
                counts.append(int(line.partition("=")[2]))
            elif line.strip():
                break
        self._marker = line.strip()
        return counts

    def _section(self, file: IO[str]) -> Iterator[str]:
        """Yield the lines up to the mark of the next section, which is kept; empty
        lines mean nothing.
        """
        self._marker = ""
        for line in file:
            line = line.strip()
            if line.startswith("\\"):
                self._marker = line
                return
            if line:
                yield line

    def _section_arrays(self, file: IO[str], n: int) -> tuple[Ints, Floats, Floats]:
        """Return keys, log-probabilities and back-offs (k,) of the n-grams of a
        section.
        """
        keys = []
        log_probs = []
        backoffs = []
        lines = self._section(file)
        while True:
            rows = [line.split() for line in islice(lines, LINES)]
            _check_rows(rows, n)
            if n == 1:
                self._add_words(rows)
            keys.append(self._keys([row[1 : n + 1] for row in rows], n))
            log_probs.append(np.array([row[0] for row in rows], dtype=np.float32))
            # a row without a back-off ends with its last word
            own_backoffs = [row[n + 1] if len(row) > n + 1 else 0 for row in rows]
            backoffs.append(np.array(own_backoffs, dtype=np.float32))
            if len(rows) < LINES:
                break
        return np.concatenate(keys), np.concatenate(log_probs), np.concatenate(backoffs)

    def _add_words(self, rows: Sequence[Sequence[str]]) -> None:
        """Number the words of 1-grams."""
        before = len(self._words)
        self._words |= {row[1]: number for number, row in enumerate(rows, before)}
        if len(self._words) < before + len(rows):
            raise ValueError("a 1-gram is listed twice")

    def _keys(self, ngrams: Sequence[Sequence[str]], n: int) -> Ints:
        """Return the keys (k,) of n-grams, whose first n - 1 words must be listed."""
        # a comprehension in a comprehension is the fast form: millions of words
        try:
            numbers = [[self._words[word] for word in ngram] for ngram in ngrams]
        except KeyError as error:
            raise ValueError(
                f"{error.args[0]!r} in a {n}-gram is not among the 1-grams"
            ) from None
        words = np.array(numbers, dtype=np.int64).reshape(-1, n)
        key = words[:, 0]
        for column, order in enumerate(self._orders, 1):
            place = order.find(key)
            if (place < 0).any():
                listed = " ".join(ngrams[int((place < 0).argmax())])
                raise ValueError(
                    f"{listed!r} is listed, but not its first {counted(column, 'word')}"
                )
            key = place * len(self._words) + words[:, column]
        return key


def _check_rows(rows: Sequence[Sequence[str]], n: int) -> None:
    """Raise an error if a row is not a number, n words, and perhaps a number."""
    for row in rows:
        if len(row) not in (n + 1, n + 2):
            raise ValueError(
                f"{' '.join(row)[:60]!r} is not a {n}-gram with its log-probability"
            )


def _opened(path: Path) -> IO[str]:
    """Return an open file, plain or gzip."""
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return open(path, encoding="utf-8")
