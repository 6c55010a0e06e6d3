"""`rescore eval`: figures of outputs that are there already."""

from __future__ import annotations

import click

from rescore.cli import options


@click.command("eval")
@click.argument("outputs", nargs=-1, required=True, metavar="OUTPUT...")
@click.option("--report", metavar="FILE", help="Write the figures as JSON, in full precision.")
@options.metric_options
@options.input_options
def command(
    outputs: tuple[str, ...],
    report: str | None,
    metric: str | None,
    tokenize: str | None,
    ref: str | None,
    format_name: str | None,
    s2s: str,
    lenpen: float,
) -> None:
    """WER, CER or BLEU of N-best lists (first pass and oracle) or of 1-best texts (Kaldi text, trn, plain lines).

    \b
    rescore eval exp/decode_test/text --ref data/test/text
    rescore eval baseline.trn reranked.trn --ref ref.trn

    With several outputs, each has a p-value against the first (paired approximate randomisation).
    """
    from rescore import formats, pipeline
    from rescore.reporting import systems

    read = [(name, formats.read_output(name, ref, format_name=format_name, s2s=s2s, lenpen=lenpen)) for name in outputs]
    found = pipeline.compare_outputs(read, metric, tokenize)
    if report:
        with formats.opened(report) as file:
            systems.write(found, file)
    click.echo(systems.render(found), err=report == "-")
