"""ARPA files in NumPy: scores n-grams without KenLM. It is slower; scores agree within
1e-4.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterator, Sequence
from itertools import chain, islice, repeat
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError, counted
from rescore.lms.base import TokenScores, Values

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
LOG_10 = math.log(10)
UNKNOWN_LOG_10 = -7.0
"""Of an unknown word where the file has no `<unk>`: rarer than nearly all known words.
KenLM's -100 (230 nats) for a single unknown word would outweigh everything else in a
sentence.
"""
LINES = 100_000
"""Lines that are read together."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]


class _Order:
    """The n-grams of one order, sorted by their keys: (place of the first n - 1 words)
    * words + (last word).
    """

    # (k,), base 10, in any order
    def __init__(self, keys: Ints, log_probs: Floats, backoffs: Floats) -> None:
        order = np.argsort(keys, kind="stable")
        self.keys, self.log_probs, self.backoffs = (
            keys[order],
            log_probs[order],
            backoffs[order],
        )

    def find(self, keys: Ints) -> Ints:
        """The place of each key; -1 for keys that are not listed or negative."""
        found = np.full(len(keys), -1, dtype=np.int64)
        if len(self.keys):
            # in order, neighbouring keys lie near each other in memory
            order = np.argsort(keys)
            order = order[np.searchsorted(keys[order], 0) :]
            places = np.searchsorted(self.keys, keys[order]).clip(
                max=len(self.keys) - 1
            )
            found[order] = np.where(self.keys[places] == keys[order], places, -1)
        return found


class ArpaModel:
    """A back-off n-gram model: p(w | h) = p(h w) if it is listed, else backoff(h) * p(w
    | shorter h) (Katz 1987).
    """

    def __init__(self, path: Path) -> None:
        """Read a file, plain or gzip. Memory: 16 bytes per n-gram, and the words."""
        self._words: dict[str, int] = {}
        self._orders: list[_Order] = []
        try:
            with (
                gzip.open(path, "rt", encoding="utf-8")
                if path.suffix == ".gz"
                else open(path, encoding="utf-8")
            ) as file:
                self._read(file)
        except (OSError, EOFError, ValueError) as error:
            raise UserError(
                f"{path}: not an ARPA file that can be read ({error})"
            ) from None
        self.closed = UNKNOWN not in self._words
        unknown = self._words.get(UNKNOWN)
        self._unknown = -1 if unknown is None else unknown

    def score(self, texts: Sequence[str]) -> list[TokenScores]:
        """One result per text, whose words stand between blanks; `</s>` is the last
        token.
        """
        rows = [[*text.split(), END] for text in texts]
        starts = np.cumsum([0, *(len(row) + 1 for row in rows)])
        sequence = chain.from_iterable((BEGIN, *row) for row in rows)
        words = np.fromiter(
            map(self._words.get, sequence, repeat(-1)), np.int64, starts[-1]
        )
        unknown = (words < 0) | (words == self._unknown)
        words[unknown] = self._unknown
        values = self._log_probs(words, starts) * LOG_10
        results = []
        for tokens, begin, end in zip(
            rows, starts[:-1].tolist(), starts[1:].tolist(), strict=True
        ):
            places = tuple(np.flatnonzero(unknown[begin + 1 : end]).tolist())
            results.append(TokenScores(tokens, values[begin + 1 : end], places))
        return results

    def _log_probs(self, words: Ints, starts: Ints) -> Values:
        """words (k,) of sentences that begin at `starts` -> log10 p of each given those
        before it in its sentence (k,).

        The n-grams that end at a position are found order by order, each by the place
        of its first n - 1 words, which end one position earlier. All positions at once.
        """
        place = self._orders[0].find(words)
        result = np.where(
            place < 0, UNKNOWN_LOG_10, self._orders[0].log_probs[place]
        ).astype(np.float64)
        begins = np.zeros(len(words), dtype=bool)
        begins[starts[:-1]] = True
        for shorter, order in zip(self._orders, self._orders[1:], strict=False):
            history = np.concatenate([[-1], place[:-1]])
            history[begins] = -1
            place = np.where(
                (history < 0) | (words < 0),
                -1,
                order.find(history * len(self._words) + words),
            )
            backoff = np.where(history < 0, 0.0, shorter.backoffs[history])
            result = np.where(place < 0, result + backoff, order.log_probs[place])
        return result

    def _read(self, file: IO[str]) -> None:
        if next((line for line in file if line.strip()), "").strip() != "\\data\\":
            raise ValueError("its first line is not \\data\\")
        counts = []
        for line in file:
            if line.startswith("ngram "):
                counts.append(int(line.partition("=")[2]))
            elif line.strip():
                break
        self._marker = line.strip()
        for n, count in enumerate(counts, 1):
            if self._marker != f"\\{n}-grams:":
                raise ValueError(
                    f"found {self._marker[:40]!r} where \\{n}-grams: was expected"
                )
            chunks = list(self._chunks(file, n))
            keys, log_probs, backoffs = (
                np.concatenate(parts) for parts in zip(*chunks, strict=True)
            )
            if len(keys) != count:
                raise ValueError(
                    f"it has {len(keys)} {n}-grams, its head says {count}; is it"
                    " truncated?"
                )
            if count:  # a short text has no long n-grams
                self._orders.append(_Order(keys, log_probs, backoffs))
        if not counts or self._marker != "\\end\\":
            raise ValueError("it does not end with \\end\\; is it truncated?")

    def _section(self, file: IO[str]) -> Iterator[str]:
        """The lines up to the mark of the next section, which is kept; empty lines mean
        nothing.
        """
        self._marker = ""
        for line in file:
            line = line.strip()
            if line.startswith("\\"):
                self._marker = line
                return
            if line:
                yield line

    def _chunks(self, file: IO[str], n: int) -> Iterator[tuple[Ints, Floats, Floats]]:
        """Keys, log-probabilities and back-offs of the n-grams of a section, many at a
        time.
        """
        lines = self._section(file)
        while True:
            rows = [line.split() for line in islice(lines, LINES)]
            wrong = next((row for row in rows if len(row) not in (n + 1, n + 2)), None)
            if wrong:
                raise ValueError(
                    f"{' '.join(wrong)[:60]!r} is not a {n}-gram with its"
                    " log-probability"
                )
            if n == 1:
                before = len(self._words)
                self._words |= {
                    row[1]: number for number, row in enumerate(rows, before)
                }
                if len(self._words) < before + len(rows):
                    raise ValueError("a 1-gram is listed twice")
            yield (
                self._keys([row[1 : n + 1] for row in rows], n),
                np.array([row[0] for row in rows], dtype=np.float32),
                np.array(
                    [row[n + 1] if len(row) > n + 1 else 0 for row in rows],
                    dtype=np.float32,
                ),
            )
            if len(rows) < LINES:
                return

    def _keys(self, ngrams: Sequence[Sequence[str]], n: int) -> Ints:
        try:
            words = np.array(
                [[self._words[word] for word in ngram] for ngram in ngrams],
                dtype=np.int64,
            ).reshape(-1, n)
        except KeyError as error:
            raise ValueError(
                f"{error.args[0]!r} in a {n}-gram is not among the 1-grams"
            ) from None
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
