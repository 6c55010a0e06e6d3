"""`rescore tune`: the weights, from dev lists."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import click

from rescore.cli import options


@click.command("tune")
@options.nbest_argument
@click.option(
    "--column",
    multiple=True,
    metavar="NAME",
    help="An LM's column; may be repeated.  [default: all but the first pass]",
)
@click.option("--word-bonus/--no-word-bonus", default=None, help="Tune one, too.  [default: with several columns]")
@click.option("--token-bonus", is_flag=True, help="Tune one, too; the lists need `score --count-tokens`.")
@options.flat_option
@options.condition_option
@options.curve_option
@click.option("-o", "--output", default="-", show_default=True, metavar="FILE", help="The weights, as JSON.")
@options.decision_options
@options.metric_options
@options.input_options
def command(
    nbest: tuple[str, ...],
    column: tuple[str, ...],
    word_bonus: bool | None,
    token_bonus: bool,
    flat: bool,
    condition: str | None,
    curve: str | None,
    output: str,
    decide: options.Decide,
    measure: options.Measure,
    inputs: options.Inputs,
) -> None:
    """Find the weights that give the best WER, CER or BLEU on lists that have LM scores and references.

    \b
    rescore score dev.json --lm tta -o dev.tta.jsonl
    rescore tune dev.tta.jsonl -o weights.json

    One weight is found exactly: no grid, and ties go to the middle of the widest best interval. Several columns are
    tuned together, with exact searches along lines.
    """
    from rescore import formats, pipeline
    from rescore.decision.decide import text_value, tune_scale
    from rescore.nbest import FIRST_PASS, TOKENS, WORDS
    from rescore.reporting.curve import write as write_curve

    lists = inputs.read(nbest, need_references=True)
    chosen = measure.choose(lists)
    columns = [*dict.fromkeys(column)] or pipeline.lm_columns(lists)
    words = len(columns) > 1 if word_bonus is None else word_bonus
    bonuses = [*([WORDS] if words else []), *([TOKENS] if token_bonus else [])]
    weights, tuned = pipeline.tune(chosen, lists, columns, ", ".join(nbest), bonuses, flat, condition)
    decision = decide.make()
    if decision.name != "best":
        decision = tune_scale(decision.name, chosen, lists, weights.of) if decision.scale is None else decision
        weights = replace(weights, decision=decision)
    if output == "-":
        click.echo(json.dumps(asdict(weights), indent=2, ensure_ascii=False))
    else:
        weights.save(Path(output))
    if curve:
        with formats.opened(curve) as file:
            write_curve(pipeline.curve(chosen, lists, weights), chosen.name, file)
    if not tuned.helps:
        click.echo("the LM does not help on this set: no weight above 0 is better than the first pass", err=True)
    found = ", ".join(f"{name} {weight:.4g}" for name, weight in weights.columns.items() if name != FIRST_PASS)
    same = "" if tuned.low is None else f" (the same from {tuned.low:.4g} to {tuned.high:.4g})"
    click.echo(f"{chosen.name} {tuned.first_pass:.2f} -> {tuned.value:.2f} at lambda {found}{same}", err=True)
    if decision.name != "best":
        found_value = text_value(chosen, lists, decision.texts(chosen, lists, weights.of))
        click.echo(f"{decision.name}: {found_value:.2f} with posteriors exp({decision.scale:.4g} * score)", err=True)
