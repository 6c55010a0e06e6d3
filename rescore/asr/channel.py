"""A channel: how likely a recogniser hears a word as another; and its estimation."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import zip_longest
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from rescore import formats
from rescore.errors import UserError, counted
from rescore.files import parsed, read_json, write_text
from rescore.formats.references import References
from rescore.lms import shipped_models
from rescore.lms.base import Kind, Report
from rescore.lms.folders import card, card_head, card_value
from rescore.lms.options import TextOptions, TrainingOptions
from rescore.nbest import NbestList, Origin, content_hash
from rescore.options import option
from rescore.styles import text as render

NAME = "channel.json"
"""The file's name in a channel's folder."""
BLOCK = 2
"""Letters in a block, at most."""
OTHER = chr(sys.maxunicode)
"""Stands for all letters that are not in the alphabet."""
DISCOUNT = 0.5
"""Discount of the count of each seen pair of blocks, in favour of unseen pairs."""
FLOOR = 1e-5
"""Probability of any substitution, deletion or insertion of a letter, beside the counts."""
STEPS = [(i, j) for i in range(BLOCK + 1) for j in range(BLOCK + 1) if i or j]
"""How many letters a pair of blocks has, meant and heard."""

MAX_LETTERS, MAX_BLOCKS = 4096, 8192
"""Letters, and blocks of any length, that have costs of their own: bounds the table to 256 MiB. The most frequent are
taken; further letters are all alike."""
PAIRS = 4096
"""Pairs of texts whose probabilities are computed together."""
BAND = 3
"""Number of letters by which an alignment may leave the diagonal, beside the difference of the lengths."""

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]


def framed(text: str) -> str:
    """The letters of one or more words, with the blanks around them."""
    return f" {text} "


@dataclass(frozen=True, slots=True)
class _File:
    """The contents of a channel's file."""

    block: int
    source: str
    totals: dict[str, float]
    counts: dict[str, dict[str, float]]


@dataclass(frozen=True)
class Channel:
    """Counts of blocks, and their probabilities."""

    counts: Mapping[str, Mapping[str, float]]
    """How often a block that was meant was heard as each block."""
    totals: Mapping[str, float]
    """How often a block was meant; of the empty one, the places between letters."""
    source: str = ""
    """The source of the counts, for cards and signatures."""

    @cached_property
    def letters(self) -> str:
        """The alphabet; letters that are not in it are all alike."""
        every = sorted({letter for block in self.totals for letter in block})
        return "".join(sorted(sorted(every, key=lambda letter: -self.totals.get(letter, 0.0))[:MAX_LETTERS]))

    @staticmethod
    def shipped() -> Path:
        """The folder of the shipped channel, used if no lists are available to learn from."""
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
        """The blocks most often heard as others: meant, heard, count, P(heard | meant)."""
        pairs = [
            (meant, heard, count, count / self.totals[meant])
            for meant, row in self.counts.items()
            for heard, count in row.items()
            if meant != heard
        ]
        return sorted(pairs, key=lambda item: (-item[2], item[:2]))[:number]

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
        """Read the file that `save` wrote.

        Raises:
            UserError: the file is absent or damaged, or has blocks of other lengths.
        """
        path = folder / NAME if folder.is_dir() else folder
        record = parsed(read_json(path), _File, str(path))
        if record.block != BLOCK:
            raise UserError(f"{path}: has blocks of {record.block} letters, not {BLOCK}; train the channel again")
        for meant, row in record.counts.items():
            if meant not in record.totals or any(not 0 < n <= record.totals[meant] + 1 for n in row.values()):
                raise UserError(f"{path}: the counts of {meant!r} do not match their total; train the channel again")
        return cls(record.counts, record.totals, record.source)

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
        """(blocks, blocks) -log P by the numbers of `_blocks`, meant and heard; the last stands for unseen blocks."""
        size, singles = len(self._blocks) + 1, len(self.letters) + 2
        table = np.full((size, size), np.inf, dtype=np.float32)
        table[:singles, :singles] = -np.log(FLOOR)
        table[0, 0] = np.inf
        for meant, row in self.counts.items():
            for heard in row:
                ours, theirs = self._known(meant), self._known(heard)
                if OTHER in ours + theirs and len(meant) <= 1 and len(heard) <= 1:
                    continue  # all such letters are alike
                if ours in self._blocks and theirs in self._blocks:
                    table[self._blocks[ours], self._blocks[theirs]] = -self.log_prob(meant, heard)
        table[singles - 1, singles - 1] = 0.0
        return table

    def _known(self, block: str) -> str:
        """A block with `OTHER` for letters outside the alphabet."""
        return "".join(letter if letter in self._alphabet else OTHER for letter in block)

    @cached_property
    def _alphabet(self) -> frozenset[str]:
        return frozenset(self.letters)

    @cached_property
    def _blocks(self) -> dict[str, int]:
        """The number of each block that has costs: no letter, the letters, `OTHER`, and pairs that were counted."""
        singles = ["", *self.letters, OTHER]
        pairs: Counter[str] = Counter()
        for meant, row in self.counts.items():
            for heard, number in row.items():
                pairs.update({self._known(block): number for block in (meant, heard) if len(block) == BLOCK})
        often = sorted(pairs, key=lambda pair: (-pairs[pair], pair))[: MAX_BLOCKS - len(singles) - 1]
        return {block: number for number, block in enumerate([*singles, *often])}

    @cached_property
    def _numbers(self) -> npt.NDArray[np.int64]:
        """The number of each character: 0 for no letter, the last for all that are not in the alphabet."""
        numbers = np.full(sys.maxunicode + 1, len(self.letters) + 1)
        numbers[0] = 0
        numbers[list(map(ord, self.letters))] = np.arange(len(self.letters)) + 1
        return numbers

    @cached_property
    def _pairs(self) -> tuple[Codes, Codes]:
        """The sorted codes of pairs that have costs, and their numbers; the last code stands for no pair."""
        singles = len(self.letters) + 2
        pairs = sorted(
            (singles * int(self._numbers[ord(block[0])]) + int(self._numbers[ord(block[1])]), number)
            for block, number in self._blocks.items()
            if len(block) == BLOCK
        )
        codes, numbers = zip(*pairs, (np.iinfo(np.int64).max, len(self._blocks)), strict=True)
        return np.array(codes), np.array(numbers)

    def _codes(self, texts: Sequence[str]) -> tuple[Codes, list[Codes]]:
        """(texts,) lengths, and for each size of a block (longest + 1, texts) the number of the block ending there."""
        lengths = np.array([len(text) for text in texts])
        width = int(lengths.max()) + 1
        padded = "".join("\0" + text.ljust(width - 1, "\0") for text in texts).encode("utf-32-le")
        letters = np.ascontiguousarray(self._numbers[np.frombuffer(padded, "<u4").reshape(-1, width)].T)
        pairs = letters.copy()
        pairs[1:] += (len(self.letters) + 2) * letters[:-1]
        codes, numbers = self._pairs
        place = np.searchsorted(codes, pairs)
        return lengths, [
            np.zeros_like(letters), letters, np.where(codes[place] == pairs, numbers[place], len(self._blocks))
        ]  # fmt: skip

    def log_probs(self, meant: Sequence[str], heard: Sequence[str]) -> npt.NDArray[np.float64]:
        """(pairs,) natural log of P(heard | meant) of texts, one or more words each."""
        order = sorted(range(len(meant)), key=lambda index: (len(meant[index]), len(heard[index])))
        result = np.zeros(len(meant))
        for start in range(0, len(order), PAIRS):
            batch = order[start : start + PAIRS]
            result[batch] = self._together([framed(meant[i]) for i in batch], [framed(heard[i]) for i in batch])
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


ROUNDS = 2
"""Alignments under the counts of the one before; the first is one of fewest edits."""
ALIKE = 0.6
"""If at least this share of letters differs, two spans are different words, not misheard words."""
MAX_SPAN = 30
"""Letters of a span, at most."""

Pairs = Counter[tuple[str, str]]
Atoms = list[tuple[str, str]]


def spans(meant: Sequence[str], heard: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of spans in an alignment of words: equal words, and whole spans in which the texts differ."""
    left: list[str] = []
    right: list[str] = []
    for code in [*Levenshtein.opcodes(meant, heard), None]:
        if (code is None or code.tag == "equal") and left and right:
            yield " ".join(left), " ".join(right)
        if code is None or code.tag == "equal":
            left, right = [], []
        if code is not None and code.tag == "equal":
            yield from ((word, word) for word in meant[code.src_start : code.src_end])
        elif code is not None:
            left += meant[code.src_start : code.src_end]
            right += heard[code.dest_start : code.dest_end]


def collect(lists: Iterable[NbestList]) -> Pairs:
    """Counts of pairs of reference span and heard span, in hypotheses of the toolkit.

    Raises:
        UserError: a list has no reference.
    """
    pairs: Pairs = Counter()
    for nbest in lists:
        if not nbest.references:
            raise UserError(f"utterance {nbest.id}: no reference; a channel is learned from lists with references")
        meant = nbest.references[0].lower().split()
        for hypothesis in nbest.hypotheses:
            if hypothesis.origin is Origin.FIRST_PASS:
                pairs.update(spans(meant, hypothesis.text.lower().split()))
    return Counter({pair: number for pair, number in pairs.items() if _alike(*pair)})


def _alike(meant: str, heard: str) -> bool:
    return meant == heard or (
        max(len(meant), len(heard)) <= MAX_SPAN and Levenshtein.normalized_distance(meant, heard) <= ALIKE
    )


def learn(pairs: Pairs, source: str = "") -> Channel:
    """A channel from spans: Viterbi training of single letters, then counts of all blocks in the last alignment.

    Pairs heard once are left out. Alignments consist of single letters; a block lies between two places of an alignment
    (Brill, Moore 2000).
    """
    channel: Channel | None = None
    for _ in range(ROUNDS + 1):
        channel = _counted(pairs, channel, source)
    assert channel is not None
    often = {meant: {heard: n for heard, n in row.items() if n > 1} for meant, row in channel.counts.items()}
    return Channel({meant: row for meant, row in often.items() if row}, channel.totals, source)


def _counted(pairs: Pairs, before: Channel | None, source: str) -> Channel:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    totals: Counter[str] = Counter()
    cost = cache(lambda ours, theirs: -before.log_prob(ours, theirs)) if before else None
    for (meant, heard), number in pairs.items():
        text = framed(meant)
        for size in range(BLOCK + 1):
            for start in range(len(text) - size + 1):
                totals[text[start : start + size]] += number
        for ours, theirs in blocks(align(text, framed(heard), cost)):
            counts[ours][theirs] += number
    return Channel(counts, totals, source)


def blocks(atoms: Atoms) -> Iterator[tuple[str, str]]:
    """All pairs of blocks of at most `BLOCK` letters that neighbouring pairs of letters make up."""
    for start in range(len(atoms)):
        ours = theirs = ""
        for left, right in atoms[start:]:
            ours, theirs = ours + left, theirs + right
            if len(ours) > BLOCK or len(theirs) > BLOCK:
                break
            yield ours, theirs


def align(meant: str, heard: str, cost: Callable[[str, str], float] | None) -> Atoms:
    """Pairs of letters, one of them empty where a letter was left out or added, of the least cost together.

    Args:
        cost: -log P of a pair; None for the fewest edits.
    """
    if meant == heard:
        return [(letter, letter) for letter in meant]
    atoms: Atoms = []
    if cost is None:
        for code in Levenshtein.opcodes(meant, heard):
            ours, theirs = meant[code.src_start : code.src_end], heard[code.dest_start : code.dest_end]
            atoms += zip_longest(ours, theirs, fillvalue="")
        return atoms
    best = np.zeros((len(meant) + 1, len(heard) + 1)).tolist()
    steps: dict[tuple[int, int], tuple[int, int]] = {}
    for i in range(len(meant) + 1):
        for j in range(len(heard) + 1):
            choices = [
                (best[i - di][j - dj] + cost(meant[i - di : i], heard[j - dj : j]), (di, dj))
                for di, dj in ((1, 1), (1, 0), (0, 1))
                if di <= i and dj <= j
            ]
            if choices:
                best[i][j], steps[i, j] = min(choices)
    i, j = len(meant), len(heard)
    while i or j:
        di, dj = steps[i, j]
        atoms.append((meant[i - di : i], heard[j - dj : j]))
        i, j = i - di, j - dj
    return atoms[::-1]


class ChannelKind(Kind):
    """Channels, for --respell: what a recogniser writes where something else was said."""

    @dataclass(frozen=True, kw_only=True)
    class Options(TextOptions):
        title = "Channels"

        text: tuple[Path, ...] = option(
            (), "N-best lists to learn from. May be repeated.", metavar="LISTS", common=True
        )
        ref: tuple[str, ...] = option(
            (),
            "References of the lists, if the lists have none. May be repeated for several references per utterance.",
            metavar="FILE",
            reads=True,
            common=True,
        )

    def train(self, options: TrainingOptions, report: Report = lambda line: None) -> None:
        assert isinstance(options, ChannelKind.Options)
        if not options.text:
            raise UserError("no lists to learn a channel from; give --text LISTS")
        known = References(options.ref) if options.ref else None
        lists = formats.read([str(path) for path in options.text], references=known, need_references=True)
        pairs = collect(lists)
        confused = sum(number for (meant, heard), number in pairs.items() if meant != heard)
        source = f"{counted(len(lists), 'list')}, {content_hash(lists)}"
        channel = learn(pairs, source)
        channel.save(options.out)
        report(f"channel: {counted(pairs.total(), 'word')} of {source}; {confused:,} were heard as others")
        write_text(options.out / "README.md", _card(channel, pairs.total(), confused))

    @staticmethod
    def rows() -> list[list[str]]:
        """The shipped channels, as `rescore models` lists them."""
        rows = []
        for name in ("channel", "terms"):
            folder = shipped_models() / name
            language, source = (card_value(folder, key) or "" for key in ("language", "trained_on"))
            rows.append([name, f"{Channel.load(folder).size:,}", "", "", language, source, "", str(folder)])
        return rows

    @staticmethod
    def described(folder: str) -> str:
        """The card of a channel in a folder, or of the shipped channel, and its most frequent confusions of letters."""
        path = Path(folder) if folder else Channel.shipped()
        channel = Channel.load(path)
        rows = [["meant", "heard", "times", "probability"]]
        for meant, heard, count, probability in channel.confusions(CONFUSIONS):
            rows.append([f"[{meant}]", f"[{heard}]", f"{count:,.0f}", f"{probability:.3f}"])
        return f"{card(path)}\n{render(rows)}"


CONFUSIONS = 20
"""How many confusions of a channel are shown."""


def _card(channel: Channel, words: int, confused: int) -> str:
    return f"""{card_head("text2text-generation", {"kind": "channel", "trained_on": channel.source})}

# channel

What a recogniser writes where something else was said, for `--respell`: counts of blocks of up to {BLOCK} letters.

| | |
| --- | --- |
| learned from | {channel.source} |
| words | {words:,}, with repeats in hypotheses; {confused:,} were heard as others |
| pairs of blocks | {channel.size:,} |
| licence | yours to choose |
"""
