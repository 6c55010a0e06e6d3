"""`rescore confidence`: how certain each word of the decided texts is."""

from __future__ import annotations

from dataclasses import replace

import click

from rescore.cli import options
from rescore.cli.options.base import GroupedCommand
from rescore.cli.options.outputs import ConfidenceFile, WordOutputs
from rescore.config import RunConfig
from rescore.errors import UserError


@click.command("confidence", cls=GroupedCommand)
@options.nbest_argument
@click.option("-o", "--output", required=True, metavar="FILE", help="Write words and confidences: .ctm or .jsonl.")
@options.takes(
    weights=options.TunedWeights,
    dev=options.Offer(
        options.DevLists,
        helps=(("dev", "Lists with references for calibration, with the same columns. May be repeated."),),
    ),
    outputs=WordOutputs,
    config=options.config(options.DECISION, options.MEASURES),
    inputs=options.InputOptions,
)
def command(
    nbest: tuple[str, ...],
    weights: options.TunedWeights,
    dev: options.DevLists,
    outputs: WordOutputs,
    output: str,
    config: RunConfig,
    inputs: options.InputOptions,
) -> None:
    """Write each word of the output with the probability that it is right.

    \b
    rescore tune dev.tta.jsonl -o weights.json
    rescore confidence test.tta.jsonl --weights weights.json --dev dev.tta.jsonl \\
        --alternatives 3 -o test.words.jsonl

    The confidence of a word is the total posterior of the hypotheses that have the word in the same place. With --dev,
    the scale of the posteriors is tuned for the best normalised cross entropy. If cross-validation on dev gains from
    it, the confidences are also corrected by isotonic regression. If the lists have references, the command prints the
    quality of the confidences with and without calibration.
    """
    from rescore.asr.confidences import confidences, render
    from rescore.plan import decision_of, resolve
    from rescore.tuning import suited

    words = ConfidenceFile(output, outputs.alternatives, outputs.segments)
    times = words.times()
    loaded = weights.load()
    config, scale = options.configured(config), None
    unscaled = replace(config, scale=None)
    if config.scale is not None and not decision_of(unscaled, loaded).takes_scale:
        config, scale = unscaled, config.scale
        if dev.dev:
            raise click.UsageError("--scale gives what --dev calibrates; leave one out")
    lists = inputs.read(nbest)
    dev_lists = inputs.read_dev(dev.dev, dev.dev_ref) if dev.dev else None
    for checked in (lists, dev_lists or []):
        for name in loaded.columns:
            if checked and loaded.weighs(name) and name not in checked[0].hypotheses[0].scores:
                raise UserError(
                    f"utterance {checked[0].id}: no score {name!r}; add it with `rescore score`, or score in the same "
                    "command: rescore run NBEST --lm MODEL --dev LISTS --confidence FILE"
                )
        suited(loaded, checked, weights.force_weights)
    plan = resolve(config, dev_lists or lists, weights=loaded)
    decision = plan.decision_with(loaded)
    texts = decision.texts(plan.metric, lists, loaded.of)
    confident = confidences(plan.metric, lists, texts, loaded, decision, dev_lists, outputs.alternatives, scale)
    words.write(lists, confident, times)
    if quality := render(confident):
        click.echo(quality, err=output == "-")
