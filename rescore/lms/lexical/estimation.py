"""Estimation of a lexical model from sentence pairs, by EM."""

from __future__ import annotations

import math
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.lms.context import best_text
from rescore.lms.folders import card_head
from rescore.lms.lexical.model import LexicalConfig, LexicalModel
from rescore.lms.lexical.table import (
    Alignment,
    Floats,
    Ids,
    LinkCounts,
    Links,
    Smoothing,
    Texts,
    distinct,
    portions,
    texts_of_words,
    union,
)
from rescore.lms.neural.tokenizer import Tokenizer, train_wordpiece, word_tokenizer
from rescore.lms.neural.training.corpus import SentencePair, read_pairs
from rescore.nbest import NbestList

PART = 1 << 24
"""Links of the words of a part, or of one word."""
PORTION = 1 << 22
"""Links whose pairs of words are sorted together."""
STEP = 1 << 16
"""Links whose probabilities are computed together: as many as the cache of a core holds."""
LEAST = 1e-3
"""Expected counts below which a pair of words gets no entry."""
NARROW, WIDE = 0.1, 20.0
"""Bounds of the tension."""


@dataclass(slots=True)
class Part:
    """Some predicted words, everywhere they stand."""

    links: list[Links]
    """In portions."""
    entries: list[npt.NDArray[np.int32]]
    """(links,) for each portion: the place of each link's pair of words in what follows."""
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
    report: Callable[[str], None] = lambda line: None,
) -> tuple[LinkCounts, Alignment, float]:
    """A table, its alignment, and the perplexity of a predicted word in the last iteration.

    Args:
        given: with NULL in front of each text. size: the number of words, NULL among them. folder: for files that are
            as large as all links; they are left there.
        alignment: where to begin. iterations: how many with Model 1, and then with `alignment` if it has a tension.
    """
    parts = list(_parts(given, predicted, size, folder))
    frequencies = np.bincount(predicted.ids, minlength=size)
    perplexity = float("inf")
    plain, tensed = iterations
    for iteration in range(plain + (tensed if alignment.tension is not None else 0)):
        current = Alignment() if iteration < plain else alignment
        found = _expect(parts, current, size)
        perplexity = float(np.exp(-found.log_likelihood / len(predicted.ids)))
        report(f"iteration {iteration + 1}: perplexity {perplexity:.2f}")
        for part in parts:
            part.probabilities = part.counts / found.totals[part.given]
        if current.tension is not None:
            alignment = _moved(current, found)
    return _table(parts, found.totals, frequencies), alignment, perplexity


def _parts(given: Texts, predicted: Texts, size: int, folder: Path) -> Iterator[Part]:
    texts = texts_of_words(predicted)
    lengths = given.lengths
    order = np.argsort(predicted.ids, kind="stable")
    ends = np.cumsum(np.bincount(predicted.ids, minlength=size))
    number = np.bincount(predicted.ids, weights=lengths[texts], minlength=size).astype(np.int64)
    for rank, some in enumerate(portions(number, PART)):
        words = order[ends[some.start - 1] if some.start else 0 : ends[some.stop - 1]]
        links = [
            Links(given, predicted, words[few], texts[words[few]]) for few in portions(lengths[texts[words]], PORTION)
        ]
        if links:
            yield _part(links, some.start, size, folder / f"entries-{rank}")


def _part(links: list[Links], lowest: int, size: int, path: Path) -> Part:
    """The different pairs of words, and which of them each link is."""

    def pairs(one: Links) -> Ids:
        return (one.predicted_words - lowest) * size + one.given_words

    paths = [path.with_name(f"{path.name}-{rank}.npy") for rank in range(len(links))]
    found = []
    for place, one in zip(paths, links, strict=True):
        some, which = distinct(pairs(one))
        found.append(some)
        np.save(place, which.astype(np.int32))
    every = reduce(union, found)  # portions are in the order of predicted words: few pairs are in two
    for place, some in zip(paths, found, strict=True):
        np.save(place, np.searchsorted(every, some).astype(np.int32)[np.load(place)])
    entries = [np.load(place, mmap_mode="r") for place in paths]
    return Part(
        [Links(one.given, one.predicted, one.words, one.texts) for one in links],
        entries,
        (every % size).astype(np.int32),
        (every // size + lowest).astype(np.int32),
        np.full(len(every), 1.0 / size),
        np.zeros(len(every)),
    )


def _expect(parts: list[Part], alignment: Alignment, size: int) -> Expectations:
    """One pass over all links: fills the parts' counts."""
    found = Expectations(np.zeros(size))
    for part in parts:
        part.counts = np.zeros(len(part.given))
        for links, entries in _steps(part):
            prior = alignment.prior(links)
            posterior = part.probabilities[entries] * prior
            sums = links.sums(posterior)
            posterior /= links.spread(sums)
            found.log_likelihood += float(np.log(sums).sum())
            np.add.at(part.counts, entries, posterior)
            if alignment.tension is not None:
                _add_distances(found, links, prior, posterior)
        found.totals += np.bincount(part.given, part.counts, size)
    return found


def _steps(part: Part) -> Iterator[tuple[Links, npt.NDArray[np.int32]]]:
    """A part's links, and their entries."""
    for links, entries in zip(part.links, part.entries, strict=True):
        lengths = links.given.lengths[links.texts]  # what links compute of themselves is not kept
        begin = 0
        for few in portions(lengths, STEP):
            end = begin + int(lengths[few].sum())
            yield Links(links.given, links.predicted, links.words[few], links.texts[few]), np.array(entries[begin:end])
            begin = end


def _add_distances(found: Expectations, links: Links, prior: Floats, posterior: Floats) -> None:
    linked = 1.0 - posterior[links.first]  # the share of a word that is not due to NULL
    there = np.where(1.0 - prior[links.first] > 0, 1.0 - prior[links.first], 1.0)
    mean = links.sums(prior * links.distance) / there
    square = links.sums(prior * links.distance**2) / there
    found.distance += float((posterior * links.distance).sum())
    found.expected += float((linked * mean).sum())
    found.variance += float((linked * (square - mean**2)).sum())


def _moved(alignment: Alignment, found: Expectations) -> Alignment:
    """One step of Newton's method towards the tension that makes the links likeliest."""
    assert alignment.tension is not None
    step = (found.expected - found.distance) / found.variance if found.variance > 0 else 0.0
    return replace(alignment, tension=float(np.clip(alignment.tension + step, NARROW, WIDE)))


def _table(parts: list[Part], totals: Floats, frequencies: Ids) -> LinkCounts:
    kept = [part.counts >= LEAST for part in parts]
    given = np.concatenate([part.given[keep] for part, keep in zip(parts, kept, strict=True)])
    predicted = np.concatenate([part.predicted[keep] for part, keep in zip(parts, kept, strict=True)])
    counts = np.concatenate([part.counts[keep].astype(np.float32) for part, keep in zip(parts, kept, strict=True)])
    order = np.lexsort((predicted, given))
    starts = np.concatenate([[0], np.cumsum(np.bincount(given, minlength=len(totals)))])
    return LinkCounts(starts, predicted[order], counts[order], totals, frequencies)


WORDS = (1 << 20) - 1
"""The largest vocabulary: words that come later are left out."""
LONGEST = 1_000
"""Words of a side from which on a pair is left out."""
ALIGNMENTS = ("none", "diagonal")
TENSION = 4.0
"""Where fast_align's search for it begins, too."""


@dataclass(frozen=True, slots=True)
class LexicalRecipe:
    """What decides the model."""

    pieces: int = 8_000
    """The vocabulary of subwords, where a tokenizer is trained; 0 for words."""
    alignment: str = "diagonal"
    """A name of `ALIGNMENTS`."""
    iterations: tuple[int, int] = (5, 5)
    """Of Model 1, and then with the alignment."""
    smoothing: Smoothing = field(default_factory=Smoothing)

    @property
    def unit(self) -> str:
        return "subword" if self.pieces else "word"


@dataclass(slots=True)
class ParallelCorpus:
    """Pairs as numbers of words."""

    vocabulary: dict[str, int]
    sides: tuple[Texts, Texts]
    """Source and target, without NULL."""

    @property
    def pairs(self) -> int:
        return len(self.sides[0].starts) - 1

    def lengths(self) -> tuple[float, float]:
        """Mean and standard deviation of ln((target words + 1) / (source words + 1))."""
        source, target = (np.log(side.lengths + 1.0) for side in self.sides)
        return float((target - source).mean()), max(0.01, float((target - source).std()))


def train(
    source: Path,
    target: Path,
    out: Path,
    recipe: LexicalRecipe,
    *,
    lists: Sequence[NbestList] = (),
    tokenizer: Path | None = None,
    normalisation: str = "folded",
    report: Callable[[str], None] = lambda line: None,
) -> None:
    """Estimate both directions and write the folder.

    Args:
        lists: N-best lists whose sources and best first-pass texts are further pairs.
        tokenizer: a tokenizer.json whose normalisation, and for subwords whose vocabulary, is used.

    Raises:
        UserError: files are missing or do not fit together; a list has no source; no pair has words on both sides.
    """

    def pairs() -> Iterator[list[SentencePair]]:
        yield from read_pairs(source, target)
        yield [(_source(nbest), best_text(nbest)) for nbest in lists]

    found = _tokenizer(recipe, pairs(), tokenizer, normalisation)
    corpus = read(pairs(), found.words if recipe.unit == "word" else found.pieces)
    if not corpus.pairs:
        raise UserError(f"{source}: no pair with words on both sides in it and {target}")
    report(f"{corpus.pairs:,} pairs, {len(corpus.vocabulary):,} different {recipe.unit}s")
    out.mkdir(parents=True, exist_ok=True)
    begin = Alignment(TENSION if recipe.alignment == "diagonal" else None)
    tables, alignments, perplexities = {}, {}, {}
    for direction, (given, predicted) in {"direct": corpus.sides, "channel": corpus.sides[::-1]}.items():
        report("target given source" if direction == "direct" else "source given target")
        with tempfile.TemporaryDirectory(dir=out) as folder:
            tables[direction], alignments[direction], perplexities[direction] = estimate(
                given.with_null(),
                predicted,
                len(corpus.vocabulary) + 1,
                Path(folder),
                begin,
                recipe.iterations,
                report,
            )
    config = LexicalConfig(recipe.unit, *corpus.lengths(), alignments, recipe.smoothing)
    model = LexicalModel(config, found, corpus.vocabulary, tables)
    model.save(out, _card(recipe, corpus, model, perplexities, len(lists)))


def read(chunks: Iterable[Sequence[SentencePair]], cut: Callable[[Sequence[str]], list[list[str]]]) -> ParallelCorpus:
    """Number the words of all pairs that have some on both sides."""
    vocabulary: dict[str, int] = {}
    ids, starts = (array("q"), array("q")), (array("q", [0]), array("q", [0]))
    for chunk in chunks:
        for both in zip(*(cut([pair[side] for pair in chunk]) for side in (0, 1)), strict=True):
            numbers = [list(_numbered(words, vocabulary)) for words in both]
            if all(0 < len(one) <= LONGEST for one in numbers):
                for side, one in enumerate(numbers):
                    ids[side].extend(one)
                    starts[side].append(len(ids[side]))
    source, target = (Texts(np.asarray(one), np.asarray(at)) for one, at in zip(ids, starts, strict=True))
    return ParallelCorpus(vocabulary, (source, target))


def _numbered(words: Iterable[str], vocabulary: dict[str, int]) -> Iterator[int]:
    for word in words:
        if len(vocabulary) < WORDS or word in vocabulary:
            yield vocabulary.setdefault(word, len(vocabulary) + 1)


def _tokenizer(
    recipe: LexicalRecipe, chunks: Iterable[Sequence[SentencePair]], given: Path | None, normalisation: str
) -> Tokenizer:
    if given:
        return Tokenizer.load(given)
    if recipe.unit == "word":
        return word_tokenizer(normalisation)
    return train_wordpiece(chain.from_iterable(chain.from_iterable(chunks)), recipe.pieces, normalisation)


def _source(nbest: NbestList) -> str:
    if nbest.source is None:
        raise UserError(f"utterance {nbest.id}: no source text; --lists are further pairs, which need one")
    return nbest.source


def _card(
    recipe: LexicalRecipe, corpus: ParallelCorpus, model: LexicalModel, perplexities: dict[str, float], lists: int
) -> str:
    source, target = (len(side.ids) for side in corpus.sides)
    tensions = [f"{found.tension:.2f}" for found in model.config.alignment.values() if found.tension is not None]
    return f"""{card_head("translation", {"kind": "lexical", "unit": recipe.unit, "recommended_weight": 0.1})}

# lexical

| | |
| --- | --- |
| model | IBM Model 1 of {recipe.unit}s, in both directions |
| alignment | {f"diagonal, tension {', '.join(tensions)}" if tensions else "none"} |
| training data | {corpus.pairs:,} pairs, {source:,} and {target:,} {recipe.unit}s |
| pairs from N-best lists | {lists:,} |
| entries | {", ".join(f"{len(table.words):,} ({name})" for name, table in model.tables.items())} |
| perplexity in training | {", ".join(f"{value:.1f} ({name})" for name, value in perplexities.items())} |
| mean ratio of lengths | {math.exp(model.config.length_mean):.3f} |
| recommended weight | 0.1, for `lexical:channel` as a mean; tune it on lists of your own and write it here |
| licence | yours to choose |
"""
