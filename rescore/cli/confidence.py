"""`rescore confidence`: how certain each word of the decided texts is."""

from __future__ import annotations

from pathlib import Path

import click

from rescore.cli import options
from rescore.cli.bundle import GroupedCommand


@click.command("confidence", cls=GroupedCommand)
@options.nbest_argument
@click.option("--weights", metavar="FILE", help="A file that `rescore tune` wrote.  [default: the first pass alone]")
@click.option(
    "--dev", multiple=True, metavar="NBEST", help="Lists to calibrate on, with the same columns. May be repeated."
)
@click.option("--dev-ref", multiple=True, metavar="FILE", help="References of the dev lists.")
@click.option(
    "--alternatives",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="JSON Lines: other words in each place, at most.",
)
@click.option("--segments", metavar="FILE", help="Kaldi's segments, with the times that a CTM needs.")
@click.option("-o", "--output", required=True, metavar="FILE", help="Where words and confidences go: .ctm or .jsonl.")
@options.decision_options
@options.metric_options
@options.input_options
def command(
    nbest: tuple[str, ...],
    weights: str | None,
    dev: tuple[str, ...],
    dev_ref: tuple[str, ...],
    alternatives: int,
    segments: str | None,
    output: str,
    decide: options.DecisionOptions,
    measure: options.MeasureOptions,
    inputs: options.InputOptions,
) -> None:
    """Write each word that is decided on, with the probability that it is right.

    \b
    rescore tune dev.tta.jsonl -o weights.json
    rescore confidence test.tta.jsonl --weights weights.json --dev dev.tta.jsonl \\
        --alternatives 3 -o test.words.jsonl

    The confidence of a word is the posterior of the hypotheses that have it in this place. --dev finds the scale of the
    posteriors with the best normalised cross entropy, and a rising map on top of it where folds of dev gain by it.
    Where there are references, the quality of the confidences is printed, with and without calibration.
    """
    from rescore import formats
    from rescore.decision.confidence import networks
    from rescore.formats import confidences
    from rescore.formats.recordings import read_segments
    from rescore.tuning import FIRST_PASS_ALONE, Weights
    from rescore.tuning.calibration import UNCALIBRATED, calibrate
    from rescore.tuning.calibration import measure as quality_of

    times = read_segments(segments) if segments else None
    confidences.check(output, times is not None)
    loaded = Weights.load(Path(weights)) if weights else FIRST_PASS_ALONE
    config = options.run_config(decide, measure)
    decision = config.decision(loaded)
    lists = inputs.read(nbest)
    dev_lists = inputs.read_dev(dev, dev_ref) if dev else None
    metric = config.metric(dev_lists or lists, loaded)
    if metric.words is None:
        raise click.UsageError(f"{metric.name} has no word errors; confidences need --metric wer")
    calibration = UNCALIBRATED
    if dev_lists:
        calibration = calibrate(dev_lists, decision.texts(metric, dev_lists, loaded.of), loaded, metric.words)
    found = networks(lists, decision.texts(metric, lists, loaded.of), loaded.of)
    with formats.opened(output) as file:
        words = (calibration.words(network, alternatives) for network in found)
        confidences.write(output, file, zip(lists, words, strict=True), times)
    if all(one.references for one in lists):
        plain = quality_of(UNCALIBRATED, lists, found, metric.words)
        click.echo(f"{plain.words:,} words, {plain.correct:.1%} right", err=output == "-")
        click.echo(f"posteriors as they are  {plain}", err=output == "-")
        if dev_lists:
            calibrated = quality_of(calibration, lists, found, metric.words)
            click.echo(f"calibrated on dev       {calibrated}  ({calibration.signature})", err=output == "-")
