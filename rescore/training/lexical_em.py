"""IBM Model 1 and fast_align's Model 2 by expectation maximisation on sparse arrays (Brown et al. 1993, section 4.1).

What words a predicted word is linked with does not depend on other predicted words, but for the sums over all words
that a given word is linked with. So the predicted words are taken in parts, each with its own table, and the memory is
that of the links of one part and of 24 bytes for each different pair of words; which entry of the table a link means
is kept in files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rescore.scoring.lexical_links import Alignment, Floats, Ids, Links, Texts, portions, texts_of_words
from rescore.scoring.lexical_table import LinkCounts, distinct, union

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
