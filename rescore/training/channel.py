"""The channel of respelling, learned from lists with references: what was said, and what was written."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from rapidfuzz.distance import Levenshtein

from rescore import formats
from rescore.errors import UserError
from rescore.expansion.channel import BLOCK, Channel, framed
from rescore.files import write_text
from rescore.formats.references import References
from rescore.nbest import COMBINED, NbestList, content_hash

ROUNDS = 2
"""Alignments under the counts of the one before; the first is one of fewest edits."""
ALIKE = 0.6
"""Share of letters that differ from which on two spans are not the same words misheard, but different ones."""
LONGEST = 30
"""Letters of a span, at most."""

Pairs = Counter[tuple[str, str]]
Atoms = list[tuple[str, str]]


def spans(meant: Sequence[str], heard: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What stands against what in an alignment of words: equal words, and whole spans in which the texts differ."""
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
    """Spans of references and of what was heard instead, each with its number; of what the toolkit gave.

    Raises:
        UserError: a list has no reference.
    """
    pairs: Pairs = Counter()
    for nbest in lists:
        if not nbest.references:
            raise UserError(f"utterance {nbest.id}: no reference; a channel is learned from lists with references")
        meant = nbest.references[0].lower().split()
        for hypothesis in nbest.hypotheses:
            if hypothesis.scores.get(COMBINED):
                continue
            pairs.update(spans(meant, hypothesis.text.lower().split()))
    return Counter({pair: number for pair, number in pairs.items() if _alike(*pair)})


def _alike(meant: str, heard: str) -> bool:
    return meant == heard or (
        max(len(meant), len(heard)) <= LONGEST and Levenshtein.normalized_distance(meant, heard) <= ALIKE
    )


def learn(pairs: Pairs, source: str = "") -> Channel:
    """A channel from spans: Viterbi training of single letters, then counts of all blocks in the last alignment.

    What was heard once is left out. Each alignment is one of single letters;
    a block is what lies between two of its places (Brill, Moore 2000).
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
    costs = _Costs(before) if before else None
    for (meant, heard), number in pairs.items():
        text = framed(meant)
        for size in range(BLOCK + 1):
            for start in range(len(text) - size + 1):
                totals[text[start : start + size]] += number
        for ours, theirs in blocks(align(text, framed(heard), costs)):
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


class _Costs(dict[tuple[str, str], float]):
    """-log P of pairs of single letters, looked up in a channel once."""

    def __init__(self, channel: Channel) -> None:
        super().__init__()
        self._channel = channel

    def __missing__(self, pair: tuple[str, str]) -> float:
        cost = self[pair] = -self._channel.log_prob(*pair)
        return cost


def align(meant: str, heard: str, costs: _Costs | None) -> Atoms:
    """Pairs of letters, one of them empty where a letter was left out or added, of the least cost together."""
    if meant == heard:
        return [(letter, letter) for letter in meant]
    if costs is None:
        return _fewest(meant, heard)
    best = np.zeros((len(meant) + 1, len(heard) + 1)).tolist()
    steps: dict[tuple[int, int], tuple[int, int]] = {}
    for i in range(len(meant) + 1):
        for j in range(len(heard) + 1):
            choices = []
            if i and j:
                choices.append((best[i - 1][j - 1] + costs[meant[i - 1], heard[j - 1]], (1, 1)))
            if i:
                choices.append((best[i - 1][j] + costs[meant[i - 1], ""], (1, 0)))
            if j:
                choices.append((best[i][j - 1] + costs["", heard[j - 1]], (0, 1)))
            if choices:
                best[i][j], steps[i, j] = min(choices)
    atoms: Atoms = []
    i, j = len(meant), len(heard)
    while i or j:
        di, dj = steps[i, j]
        atoms.append((meant[i - di : i], heard[j - dj : j]))
        i, j = i - di, j - dj
    return atoms[::-1]


def _fewest(meant: str, heard: str) -> Atoms:
    atoms: Atoms = []
    for code in Levenshtein.opcodes(meant, heard):
        ours, theirs = meant[code.src_start : code.src_end], heard[code.dest_start : code.dest_end]
        size = max(len(ours), len(theirs))
        atoms += [(ours[k : k + 1], theirs[k : k + 1]) for k in range(size)]
    return atoms


def train(
    paths: Sequence[str], out: Path, references: Sequence[str] = (), report: Callable[[str], None] = lambda line: None
) -> None:
    """Learn a channel from N-best lists and write its folder: channel.json, and a card.

    Args:
        paths: of the lists. references: files of their references, where the lists have none.

    Raises:
        UserError: a list has no reference.
    """
    known = References(tuple(references)) if references else None
    lists = formats.read(paths, references=known, need_references=True)
    pairs = collect(lists)
    other = sum(number for (meant, heard), number in pairs.items() if meant != heard)
    source = f"{len(lists):,} lists, {content_hash(lists)}"
    channel = learn(pairs, source)
    channel.save(out)
    report(f"channel: {pairs.total():,} words of {source}; {other:,} were heard as others")
    write_text(out / "README.md", _card(channel, pairs.total(), other))


def _card(channel: Channel, words: int, other: int) -> str:
    return f"""---
kind: channel
trained_on: {channel.source}
---

# channel

What a recogniser writes where something else was said, for `--respell`: counts of blocks of up to {BLOCK} letters.

| | |
| --- | --- |
| learned from | {channel.source} |
| words | {words:,}, with repeats in hypotheses; {other:,} were heard as others |
| pairs of blocks | {channel.size:,} |
| licence | yours to choose |
"""
