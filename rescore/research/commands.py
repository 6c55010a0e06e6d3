"""`rescore similarity`: sentence vectors beside human scores of similarity."""

from __future__ import annotations

from dataclasses import dataclass

import click

from rescore.cli import options
from rescore.options import Declared, option, written_file
from rescore.research.kinds import VectorOptions


@dataclass(frozen=True, kw_only=True)
class Similarity(Declared):
    common = True

    pairs: str = option("", metavar="PAIRS", argument=True, required=True, reads=True)
    output: str | None = written_file(
        None, "Write the figures as JSON; - is stdout.", "-o", "--output"
    )
    centre: bool = option(
        False, "Subtract the mean vector of all sentences before taking cosines."
    )
    joined: bool = option(
        False,
        "Concatenate the vectors of all --lm instead of printing one row per --lm.",
    )


@options.command("similarity", lms=options.PLAIN)
def similarity_command(
    own: Similarity, lms: options.LanguageModelOptions, vectors: VectorOptions
) -> None:
    """Correlate the cosines of sentence vectors with human similarity scores. PAIRS is
    an STS-B csv, SICK.txt, or lines with a score and two sentences, separated by tabs.

    \b
    rescore similarity sts-dev.csv --lm tta --lm unilm
    rescore similarity sts-dev.csv --lm unilm --lm unilm-bw --joined
    """
    from rescore.reports.markup import write_json
    from rescore.research import similarity

    models = lms.load()
    pairs = similarity.read_pairs(own.pairs)
    groups = [models] if own.joined else [[lm] for lm in models]
    results = [
        similarity.measure_pairs(pairs, group, vectors, own.centre) for group in groups
    ]
    if own.output:
        write_json(results, own.output)
    if own.output != "-":
        click.echo(similarity.render(results))
