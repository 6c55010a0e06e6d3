"""What a recogniser writes where something else was said: P(heard | meant), over blocks of letters.

The noisy channel of spelling correction (Kernighan, Church and Gale 1990; blocks as in Brill and Moore 2000). A text
is read as letters, the blanks between and around its words among them, so that words may join and part. It is cut into
blocks of at most `BLOCK` letters, each heard as a block of its own; the cut with the highest product of probabilities
counts. All probabilities are natural logs.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.files import parsed, read_json, write_text
from rescore.scoring import shipped_models

NAME = "channel.json"
"""The file's name in a channel's folder."""
BLOCK = 2
"""Letters in a block, at most."""
DISCOUNT = 0.5
"""Taken from the count of each pair of blocks that was seen, for those that were not."""
FLOOR = 1e-5
"""Probability that one letter is heard as another one, or not at all, or out of nothing, beside what was counted."""
STEPS = [(i, j) for i in range(BLOCK + 1) for j in range(BLOCK + 1) if i or j]
"""How many letters a pair of blocks has, meant and heard."""

PAIRS = 4096
"""Pairs of texts whose probabilities are computed together."""
BAND = 3
"""Letters by which an alignment may stray from the diagonal, beside the difference of the lengths."""

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]


def framed(text: str) -> str:
    """The letters of one or more words, with the blanks around them."""
    return f" {text} "


@dataclass(frozen=True, slots=True)
class _File:
    """What a file of a channel holds."""

    block: int
    source: str
    totals: dict[str, float]
    counts: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Channel:
    """Counts of blocks, and what follows from them."""

    counts: Mapping[str, Mapping[str, float]]
    """How often a block that was meant was heard as each block."""
    totals: Mapping[str, float]
    """How often a block was meant; of the empty one, the places between letters."""
    source: str = ""
    """What it was learned from, for cards and signatures."""

    @cached_property
    def letters(self) -> str:
        """The alphabet; letters that are not in it are all alike."""
        return "".join(sorted({letter for block in self.totals for letter in block}))

    @staticmethod
    def shipped() -> Path:
        """The folder of the one that is used where no lists are at hand to learn one from."""
        return shipped_models() / "channel"

    @property
    def size(self) -> int:
        """How many pairs of blocks were counted."""
        return sum(map(len, self.counts.values()))

    @cached_property
    def digest(self) -> str:
        """Twelve hexadecimal digits that say which counts these are, for signatures."""
        counts = sorted((meant, heard, float(n)) for meant, row in self.counts.items() for heard, n in row.items())
        content = json.dumps([BLOCK, counts, sorted((block, float(n)) for block, n in self.totals.items())])
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    def confusions(self, number: int) -> list[tuple[str, str, float, float]]:
        """The blocks most often heard as others: meant, heard, how often, P(heard | meant)."""
        found = [
            (meant, heard, count, count / self.totals[meant])
            for meant, row in self.counts.items()
            for heard, count in row.items()
            if meant != heard
        ]
        return sorted(found, key=lambda item: (-item[2], item[:2]))[:number]

    def save(self, folder: Path) -> None:
        """Write the counts into a folder, as JSON."""
        content = {
            "block": BLOCK,
            "source": self.source,
            "totals": dict(sorted(self.totals.items())),
            "counts": {meant: dict(sorted(row.items())) for meant, row in sorted(self.counts.items())},
        }
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / NAME, json.dumps(content, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Channel:
        """Read what `save` wrote.

        Raises:
            UserError: the file is absent or damaged, or was made for blocks of other lengths.
        """
        path = folder / NAME if folder.is_dir() else folder
        found = parsed(read_json(path), _File, str(path))
        if found.block != BLOCK:
            raise UserError(f"{path}: has blocks of {found.block} letters, not {BLOCK}; train the channel anew")
        for meant, row in found.counts.items():
            if meant not in found.totals or any(not 0 < n <= found.totals[meant] + 1 for n in row.values()):
                raise UserError(f"{path}: counts of {meant!r} do not fit its total; train the channel anew")
        return cls(found.counts, found.totals, found.source)

    def log_prob(self, meant: str, heard: str) -> float:
        """Natural log of P(heard | meant) of two blocks; -inf for longer ones that were never seen."""
        count = self.counts.get(meant, {}).get(heard, 0.0)
        total = self.totals.get(meant, 0.0)
        seen = max(count - DISCOUNT, 0.0) / total if total else 0.0
        floor = FLOOR if len(meant) <= 1 and len(heard) <= 1 else 0.0
        with np.errstate(divide="ignore"):
            return float(np.log(min(seen + floor, 1.0)))

    @cached_property
    def table(self) -> Floats:
        """(blocks, blocks) -log P by the codes of `_codes`; a letter outside the alphabet has the last number."""
        size = len(self.letters) + 2  # 0 is no letter
        table = np.full((size**BLOCK, size**BLOCK), np.inf, dtype=np.float32)
        other = chr(sys.maxunicode)  # stands for all that are not in the alphabet
        singles = ["", *self.letters, other]
        for meant, row in self.counts.items():
            for heard in row:
                table[self._code(meant), self._code(heard)] = -self.log_prob(meant, heard)
        for meant in singles:
            for heard in singles:
                if meant or heard:
                    cost = -self.log_prob(meant, heard)
                    table[self._code(meant), self._code(heard)] = 0.0 if meant == heard == other else cost
        return table

    @cached_property
    def _numbers(self) -> npt.NDArray[np.int64]:
        """The number of each character: 0 for no letter, the last one for all that are not in the alphabet."""
        numbers = np.full(sys.maxunicode + 1, len(self.letters) + 1)
        numbers[0] = 0
        numbers[list(map(ord, self.letters))] = np.arange(len(self.letters)) + 1
        return numbers

    def _code(self, block: str) -> int:
        code = 0
        for letter in block:
            code = code * (len(self.letters) + 2) + int(self._numbers[ord(letter)])
        return code

    def _codes(self, texts: Sequence[str]) -> tuple[Codes, list[Codes]]:
        """(texts,) lengths, and for each number of letters (longest + 1, texts) the code of the block ending there."""
        lengths = np.array([len(text) for text in texts])
        width = int(lengths.max()) + 1
        padded = "".join("\0" + text.ljust(width - 1, "\0") for text in texts).encode("utf-32-le")
        letters = np.ascontiguousarray(self._numbers[np.frombuffer(padded, "<u4").reshape(-1, width)].T)
        codes = [np.zeros_like(letters), letters]
        for _ in range(BLOCK - 1):
            longer = letters.copy()
            longer[1:] += (len(self.letters) + 2) * codes[-1][:-1]
            codes.append(longer)
        return lengths, codes

    def log_probs(self, meant: Sequence[str], heard: Sequence[str]) -> npt.NDArray[np.float64]:
        """(pairs,) natural log of P(heard | meant) of texts, one or more words each."""
        order = sorted(range(len(meant)), key=lambda index: (len(meant[index]), len(heard[index])))
        result = np.zeros(len(meant))
        for start in range(0, len(order), PAIRS):
            some = order[start : start + PAIRS]
            result[some] = self._together([framed(meant[i]) for i in some], [framed(heard[i]) for i in some])
        return result

    def _together(self, meant: Sequence[str], heard: Sequence[str]) -> Floats:
        """`log_probs` of texts of like lengths."""
        (ours, left), (theirs, right) = self._codes(meant), self._codes(heard)
        table, width = self.table.ravel(), len(self.table)
        rows, columns = int(ours.max()) + 1, int(theirs.max()) + 1
        cost = np.full((rows, columns, len(meant)), np.inf, dtype=np.float32)
        cost[0, 0] = 0.0
        left = [codes * width for codes in left]
        band = max(int(np.abs(ours - theirs).max()), 0) + BAND
        for i in range(rows):
            for j in range(max(0, i - band), min(columns, i + band + 1)):
                cell = cost[i, j]
                for di, dj in STEPS:
                    if di <= i and dj <= j:
                        np.minimum(cell, cost[i - di, j - dj] + table[left[di][i] + right[dj][j]], out=cell)
        return -cost[ours, theirs, np.arange(len(meant))]
