"""`rescore probe`: what a linear classifier learns from the vectors of a network."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from rescore.cli import options
from rescore.cli.bundle import GroupedCommand
from rescore.cli.types import OneOf
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
@click.option("-o", "--output", metavar="FILE", help="Write the figures as JSON; - is stdout.")
def command(
    name: str,
    file: str,
    lms: options.LanguageModelOptions,
    vectors: VectorsOptions,
    gold: str | None,
    examples: int | None,
    output: str | None,
) -> None:
    """Train a linear classifier on frozen vectors, and say how often it is right. Needs scikit-learn.

    sick: entailment in SICK.txt; wic: words in context; order: which of two lines of a text was first.

    \b
    rescore probe sick SICK.txt --lm tta --lm unilm
    rescore probe wic dev.data.txt --gold dev.gold.txt --lm tta
    rescore probe order novels.txt --lm tta
    """
    from rescore import formats
    from rescore.reports import probe

    for option, value in (("gold", gold), ("examples", examples)):
        if value is not None and option not in PROBES[name].takes:
            raise click.UsageError(f"--{option} does not apply to {name}")
    read = probe.read(name, Path(file), Path(gold) if gold else None, examples or probe.EXAMPLES)
    found = [probe.probe(name, read, lm, vectors.options()) for lm in lms.load()]
    if output:
        with formats.opened(output) as lines:
            lines.write(json.dumps([asdict(one) for one in found], indent=2) + "\n")
    if output != "-":
        click.echo(probe.render(found))
