"""`rescore tune`: the weight, from dev lists."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from rescore.cli import options


@click.command("tune")
@options.nbest_argument
@click.option("--column", metavar="NAME", help="The LM's column.  [default: the only one beside the first pass]")
@click.option("-o", "--output", default="-", show_default=True, metavar="FILE", help="The weights, as JSON.")
@options.metric_options
@options.input_options
def command(
    nbest: tuple[str, ...],
    column: str | None,
    output: str,
    metric: str | None,
    tokenize: str | None,
    ref: str | None,
    format_name: str | None,
    s2s: str,
    lenpen: float,
) -> None:
    """Find the weight in [0, 1] that gives the best WER, CER or BLEU on lists that have LM scores and references.

    \b
    rescore score dev.json --lm tta -o dev.tta.jsonl
    rescore tune dev.tta.jsonl -o weights.json

    The search is exact: no grid. Ties go to the middle of the widest best interval.
    """
    from rescore import formats, pipeline
    from rescore.metrics import choose_metric

    lists = formats.read(nbest, references=ref, format_name=format_name, s2s=s2s, lenpen=lenpen, need_references=True)
    chosen = choose_metric(metric, tokenize, lists)
    weights, tuned = pipeline.tune(chosen, lists, column or pipeline.only_lm_column(lists), ", ".join(nbest))
    if output == "-":
        click.echo(json.dumps(asdict(weights), indent=2, ensure_ascii=False))
    else:
        weights.save(Path(output))
    if not tuned.helps:
        click.echo("the LM does not help on this set: no weight above 0 is better than the first pass", err=True)
    click.echo(
        f"{chosen.name} {tuned.first_pass:.2f} -> {tuned.value:.2f} at lambda {tuned.weight:.4g} "
        f"(the same from {tuned.low:.4g} to {tuned.high:.4g})",
        err=True,
    )
