"""A channel: how likely a recogniser hears a word as another; and its estimation."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise, product, zip_longest
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rapidfuzz.distance import Levenshtein

from rescore import formats
from rescore.columns import TOOLKIT
from rescore.errors import UserError, counted
from rescore.files import parsed, read_json, write_text
from rescore.formats.references import References
from rescore.lms import shipped_models
from rescore.lms.base import Kind, Report
from rescore.lms.folders import card_head
from rescore.lms.options import TextOptions, TrainingOptions
from rescore.metrics.normalise import WRITTEN
from rescore.nbest import NbestList, content_hash
from rescore.options import option, read_file

NAME = "channel.json"
"""The file's name in a channel's folder."""
BLOCK = 2
"""Letters in a block, at most."""
OTHER = chr(sys.maxunicode)
"""Stands for all letters that are not in the alphabet."""
DISCOUNT = 0.5
"""Discount of the count of each seen pair of blocks, in favour of unseen pairs."""
FLOOR = 1e-5
"""Probability of any substitution, deletion or insertion of a letter, beside the
counts.
"""
STEPS = [(i, j) for i in range(BLOCK + 1) for j in range(BLOCK + 1) if i or j]
"""How many letters a pair of blocks has, meant and heard."""

MAX_BLOCKS = 8192
"""Blocks of any length that have costs of their own: bounds the table to 256 MiB. At
most half are letters; the most frequent are taken.
"""
PAIRS = 4096
"""Pairs of texts whose probabilities are computed together."""
BAND = 3
"""Number of letters by which an alignment may leave the diagonal, beside the difference
of the lengths.
"""

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]


def framed(text: str) -> str:
    """The letters of one or more words, with the blanks around them."""
    return f" {text} "


@dataclass(frozen=True)
class Channel:
    """Counts of blocks, and their probabilities."""

    counts: Mapping[str, Mapping[str, float]]
    """How often a block that was meant was heard as each block."""
    totals: Mapping[str, float]
    """How often a block was meant; of the empty one, the places between letters."""
    source: str = ""
    """The source of the counts, for cards and signatures."""
    block: int = BLOCK
    """Letters in a block of the counts, at most."""

    @staticmethod
    def shipped() -> Path:
        """The folder of the shipped channel, used if no lists are available to learn
        from.
        """
        return shipped_models() / "channel"

    @cached_property
    def digest(self) -> str:
        """Twelve hexadecimal digits that say which counts these are, for signatures."""
        counts = sorted(
            (meant, heard, float(n))
            for meant, row in self.counts.items()
            for heard, n in row.items()
        )
        content = json.dumps(
            [
                BLOCK,
                counts,
                sorted((block, float(n)) for block, n in self.totals.items()),
            ]
        )
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    def save(self, folder: Path) -> None:
        """Write the counts into a folder, as JSON."""
        totals = dict(sorted(self.totals.items()))
        counts = {
            meant: dict(sorted(row.items()))
            for meant, row in sorted(self.counts.items())
        }
        content = {
            "block": self.block,
            "source": self.source,
            "totals": totals,
            "counts": counts,
        }
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / NAME, json.dumps(content, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Channel:
        """Read the file that `save` wrote.

        Raises:
            UserError: the file is absent or damaged, or has blocks of other lengths.
        """
        path = folder / NAME
        channel = parsed(read_json(path), cls, str(path))
        if channel.block != BLOCK:
            raise UserError(
                f"{path}: has blocks of {channel.block} letters, not {BLOCK}; train the"
                " channel again"
            )
        for meant, row in channel.counts.items():
            if meant not in channel.totals or any(
                not 0 < n <= channel.totals[meant] + 1 for n in row.values()
            ):
                raise UserError(
                    f"{path}: the counts of {meant!r} do not match their total; train"
                    " the channel again"
                )
        return channel

    def log_prob(self, meant: str, heard: str) -> float:
        """Natural log of P(heard | meant) of two blocks; -inf for longer ones that were
        never seen.
        """
        count = self.counts.get(meant, {}).get(heard, 0.0)
        total = self.totals.get(meant, 0.0)
        seen = max(count - DISCOUNT, 0.0) / total if total else 0.0
        floor = FLOOR if len(meant) <= 1 and len(heard) <= 1 else 0.0
        with np.errstate(divide="ignore"):
            return float(np.log(min(seen + floor, 1.0)))

    @cached_property
    def letters(self) -> list[str]:
        """The alphabet, the most frequent letter first; letters that are not in it are
        all alike.
        """
        letters = sorted(block for block in self.totals if len(block) == 1)
        return sorted(letters, key=lambda letter: -self.totals[letter])[
            : MAX_BLOCKS // 2
        ]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The number of each block that has costs: no letter, the letters, `OTHER`, and
        pairs that were counted.
        """
        pairs: Counter[str] = Counter()
        for meant, row in self.counts.items():
            for heard, number in row.items():
                pairs.update(
                    {
                        block: int(number)
                        for block in (meant, heard)
                        if len(block) == BLOCK
                    }
                )
        blocks = ["", *self.letters, OTHER, *(pair for pair, _ in pairs.most_common())]
        return {block: number for number, block in enumerate(blocks[: MAX_BLOCKS - 1])}

    @cached_property
    def table(self) -> Floats:
        """(blocks, blocks) -log P by `_numbers`, meant and heard; the last row and
        column stand for unseen blocks.
        """
        numbers, singles = self._numbers, len(self.letters) + 2
        table = np.full((len(numbers) + 1, len(numbers) + 1), np.inf, dtype=np.float32)
        table[:singles, :singles] = -np.log(FLOOR)
        table[0, 0] = np.inf
        table[numbers[OTHER], numbers[OTHER]] = 0.0
        for meant, row in self.counts.items():
            for heard in row:
                if meant in numbers and heard in numbers:
                    table[numbers[meant], numbers[heard]] = -self.log_prob(meant, heard)
        return table

    def _codes(self, texts: Sequence[str]) -> tuple[Codes, Codes]:
        """(texts,) lengths, and (sizes, longest + 1, texts) the number of the block of
        each size that ends there.
        """
        numbers, other, unseen = self._numbers, self._numbers[OTHER], len(self._numbers)
        lengths = np.array([len(text) for text in texts])
        codes = np.zeros(
            (BLOCK + 1, int(lengths.max()) + 1, len(texts)), dtype=np.int64
        )
        for column, text in enumerate(texts):
            codes[1, 1 : len(text) + 1, column] = [
                numbers.get(letter, other) for letter in text
            ]
            codes[2, 2 : len(text) + 1, column] = [
                numbers.get(a + b, unseen) for a, b in pairwise(text)
            ]
        return lengths, codes

    def log_probs(
        self, meant: Sequence[str], heard: Sequence[str]
    ) -> npt.NDArray[np.float64]:
        """(pairs,) natural log of P(heard | meant) of texts, one or more words each."""
        result = np.zeros(len(meant))
        if not len(meant):
            return result
        texts = {
            text: place for place, text in enumerate(dict.fromkeys([*meant, *heard]))
        }
        lengths, codes = self._codes([framed(text) for text in texts])
        ours, theirs = (
            np.array([texts[text] for text in meant]),
            np.array([texts[text] for text in heard]),
        )
        order = np.lexsort((lengths[theirs], lengths[ours]))
        for start in range(0, len(order), PAIRS):
            batch = order[start : start + PAIRS]
            result[batch] = self._together(lengths, codes, ours[batch], theirs[batch])
        return result

    def _together(
        self, lengths: Codes, codes: Codes, ours: Codes, theirs: Codes
    ) -> Floats:
        """(pairs,) `log_probs` of texts of like lengths; `ours` and `theirs` are their
        places in `codes`.
        """
        table, width = self.table.ravel(), len(self.table)
        rows, columns = int(lengths[ours].max()) + 1, int(lengths[theirs].max()) + 1
        left, right = width * codes[:, :rows, ours], codes[:, :columns, theirs]
        cost = np.full((rows, columns, len(ours)), np.inf, dtype=np.float32)
        cost[0, 0] = 0.0
        band = int(np.abs(lengths[ours] - lengths[theirs]).max()) + BAND
        for i in range(rows):
            for j in range(max(0, i - band), min(columns, i + band + 1)):
                cell = cost[i, j]
                for di, dj in STEPS:
                    if di <= i and dj <= j:
                        np.minimum(
                            cell,
                            cost[i - di, j - dj] + table[left[di, i] + right[dj, j]],
                            out=cell,
                        )
        return -cost[lengths[ours], lengths[theirs], np.arange(len(ours))]


ROUNDS = 2
"""Alignments under the counts of the one before; the first is one of fewest edits."""
ALIKE = 0.6
"""If at least this share of letters differs, two spans are different words, not
misheard words.
"""
MAX_SPAN = 30
"""Letters of a span, at most."""

Pairs = Counter[tuple[str, str]]
Atoms = list[tuple[str, str]]


def spans(meant: Sequence[str], heard: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Pairs of spans in an alignment of words: equal words, and whole spans in which
    the texts differ.
    """
    ours = theirs = 0
    # the last one is empty, at both ends
    for block in Levenshtein.editops(meant, heard).as_matching_blocks():
        if ours < block.a and theirs < block.b:
            yield " ".join(meant[ours : block.a]), " ".join(heard[theirs : block.b])
        ours, theirs = block.a + block.size, block.b + block.size
        yield from ((word, word) for word in meant[block.a : ours])


def collect(lists: Iterable[NbestList]) -> Pairs:
    """Counts of pairs of reference span and heard span, in hypotheses of the toolkit.

    Raises:
        UserError: a list has no reference.
    """
    pairs: Pairs = Counter()
    for nbest in lists:
        if not nbest.references:
            raise UserError(
                f"utterance {nbest.id}: no reference; a channel is learned from lists"
                " with references"
            )
        meant = WRITTEN.findall(nbest.references[0].lower())
        for hypothesis in nbest.hypotheses:
            if hypothesis.origin == TOOLKIT:
                pairs.update(spans(meant, WRITTEN.findall(hypothesis.text.lower())))
    return Counter({pair: number for pair, number in pairs.items() if _alike(*pair)})


def _alike(meant: str, heard: str) -> bool:
    return meant == heard or (
        max(len(meant), len(heard)) <= MAX_SPAN
        and Levenshtein.normalized_distance(meant, heard) <= ALIKE
    )


def learn(pairs: Pairs, source: str = "") -> Channel:
    """A channel from spans: Viterbi training of single letters, then counts of all
    blocks in the last alignment.

    Pairs heard once are left out. Alignments consist of single letters; a block lies
    between two places of an alignment (Brill, Moore 2000).
    """
    channel: Channel | None = None
    for _ in range(ROUNDS + 1):
        channel = _counted(pairs, channel, source)
    assert channel is not None
    often = {
        meant: {heard: n for heard, n in row.items() if n > 1}
        for meant, row in channel.counts.items()
    }
    return Channel(
        {meant: row for meant, row in often.items() if row}, channel.totals, source
    )


def _counted(pairs: Pairs, before: Channel | None, source: str) -> Channel:
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    totals: Counter[str] = Counter()
    cost = (
        cache(lambda ours, theirs: -before.log_prob(ours, theirs)) if before else None
    )
    for (meant, heard), number in pairs.items():
        text = framed(meant)
        for size in range(BLOCK + 1):
            for start in range(len(text) - size + 1):
                totals[text[start : start + size]] += number
        for ours, theirs in blocks(align(text, framed(heard), cost)):
            counts[ours][theirs] += number
    return Channel(counts, totals, source)


def blocks(atoms: Atoms) -> Iterator[tuple[str, str]]:
    """All pairs of blocks of at most `BLOCK` letters that neighbouring pairs of letters
    make up.
    """
    for start in range(len(atoms)):
        ours = theirs = ""
        for left, right in atoms[start:]:
            ours, theirs = ours + left, theirs + right
            if len(ours) > BLOCK or len(theirs) > BLOCK:
                break
            yield ours, theirs


def align(meant: str, heard: str, cost: Callable[[str, str], float] | None) -> Atoms:
    """Pairs of letters, one of them empty where a letter was left out or added, of the
    least cost together.

    Args:
        cost: -log P of a pair; None for the fewest edits.
    """
    if meant == heard:
        return [(letter, letter) for letter in meant]
    atoms: Atoms = []
    if cost is None:
        for code in Levenshtein.opcodes(meant, heard):
            ours, theirs = (
                meant[code.src_start : code.src_end],
                heard[code.dest_start : code.dest_end],
            )
            atoms += zip_longest(ours, theirs, fillvalue="")
        return atoms
    best: dict[tuple[int, int], tuple[float, tuple[int, int]]] = {(0, 0): (0.0, (0, 0))}
    for i, j in list(product(range(len(meant) + 1), range(len(heard) + 1)))[1:]:
        best[i, j] = min(
            (
                best[i - di, j - dj][0] + cost(meant[i - di : i], heard[j - dj : j]),
                (di, dj),
            )
            for di, dj in ((1, 1), (1, 0), (0, 1))
            if di <= i and dj <= j
        )
    i, j = len(meant), len(heard)
    while i or j:
        _, (di, dj) = best[i, j]
        atoms.append((meant[i - di : i], heard[j - dj : j]))
        i, j = i - di, j - dj
    return atoms[::-1]


class ChannelKind(Kind):
    """Channels, for --respell: what a recogniser writes where something else was
    said.
    """

    @dataclass(frozen=True, kw_only=True)
    class Options(TextOptions):
        title = "Channels"

        text: tuple[Path, ...] = option(
            (),
            "N-best lists to learn from. May be repeated.",
            metavar="LISTS",
            common=True,
        )
        ref: tuple[str, ...] = read_file(
            (),
            "References of the lists, if the lists have none. May be repeated for"
            " several references per utterance.",
            common=True,
        )

    def train(
        self, options: TrainingOptions, report: Report = lambda line: None
    ) -> None:
        assert isinstance(options, ChannelKind.Options)
        if not options.text:
            raise UserError("no lists to learn a channel from; give --text LISTS")
        known = References(options.ref) if options.ref else None
        lists = formats.read(
            [str(path) for path in options.text], references=known, need_references=True
        )
        pairs = collect(lists)
        confused = sum(
            number for (meant, heard), number in pairs.items() if meant != heard
        )
        source = f"{counted(len(lists), 'list')}, {content_hash(lists)}"
        learn(pairs, source).save(options.out)
        report(
            f"channel: {counted(pairs.total(), 'word')} of {source}; {confused:,} were"
            " heard as others"
        )
        write_text(options.out / "README.md", _card(source, pairs.total(), confused))


def _card(source: str, words: int, confused: int) -> str:
    return f"""{card_head("text2text-generation", {"kind": "channel", "trained_on": source})}

# channel

What a recogniser writes where something else was said, for `--respell`: counts of blocks of up to {BLOCK} letters.
Learned from {source} with {words:,} words; {confused:,} were heard as others. The licence is yours to choose.
"""  # noqa: E501
