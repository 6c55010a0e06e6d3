"""Estimation of a lexical model from sentence pairs, by EM."""

from __future__ import annotations

import math
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError, counted
from rescore.lms.context import best_text
from rescore.lms.folders import card_head
from rescore.lms.tokenizer import Tokenizer, train_wordpiece, word_tokenizer
from rescore.lms.training.corpus import SentencePair, read_pairs
from rescore.mt.lexical.model import (
    DIRECTIONS,
    Alignment,
    Floats,
    Ids,
    LexicalConfig,
    LexicalModel,
    LinkCounts,
    Links,
    Smoothing,
    Texts,
    added,
    distinct,
    portions,
    texts_of_words,
    union,
)
from rescore.mt.lexical.phrases import FILE, PhraseTable
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
    """(links,) for each portion: the index of each link's pair of words in the arrays below."""
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
        expectations = _expect(parts, current, size)
        perplexity = float(np.exp(-expectations.log_likelihood / len(predicted.ids)))
        report(f"iteration {iteration + 1}: perplexity {perplexity:.2f}")
        for part in parts:
            part.probabilities = part.counts / expectations.totals[part.given]
        if current.tension is not None:
            alignment = _moved(current, expectations)
    return _table(parts, expectations.totals, frequencies), alignment, perplexity


def _parts(given: Texts, predicted: Texts, size: int, folder: Path) -> Iterator[Part]:
    texts = texts_of_words(predicted)
    lengths = given.lengths
    order = np.argsort(predicted.ids, kind="stable")
    ends = np.cumsum(np.bincount(predicted.ids, minlength=size))
    number = np.bincount(predicted.ids, weights=lengths[texts], minlength=size).astype(np.int64)
    for rank, portion in enumerate(portions(number, PART)):
        words = order[ends[portion.start - 1] if portion.start else 0 : ends[portion.stop - 1]]
        links = [
            Links(given, predicted, words[few], texts[words[few]]) for few in portions(lengths[texts[words]], PORTION)
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
    every = reduce(union, different_pairs)  # portions are in the order of predicted words: few pairs are in two
    for place, own_pairs in zip(paths, different_pairs, strict=True):
        np.save(place, np.searchsorted(every, own_pairs).astype(np.int32)[np.load(place)])
    entries = [np.load(place, mmap_mode="r") for place in paths]
    return Part(
        [Links(portion.given, portion.predicted, portion.words, portion.texts) for portion in links],
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
        lengths = links.given.lengths[links.texts]  # values that links compute themselves are not kept
        begin = 0
        for few in portions(lengths, STEP):
            end = begin + int(lengths[few].sum())
            yield Links(links.given, links.predicted, links.words[few], links.texts[few]), np.array(entries[begin:end])
            begin = end


def _add_distances(expectations: Expectations, links: Links, prior: Floats, posterior: Floats) -> None:
    linked = 1.0 - posterior[links.first]  # the share of a word that is not due to NULL
    aligned = np.where(1.0 - prior[links.first] > 0, 1.0 - prior[links.first], 1.0)
    mean = links.sums(prior * links.distance) / aligned
    square = links.sums(prior * links.distance**2) / aligned
    expectations.distance += float((posterior * links.distance).sum())
    expectations.expected += float((linked * mean).sum())
    expectations.variance += float((linked * (square - mean**2)).sum())


def _moved(alignment: Alignment, expectations: Expectations) -> Alignment:
    """One step of Newton's method towards the tension that makes the links likeliest."""
    assert alignment.tension is not None
    step = (expectations.expected - expectations.distance) / expectations.variance if expectations.variance > 0 else 0.0
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
MAX_WORDS = 1_000
"""Pairs with more words on a side are left out."""
ALIGNMENTS = ("none", "diagonal")
TENSION = 4.0
"""Where fast_align's search for it begins, too."""


@dataclass(frozen=True, slots=True)
class LexicalRecipe:
    """The settings that decide the model."""

    pieces: int = 8_000
    """The vocabulary of subwords, where a tokenizer is trained; 0 for words."""
    alignment: str = "diagonal"
    """A name of `ALIGNMENTS`."""
    iterations: tuple[int, int] = (5, 5)
    """Of Model 1, and then with the alignment."""
    smoothing: Smoothing = field(default_factory=Smoothing)
    weights: tuple[float, ...] = ()
    """How often a pair of each text counts; empty: learned on a dev text, or 1 without such a text."""
    phrases: int = 0
    """The longest phrase, in words or subwords; 0 for a dictionary without phrases."""

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

    @property
    def ratios(self) -> Floats:
        """(pairs,) ln((target words + 1) / (source words + 1))."""
        source, target = (np.log(side.lengths + 1.0) for side in self.sides)
        return np.asarray(target - source)


class Estimate(NamedTuple):
    """The result of EM for a text, in one direction."""

    table: LinkCounts
    alignment: Alignment
    perplexity: float


FACTORS = (4.0, 2.0)
"""Factors by which the search changes the weights of texts."""
LEAST_WEIGHT = 2.0**-10


@dataclass(frozen=True, slots=True)
class Mixture:
    """Parallel texts that were estimated apart, and become a single model by the weighted sums of their counts."""

    recipe: LexicalRecipe
    tokenizer: Tokenizer
    vocabulary: dict[str, int]
    corpora: list[ParallelCorpus]
    estimates: dict[str, list[Estimate]]
    """Of each direction, in the order of the texts."""

    def model(self, weights: Sequence[float]) -> LexicalModel:
        """The model of the texts; each pair of a text counts as often as the text's weight says."""
        ratios = np.concatenate([corpus.ratios for corpus in self.corpora])
        shares = np.repeat(weights, [corpus.pairs for corpus in self.corpora])
        mean = float(np.average(ratios, weights=shares))
        deviation = max(0.01, float(np.average((ratios - mean) ** 2, weights=shares)) ** 0.5)
        alignments = {name: self._alignment(name, weights) for name in DIRECTIONS}
        config = LexicalConfig(self.recipe.unit, mean, deviation, alignments, self.recipe.smoothing)
        tables = {
            name: added([estimate.table for estimate in estimates], weights)
            for name, estimates in self.estimates.items()
        }
        return LexicalModel(config, self.tokenizer, self.vocabulary, tables)

    def _alignment(self, direction: str, weights: Sequence[float]) -> Alignment:
        """With the mean of the texts' tensions."""
        alignments = [estimate.alignment for estimate in self.estimates[direction]]
        tensions = [alignment.tension for alignment in alignments if alignment.tension is not None]
        if not tensions:
            return alignments[0]
        pairs = [weight * corpus.pairs for weight, corpus in zip(weights, self.corpora, strict=True)]
        return replace(alignments[0], tension=float(np.average(tensions, weights=pairs)))

    def learned(self, dev: ParallelCorpus) -> tuple[float, ...]:
        """The weights, at most 1, that make a held-out text likeliest; in steps of a factor of 2."""

        def likelihood(weights: tuple[float, ...]) -> float:
            model = self.model(weights)
            forth, back = dev.sides, dev.sides[::-1]
            return sum(
                float(model.log_probs(given.with_null(), predicted, name)[0].sum())
                for name, (given, predicted) in zip(DIRECTIONS, (forth, back), strict=True)
            )

        best = (1.0,) * len(self.corpora)
        value = likelihood(best)
        for factor in FACTORS if len(best) > 1 else ():
            better = True
            while better:
                better = False
                for rank, change in product(range(len(best)), (1 / factor, factor)):
                    trial = (*best[:rank], best[rank] * change, *best[rank + 1 :])
                    if LEAST_WEIGHT <= trial[rank] <= 1 and (trial_value := likelihood(trial)) > value:
                        best, value, better = trial, trial_value, True
        return best


def train(
    texts: Sequence[tuple[Path, Path]],
    out: Path,
    recipe: LexicalRecipe,
    *,
    dev: tuple[Path, Path] | None = None,
    lists: Sequence[NbestList] = (),
    tokenizer: Path | None = None,
    normalisation: str = "folded",
    report: Callable[[str], None] = lambda line: None,
) -> None:
    """Estimate both directions and write the folder.

    Args:
        texts: source and target of each parallel text; each has tables of its own, whose weighted counts are added.
        dev: a held-out text, on which the weights of several texts are learned.
        lists: N-best lists; their sources and best first-pass texts are added to the pairs of the first text.
        tokenizer: a tokenizer.json; its normalisation is used and, for subwords, its vocabulary.

    Raises:
        UserError: files are missing or do not fit together; a list has no source; no pair has words on both sides.
    """

    def pairs(number: int) -> Iterator[list[SentencePair]]:
        yield from read_pairs(*texts[number])
        if number == 0:
            yield [(_source(nbest), best_text(nbest)) for nbest in lists]

    every = range(len(texts))
    text_tokenizer = _tokenizer(recipe, chain.from_iterable(map(pairs, every)), tokenizer, normalisation)
    cut, vocabulary = text_tokenizer.words if recipe.unit == "word" else text_tokenizer.pieces, dict[str, int]()
    corpora = [_some_pairs(read(pairs(number), cut, vocabulary), *texts[number]) for number in every]
    held_out = _some_pairs(read(read_pairs(*dev), cut, dict(vocabulary)), *dev) if dev else None
    number = sum(corpus.pairs for corpus in corpora)
    report(f"{counted(number, 'pair')}, {counted(len(vocabulary), f'different {recipe.unit}')}")
    out.mkdir(parents=True, exist_ok=True)
    mixture = Mixture(recipe, text_tokenizer, vocabulary, corpora, {name: [] for name in DIRECTIONS})
    for direction, estimates in mixture.estimates.items():
        for rank, corpus in enumerate(corpora, 1):
            text = f", text {rank}" if len(corpora) > 1 else ""
            report(("target given source" if direction == "direct" else "source given target") + text)
            estimates.append(_estimated(corpus, direction, len(vocabulary) + 1, out, recipe, report))
    weights = recipe.weights or (mixture.learned(held_out) if held_out else (1.0,) * len(texts))
    if len(texts) > 1:
        report(f"weights of the texts: {_listed(weights)}")
    model = mixture.model(weights)
    table = None
    if recipe.phrases:
        report("phrases")
        table = PhraseTable.extracted(model, (corpus.sides for corpus in corpora), recipe.phrases)
    (out / FILE).unlink(missing_ok=True)  # phrases of an earlier dictionary do not fit this one
    model.save(out, _card(mixture, model, weights, len(lists), table))
    if table is not None:
        table.save(out)
        report(f"{len(table.entries):,} pairs of phrases")


def _estimated(
    corpus: ParallelCorpus, direction: str, size: int, out: Path, recipe: LexicalRecipe, report: Callable[[str], None]
) -> Estimate:
    given, predicted = corpus.sides if direction == "direct" else corpus.sides[::-1]
    begin = Alignment(TENSION if recipe.alignment == "diagonal" else None)
    with tempfile.TemporaryDirectory(dir=out) as folder:
        return Estimate(*estimate(given.with_null(), predicted, size, Path(folder), begin, recipe.iterations, report))


def _some_pairs(corpus: ParallelCorpus, source: Path, target: Path) -> ParallelCorpus:
    if not corpus.pairs:
        raise UserError(f"{source}: no pair with words on both sides in it and {target}")
    return corpus


def read(
    chunks: Iterable[Sequence[SentencePair]],
    cut: Callable[[list[str]], list[list[str]]],
    vocabulary: dict[str, int] | None = None,
) -> ParallelCorpus:
    """Number the words of all pairs that have some on both sides; a given vocabulary grows."""
    vocabulary = {} if vocabulary is None else vocabulary
    ids, starts = (array("q"), array("q")), (array("q", [0]), array("q", [0]))
    for chunk in chunks:
        for both in zip(*(cut([pair[side] for pair in chunk]) for side in (0, 1)), strict=True):
            numbers = [list(_numbered(words, vocabulary)) for words in both]
            if all(0 < len(sentence) <= MAX_WORDS for sentence in numbers):
                for side, sentence in enumerate(numbers):
                    ids[side].extend(sentence)
                    starts[side].append(len(ids[side]))
    source, target = (Texts(np.asarray(side_ids), np.asarray(at)) for side_ids, at in zip(ids, starts, strict=True))
    return ParallelCorpus(vocabulary, (source, target))


def _numbered(words: Iterable[str], vocabulary: dict[str, int]) -> Iterator[int]:
    for word in words:
        if len(vocabulary) < WORDS or word in vocabulary:
            yield vocabulary.setdefault(word, len(vocabulary) + 1)


def _tokenizer(
    recipe: LexicalRecipe, chunks: Iterable[Sequence[SentencePair]], path: Path | None, normalisation: str
) -> Tokenizer:
    if path:
        return Tokenizer.load(path)
    if recipe.unit == "word":
        return word_tokenizer(normalisation)
    return train_wordpiece(chain.from_iterable(chain.from_iterable(chunks)), recipe.pieces, normalisation)


def _source(nbest: NbestList) -> str:
    if nbest.source is None:
        raise UserError(f"utterance {nbest.id}: no source text; --lists are further pairs, which need one")
    return nbest.source


def _card(
    mixture: Mixture, model: LexicalModel, weights: Sequence[float], lists: int, phrases: PhraseTable | None
) -> str:
    corpora, unit = mixture.corpora, mixture.recipe.unit
    source, target = (sum(len(corpus.sides[side].ids) for corpus in corpora) for side in (0, 1))
    tensions = [
        f"{alignment.tension:.2f}" for alignment in model.config.alignment.values() if alignment.tension is not None
    ]
    perplexities = {
        name: [estimate.perplexity for estimate in estimates] for name, estimates in mixture.estimates.items()
    }
    texts = ", ".join(
        f"{counted(corpus.pairs, 'pair')} at {weight:g}" for corpus, weight in zip(corpora, weights, strict=True)
    )
    return f"""{card_head("translation", {"kind": "lexical", "unit": unit, "recommended_weight": 0.1})}

# lexical

| | |
| --- | --- |
| model | IBM Model 1 of {unit}s, in both directions |
| alignment | {f"diagonal, tension {', '.join(tensions)}" if tensions else "none"} |
| training data | {counted(sum(corpus.pairs for corpus in corpora), "pair")}, {source:,} and {counted(target, unit)} |
| weights of texts | {texts} |
| pairs from N-best lists | {lists:,} |
| entries | {", ".join(f"{len(table.words):,} ({name})" for name, table in model.tables.items())} |
| phrases | {f"{len(phrases.entries):,} pairs, up to {phrases.longest} {unit}s" if phrases else "none"} |
| perplexity in training | {"; ".join(f"{_listed(values, '.1f')} ({name})" for name, values in perplexities.items())} |
| mean ratio of lengths | {math.exp(model.config.length_mean):.3f} |
| recommended weight | 0.1, for `lexical:channel` as a mean; tune it on lists of your own and write it here |
| licence | yours to choose |
"""


def _listed(numbers: Iterable[float], style: str = "g") -> str:
    return ", ".join(f"{number:{style}}" for number in numbers)
