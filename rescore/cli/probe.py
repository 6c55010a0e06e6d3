"""`rescore probe`: what a linear classifier learns from the vectors of a network, frozen or fine-tuned."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from rescore.cli import options
from rescore.cli.bundle import GroupedCommand
from rescore.cli.types import Number, OneOf
from rescore.cli.vectors import VectorsOptions, vector_options
from rescore.parts import PROBES


@click.command("probe", cls=GroupedCommand)
@click.argument("name", type=OneOf(PROBES))
@click.argument("file", metavar="FILE")
@options.lm_options
@vector_options
@click.option("--gold", metavar="FILE", help="wic: the answers, T or F, one per line.")
@click.option(
    "--examples",
    type=click.IntRange(10),
    show_default="5000",
    help="order: how many are made of the text.",
)
@click.option(
    "--fine-tune", is_flag=True, help="Train the network on with a classifier, too; frozen is printed beside it."
)
@click.option("--epochs", type=click.IntRange(1), show_default="3", help="--fine-tune: passes over the training part.")
@click.option(
    "--learning-rate",
    type=Number(0, 1, open_low=True),
    show_default="0.0005",
    help="--fine-tune: the highest, of AdamW.",
)
@click.option("-o", "--output", metavar="FILE", help="Write the figures as JSON; - is stdout.")
def command(
    name: str,
    file: str,
    lms: options.LanguageModelOptions,
    vectors: VectorsOptions,
    gold: str | None,
    examples: int | None,
    fine_tune: bool,
    epochs: int | None,
    learning_rate: float | None,
    output: str | None,
) -> None:
    """Train a linear classifier on vectors, and say how often it is right. Needs scikit-learn.

    sick: entailment in SICK.txt; wic: words in context; order: which of two lines of a text was first.

    \b
    rescore probe sick SICK.txt --lm tta --lm unilm
    rescore probe wic dev.data.txt --gold dev.gold.txt --lm tta
    rescore probe order novels.txt --lm tta
    rescore probe sick SICK.txt --lm tta --fine-tune --epochs 5
    """
    from rescore import formats
    from rescore.reports import probe

    for option, value in (("gold", gold), ("examples", examples)):
        if value is not None and option not in PROBES[name].takes:
            raise click.UsageError(f"--{option} does not apply to {name}")
    if not fine_tune and (epochs or learning_rate):
        raise click.UsageError(f"--{'epochs' if epochs else 'learning-rate'} goes with --fine-tune")
    read = probe.read(name, Path(file), Path(gold) if gold else None, examples or probe.EXAMPLES)
    loaded = lms.load()
    if fine_tune:
        from rescore.training.fine_tuning import FineTuning, trainable

        usual = FineTuning()
        how = FineTuning(epochs or usual.epochs, learning_rate or usual.learning_rate)
        for lm in loaded:
            trainable(lm)  # what cannot be is refused before anything is measured
    found = [probe.probe(name, read, lm, vectors.options()) for lm in loaded]
    if fine_tune:
        with options.progress_bar(how.epochs * probe.trained_on(read) * len(loaded), "fine-tune", "pairs") as bar:
            found += [probe.fine_tuned(name, read, lm, vectors.options(), how, bar.update) for lm in loaded]
    if output:
        with formats.opened(output) as lines:
            lines.write(json.dumps([asdict(one) for one in found], indent=2) + "\n")
    if output != "-":
        click.echo(probe.render(found))
