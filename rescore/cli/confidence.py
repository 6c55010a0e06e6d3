"""`rescore confidence`: how certain each word of the decided texts is."""

from __future__ import annotations

import click

from rescore.cli import options
from rescore.cli.options.base import GroupedCommand
from rescore.cli.options.outputs import ConfidenceFile, alternatives_option, segments_option


@click.command("confidence", cls=GroupedCommand)
@options.nbest_argument
@options.tuned_weights_options
@click.option(
    "--dev",
    multiple=True,
    metavar="NBEST",
    help="Lists with references for calibration, with the same columns. May be repeated.",
)
@click.option("--dev-ref", multiple=True, metavar="FILE", help="References of the dev lists.")
@alternatives_option
@segments_option
@click.option("-o", "--output", required=True, metavar="FILE", help="Write words and confidences: .ctm or .jsonl.")
@options.decision_options
@options.metric_options
@options.input_options
def command(
    nbest: tuple[str, ...],
    weights: options.TunedWeights,
    dev: tuple[str, ...],
    dev_ref: tuple[str, ...],
    alternatives: int,
    segments: str | None,
    output: str,
    decide: options.DecisionOptions,
    measure: options.MeasureOptions,
    inputs: options.InputOptions,
) -> None:
    """Write each word of the output with the probability that it is right.

    \b
    rescore tune dev.tta.jsonl -o weights.json
    rescore confidence test.tta.jsonl --weights weights.json --dev dev.tta.jsonl \\
        --alternatives 3 -o test.words.jsonl

    The confidence of a word is the total posterior of the hypotheses that have the word in the same place. With --dev,
    the scale of the posteriors is tuned for the best normalised cross entropy; a monotonic map is added if
    cross-validation on dev gains from it. If the lists have references, the command prints the quality of the
    confidences with and without calibration.
    """
    from rescore.reports.confidences import confidences, render
    from rescore.tuning import suited
    from rescore.tuning.folds import warn_of_overlap

    words = ConfidenceFile(output, alternatives, segments)
    times = words.times()
    loaded = weights.load()
    config, scale = options.run_config(decide, measure), None
    if decide.scale is not None and not config.without_scale().decision(loaded).takes_scale:
        config, scale = config.without_scale(), decide.scale
        if dev:
            raise click.UsageError("--scale gives what --dev calibrates; leave one out")
    decision = config.decision(loaded)
    lists = inputs.read(nbest)
    dev_lists = inputs.read_dev(dev, dev_ref) if dev else None
    if dev_lists:
        warn_of_overlap(lists, dev_lists)
    for checked in (lists, dev_lists or []):
        suited(loaded, checked, weights.force_weights)
    metric = config.metric(dev_lists or lists, loaded)
    texts = decision.texts(metric, lists, loaded.of)
    confident = confidences(metric, lists, texts, loaded, decision, dev_lists, alternatives, scale)
    words.write(lists, confident, times)
    if quality := render(confident):
        click.echo(quality, err=output == "-")
