"""`rescore embed` and `similarity`: vectors of sentences and tokens, and what
they tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rescore.cli import options
from rescore.errors import UserError
from rescore.options import Declared, option, read_file, written_file
from rescore.research.vector_options import VectorOptions

if TYPE_CHECKING:
    from rescore.lms import LanguageModel


@dataclass(frozen=True, kw_only=True)
class Similarity(Declared):
    common = True

    pairs: str = option("", metavar="PAIRS", argument=True, required=True, reads=True)
    output: str | None = written_file(
        None, "Write the figures as JSON; - is stdout.", "-o", "--output"
    )
    centre: bool = option(
        False, "Subtract the mean of all vectors before taking cosines."
    )
    joined: bool = option(
        False,
        "Concatenate the vectors of all --lm instead of printing one row per --lm.",
    )
    gold: str | None = read_file(
        None,
        "Answers of words in context (WiC), T or F, one per line; PAIRS is then the"
        " data of WiC.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.joined and self.gold:
            raise UserError(
                "--joined does not apply to --gold: tokens of several models may differ"
            )


@options.command("similarity", lms=options.PLAIN)
def similarity_command(
    own: Similarity, lms: options.LanguageModelOptions, vectors: VectorOptions
) -> None:
    """Correlate the cosines of sentence vectors with human similarity scores. PAIRS is
    an STS-B csv, SICK.txt, or lines with a score and two sentences, separated by tabs.
    With --gold, print the accuracy on words in context (WiC).

    \b
    rescore similarity sts-dev.csv --lm tta --lm unilm
    rescore similarity sts-dev.csv --lm unilm --lm unilm-bw --joined
    rescore similarity dev.data.txt --gold dev.gold.txt --lm tta
    """
    from rescore.reports.markup import write_json

    if own.gold is None:
        figures, table = _of_sentences(own, lms.load(), vectors)
    else:
        figures, table = _of_words(own, own.gold, lms.load(), vectors)
    if own.output:
        write_json(figures, own.output)
    if own.output != "-":
        click.echo(table)


Figures = tuple[object, str]
"""The figures that are written as JSON, and their table."""


def _of_sentences(
    own: Similarity, models: Sequence[LanguageModel], vectors: VectorOptions
) -> Figures:
    """The correlations of cosines of sentences with people's scores."""
    from rescore.research import similarity
    from rescore.research.vectors import Embedder

    pairs = similarity.read_pairs(own.pairs)
    groups = [models] if own.joined else [[lm] for lm in models]
    embedders = [Embedder(group, vectors) for group in groups]
    results = [
        similarity.measure_pairs(pairs, embedder, own.centre) for embedder in embedders
    ]
    return results, similarity.render(results)


def _of_words(
    own: Similarity, gold: str, models: Sequence[LanguageModel], vectors: VectorOptions
) -> Figures:
    """How often the cosine of a word's vectors tells its meaning."""
    from rescore.research import words_in_context
    from rescore.research.vectors import Embedder

    pairs = words_in_context.read_word_pairs(own.pairs, gold)
    embedders = [Embedder([lm], vectors) for lm in models]
    results = [
        words_in_context.measure_words(pairs, embedder, own.centre)
        for embedder in embedders
    ]
    return results, words_in_context.render(results)
