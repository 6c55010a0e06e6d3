"""Interpolated modified Kneser-Ney n-gram models in NumPy: the estimates of KenLM's
lmplz, without a compiler.

KenLM's Python package only reads models. nltk has the unmodified form, one discount for
all counts, and keeps a Python object for each n-gram.

The formulas are those of Chen and Goodman (1999) as Heafield et al. (2013) write them.
For an n-gram `h w` with the adjusted count a, whose context is h and whose suffix
leaves out its first word:

    p(w | h) = (a(h w) - D(a)) / sum over v of a(h v)
             + b(h) p(w | h without its first word)

The adjusted count is the number of different words before the n-gram; the plain count
for the highest order and for n-grams that begin with <s>. Each order has its own
discounts D for the adjusted counts 1, 2, and 3 or more. The back-off b(h) is what the
discounts, and pruned n-grams, take from h. Below the unigrams is the uniform
distribution over the vocabulary with <unk> and without <s>.

Memory: 1.2 GB at most for a trigram model of 20 million words, about 58 bytes per word.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.lms.arpa import BEGIN, END, UNKNOWN

MAX_WORDS = 20_000_000
"""Words of the longest text that is held in memory."""
FALLBACK = (0.5, 1.0, 1.5)
"""lmplz's discounts where a text is too small to estimate them."""
LINES = 100_000
"""Lines that are written together."""
LOWEST = 1e-99
"""Written instead of a back-off of zero, whose logarithm no ARPA file can hold."""
GET_KENLM = (
    "pip download --no-deps --no-binary kenlm kenlm==0.3.0 && tar xzf"
    " kenlm-0.3.0.tar.gz && cmake -S kenlm-0.3.0 -B kenlm-build && cmake --build"
    " kenlm-build --target lmplz build_binary query && export"
    ' PATH="$PWD/kenlm-build/bin:$PATH"'
)
"""The commands that build KenLM's programs, for a message."""
TOO_SMALL = (
    "the text is too small to estimate Kneser-Ney discounts from; give"
    " --discount-fallback, or more text"
)


class TooSmallError(UserError):
    """Discounts cannot be estimated from a text."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__(TOO_SMALL)


Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass
class _Order:
    """The n-grams of one order; the id of an n-gram is its place here."""

    contexts: Ints
    """(k,): the id of the first n - 1 words among the n-grams of the order below."""
    words: Ints
    """(k,): the last word."""
    suffixes: Ints
    """(k,): the id of the last n - 1 words."""
    counts: Ints
    """(k,): occurrences."""
    begins: Flags
    """(k,): whether the first word is <s>."""
    kept: Flags = field(default_factory=lambda: np.empty(0, bool))
    """(k,): whether pruning leaves the n-gram."""

    def __len__(self) -> int:
        """Return the number of n-grams."""
        return len(self.words)


def estimate(
    sentences: Iterable[Sequence[str]],
    order: int,
    path: Path,
    thresholds: Sequence[int] = (),
    fallback: bool = False,
) -> int:
    """Write the model of a text as an ARPA file.

    Args:
        sentences: The words of each sentence.
        order: The order of the longest n-grams.
        path: The file to write.
        thresholds: N-grams of order 1, 2, ... that occur so often or less are pruned;
            the last number is for all higher orders.
        fallback: Whether fixed discounts are used where the text is too small to
            estimate them.

    Returns:
        The number of sentences.

    Raises:
        UserError: The text is too small or too large, or has a word that n-gram models
            use themselves.
    """
    tokens, vocabulary, number = _read(sentences)
    orders = list(_count(tokens, len(vocabulary), order))
    del tokens
    for n, level in enumerate(orders):
        threshold = thresholds[min(n, len(thresholds) - 1)] if thresholds else 0
        level.kept = level.counts > threshold
    orders[0].kept[:3] = True  # <unk>, <s> and </s>
    with open(path, "w", encoding="utf-8") as file:
        file.write("\\data\\\n")
        for n, level in enumerate(orders, 1):
            file.write(f"ngram {n}={np.count_nonzero(level.kept)}\n")
        _write(orders, vocabulary, fallback, file)
        file.write("\n\\end\\\n")
    return number


def _read(sentences: Iterable[Sequence[str]]) -> tuple[Ints, list[str], int]:
    """Return the text as ids of words, each sentence between <s> and </s>; the words;
    and the number of sentences.
    """
    ids: defaultdict[str, int] = defaultdict(int, {UNKNOWN: 0, BEGIN: 1, END: 2})
    ids.default_factory = ids.__len__
    tokens = array("i")
    number = 0
    for number, words in enumerate(sentences, 1):
        tokens.append(1)
        tokens.extend(map(ids.__getitem__, words))
        tokens.append(2)
        if len(tokens) - 2 * number > MAX_WORDS:
            raise UserError(
                f"the text has more than {MAX_WORDS:,} words, which takes KenLM's"
                " lmplz; it is not on PATH. With a C++ compiler, cmake and Boost this"
                f" gets it: {GET_KENLM}"
            )
    text = np.frombuffer(tokens, dtype=np.int32) if tokens else np.empty(0, np.int32)
    special = np.bincount(text, minlength=3)[:3] - (0, number, number)
    if special.any():
        word = (UNKNOWN, BEGIN, END)[int(special.argmax())]
        raise UserError(
            f"the text has the word {word}, which n-gram models use themselves; remove"
            " it from the text"
        )
    return text, [*ids], number


def _count(tokens: Ints, size: int, order: int) -> Iterator[_Order]:
    """Yield the n-grams of a text, order by order, up to `order`; the vocabulary has
    `size` words.
    """
    counts = np.bincount(tokens, minlength=size).astype(np.int32)
    counts[:2] = 0  # <unk> and <s> are predicted nowhere
    none = np.zeros(size, np.int32)
    words = np.arange(size, dtype=np.int32)
    level = _Order(none, words, none, counts, words == 1)
    yield level
    # at each place of the text: the id of the n-gram that ends there; -1 where the
    # sentence is too short
    ends = tokens
    for _ in range(order - 1):
        continues = (ends[:-1] >= 0) & (tokens[1:] != 1)
        places = np.flatnonzero(continues).astype(np.int32) + 1
        del continues  # large arrays go early: the peak of memory is in this loop
        keys = ends[places - 1].astype(np.int64) * size + tokens[places]
        by_key = np.argsort(keys)
        keys = keys[by_key]
        new = np.diff(keys, prepend=-1) > 0
        firsts = np.flatnonzero(new)
        contexts, words = np.divmod(keys[firsts], size)
        suffixes = ends[places[by_key[firsts]]]
        counts = np.diff(firsts, append=len(keys)).astype(np.int32)
        del keys, firsts
        ends = np.full(len(tokens), -1, np.int32)
        ends[places[by_key]] = np.cumsum(new, dtype=np.int32) - 1
        del by_key, new, places
        begins = level.begins[contexts]
        level = _Order(
            contexts.astype(np.int32), words.astype(np.int32), suffixes, counts, begins
        )
        yield level


def _adjusted(orders: Sequence[_Order], n: int) -> Ints:
    """Return the adjusted counts of the n-grams of an order: the number of words before
    them; occurrences in the highest order and after <s>.
    """
    level = orders[n - 1]
    if n == len(orders):
        return level.counts
    words_before = np.bincount(orders[n].suffixes, minlength=len(level))
    return np.where(level.begins, level.counts, words_before).astype(np.int32)


def _last(orders: Sequence[_Order]) -> list[int]:
    """Return the id of the last n-gram of each order. The list ends before the order
    whose last n-gram would begin with <s>.

    N-grams are compared by their last words, then by the words before; words by their
    first place in the text.
    """
    last = [len(orders[0]) - 1]
    for n in range(1, len(orders)):
        ids = np.flatnonzero(orders[n].suffixes == last[-1])
        if not len(ids):
            break
        first_words = _words(orders[: n + 1], ids)[0]
        last.append(int(ids[first_words.argmax()]))
    return last


def _discounts(
    level: _Order, adjusted: Ints, last: int | None, fallback: bool
) -> Floats:
    """Return D of adjusted counts 0, 1, 2, and 3 or more (equation 26 of Chen and
    Goodman).

    The n-gram `last` is counted by its occurrences, as lmplz does; in a small text it
    makes a difference.
    """
    n = np.bincount(adjusted[adjusted < 5], minlength=5).astype(np.float64)
    if last is not None:
        if adjusted[last] < 5:
            n[adjusted[last]] -= 1
        if level.counts[last] < 5:
            n[level.counts[last]] += 1
    if n[1:4].all():
        number = np.arange(1, 4)
        discounts = number - (number + 1) * n[1] / (n[1] + 2 * n[2]) * n[2:5] / n[1:4]
        if ((discounts >= 0) & (discounts <= number)).all():
            return np.array([0, *discounts])
    if not fallback:
        raise TooSmallError
    return np.array([0, *FALLBACK])


def _write(
    orders: Sequence[_Order], vocabulary: Sequence[str], fallback: bool, file: IO[str]
) -> None:
    """Compute the probabilities and back-offs of each order from the order below, and
    write them.
    """
    names = np.array(vocabulary, dtype=object)
    last: list[int | None] = [*_last(orders)]
    last += [None] * (len(orders) - len(last))
    # below the unigrams is the uniform distribution
    probabilities = np.array([1 / (np.count_nonzero(orders[0].kept) - 1)])
    adjusted = _adjusted(orders, 1)
    discounts = _discounts(orders[0], adjusted, last[0], fallback)
    totals, backoffs = _contexts(orders[0], adjusted, discounts, 1)
    for n, level in enumerate(orders, 1):
        share = (adjusted - discounts[adjusted.clip(max=3)]) / totals[level.contexts]
        probabilities = share + backoffs[level.contexts] * probabilities[level.suffixes]
        del share
        if n == 1:
            probabilities[1] = 1  # <s> is never predicted
        if n == len(orders):
            _write_section(file, orders, names, probabilities, None)
            return
        adjusted = _adjusted(orders, n + 1)
        discounts = _discounts(orders[n], adjusted, last[n], fallback)
        totals, backoffs = _contexts(orders[n], adjusted, discounts, len(level))
        _write_section(file, orders[:n], names, probabilities, backoffs)


def _write_section(
    file: IO[str],
    orders: Sequence[_Order],
    names: npt.NDArray[np.object_],
    probabilities: Floats,
    backoffs: Floats | None,
) -> None:
    """Write the n-grams of the last of the orders that pruning leaves."""
    n = len(orders)
    template = "%.8g\t" + " ".join(["%s"] * n)
    if backoffs is not None:
        template += "\t%.8g"
    template += "\n"
    file.write(f"\n\\{n}-grams:\n")
    kept = np.flatnonzero(orders[-1].kept)
    for ids in np.array_split(kept, max(1, -(-len(kept) // LINES))):
        columns: list[list[object]] = []
        columns.append(np.log10(probabilities[ids].clip(max=1)).tolist())
        columns += [names[words].tolist() for words in _words(orders, ids)]
        if backoffs is not None:
            columns.append(np.log10(backoffs[ids].clip(LOWEST)).tolist())
        # the fast form: no Python frame per n-gram
        file.writelines(map(template.__mod__, zip(*columns, strict=True)))


def _contexts(
    level: _Order, adjusted: Ints, discounts: Floats, size: int
) -> tuple[Floats, Floats]:
    """Return the sum of adjusted counts after each context, and the context's back-off,
    (size,) each.

    Without an n-gram after it, a context has the back-off 1.
    """
    totals = np.bincount(level.contexts, adjusted, size)
    # discounts take a part of an n-gram's count, pruning takes all of it
    losses = np.where(level.kept, discounts[adjusted.clip(max=3)], adjusted)
    taken = np.bincount(level.contexts, losses, size)
    backoffs = np.ones(size)
    np.divide(taken, totals, out=backoffs, where=totals > 0)
    return totals.astype(np.float64), backoffs


def _words(orders: Sequence[_Order], ids: npt.NDArray[np.signedinteger]) -> list[Ints]:
    """Return the words of n-grams of the last order: first words, second words, ..."""
    columns = []
    for level in reversed(orders):
        columns.append(level.words[ids])
        ids = level.contexts[ids]
    return columns[::-1]
