"""`rescore train --lm lexical` as a function: from translations to dictionaries of probabilities."""

from __future__ import annotations

import math
import tempfile
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np

from rescore.errors import UserError
from rescore.nbest import NbestList
from rescore.networks.tokenizer import Tokenizer, train_wordpiece, word_tokenizer
from rescore.scoring.context import best_text
from rescore.scoring.lexical_links import Alignment, Texts
from rescore.scoring.lexical_model import LexicalConfig, LexicalModel
from rescore.scoring.lexical_table import Smoothing
from rescore.training.lexical_em import estimate
from rescore.training.pairs import SentencePair, read_pairs

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
    return f"""---
kind: lexical
unit: {recipe.unit}
recommended_weight: 0.1
---

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
