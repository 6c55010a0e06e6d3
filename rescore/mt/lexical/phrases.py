"""Phrases of a lexical model (Koehn, Och and Marcu 2003): pairs are aligned, phrases counted, and sources scored.

Arrays hold all texts side by side, so a word has one place in `Texts.ids`. An example with one pair
of texts, source `das alte haus` (places 0 1 2) and target `the old house` (places 0 1 2), and a table with the phrases
`das`/`the` and `alte haus`/`old house`:

    alignment    direct   (3,)          0 1 2: the source place of each target word
    symmetrised  links    (3,) each     sources 0 1 2, targets 0 1 2
    consistent   Phrases  (phrases,)    source 0 with length 1, target 0 with length 1; source 1, 2 and target 1, 2; ...
    Spans.of     spans    (spans,)      of the source: begins 0 1, lengths 1 2, ranks of their hashes in the table
    match        Matches  (matches,)    given span 0 with predicted span 0, given span 1 with predicted span 1
    _spans       s        (3, longest)  s[0, 0] for `das`, s[2, 1] for `alte haus`; 0 elsewhere
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from rescore.errors import UserError
from rescore.files import replacing
from rescore.mt.lexical.model import (
    LONGEST_PHRASE,
    Floats,
    Ids,
    LexicalLM,
    LexicalModel,
    Links,
    Texts,
    check_types,
    fingerprint,
    portions,
    read_arrays,
    texts_of_words,
)

Codes = npt.NDArray[np.uint64]

FILE = "phrases.safetensors"
TRAINED = 1 << 22
"""Links of the pairs that are aligned together."""
SCORED = 1 << 19
"""Links of the questions that are scored together."""
DISCOUNT = 0.5
"""Taken from each count and given to the lexical weight (absolute discounting)."""
FREQUENT = 255
"""Counts from here on are kept apart, so that the others are bytes."""
ARRAYS = {
    "given": np.uint64,
    "predicted": np.uint64,
    "types": np.int32,
    "entries": np.int32,
    "counts": np.uint8,
    "frequent": np.int32,
    "frequent_counts": np.int64,
    "longest": np.int64,
}


def hashed(texts: Texts, longest: int) -> Codes:
    """(longest, words) for each length from 1, the 64-bit hash of the phrase that begins at each word.

    A phrase that would end behind its text has a hash, too, which `Spans` leaves out. Of a table of 10 million phrases
    and 1,000 look-ups per hypothesis, a look-up in 2 billion hypotheses meets the hash of another phrase.
    """

    def mixed(codes: Codes) -> Codes:  # the finaliser of splitmix64
        codes = (codes ^ (codes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        codes = (codes ^ (codes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.asarray(codes ^ (codes >> np.uint64(31)))

    words = mixed(texts.ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    hashes = [words]
    for length in range(2, longest + 1):
        longer = np.zeros_like(words)
        before, last = hashes[-1][: max(0, len(words) - length + 1)], words[length - 1 :]
        longer[: len(last)] = mixed(before * np.uint64(0xD1342543DE82EF95) + last)
        hashes.append(longer)
    return np.stack(hashes)


def alignment(model: LexicalModel, given: Texts, predicted: Texts, direction: str) -> Ids:
    """(words,) for each predicted word, the place of its likeliest given word in `given.ids`; -1 for NULL.

    Args:
        given: without NULL.
    """
    texts = texts_of_words(predicted)
    links = Links(given.with_null(), predicted, np.arange(len(texts)), texts)
    joint = model.config.alignment[direction].prior(links) * model.translations(links, direction)
    largest = np.flatnonzero(joint == links.spread(np.maximum.reduceat(joint, links.first)))
    words, first = np.unique(links.spread(np.arange(len(texts)))[largest], return_index=True)
    place = np.zeros(len(texts), np.int64)
    place[words] = links.place[largest[first]]
    return np.where(place > 0, given.starts[texts] + place - 1, -1)


class Aligned(NamedTuple):
    """Links between the words of pairs, in the order of target words and then of source words."""

    sources: Ids
    """(links,) places in the ids of all sources."""
    targets: Ids
    """(links,)"""


SHIFTS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))
"""Neighbours of a link in the order of Koehn, Och and Marcu: target place, source place."""
Link = tuple[int, int]
"""A target place and a source place."""


def symmetrised(source: Texts, target: Texts, forth: Ids, back: Ids) -> Aligned:
    """Both alignments as one.

    Args:
        forth: (target words,) the source place of each, or -1. back: (source words,) the target place of each, or -1.
    """
    sources, targets = forth.tolist(), back.tolist()
    source_starts, target_starts = source.starts.tolist(), target.starts.tolist()
    links: list[Link] = []
    for text in range(len(source_starts) - 1):
        rows = range(target_starts[text], target_starts[text + 1])
        columns = range(source_starts[text], source_starts[text + 1])
        links += grow_diag_final_and(
            [(row, sources[row]) for row in rows if sources[row] >= 0],
            [(targets[column], column) for column in columns if targets[column] >= 0],
        )
    of_targets, of_sources = np.array(links, np.int64).reshape(-1, 2).T
    return Aligned(of_sources, of_targets)


def grow_diag_final_and(forth: Sequence[Link], back: Sequence[Link]) -> list[Link]:
    """The links of a pair from those of both directions, ascending (Koehn, Och and Marcu 2003).

    Links of both directions are kept. Then links of one direction are added: neighbours of kept links with a word that
    has no link yet, again and again; at last links of two words without a link.
    """
    kept = {*forth} & {*back}
    candidates = sorted({*forth, *back})
    targets, sources = {target for target, _ in kept}, {source for _, source in kept}
    left = {*candidates} - kept

    def add(link: Link) -> None:
        left.discard(link)
        kept.add(link)
        targets.add(link[0])
        sources.add(link[1])

    grown = True
    while grown and left:
        grown = False
        for target, source in candidates:
            for down, right in SHIFTS if (target, source) in kept else ():
                near = (target + down, source + right)
                if near in left and not (near[0] in targets and near[1] in sources):
                    add(near)
                    grown = True
    for link in (*sorted(forth), *sorted(back)):
        if link[0] not in targets and link[1] not in sources:
            add(link)
    return sorted(kept)


class Phrases(NamedTuple):
    """Phrases of pairs, each as its first word and its length in words."""

    source: Ids
    """(phrases,) places in the ids of all sources."""
    source_lengths: Ids
    """(phrases,)"""
    target: Ids
    """(phrases,) places in the ids of all targets."""
    target_lengths: Ids
    """(phrases,)"""


def consistent(source: Texts, target: Texts, links: Aligned, longest: int) -> Phrases:
    """All phrases of the pairs: spans with a link between them, and no link from either span to outside of the other.

    Spans may begin and end with words that have no link.
    """
    ends = {
        "source": np.repeat(source.starts[1:], source.lengths),
        "target": np.repeat(target.starts[1:], target.lengths),
    }
    begins = np.repeat(target.starts[:-1], target.lengths)
    to_target = _reach(len(source.ids), links.sources, links.targets, longest)
    to_source = _reach(len(target.ids), links.targets, links.sources, longest)
    phrases: list[tuple[Ids, Ids, Ids, Ids]] = []
    for length, (low, high) in enumerate(to_target, 1):
        places = np.arange(len(low))
        first = np.flatnonzero((places + length <= ends["source"][: len(low)]) & (high >= 0) & (high - low < longest))
        for other_length in range(1, longest + 1):
            other_low, other_high = to_source[other_length - 1]
            for before in range(other_length):
                other = low[first] - before
                inside = (other >= begins[low[first]]) & (other + other_length > high[first])
                inside &= other + other_length <= ends["target"][low[first]]
                begin, other_begin = first[inside], other[inside]
                back = (other_low[other_begin] >= begin) & (other_high[other_begin] < begin + length)
                begin, other_begin = begin[back], other_begin[back]
                phrases.append((begin, np.full_like(begin, length), other_begin, np.full_like(begin, other_length)))
    return Phrases(*(np.concatenate(parts) for parts in zip(*phrases, strict=True)))


def _reach(words: int, places: Ids, others: Ids, longest: int) -> list[tuple[Ids, Ids]]:
    """For each length from 1, the first and the last word of the other side with a link to the span that begins at each
    word; -1 as the last word if there is no link. Spans end within the words, but perhaps behind their text."""
    low, high = np.full(words, np.iinfo(np.int64).max >> 1), np.full(words, -1)
    np.minimum.at(low, places, others)
    np.maximum.at(high, places, others)
    reach = [(low, high)]
    for length in range(2, longest + 1):
        before_low, before_high = reach[-1]
        end = max(0, words - length + 1)
        reach.append(
            (np.minimum(before_low[:end], low[length - 1 :]), np.maximum(before_high[:end], high[length - 1 :]))
        )
    return reach


@dataclass(frozen=True)
class PhraseTable:
    """How often phrases of targets (given) and of sources (predicted) were extracted together."""

    longest: int
    """Words of a phrase."""
    given: Codes
    """(targets,) hashes of the target phrases, ascending."""
    starts: Ids
    """(targets + 1,) where the entries of each target phrase begin."""
    predicted: Codes
    """(sources,) hashes of the source phrases, ascending."""
    entries: npt.NDArray[np.int32]
    """(pairs,) ranks of source phrases in `predicted`, ascending for each target phrase."""
    counts: Ids
    """(pairs,)"""

    @cached_property
    def totals(self) -> Ids:
        """(targets,) the sum of the counts of each target phrase."""
        return np.add.reduceat(self.counts, self.starts[:-1]) if len(self.counts) else self.counts

    @classmethod
    def extracted(cls, model: LexicalModel, sources: Texts, targets: Texts, longest: int) -> PhraseTable:
        """The table of aligned pairs."""
        given, predicted = [np.zeros(0, np.uint64)], [np.zeros(0, np.uint64)]
        for part in portions((sources.lengths + 1) * (targets.lengths + 1), TRAINED):
            source, target = _portion(sources, part), _portion(targets, part)
            forth = alignment(model, source, target, "direct")
            back = alignment(model, target, source, "channel")
            phrases = consistent(source, target, symmetrised(source, target, forth, back), longest)
            predicted.append(_hashes(source, phrases.source, phrases.source_lengths, longest))
            given.append(_hashes(target, phrases.target, phrases.target_lengths, longest))
        given_keys, given_rank = np.unique(np.concatenate(given), return_inverse=True)
        predicted_keys, predicted_rank = np.unique(np.concatenate(predicted), return_inverse=True)
        del given, predicted
        number = max(1, len(predicted_keys))
        keys, counts = np.unique(given_rank * number + predicted_rank, return_counts=True)
        starts = np.searchsorted(keys, np.arange(len(given_keys) + 1) * number)
        return cls(longest, given_keys, starts, predicted_keys, (keys % number).astype(np.int32), counts)

    def save(self, folder: Path) -> None:
        """Write the table beside the dictionary."""
        frequent = np.flatnonzero(self.counts >= FREQUENT)
        values = {
            "given": self.given,
            "predicted": self.predicted,
            "types": np.diff(self.starts),
            "entries": self.entries,
            "counts": np.minimum(self.counts, FREQUENT),
            "frequent": frequent,
            "frequent_counts": self.counts[frequent],
            "longest": np.array([self.longest]),
        }
        with replacing(folder / FILE) as path:
            save_file({name: np.ascontiguousarray(values[name], kind) for name, kind in ARRAYS.items()}, path)

    @classmethod
    def load(cls, folder: Path) -> PhraseTable:
        """Read a table, checked so that every look-up stays within bounds."""
        path = folder / FILE
        if not path.is_file():
            raise UserError(f"{path}: no such file; train the dictionary again with --phrases 6")
        arrays = read_arrays(path)
        check_types(arrays, ARRAYS, str(path))
        entries, types, counts = arrays["entries"], arrays["types"], arrays["counts"].astype(np.int64)
        frequent = arrays["frequent"]
        fits = (
            arrays["longest"].shape == (1,)
            and 0 < arrays["longest"][0] <= LONGEST_PHRASE
            and types.shape == arrays["given"].shape
            and bool((types > 0).all())
            and entries.shape == counts.shape == (types.sum(),)
            and bool(((entries >= 0) & (entries < len(arrays["predicted"]))).all())
            and bool((counts > 0).all())
            and frequent.shape == arrays["frequent_counts"].shape
            and bool(((frequent >= 0) & (frequent < len(entries))).all())
            and bool((arrays["frequent_counts"] >= FREQUENT).all())
            and all(bool((keys[1:] > keys[:-1]).all()) for keys in (arrays["given"], arrays["predicted"]))
        )
        if not fits:
            raise UserError(f"{path}: arrays do not fit together; copy the folder again")
        counts[frequent] = arrays["frequent_counts"]
        starts = np.concatenate([[0], np.cumsum(types, dtype=np.int64)])
        return cls(int(arrays["longest"][0]), arrays["given"], starts, arrays["predicted"], entries, counts)


def _portion(texts: Texts, part: slice) -> Texts:
    """Some neighbouring texts."""
    starts = texts.starts[part.start : part.stop + 1]
    return Texts(texts.ids[starts[0] : starts[-1]], starts - starts[0])


def _hashes(texts: Texts, places: Ids, lengths: Ids, longest: int) -> Codes:
    """(phrases,) the hash of each phrase, from its first word and its length."""
    return np.asarray(hashed(texts, longest)[lengths - 1, places])


class Spans(NamedTuple):
    """Phrases of texts that a table has."""

    begins: Ids
    """(spans,) first words."""
    lengths: Ids
    """(spans,) in words."""
    ranks: Ids
    """(spans,) their ranks among the table's hashes."""

    @classmethod
    def of(cls, texts: Texts, keys: Codes, longest: int) -> Spans:
        ends = np.repeat(texts.starts[1:], texts.lengths)
        lengths, begins = np.nonzero(np.arange(len(ends)) + np.arange(1, longest + 1)[:, None] <= ends)
        hashes = hashed(texts, longest)[lengths, begins]
        ranks = np.minimum(np.searchsorted(keys, hashes), max(0, len(keys) - 1))
        listed = np.flatnonzero(keys[ranks] == hashes) if len(keys) else np.zeros(0, np.int64)
        return cls(begins[listed], lengths[listed] + 1, ranks[listed])


def _expanded(starts: Ids, sizes: Ids) -> tuple[Ids, Ids]:
    """Ranges: for each of their elements, the range that it is in, and the element.

    Example:
        >>> [array.tolist() for array in _expanded(np.array([5, 9]), np.array([2, 3]))]
        [[0, 0, 1, 1, 1], [5, 6, 9, 10, 11]]
    """
    owners = np.repeat(np.arange(len(sizes)), sizes)
    return owners, np.arange(len(owners)) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)


class Matches(NamedTuple):
    """Pairs of spans of a text that the table has as an entry."""

    given: Ids
    """(matches,) ranks in the given spans."""
    predicted: Ids
    """(matches,) ranks in the predicted spans."""
    entries: Ids
    """(matches,) places in `PhraseTable.entries`."""


def match(table: PhraseTable, given: Spans, given_texts: Ids, predicted: Spans, predicted_texts: Ids) -> Matches:
    """All pairs of a given span and a predicted span of one text with an entry.

    Args:
        given_texts: (given spans,) the text of each. predicted_texts: (predicted spans,)
    """
    # The entries of each distinct given phrase whose predicted phrase occurs in any text.
    ranks, which = np.unique(given.ranks, return_inverse=True)
    owners, entries = _expanded(table.starts[ranks], table.starts[ranks + 1] - table.starts[ranks])
    occurs = np.zeros(len(table.predicted), bool)
    occurs[predicted.ranks] = True
    usable = occurs[table.entries[entries]]
    owners, entries = owners[usable], entries[usable]
    # These entries for each given span: `spans` (pairs,) and `entries` (pairs,).
    sizes = np.bincount(owners, minlength=len(ranks))
    spans, places = _expanded((np.cumsum(sizes) - sizes)[which], sizes[which])
    entries = entries[places]
    # The predicted spans with the same text and phrase as each pair.
    number = max(1, len(table.predicted))
    keys = predicted_texts * number + predicted.ranks
    order = np.argsort(keys, kind="stable")
    wanted = given_texts[spans] * number + table.entries[entries]
    begin = np.searchsorted(keys[order], wanted)
    rows, places = _expanded(begin, np.searchsorted(keys[order], wanted, side="right") - begin)
    return Matches(spans[rows], order[places], entries[rows])


def log_probs(model: LexicalModel, table: PhraseTable, given: Texts, predicted: Texts) -> Floats:
    """(words,) what each predicted word adds to ln a(J); a(j) sums over all segmentations of the first j words.

        a(j) = a(j - 1) d(j) + sum over m of a(j - m) s(j - m, m)

    d is the word's probability by the dictionary, s(b, m) the phrases' score of the m words behind b (`_spans`).
    Segmentations have no prior, so a(J) is no probability.

    Args:
        given: hypotheses, without NULL. predicted: sources.
    """
    added = np.empty(len(predicted.ids))
    for part in portions((given.lengths + 1) * (predicted.lengths + 1), SCORED):
        hypotheses, sources = _portion(given, part), _portion(predicted, part)
        texts = texts_of_words(sources)
        links = Links(hypotheses.with_null(), sources, np.arange(len(texts)), texts)
        t = model.translations(links, "channel")
        words = links.sums(model.config.alignment["channel"].prior(links) * t)
        spans = _spans(model, table, hypotheses, links, t)
        begin = int(predicted.starts[part.start])
        added[begin : begin + len(texts)] = _all_segmentations(sources, words, spans)
    return added


def _spans(model: LexicalModel, table: PhraseTable, given: Texts, links: Links, t: Floats) -> Floats:
    """(words, longest) for each last word and length, s: the mean over lengths of p(f | e) times a prior of positions,

        exp(-tension * distance of both centres) / the sum of this over the words of the hypothesis,

    summed over all phrases e of the hypothesis.

    Args:
        given: hypotheses, without NULL. t: (links,) translation probabilities.
    """
    predicted = links.predicted
    sides = [(given, table.given), (predicted, table.predicted)]
    given_spans, spans = (Spans.of(texts, keys, table.longest) for texts, keys in sides)
    given_texts, texts = (
        texts_of_words(side)[side_spans.begins]
        for (side, _), side_spans in zip(sides, (given_spans, spans), strict=True)
    )
    matched = match(table, given_spans, given_texts, spans, texts)
    tension = model.config.alignment["channel"].tension or 0.0
    lengths = given.lengths
    centres = _centres(predicted, spans, texts)
    # The prior's denominator for each predicted span in a match: a sum over the words of its hypothesis.
    used = np.unique(matched.predicted)
    owners, places = _expanded(given.starts[texts[used]], lengths[texts[used]])
    at = texts[used][owners]
    away = np.abs((places - given.starts[at] + 0.5) / lengths[at] - centres[used][owners])
    norms = np.ones(len(centres))
    norms[used] = np.bincount(owners, np.exp(-tension * away), len(used))
    # The prior's numerator and p(f | e) for each match, and the sums of matches that end at one word with one length.
    away = np.abs(_centres(given, given_spans, given_texts)[matched.given] - centres[matched.predicted])
    values = _translated(model, table, given, links, t, given_spans, spans, matched)
    values *= np.exp(-tension * away) / norms[matched.predicted] / table.longest
    last = spans.begins[matched.predicted] + spans.lengths[matched.predicted] - 1
    sums = np.bincount(
        last * table.longest + spans.lengths[matched.predicted] - 1, values, len(predicted.ids) * table.longest
    )
    return np.asarray(sums.reshape(len(predicted.ids), table.longest), np.float64)


def _centres(texts: Texts, spans: Spans, of_spans: Ids) -> Floats:
    """(spans,) the middle of each as a share of its text."""
    middle: Floats = (spans.begins - texts.starts[of_spans] + spans.lengths / 2) / texts.lengths[of_spans]
    return middle


def _translated(
    model: LexicalModel,
    table: PhraseTable,
    given: Texts,
    links: Links,
    t: Floats,
    given_spans: Spans,
    spans: Spans,
    matched: Matches,
) -> Floats:
    """(matches,) p(f | e): the discounted share of the count, and for the rest the lexical weight.

    The lexical weight is the product over the words of f of the largest t, from a word of e or from NULL.
    """
    begins, sizes = spans.begins[matched.predicted], spans.lengths[matched.predicted]
    others, other_sizes = given_spans.begins[matched.given], given_spans.lengths[matched.given]
    others = others - given.starts[links.texts[begins]] + 1  # NULL has place 0
    weights = np.ones(len(begins))
    for step in range(table.longest):
        rows = np.flatnonzero(step < sizes)
        first = links.first[begins[rows] + step]
        best = model.config.alignment["channel"].null * t[first]
        for other in range(table.longest):
            inside = np.flatnonzero(other < other_sizes[rows])
            best[inside] = np.maximum(best[inside], t[first[inside] + others[rows[inside]] + other])
        weights[rows] *= best
    ranks = given_spans.ranks[matched.given]
    totals, types = table.totals[ranks], table.starts[ranks + 1] - table.starts[ranks]
    shares = np.maximum(table.counts[matched.entries] - DISCOUNT, 0.0) / totals
    return np.asarray(shares + np.minimum(1.0, DISCOUNT * types / totals) * weights)


def _all_segmentations(predicted: Texts, words: Floats, spans: Floats) -> Floats:
    """(words,) ln a(j) - ln a(j - 1), of all texts side by side: first the first word of each text, then the second.

    With d = 0.1 0.1 for the words of a text and s[1, 1] = 0.5 for both together, a = 1, 0.1, 0.1 * 0.1 + 0.5 = 0.51.

    Args:
        words: (words,) d. spans: (words, longest) s, at their last words.
    """
    with np.errstate(divide="ignore"):
        words, spans = np.log(words), np.log(spans)
    sums = np.zeros(len(words) + len(predicted.lengths))  # ln a, with ln a(0) = 0 in front of each text
    starts = predicted.starts[:-1] + np.arange(len(predicted.lengths))
    order = np.argsort(-predicted.lengths, kind="stable")
    longer = np.searchsorted(
        -predicted.lengths[order], -np.arange(1, int(predicted.lengths.max(initial=0)) + 1), side="right"
    )
    for place, number in enumerate(longer.tolist(), 1):
        texts = order[:number]
        word, here = predicted.starts[texts] + place - 1, starts[texts] + place
        value = sums[here - 1] + words[word]
        for length in range(1, min(place, spans.shape[1]) + 1):
            value = np.logaddexp(value, sums[here - length] + spans[word, length - 1])
        sums[here] = value
    return np.delete(np.diff(sums), starts[1:] - 1)


class PhraseLM(LexicalLM):
    """The reading `lexical:phrases`: the score of the source given the hypothesis, with phrases."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(name, folder, ["channel"])
        self._table = PhraseTable.load(folder)

    @cached_property
    def fingerprint(self) -> str:
        with open(self._folder / FILE, "rb") as file:
            phrases = hashlib.file_digest(file, "sha256").hexdigest()
        return hashlib.sha256(f"phrases {phrases} {fingerprint(self._folder)}".encode()).hexdigest()

    def _values(self, given: Texts, predicted: Texts, direction: str) -> Floats:
        return log_probs(self._model, self._table, given, predicted)
