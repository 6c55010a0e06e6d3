"""`rescore eval`: figures of outputs that are there already."""

from __future__ import annotations

import click

from rescore.cli import options
from rescore.cli.options.base import GroupedCommand


@click.command("eval", cls=GroupedCommand)
@click.argument("outputs", nargs=-1, required=True, metavar="OUTPUT...")
@click.option("--report", metavar="FILE", help="Write the figures as JSON in full precision.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
@options.metric_options
@options.test_options
@options.input_options
def command(
    outputs: tuple[str, ...],
    report: str | None,
    as_json: bool,
    measure: options.MeasureOptions,
    significance: options.TestOptions,
    inputs: options.InputOptions,
) -> None:
    """Measure N-best lists (first pass and oracle) or 1-best texts (Kaldi text, trn, plain lines): WER, CER or BLEU.

    \b
    rescore eval exp/decode_test/text --ref data/test/text
    rescore eval baseline.trn reranked.trn --ref ref.trn

    Each further output has a p-value against the first output. Confidence intervals come from the bootstrap.
    """
    from rescore import formats
    from rescore.files import shown
    from rescore.reports import comparison
    from rescore.reports.comparison import render_systems as render

    read = [(shown(name), inputs.read_output(name)) for name in outputs]
    config = options.run_config(measure)
    every = [config.metric(read[0][1]), *config.others(read[0][1])]
    systems = [comparison.compare_outputs(read, metric, significance.make()) for metric in every]
    report = "-" if as_json else report
    if report:
        with formats.opened(report) as file:
            comparison.write(systems, file)
    if not as_json:
        click.echo("\n\n".join(map(render, systems)), err=report == "-")
