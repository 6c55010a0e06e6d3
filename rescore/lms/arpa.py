"""ARPA files in NumPy: scores n-grams without KenLM. It is slower; scores agree within
1e-4.
"""

from __future__ import annotations

import gzip
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from io import TextIOWrapper
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
CAPITAL_UNKNOWN = "<UNK>"
"""The unknown word as SRILM and others write it, which KenLM takes for `<unk>`."""
BLANKS = " \t\r\n"
"""Characters that end a word."""
OTHER_BLANK = re.compile(r"[^\S \t\r\n]")
"""A character that ends a word for Python alone."""
LOG_10 = math.log(10)
UNKNOWN_LOG_10 = -7.0
"""log10 p of an unknown word where the file has no `<unk>`: rarer than nearly all known
words. KenLM's -100 (230 nats) for a single unknown word would outweigh everything else
in a sentence.
"""
LINES = 100_000
"""Lines that are read together."""
BLOCK = 1 << 24
"""Characters that are searched together."""
SHORTEST_LINE = 4
"""Characters of an n-gram's line, at least: a digit, a tab, a letter and a new line."""
REASON = 150
"""Characters of a reason in an error message, at most."""
PACKED = 1100
"""Characters that a byte of a gzip file can hold, at most."""

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
        contents = _read(path, whole=True)
        self._words = contents.words
        self._orders = contents.orders
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
            history = np.concatenate([[-1], place])[:-1]
            history[begins] = -1
            place = order.find(history * len(self._words) + words)
            place[(history < 0) | (words < 0)] = -1
            is_known = history >= 0
            result[is_known] += shorter.backoffs[history[is_known]]
            is_listed = place >= 0
            result[is_listed] = order.log_probs[place[is_listed]]
        return result


class _Contents:
    """What an ARPA file holds, read section by section.

    The grammar is KenLM's, and a little wider: blanks may stand for tabs, as SRILM
    writes them, lines may be empty anywhere, and a model may have any order.
    """

    def __init__(self) -> None:
        """Make the contents of an empty file."""
        self.words: dict[str, int] = {}
        """The number of each word. `<UNK>` counts as `<unk>`."""
        self.orders: list[_Order] = []
        self._marker = ""
        """The mark of the section that comes next."""

    def read(self, file: IO[str], size: int, whole: bool) -> None:
        """Read a file.

        Args:
            file: The open file.
            size: Characters of the file, at most.
            whole: Whether all n-grams are read; otherwise the head and the 1-grams.

        Raises:
            ValueError: The file is no ARPA file, or is damaged.
        """
        counts = self._read_head(file)
        if sum(counts) > size // SHORTEST_LINE:
            raise ValueError(
                f"its head says {sum(counts):,} n-grams, for which the file is too"
                " short; is it truncated?"
            )
        for n, count in enumerate(counts, 1):
            self._read_order(file, n, count, is_last=n == len(counts))
            if n == 1:
                self._check_marks()
            if not whole:
                return
        if not counts or self._marker != "\\end\\":
            raise ValueError("it does not end with \\end\\; is it truncated?")
        for line in file:
            if line.strip():
                raise ValueError(f"{line.strip()[:40]!r} stands behind \\end\\")

    def _read_order(self, file: IO[str], n: int, count: int, is_last: bool) -> None:
        """Read the section of the n-grams of an order."""
        if self._marker != f"\\{n}-grams:":
            raise ValueError(
                f"found {self._marker[:40]!r} where \\{n}-grams: was expected"
            )
        keys, log_probs, backoffs = self._section_arrays(file, n)
        if len(keys) != count:
            raise ValueError(
                f"it has {len(keys)} {n}-grams, its head says {count}; is it truncated?"
            )
        if is_last and n > 1 and backoffs.any():
            raise ValueError(
                f"a {n}-gram has a back-off, though there are no longer n-grams"
            )
        self.orders.append(_Order(keys, log_probs, backoffs))

    def _check_marks(self) -> None:
        """Raise an error if the beginning or the end of a sentence is no 1-gram."""
        for mark in (BEGIN, END):
            if mark not in self.words:
                raise ValueError(f"{mark} is not among the 1-grams")

    def _read_head(self, file: IO[str]) -> list[int]:
        """Read up to the mark of the first section, which is kept; return the number of
        n-grams of each order.
        """
        first = ""
        line = ""
        for line in file:
            first = line.strip(BLANKS)
            if first and not first.startswith("#"):  # a remark
                break
        if first != "\\data\\":
            raise ValueError("its first line is not \\data\\")
        counts: list[int] = []
        for line in file:
            if line.startswith("ngram "):
                counts.append(_count(line, len(counts) + 1))
            elif line.strip():
                break
        self._marker = line.strip(BLANKS)
        return counts

    def _section(self, file: IO[str]) -> Iterator[str]:
        """Yield the lines up to the mark of the next section, which is kept; empty
        lines mean nothing.
        """
        self._marker = ""
        for line in file:
            line = line.strip(BLANKS)
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
            rows = _rows(list(islice(lines, LINES)))
            _check_rows(rows, n)
            if n == 1:
                self._add_words(rows)
            keys.append(self._keys([row[1 : n + 1] for row in rows], n))
            log_probs.append(_log_probs(rows))
            backoffs.append(_backoffs(rows, n))
            if len(rows) < LINES:
                break
        return np.concatenate(keys), np.concatenate(log_probs), np.concatenate(backoffs)

    def _add_words(self, rows: Sequence[Sequence[str]]) -> None:
        """Number the words of 1-grams."""
        before = len(self.words)
        new = {row[1]: number for number, row in enumerate(rows, before)}
        self.words |= new
        if len(self.words) < before + len(rows):
            raise ValueError("a 1-gram is listed twice")

    def _keys(self, ngrams: Sequence[Sequence[str]], n: int) -> Ints:
        """Return the keys (k,) of n-grams, whose first n - 1 words must be listed."""
        # a comprehension in a comprehension is the fast form: millions of words
        try:
            numbers = [[self.words[word] for word in ngram] for ngram in ngrams]
        except KeyError as error:
            raise ValueError(
                f"{error.args[0]!r} in a {n}-gram is not among the 1-grams"
            ) from None
        words = np.array(numbers, dtype=np.int64).reshape(-1, n)
        key = words[:, 0]
        for column, order in enumerate(self.orders, 1):
            place = order.find(key)
            if (place < 0).any():
                listed = " ".join(ngrams[int((place < 0).argmax())])
                raise ValueError(
                    f"{listed!r} is listed, but not its first {counted(column, 'word')}"
                )
            key = place * len(self.words) + words[:, column]
        return key


def _count(line: str, n: int) -> int:
    """Return the number of n-grams in a line of the head, `ngram N=NUMBER`."""
    order, _, number = line.removeprefix("ngram ").partition("=")
    number = number.strip()
    if order.strip() != str(n) or not number.isdecimal():
        raise ValueError(f"its head says {line.strip()[:40]!r}, not ngram {n}=NUMBER")
    return int(number)


def _rows(lines: Sequence[str]) -> list[list[str]]:
    """Return what stands between blanks and tabs in each line; other characters are
    parts of words, as for KenLM.
    """
    text = "\n".join(lines)
    if OTHER_BLANK.search(text):
        rows = [re.split("[ \t\r]+", line) for line in lines]
    else:
        rows = list(map(str.split, lines))  # the fast form
    if CAPITAL_UNKNOWN in text:
        for row in rows:
            row[:] = [UNKNOWN if field == CAPITAL_UNKNOWN else field for field in row]
    return rows


def _check_rows(rows: Sequence[Sequence[str]], n: int) -> None:
    """Raise an error if a row is not a number, n words, and perhaps a number."""
    for row in rows:
        if len(row) not in (n + 1, n + 2):
            line = " ".join(row)[:40]
            raise ValueError(f"{line!r} is not a {n}-gram with its log-probability")


def _log_probs(rows: Sequence[Sequence[str]]) -> Floats:
    """Return the log-probabilities of n-grams (k,), log10."""
    column = [row[0] for row in rows]
    values = _numbers(column)
    wrong = ~(values <= 0)  # NaN, too
    if wrong.any():
        raise ValueError(
            f"{column[int(wrong.argmax())]!r} is not the logarithm of a probability"
        )
    return values


def _backoffs(rows: Sequence[Sequence[str]], n: int) -> Floats:
    """Return the back-offs of n-grams (k,), log10; 0 for a row that ends with its last
    word.
    """
    column = [row[n + 1] if len(row) > n + 1 else "0" for row in rows]
    values = _numbers(column)
    wrong = ~np.isfinite(values)
    if wrong.any():
        raise ValueError(f"{column[int(wrong.argmax())]!r} is not a back-off")
    return values


def _numbers(column: Sequence[str]) -> Floats:
    """Return texts as numbers (k,)."""
    if "_" in "".join(column):  # Python reads 1_000 as a number
        raise ValueError("a number has the character _")
    with np.errstate(over="ignore"):  # a number may be beyond float32
        return np.array(column, dtype=np.float32)


def check_beginning(path: Path) -> None:
    """Read the head and the words of an ARPA file, which KenLM would not check: it ends
    the program where the head is wrong.

    Args:
        path: The file, plain or gzip.

    Raises:
        UserError: The file is no ARPA file, or is damaged.
    """
    _read(path, whole=False)


def check_known(path: Path) -> None:
    """Check that no n-gram of an ARPA file without `<unk>` contains it: KenLM would
    read such a file.

    Args:
        path: The file, plain or gzip.

    Raises:
        UserError: An n-gram contains `<unk>`.
    """
    with _opened(path) as file:
        before = ""
        while block := file.read(BLOCK):
            match = re.search("[ \t](<unk>|<UNK>)[ \t\r\n]", before + block)
            if match is not None:
                raise UserError(
                    f"{path}: not an ARPA file that can be read ({match[1]!r} in an"
                    " n-gram is not among the 1-grams)"
                )
            before = block[-len(UNKNOWN) - 1 :]


def _read(path: Path, whole: bool) -> _Contents:
    """Return the contents of an ARPA file: all, or the head and the 1-grams."""
    contents = _Contents()
    size = path.stat().st_size
    if path.suffix == ".gz":
        size *= PACKED
    try:
        with _opened(path) as file:
            contents.read(file, size, whole)
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = " ".join(str(error).split())[:REASON]
        raise UserError(
            f"{path}: not an ARPA file that can be read ({reason})"
        ) from None
    return contents


def _opened(path: Path) -> IO[str]:
    """Return an open file, plain or gzip. Bytes that are not UTF-8 are kept: no text
    has such a word.
    """
    if path.suffix == ".gz":
        packed = gzip.GzipFile(path)
        return TextIOWrapper(packed, "utf-8", "surrogateescape", newline="\n")
    return open(path, encoding="utf-8", errors="surrogateescape", newline="\n")
