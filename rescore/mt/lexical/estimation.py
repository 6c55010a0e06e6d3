"""Estimation of a lexical model from sentence pairs, by EM.

nltk's IBMModel1 keeps probabilities in Python dictionaries, which is more than ten
times as slow as the arrays here, and it has no diagonal alignment.
"""

from __future__ import annotations

import math
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError, counted
from rescore.lms.base import Report
from rescore.lms.folders import card_head
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.corpus import SentencePair, read_pairs
from rescore.lms.training.vocabulary import train_wordpiece, word_tokenizer
from rescore.mt.lexical.model import (
    DIRECTIONS,
    Alignment,
    Floats,
    Ids,
    LexicalConfig,
    LexicalModel,
    LinkCounts,
    Links,
    Texts,
    distinct,
    portions,
    texts_of_words,
    union,
)

PART = 1 << 24
"""Links of the words of a part, or of one word."""
PORTION = 1 << 22
"""Links whose pairs of words are sorted together."""
STEP = 1 << 16
"""Links whose probabilities are computed together: as many as the cache of a core
holds.
"""
LEAST = 1e-3
"""Expected counts below which a pair of words gets no entry."""
NARROW, WIDE = 0.1, 20.0
"""Bounds of the tension."""
WORDS = (1 << 20) - 1
"""The largest vocabulary: words that come later are left out."""
MAX_WORDS = 1_000
"""Pairs with more words on a side are left out."""
TENSION = 4.0
"""Where fast_align's search for it begins, too."""


@dataclass(slots=True)
class Part:
    """Some predicted words, everywhere they stand."""

    links: list[Links]
    """In portions."""
    entries: list[npt.NDArray[np.int32]]
    """(links,) for each portion: the index of each link's pair of words in the arrays
    below.
    """
    given: npt.NDArray[np.int32]
    """(pairs,) the given word of each different pair."""
    predicted: npt.NDArray[np.int32]
    probabilities: Floats
    """(pairs,) t."""
    counts: Floats
    """(pairs,) expected counts of the last iteration."""


@dataclass(slots=True)
class Expectations:
    """Sums over all links in one iteration."""

    totals: Floats
    """(size,) expected counts of each given word."""
    log_likelihood: float = 0.0
    distance: float = 0.0
    """Of links to given words, as the words have it; ..."""
    expected: float = 0.0
    """... and as the alignment alone has it; ..."""
    variance: float = 0.0
    """... with its variance."""


def estimate(
    given: Texts,
    predicted: Texts,
    size: int,
    folder: Path,
    alignment: Alignment,
    iterations: tuple[int, int],
    report: Report = lambda line: None,
) -> tuple[LinkCounts, Alignment, float]:
    """A table, its alignment, and the perplexity of a predicted word in the last
    iteration.

    Args:
        given: with NULL in front of each text. size: the number of words, NULL among
            them. folder: for files that are as large as all links; they are left there.
        alignment: where to begin. iterations: how many with Model 1, and then with
            `alignment` if it has a tension.
    """
    parts = list(_parts(given, predicted, size, folder))
    frequencies = np.bincount(predicted.ids, minlength=size)
    perplexity = float("inf")
    plain, tensed = iterations
    for iteration in range(plain + (tensed if alignment.tension is not None else 0)):
        current = Alignment() if iteration < plain else alignment
        expectations = _expect(parts, current, size)
        perplexity = float(np.exp(-expectations.log_likelihood / len(predicted.ids)))
        report(f"iteration {iteration + 1}: perplexity {perplexity:.2f}")
        for part in parts:
            part.probabilities = part.counts / expectations.totals[part.given]
        if current.tension is not None:
            # One step of Newton's method towards the tension that makes the links
            # likeliest.
            away, variance = (
                expectations.expected - expectations.distance,
                expectations.variance,
            )
            step = away / variance if variance > 0 else 0.0
            alignment = replace(
                current, tension=float(np.clip(current.tension + step, NARROW, WIDE))
            )
    return _table(parts, expectations.totals, frequencies), alignment, perplexity


def _parts(given: Texts, predicted: Texts, size: int, folder: Path) -> Iterator[Part]:
    texts = texts_of_words(predicted)
    lengths = given.lengths
    order = np.argsort(predicted.ids, kind="stable")
    ends = np.cumsum(np.bincount(predicted.ids, minlength=size))
    number = np.bincount(predicted.ids, weights=lengths[texts], minlength=size).astype(
        np.int64
    )
    for rank, portion in enumerate(portions(number, PART)):
        words = order[
            ends[portion.start - 1] if portion.start else 0 : ends[portion.stop - 1]
        ]
        links = [
            Links(given, predicted, words[few], texts[words[few]])
            for few in portions(lengths[texts[words]], PORTION)
        ]
        if links:
            yield _part(links, portion.start, size, folder / f"entries-{rank}")


def _part(links: list[Links], lowest: int, size: int, path: Path) -> Part:
    """The different pairs of words, and which of them each link is."""

    def pairs(portion: Links) -> Ids:
        return (portion.predicted_words - lowest) * size + portion.given_words

    paths = [path.with_name(f"{path.name}-{rank}.npy") for rank in range(len(links))]
    different_pairs = []
    for place, portion in zip(paths, links, strict=True):
        own_pairs, which = distinct(pairs(portion))
        different_pairs.append(own_pairs)
        np.save(place, which.astype(np.int32))
    # portions are in the order of predicted words: few pairs are in two
    every = reduce(union, different_pairs)
    for place, own_pairs in zip(paths, different_pairs, strict=True):
        np.save(
            place, np.searchsorted(every, own_pairs).astype(np.int32)[np.load(place)]
        )
    entries = [np.load(place, mmap_mode="r") for place in paths]
    return Part(
        [
            Links(portion.given, portion.predicted, portion.words, portion.texts)
            for portion in links
        ],
        entries,
        (every % size).astype(np.int32),
        (every // size + lowest).astype(np.int32),
        np.full(len(every), 1.0 / size),
        np.zeros(len(every)),
    )


def _expect(parts: list[Part], alignment: Alignment, size: int) -> Expectations:
    """One pass over all links: fills the parts' counts."""
    expectations = Expectations(np.zeros(size))
    for part in parts:
        part.counts = np.zeros(len(part.given))
        for links, entries in _steps(part):
            prior = alignment.prior(links)
            posterior = part.probabilities[entries] * prior
            sums = links.sums(posterior)
            posterior /= links.spread(sums)
            expectations.log_likelihood += float(np.log(sums).sum())
            np.add.at(part.counts, entries, posterior)
            if alignment.tension is not None:
                _add_distances(expectations, links, prior, posterior)
        expectations.totals += np.bincount(part.given, part.counts, size)
    return expectations


def _steps(part: Part) -> Iterator[tuple[Links, npt.NDArray[np.int32]]]:
    """A part's links, and their entries."""
    for links, entries in zip(part.links, part.entries, strict=True):
        # values that links compute themselves are not kept
        lengths = links.given.lengths[links.texts]
        begin = 0
        for few in portions(lengths, STEP):
            end = begin + int(lengths[few].sum())
            yield (
                Links(links.given, links.predicted, links.words[few], links.texts[few]),
                np.array(entries[begin:end]),
            )
            begin = end


def _add_distances(
    expectations: Expectations, links: Links, prior: Floats, posterior: Floats
) -> None:
    linked = 1.0 - posterior[links.first]  # the share of a word that is not due to NULL
    aligned = np.where(1.0 - prior[links.first] > 0, 1.0 - prior[links.first], 1.0)
    mean = links.sums(prior * links.distance) / aligned
    square = links.sums(prior * links.distance**2) / aligned
    expectations.distance += float((posterior * links.distance).sum())
    expectations.expected += float((linked * mean).sum())
    expectations.variance += float((linked * (square - mean**2)).sum())


def _table(parts: list[Part], totals: Floats, frequencies: Ids) -> LinkCounts:
    kept = [part.counts >= LEAST for part in parts]
    given = np.concatenate(
        [part.given[keep] for part, keep in zip(parts, kept, strict=True)]
    )
    predicted = np.concatenate(
        [part.predicted[keep] for part, keep in zip(parts, kept, strict=True)]
    )
    counts = np.concatenate(
        [
            part.counts[keep].astype(np.float32)
            for part, keep in zip(parts, kept, strict=True)
        ]
    )
    order = np.lexsort((predicted, given))
    starts = np.concatenate([[0], np.cumsum(np.bincount(given, minlength=len(totals)))])
    return LinkCounts(starts, predicted[order], counts[order], totals, frequencies)


@dataclass(frozen=True, slots=True)
class ParallelCorpus:
    """Pairs as numbers of words."""

    vocabulary: dict[str, int]
    sides: tuple[Texts, Texts]
    """Source and target, without NULL."""


def train(
    files: tuple[Path, Path],
    out: Path,
    *,
    pieces: int = 8_000,
    alignment: str = "diagonal",
    iterations: int = 5,
    tokenizer: Path | None = None,
    normalisation: str = "folded",
    report: Report = lambda line: None,
) -> None:
    """Estimate both directions and write the folder.

    Args:
        files: sources, and their targets line by line.
        pieces: the vocabulary of subwords, where a tokenizer is trained; 0 for words.
        alignment: `none` (Model 1), or `diagonal`, which follows as many iterations of
            Model 1.
        tokenizer: a tokenizer.json; its normalisation is used and, for subwords, its
            vocabulary.
    """
    if tokenizer:
        cutter = Tokenizer.load(tokenizer)
    elif pieces:
        sentences = chain.from_iterable(chain.from_iterable(read_pairs(*files)))
        cutter = train_wordpiece(sentences, pieces, normalisation)
    else:
        cutter = word_tokenizer(normalisation)
    unit = "subword" if pieces else "word"
    corpus = read(read_pairs(*files), cutter.pieces if pieces else cutter.words)
    source, target = corpus.sides
    pairs = len(source.lengths)
    if not pairs:
        raise UserError(
            f"{files[0]}: no pair with words on both sides in it and {files[1]}"
        )
    size = len(corpus.vocabulary) + 1
    report(f"{counted(pairs, 'pair')}, {counted(size - 1, f'different {unit}')}")
    out.mkdir(parents=True, exist_ok=True)
    begin = Alignment(TENSION if alignment == "diagonal" else None)
    tables, alignments, perplexities = {}, {}, {}
    for direction in DIRECTIONS:
        report(
            "target given source" if direction == "direct" else "source given target"
        )
        given, predicted = (
            (source, target) if direction == "direct" else (target, source)
        )
        with tempfile.TemporaryDirectory(dir=out) as folder:
            tables[direction], alignments[direction], perplexities[direction] = (
                estimate(
                    given.with_null(),
                    predicted,
                    size,
                    Path(folder),
                    begin,
                    (iterations, iterations),
                    report,
                )
            )
    ratios = np.log(target.lengths + 1) - np.log(source.lengths + 1)
    config = LexicalConfig(
        unit, float(ratios.mean()), max(0.01, float(ratios.std())), alignments
    )
    model = LexicalModel(config, cutter, corpus.vocabulary, tables)
    tensions = [
        f"{found.tension:.2f}"
        for found in alignments.values()
        if found.tension is not None
    ]
    card = f"""{card_head("translation", {"kind": "lexical", "unit": unit, "recommended_weight": 0.1})}

# lexical

| | |
| --- | --- |
| model | IBM Model 1 of {unit}s, in both directions |
| alignment | {f"diagonal, tension {', '.join(tensions)}" if tensions else "none"} |
| training data | {counted(pairs, "pair")}, {len(source.ids):,} and {counted(len(target.ids), unit)} |
| entries | {", ".join(f"{len(counts.words):,} ({name})" for name, counts in tables.items())} |
| perplexity in training | {"; ".join(f"{value:.1f} ({name})" for name, value in perplexities.items())} |
| mean ratio of lengths | {math.exp(config.length_mean):.3f} |
| recommended weight | 0.1, for `lexical:channel` as a mean; tune it on lists of your own and write it here |
| licence | yours to choose |
"""  # noqa: E501
    model.save(out, card)


def read(
    chunks: Iterable[Sequence[SentencePair]],
    cut: Callable[[list[str]], list[list[str]]],
) -> ParallelCorpus:
    """Number the words of all pairs that have some on both sides."""
    vocabulary: dict[str, int] = {}
    ids, starts = (array("q"), array("q")), (array("q", [0]), array("q", [0]))
    for chunk in chunks:
        for both in zip(
            *(cut([pair[side] for pair in chunk]) for side in (0, 1)), strict=True
        ):
            numbers = [
                [
                    vocabulary.setdefault(word, len(vocabulary) + 1)
                    for word in words
                    if len(vocabulary) < WORDS or word in vocabulary
                ]
                for words in both
            ]
            if all(0 < len(sentence) <= MAX_WORDS for sentence in numbers):
                for side, sentence in enumerate(numbers):
                    ids[side].extend(sentence)
                    starts[side].append(len(ids[side]))
    source, target = (
        Texts(np.asarray(side_ids), np.asarray(at))
        for side_ids, at in zip(ids, starts, strict=True)
    )
    return ParallelCorpus(vocabulary, (source, target))
