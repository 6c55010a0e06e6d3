"""Estimation of a lexical model from sentence pairs, by EM.

An iteration visits all links. It is made over parts: a part has some predicted words,
everywhere they stand, so that the counts of their pairs of words fit into memory.

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
from rescore.files import naming
from rescore.lms.base import Report
from rescore.lms.folders import card_head, check_is_free
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

Entries = npt.NDArray[np.int32]

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
NARROW = 0.1
"""Lower bound of the tension."""
WIDE = 20.0
"""Upper bound of the tension."""
WORDS = (1 << 20) - 1
"""The largest vocabulary: words that come later are left out."""
MAX_WORDS = 1_000
"""Pairs with more words on a side are left out."""
TENSION = 4.0
"""The tension at the start, as in fast_align."""


# --- EM ------------------------------------------------------------------------------


@dataclass(slots=True)
class PredictedPart:
    """Some predicted words, everywhere they stand."""

    links: list[Links]
    """The links of the words, in portions."""
    entries: list[Entries]
    """For each portion the index of each link's pair of words in the arrays below, of
    shape (links,).
    """
    given: npt.NDArray[np.int32]
    """The given word of each different pair, of shape (pairs,)."""
    predicted: npt.NDArray[np.int32]
    """The predicted word of each different pair, of shape (pairs,)."""
    probabilities: Floats
    """t of each pair, of shape (pairs,)."""
    counts: Floats
    """Expected counts of the last iteration, of shape (pairs,)."""


@dataclass(slots=True)
class Expectations:
    """Sums over all links in one iteration."""

    totals: Floats
    """Expected counts of each given word, of shape (size,)."""
    log_likelihood: float = 0.0
    distance: float = 0.0
    """Expected distance of links to given words under words and alignment."""
    expected: float = 0.0
    """Expected distance of the same links under the alignment alone."""
    variance: float = 0.0
    """Variance of the distance under the alignment alone."""


def estimate(
    given: Texts,
    predicted: Texts,
    size: int,
    folder: Path,
    alignment: Alignment,
    iterations: tuple[int, int],
    report: Report = lambda line: None,
) -> tuple[LinkCounts, Alignment, float]:
    """Return the expected counts of links and their alignment, by EM.

    Args:
        given: The given texts with NULL in front of each.
        predicted: The predicted texts.
        size: Number of words, NULL among them.
        folder: A folder for files that are as large as all links; they are left there.
        alignment: The alignment at the start.
        iterations: Number of iterations with Model 1, and then with `alignment` if it
            has a tension.
        report: Takes a line about each iteration.

    Returns:
        The counts, the alignment with its last tension, and the perplexity of a
        predicted word in the last iteration.
    """
    parts = list(_parts(given, predicted, size, folder))
    plain, tensed = iterations
    if alignment.tension is None:
        tensed = 0
    perplexity = float("inf")
    for iteration in range(plain + tensed):
        current = Alignment() if iteration < plain else alignment
        expectations = _expect(parts, current, size)
        perplexity = float(np.exp(-expectations.log_likelihood / len(predicted.ids)))
        report(f"iteration {iteration + 1}: perplexity {perplexity:.2f}")
        for part in parts:
            part.probabilities = part.counts / expectations.totals[part.given]
        if current.tension is not None:
            tension = _likelier_tension(current.tension, expectations)
            alignment = replace(current, tension=tension)
    frequencies = np.bincount(predicted.ids, minlength=size)
    return _table(parts, expectations.totals, frequencies), alignment, perplexity


def _likelier_tension(tension: float, expectations: Expectations) -> float:
    """Return the tension after one step of Newton's method towards the tension that
    makes the links likeliest.
    """
    step = 0.0
    if expectations.variance > 0:
        away = expectations.expected - expectations.distance
        step = away / expectations.variance
    return float(np.clip(tension + step, NARROW, WIDE))


def _parts(
    given: Texts, predicted: Texts, size: int, folder: Path
) -> Iterator[PredictedPart]:
    """Yield the parts, by predicted word."""
    texts = texts_of_words(predicted)
    links_of_place = given.lengths[texts]
    order = np.argsort(predicted.ids, kind="stable")
    ends = np.cumsum(np.bincount(predicted.ids, minlength=size))
    links_of_word = np.bincount(predicted.ids, weights=links_of_place, minlength=size)
    for rank, portion in enumerate(portions(links_of_word.astype(np.int64), PART)):
        begin = ends[portion.start - 1] if portion.start else 0
        places = order[begin : ends[portion.stop - 1]]
        links = []
        for few in portions(links_of_place[places], PORTION):
            links.append(Links(given, predicted, places[few], texts[places[few]]))
        if links:
            yield _part(links, portion.start, size, folder / f"entries-{rank}")


def _part(links: list[Links], lowest: int, size: int, path: Path) -> PredictedPart:
    """Return a part with its different pairs of words.

    Args:
        links: The links of the part, in portions.
        lowest: The lowest predicted word of the part.
        size: Number of words, NULL among them.
        path: The beginning of the names of files for entries.
    """
    paths = []
    pairs_of_portions = []
    for rank, portion in enumerate(links):
        pairs = (portion.predicted_words - lowest) * size + portion.given_words
        own_pairs, ranks = distinct(pairs)
        pairs_of_portions.append(own_pairs)
        paths.append(path.with_name(f"{path.name}-{rank}.npy"))
        np.save(paths[-1], ranks.astype(np.int32))
    # Portions are in the order of predicted words: few pairs are in two of them.
    every = reduce(union, pairs_of_portions)
    entries = []
    for place, own_pairs in zip(paths, pairs_of_portions, strict=True):
        entry_of_rank = np.searchsorted(every, own_pairs).astype(np.int32)
        np.save(place, entry_of_rank[np.load(place)])
        entries.append(np.load(place, mmap_mode="r"))
    return PredictedPart(
        [replace(portion) for portion in links],  # copies without cached values
        entries,
        (every % size).astype(np.int32),
        (every // size + lowest).astype(np.int32),
        np.full(len(every), 1.0 / size),
        np.zeros(len(every)),
    )


def _expect(
    parts: list[PredictedPart], alignment: Alignment, size: int
) -> Expectations:
    """Return sums over all links, and fill the counts of the parts."""
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


def _steps(part: PredictedPart) -> Iterator[tuple[Links, Entries]]:
    """Yield the links of a part and their entries, as many as `STEP` at once."""
    for links, entries in zip(part.links, part.entries, strict=True):
        # Not `links.lengths`, which the object would keep.
        lengths = links.given.lengths[links.texts]
        begin = 0
        for few in portions(lengths, STEP):
            end = begin + int(lengths[few].sum())
            step = replace(links, words=links.words[few], texts=links.texts[few])
            yield step, np.array(entries[begin:end])
            begin = end


def _add_distances(
    expectations: Expectations, links: Links, prior: Floats, posterior: Floats
) -> None:
    """Add the distances of links, of which NULL has none.

    Args:
        expectations: The sums.
        links: The links.
        prior: Probabilities by the alignment alone, of shape (links,).
        posterior: Probabilities by words and alignment, of shape (links,).
    """
    linked = 1.0 - posterior[links.first]
    prior_linked = 1.0 - prior[links.first]
    divisors = np.where(prior_linked > 0, prior_linked, 1.0)
    mean = links.sums(prior * links.distance) / divisors
    square = links.sums(prior * links.distance**2) / divisors
    expectations.distance += float((posterior * links.distance).sum())
    expectations.expected += float((linked * mean).sum())
    expectations.variance += float((linked * (square - mean**2)).sum())


def _table(parts: list[PredictedPart], totals: Floats, frequencies: Ids) -> LinkCounts:
    """Return the counts of all parts, without very small ones."""
    given_words = []
    predicted_words = []
    kept_counts = []
    for part in parts:
        kept = part.counts >= LEAST
        given_words.append(part.given[kept])
        predicted_words.append(part.predicted[kept])
        kept_counts.append(part.counts[kept].astype(np.float32))
    given = np.concatenate(given_words)
    predicted = np.concatenate(predicted_words)
    counts = np.concatenate(kept_counts)
    order = np.lexsort((predicted, given))
    starts = np.concatenate([[0], np.cumsum(np.bincount(given, minlength=len(totals)))])
    return LinkCounts(starts, predicted[order], counts[order], totals, frequencies)


# --- sentence pairs ------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParallelCorpus:
    """Sentence pairs as numbers of words."""

    vocabulary: dict[str, int]
    sides: tuple[Texts, Texts]
    """Source and target, without NULL."""


class _Side:
    """The sentences of one language, as they are numbered."""

    def __init__(self) -> None:
        self.ids = array("q")
        self.starts = array("q", [0])

    def add(self, sentence: Sequence[int]) -> None:
        """Add a sentence."""
        self.ids.extend(sentence)
        self.starts.append(len(self.ids))

    def texts(self) -> Texts:
        """Return the sentences."""
        return Texts(np.asarray(self.ids), np.asarray(self.starts))


def read(
    chunks: Iterable[Sequence[SentencePair]],
    cut: Callable[[list[str]], list[list[str]]],
) -> ParallelCorpus:
    """Return all pairs that have words on both sides, as numbers of words.

    Args:
        chunks: Pairs of a source and a target.
        cut: Cuts sentences into words or subwords.
    """
    vocabulary: dict[str, int] = {}

    def numbered(words: Sequence[str]) -> list[int]:
        numbers = []
        for word in words:
            if word in vocabulary or len(vocabulary) < WORDS:
                numbers.append(vocabulary.setdefault(word, len(vocabulary) + 1))
        return numbers

    sources = _Side()
    targets = _Side()
    for chunk in chunks:
        source_words = cut([source for source, _ in chunk])
        target_words = cut([target for _, target in chunk])
        for source, target in zip(source_words, target_words, strict=True):
            source_ids = numbered(source)
            target_ids = numbered(target)
            lengths = (len(source_ids), len(target_ids))
            if min(lengths) > 0 and max(lengths) <= MAX_WORDS:
                sources.add(source_ids)
                targets.add(target_ids)
    return ParallelCorpus(vocabulary, (sources.texts(), targets.texts()))


# --- training ------------------------------------------------------------------------


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
    """Estimate both directions of a model and write its folder.

    Args:
        files: Sources, and their targets line by line.
        out: The folder.
        pieces: Size of the vocabulary of subwords, if a tokenizer is trained; 0 for
            words.
        alignment: `none` (Model 1), or `diagonal`, which follows as many iterations of
            Model 1.
        iterations: Number of iterations of Model 1.
        tokenizer: A tokenizer.json; its normalisation is used and, for subwords, its
            vocabulary.
        normalisation: The normalisation of texts, if a tokenizer is trained.
        report: Takes lines about the progress.

    Raises:
        UserError: A file cannot be read, or no pair has words on both sides.
    """
    check_is_free(out)
    cutter = _tokenizer(files, pieces, tokenizer, normalisation)
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
    tables: dict[str, LinkCounts] = {}
    alignments: dict[str, Alignment] = {}
    perplexities: dict[str, float] = {}
    for direction in DIRECTIONS:
        if direction == "direct":
            report("target given source")
            given = source
            predicted = target
        else:
            report("source given target")
            given = target
            predicted = source
        with naming(out), tempfile.TemporaryDirectory(dir=out) as folder:
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
    model.save(out, _card(model, corpus, perplexities))


def _tokenizer(
    files: tuple[Path, Path], pieces: int, tokenizer: Path | None, normalisation: str
) -> Tokenizer:
    """Return the tokenizer of a file, or a tokenizer trained on both languages."""
    if tokenizer:
        return Tokenizer.load(tokenizer)
    if not pieces:
        return word_tokenizer(normalisation)
    pairs = chain.from_iterable(read_pairs(*files))
    return train_wordpiece(chain.from_iterable(pairs), pieces, normalisation)


def _card(
    model: LexicalModel, corpus: ParallelCorpus, perplexities: dict[str, float]
) -> str:
    """Return the model card."""
    unit = model.config.unit
    source, target = corpus.sides
    pairs = counted(len(source.lengths), "pair")
    target_size = counted(len(target.ids), unit)
    tensions = []
    for alignment in model.config.alignment.values():
        if alignment.tension is not None:
            tensions.append(f"{alignment.tension:.2f}")
    aligned = f"diagonal, tension {', '.join(tensions)}" if tensions else "none"
    entries = []
    for name, table in model.tables.items():
        entries.append(f"{len(table.words):,} ({name})")
    figures = [f"{value:.1f} ({name})" for name, value in perplexities.items()]
    about = {"kind": "lexical", "unit": unit, "recommended_weight": 0.1}
    return f"""{card_head("translation", about)}

# lexical

| | |
| --- | --- |
| model | IBM Model 1 of {unit}s, in both directions |
| alignment | {aligned} |
| training data | {pairs}, {len(source.ids):,} and {target_size} |
| entries | {", ".join(entries)} |
| perplexity in training | {"; ".join(figures)} |
| mean ratio of lengths | {math.exp(model.config.length_mean):.3f} |
| recommended weight | 0.1, for `lexical:channel` as a mean; tune it on lists of your own and write it here |
| licence | yours to choose |
"""  # noqa: E501
