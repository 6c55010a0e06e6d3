"""A channel: the probability that a recogniser hears a word as another, and its
estimation from lists with references.
"""

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
from rescore.columns import FIRST_PASS_ORIGIN
from rescore.content import content_hash
from rescore.errors import UserError, counted
from rescore.files import parsed, read_json, write_text
from rescore.formats.references import References
from rescore.lms import shipped_models
from rescore.lms.base import Kind, Report
from rescore.lms.folders import card_head, check_is_free
from rescore.lms.options import TextOptions, TrainingOptions
from rescore.metrics.normalise import WRITTEN
from rescore.nbest import NbestList
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
STEPS = ((0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2))
"""Numbers of letters of a pair of blocks, meant and heard."""

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
    """Return the letters of one or more words, with the blanks around them."""
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
        """Return the folder of the shipped channel, used if no lists are available to
        learn from.
        """
        return shipped_models() / "channel"

    @cached_property
    def digest(self) -> str:
        """Twelve hexadecimal digits of the counts, for signatures."""
        counts = []
        for meant, row in self.counts.items():
            for heard, number in row.items():
                counts.append((meant, heard, float(number)))
        totals = [(block, float(number)) for block, number in self.totals.items()]
        content = json.dumps([BLOCK, sorted(counts), sorted(totals)])
        return hashlib.sha256(content.encode()).hexdigest()[:12]

    def save(self, folder: Path) -> None:
        """Write the counts into a folder, as JSON.

        Args:
            folder: The folder, which is made if it is absent.
        """
        counts = {}
        for meant, row in sorted(self.counts.items()):
            counts[meant] = dict(sorted(row.items()))
        content = {
            "block": self.block,
            "source": self.source,
            "totals": dict(sorted(self.totals.items())),
            "counts": counts,
        }
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / NAME, json.dumps(content, ensure_ascii=False) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Channel:
        """Return the channel that `save` wrote.

        Args:
            folder: The folder of the channel.

        Raises:
            UserError: The file is absent or damaged, or has blocks of other lengths.
        """
        path = folder / NAME
        channel = parsed(read_json(path), cls, str(path))
        if channel.block != BLOCK:
            raise UserError(
                f"{path}: has blocks of {channel.block} letters, not {BLOCK}; train the"
                " channel again"
            )
        for meant, row in channel.counts.items():
            total = channel.totals.get(meant)
            if total is None or not all(0 < n <= total + 1 for n in row.values()):
                raise UserError(
                    f"{path}: the counts of {meant!r} do not match their total; train"
                    " the channel again"
                )
        return channel

    def log_prob(self, meant: str, heard: str) -> float:
        """Return the log-probability of a pair of blocks.

        Args:
            meant: The block that was meant.
            heard: The block that was heard.

        Returns:
            Natural log of P(heard | meant); -inf for blocks of several letters that
            were never seen.
        """
        count = self.counts.get(meant, {}).get(heard, 0.0)
        total = self.totals.get(meant, 0.0)
        probability = 0.0
        if total:
            probability = max(count - DISCOUNT, 0.0) / total
        if len(meant) <= 1 and len(heard) <= 1:
            probability += FLOOR
        with np.errstate(divide="ignore"):
            return float(np.log(min(probability, 1.0)))

    @cached_property
    def letters(self) -> list[str]:
        """The alphabet, the most frequent letter first; letters that are not in it are
        all alike.
        """
        letters = sorted(block for block in self.totals if len(block) == 1)
        letters.sort(key=lambda letter: -self.totals[letter])
        return letters[: MAX_BLOCKS // 2]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        """The number of each block that has costs: no letter, the letters, `OTHER`, and
        pairs that were counted.
        """
        pairs: Counter[str] = Counter()
        for meant, row in self.counts.items():
            for heard, number in row.items():
                for block in dict.fromkeys((meant, heard)):
                    if len(block) == BLOCK:
                        pairs[block] += int(number)
        frequent = [pair for pair, _ in pairs.most_common()]
        blocks = ["", *self.letters, OTHER, *frequent]
        return {block: number for number, block in enumerate(blocks[: MAX_BLOCKS - 1])}

    @cached_property
    def table(self) -> Floats:
        """(blocks, blocks) -log P by `_numbers`, meant and heard; the last row and
        column stand for unseen blocks.
        """
        numbers = self._numbers
        singles = len(self.letters) + 2
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
        """Return the blocks of texts.

        Returns:
            (texts,) lengths, and (sizes, longest + 1, texts) the number of the block of
            each size that ends at each place.
        """
        numbers = self._numbers
        other = numbers[OTHER]
        unseen = len(numbers)
        lengths = np.array([len(text) for text in texts])
        shape = (BLOCK + 1, int(lengths.max()) + 1, len(texts))
        codes = np.zeros(shape, dtype=np.int64)
        for column, text in enumerate(texts):
            letters = [numbers.get(letter, other) for letter in text]
            pairs = [numbers.get(a + b, unseen) for a, b in pairwise(text)]
            codes[1, 1 : len(text) + 1, column] = letters
            codes[2, 2 : len(text) + 1, column] = pairs
        return lengths, codes

    def log_probs(
        self, meant: Sequence[str], heard: Sequence[str]
    ) -> npt.NDArray[np.float64]:
        """Return the log-probabilities of pairs of texts.

        Args:
            meant: The texts that were meant, one or more words each.
            heard: The text that was heard, for each.

        Returns:
            (pairs,) natural log of P(heard | meant).
        """
        result = np.zeros(len(meant))
        if not len(meant):
            return result
        texts = list(dict.fromkeys([*meant, *heard]))
        places = {text: place for place, text in enumerate(texts)}
        lengths, codes = self._codes([framed(text) for text in texts])
        ours = np.array([places[text] for text in meant])
        theirs = np.array([places[text] for text in heard])
        order = np.lexsort((lengths[theirs], lengths[ours]))
        for start in range(0, len(order), PAIRS):
            batch = order[start : start + PAIRS]
            result[batch] = self._together(lengths, codes, ours[batch], theirs[batch])
        return result

    def _together(
        self, lengths: Codes, codes: Codes, ours: Codes, theirs: Codes
    ) -> Floats:
        """Return `log_probs` of pairs of texts of like lengths.

        Args:
            lengths: The length of each text.
            codes: The blocks of each text, as `_codes` returns them.
            ours: (pairs,) the places of the texts that were meant.
            theirs: (pairs,) the places of the texts that were heard.
        """
        table = self.table.ravel()
        width = len(self.table)
        rows = int(lengths[ours].max()) + 1
        columns = int(lengths[theirs].max()) + 1
        left = width * codes[:, :rows, ours]
        right = codes[:, :columns, theirs]
        cost = np.full((rows, columns, len(ours)), np.inf, dtype=np.float32)
        cost[0, 0] = 0.0
        band = int(np.abs(lengths[ours] - lengths[theirs]).max()) + BAND
        for i in range(rows):
            for j in range(max(0, i - band), min(columns, i + band + 1)):
                cell = cost[i, j]
                for di, dj in STEPS:
                    if di <= i and dj <= j:
                        of_blocks = table[left[di, i] + right[dj, j]]
                        np.minimum(cell, cost[i - di, j - dj] + of_blocks, out=cell)
        return -cost[lengths[ours], lengths[theirs], np.arange(len(ours))]


# --- estimation ----------------------------------------------------------------------

ROUNDS = 2
"""Alignments under the counts of the one before; the first is one of fewest edits."""
ALIKE = 0.6
"""If at least this share of letters differs, two spans are different words, not
misheard words.
"""
MAX_SPAN = 30
"""Letters of a span, at most."""

Pairs = Counter[tuple[str, str]]
"""Counts of pairs of spans, meant and heard."""
Atoms = list[tuple[str, str]]
"""Pairs of letters, meant and heard; one of both may be empty."""


def spans(meant: Sequence[str], heard: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of spans in an alignment of words: equal words, and whole spans in
    which the texts differ.

    Args:
        meant: The words of the reference.
        heard: The words of a hypothesis.
    """
    ours = 0
    theirs = 0
    # the last one is empty, at both ends
    for block in Levenshtein.editops(meant, heard).as_matching_blocks():
        if ours < block.a and theirs < block.b:
            yield " ".join(meant[ours : block.a]), " ".join(heard[theirs : block.b])
        ours = block.a + block.size
        theirs = block.b + block.size
        for word in meant[block.a : ours]:
            yield word, word


def collect(lists: Iterable[NbestList]) -> Pairs:
    """Return counts of pairs of reference span and heard span, in hypotheses of the
    toolkit.

    Args:
        lists: Lists with references.

    Raises:
        UserError: A list has no reference.
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
            if hypothesis.origin == FIRST_PASS_ORIGIN:
                pairs.update(spans(meant, WRITTEN.findall(hypothesis.text.lower())))
    return Counter({pair: number for pair, number in pairs.items() if _alike(*pair)})


def _alike(meant: str, heard: str) -> bool:
    """Return whether a span may be another span that was misheard."""
    if meant == heard:
        return True
    if max(len(meant), len(heard)) > MAX_SPAN:
        return False
    return Levenshtein.normalized_distance(meant, heard) <= ALIKE


def learn(pairs: Pairs, source: str = "") -> Channel:
    """Return a channel that is learned from spans: Viterbi training of single letters,
    then counts of all blocks in the last alignment.

    Pairs heard once are left out. Alignments consist of single letters; a block lies
    between two places of an alignment (Brill, Moore 2000).

    Args:
        pairs: Counts of pairs of spans.
        source: The source of the pairs, for cards and signatures.
    """
    channel: Channel | None = None
    for _ in range(ROUNDS + 1):
        channel = _counted(pairs, channel, source)
    assert channel is not None
    counts = {}
    for meant, row in channel.counts.items():
        repeated = {heard: number for heard, number in row.items() if number > 1}
        if repeated:
            counts[meant] = repeated
    return Channel(counts, channel.totals, source)


def _counted(pairs: Pairs, before: Channel | None, source: str) -> Channel:
    """Return counts of blocks in the best alignments under another channel."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    totals: Counter[str] = Counter()
    cost = None
    if before:
        log_prob = before.log_prob
        cost = cache(lambda ours, theirs: -log_prob(ours, theirs))
    for (meant, heard), number in pairs.items():
        text = framed(meant)
        for size in range(BLOCK + 1):
            for start in range(len(text) - size + 1):
                totals[text[start : start + size]] += number
        for ours, theirs in blocks(align(text, framed(heard), cost)):
            counts[ours][theirs] += number
    return Channel(counts, totals, source)


def blocks(atoms: Atoms) -> Iterator[tuple[str, str]]:
    """Yield all pairs of blocks of at most `BLOCK` letters that neighbouring pairs of
    letters make up.

    Args:
        atoms: The pairs of letters of an alignment.
    """
    for start in range(len(atoms)):
        ours = ""
        theirs = ""
        for left, right in atoms[start:]:
            ours += left
            theirs += right
            if len(ours) > BLOCK or len(theirs) > BLOCK:
                break
            yield ours, theirs


def align(meant: str, heard: str, cost: Callable[[str, str], float] | None) -> Atoms:
    """Return pairs of letters, one of them empty where a letter was left out or added,
    of the least cost together.

    Args:
        meant: The letters that were meant.
        heard: The letters that were heard.
        cost: -log P of a pair; None for the fewest edits.
    """
    if meant == heard:
        return [(letter, letter) for letter in meant]
    if cost is None:
        return _with_fewest_edits(meant, heard)
    best: dict[tuple[int, int], tuple[float, tuple[int, int]]] = {(0, 0): (0.0, (0, 0))}
    # of the letters before each pair of places, the least cost and the last step
    for i, j in product(range(len(meant) + 1), range(len(heard) + 1)):
        ways = []
        for di, dj in ((1, 1), (1, 0), (0, 1)):
            if di <= i and dj <= j:
                own = cost(meant[i - di : i], heard[j - dj : j])
                ways.append((best[i - di, j - dj][0] + own, (di, dj)))
        if ways:
            best[i, j] = min(ways)
    atoms: Atoms = []
    i = len(meant)
    j = len(heard)
    while i or j:
        _, (di, dj) = best[i, j]
        atoms.append((meant[i - di : i], heard[j - dj : j]))
        i -= di
        j -= dj
    return atoms[::-1]


def _with_fewest_edits(meant: str, heard: str) -> Atoms:
    """Return pairs of letters in an alignment with the fewest edits."""
    atoms: Atoms = []
    for code in Levenshtein.opcodes(meant, heard):
        ours = meant[code.src_start : code.src_end]
        theirs = heard[code.dest_start : code.dest_end]
        atoms += zip_longest(ours, theirs, fillvalue="")
    return atoms


class ChannelKind(Kind):
    """Channels, for --respell: what a recogniser writes where something else was
    said.
    """

    @dataclass(frozen=True, kw_only=True)
    class Options(TextOptions):
        """The lists to learn from, and their references."""

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
        """Learn a channel from lists, and write it into a folder.

        Args:
            options: The lists, and the folder.
            report: Takes lines about the progress.

        Raises:
            UserError: Lists are absent or damaged, or have no references.
        """
        assert isinstance(options, ChannelKind.Options)
        if not options.text:
            raise UserError("no lists to learn a channel from; give --text LISTS")
        check_is_free(options.out)
        references = References(options.ref) if options.ref else None
        lists = formats.read(
            list(map(str, options.text)), references=references, need_references=True
        )
        pairs = collect(lists)
        confused = 0
        for (meant, heard), number in pairs.items():
            if meant != heard:
                confused += number
        source = f"{counted(len(lists), 'list')}, {content_hash(lists)}"
        learn(pairs, source).save(options.out)
        report(
            f"channel: {counted(pairs.total(), 'word')} of {source}; {confused:,} were"
            " heard as others"
        )
        write_text(options.out / "README.md", _card(source, pairs.total(), confused))


def _card(source: str, words: int, confused: int) -> str:
    """Return the model card of a channel."""
    return f"""{card_head("text2text-generation", {"kind": "channel", "trained_on": source})}

# channel

What a recogniser writes where something else was said, for `--respell`: counts of blocks of up to {BLOCK} letters.
Learned from {source} with {words:,} words; {confused:,} were heard as others. The licence is yours to choose.
"""  # noqa: E501
