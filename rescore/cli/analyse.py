"""`rescore analyse`: where reranking changed things."""

from __future__ import annotations

from pathlib import Path

import click

from rescore.cli import options
from rescore.cli.options.base import GroupedCommand


@click.command("analyse", cls=GroupedCommand)
@options.nbest_argument
@options.tuned_weights_options
@click.option("-o", "--output", metavar="FILE", help="Write all of it as JSON.")
@click.option("--plots", metavar="DIR", help="Draw plots there (PNG; needs matplotlib).")
@options.metric_options
@options.input_options
def command(
    nbest: tuple[str, ...],
    weights: options.TunedWeights,
    output: str | None,
    plots: str | None,
    measure: options.MeasureOptions,
    inputs: options.InputOptions,
) -> None:
    """Say whether rescoring is worth it, and where it differs from the first pass, on lists with references.

    \b
    rescore score test.json --lm tta -o test.tta.jsonl
    rescore analyse test.tta.jsonl --weights weights.json --plots plots

    It prints the oracle by depth of the lists, errors by place and by length, the word pairs most often corrected and
    newly broken, how often the choice moved and how often rightly, and how perplexity relates to the error rate;
    whether the gain is certain, what a perfect language model and deeper lists could gain, and what to do next.
    """
    from rescore import formats
    from rescore.reports import analysis
    from rescore.reports.results import lattice_oracle
    from rescore.tuning import suited

    lists = inputs.read(nbest, need_references=True)
    loaded = suited(weights.load(), lists, weights.force_weights)
    metric = measure.only().choose(lists, loaded)
    found = analysis.analyse(metric, lists, loaded)
    found.lattice_oracle = lattice_oracle(metric, lists, nbest, inputs.read_options)
    if output:
        with formats.opened(output) as file:
            analysis.write(found, file)
    if plots:
        from rescore.reports.plots import plot_analysis

        plot_analysis(found, Path(plots))
    click.echo(analysis.render(found), err=output == "-")
