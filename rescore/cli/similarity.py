"""`rescore similarity`: how well vectors show the similarity of sentence pairs."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from rescore.cli import options
from rescore.cli.bundle import GroupedCommand
from rescore.cli.vectors import VectorsOptions, vector_options


@click.command("similarity", cls=GroupedCommand)
@click.argument("pairs", metavar="PAIRS")
@options.lm_options
@vector_options
@click.option("--centre", is_flag=True, help="Subtract the mean vector of all sentences before taking cosines.")
@click.option("--joined", is_flag=True, help="Join the vectors of all --lm instead of one row per --lm.")
@click.option("--gold", metavar="FILE", help="PAIRS is WiC's data; FILE has its answers, T or F, one per line.")
@click.option("-o", "--output", metavar="FILE", help="Write the figures as JSON; - is stdout.")
def command(
    pairs: str,
    lms: options.LanguageModelOptions,
    vectors: VectorsOptions,
    centre: bool,
    joined: bool,
    gold: str | None,
    output: str | None,
) -> None:
    """Correlate the cosines of sentence vectors with people's scores: STS-B csv, SICK.txt, or score, sentence, sentence
    with tabs between. With --gold: accuracy of words in context (WiC).

    \b
    rescore similarity sts-dev.csv --lm tta --lm unilm
    rescore similarity dev.data.txt --gold dev.gold.txt --lm tta
    """
    from rescore import formats
    from rescore.reports import similarity, words_in_context

    if joined and gold:
        raise click.UsageError("--joined does not apply to --gold: tokens of several models may differ")
    models, wanted = lms.load(), vectors.options()
    if gold:
        words = words_in_context.read_words(pairs, gold)
        accuracies = [words_in_context.measure_words(words, lm, wanted, centre) for lm in models]
        shown, figures = words_in_context.render(accuracies), [asdict(one) for one in accuracies]
    else:
        read = similarity.read_pairs(pairs)
        groups = [models] if joined else [[lm] for lm in models]
        found = [similarity.measure_pairs(read, group, wanted, centre) for group in groups]
        shown, figures = similarity.render(found), [asdict(one) for one in found]
    if output:
        with formats.opened(output) as file:
            file.write(json.dumps(figures, indent=2) + "\n")
    if output != "-":
        click.echo(shown)
