"""`rescore eval`: figures of outputs that are there already."""

from __future__ import annotations

from dataclasses import dataclass

import click

from rescore import parts
from rescore.cli import options
from rescore.config import RunConfig
from rescore.options import Declared, option


@dataclass(frozen=True, kw_only=True)
class Evaluation(Declared):
    common = True

    outputs: tuple[str, ...] = option((), metavar="OUTPUT...", argument=True, required=True, reads=True)
    report: str | None = option(None, "Write the figures as JSON in full precision.", metavar="FILE", writes="stdout")
    whole: bool = option(
        False,
        "Measure whole recordings: OUTPUT and --ref are CTM, STM, SRT, VTT, JSON, text, or folders of these, in any "
        "segmentation. Pieces of `rescore combine` are joined.",
    )
    as_json: bool = option(False, "Print JSON instead of the table.", "--json")


@options.command("eval", config=options.config(options.MEASURES))
def command(
    own: Evaluation, config: RunConfig, significance: options.TestOptions, inputs: options.InputOptions
) -> None:
    """Measure N-best lists (first pass and oracle) or 1-best texts (Kaldi text, trn, plain lines): WER, CER or BLEU.

    \b
    rescore eval exp/decode_test/text --ref data/test/text
    rescore eval baseline.trn reranked.trn --ref ref.trn
    rescore eval combined a/ b/ --whole --ref ref/

    With --words, the table of WER is followed by those of B-WER, U-WER, and recall, precision and F1 of the terms.

    Each further output has a p-value against the first output. Confidence intervals come from the bootstrap.
    """
    from dataclasses import replace

    from rescore import formats
    from rescore.files import shown
    from rescore.plan import metrics_of
    from rescore.reports import comparison
    from rescore.reports.comparison import render_systems as render

    if own.whole:
        if len(inputs.ref) != 1:
            raise click.UsageError("--whole needs one --ref, a file or folder of whole recordings")
        measured = parts.resolve(parts.WHOLE)
        read = [(shown(name), measured(name, inputs.ref[0], inputs.strict)) for name in own.outputs]
    else:
        read = [(shown(name), inputs.read_output(name)) for name in own.outputs]
    if config.measuring.words and not config.metrics:
        config = replace(config, metrics=("wer", *options.listed_metrics()))
    every = metrics_of(options.configured(config), read[0][1])
    systems = [comparison.compare_outputs(read, metric, significance.make()) for metric in every]
    report = "-" if own.as_json else own.report
    if report:
        with formats.opened(report) as file:
            comparison.write(systems, file)
    if not own.as_json:
        click.echo("\n\n".join(map(render, systems)), err=report == "-")
