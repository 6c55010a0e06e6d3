"""`rescore tune`: the weights, from dev lists."""

from __future__ import annotations

from pathlib import Path

import click

from rescore.cli import options
from rescore.cli.bundle import GroupedCommand


@click.command("tune", cls=GroupedCommand)
@options.nbest_argument
@click.option(
    "--column",
    multiple=True,
    metavar="NAME",
    help="An LM's column; may be repeated.  [default: all but the first pass]",
)
@click.option("--nth", type=click.IntRange(min=1), metavar="N", help="The Nth of these columns alone.")
@click.option("--word-bonus/--no-word-bonus", default=None, help="Tune one, too.  [default: with several columns]")
@click.option(
    "--token-bonus/--no-token-bonus",
    default=None,
    help="Tune one, too; the lists need `score --count-tokens`.  [default: with 500 lists or more that have it, where "
    "the first column is a pseudo-log-likelihood]",
)
@options.flat_option
@options.optimum_option
@options.negative_option
@options.condition_option
@options.curve_option
@click.option("-o", "--output", default="-", show_default=True, metavar="FILE", help="The weights, as JSON.")
@options.decision_options
@options.metric_options
@options.input_options
def command(
    nbest: tuple[str, ...],
    column: tuple[str, ...],
    nth: int | None,
    word_bonus: bool | None,
    token_bonus: bool | None,
    flat: bool,
    optimum: bool,
    allow_negative: tuple[str, ...],
    condition: str | None,
    curve: str | None,
    output: str,
    decide: options.DecisionOptions,
    measure: options.MetricOptions,
    inputs: options.InputOptions,
) -> None:
    """Find the weights that give the best WER, CER or BLEU on lists that have LM scores and references.

    \b
    rescore score dev.json --lm tta -o dev.tta.jsonl
    rescore tune dev.tta.jsonl -o weights.json

    One weight is found exactly: no grid, and ties go to the middle of the widest best interval. Several columns are
    tuned together, with exact searches along lines. What is written are averages over bootstrap samples of the lists,
    or 0 where the gain is within chance; --optimum writes the best of these very lists.
    """
    from rescore import formats
    from rescore.errors import UserError
    from rescore.nbest import FIRST_PASS, LARGE_SET, TOKENS, WORDS, score_columns
    from rescore.reports.details import weight_curve, write_curve
    from rescore.reports.figures import sign
    from rescore.scoring import is_pseudo
    from rescore.tuning import TuningOptions
    from rescore.tuning import tune as tune_weights

    options.check_outputs(("--output", output), ("--curve", curve))
    lists = inputs.read(nbest, need_references=True)
    chosen = measure.choose(lists)
    columns = [name for name in dict.fromkeys(column) if name != FIRST_PASS]
    columns = columns or ([] if column else score_columns(lists[0]))
    if nth is not None:
        columns = [name for name in columns if name in lists[0].columns] or columns  # not a toolkit's own features
        if nth > len(columns):
            raise UserError(f"--nth {nth}: the lists have {len(columns)} columns of LM scores ({', '.join(columns)})")
        columns = [columns[nth - 1]]
    if not columns and decide.decide == "best":
        raise UserError(f"{', '.join(nbest)}: no column of LM scores; add one with `rescore score`")
    words = len(columns) > 1 if word_bonus is None else word_bonus
    if token_bonus is None and columns:
        about, counted = lists[0].columns.get(columns[0]), TOKENS in lists[0].hypotheses[0].scores
        token_bonus = len(lists) >= LARGE_SET and counted and about is not None and is_pseudo(about.model)
    bonuses = (*([WORDS] if words else []), *([TOKENS] if token_bonus else []))
    tuning = TuningOptions(bonuses, flat, optimum, allow_negative, condition, decide.make())
    weights, tuned = tune_weights(chosen, lists, columns, ", ".join(nbest), tuning)
    if output == "-":
        click.echo(weights.to_json())
    else:
        weights.save(Path(output))
    if curve:
        with formats.opened(curve) as file:
            write_curve(weight_curve(chosen, lists, weights), chosen.name, file)
    if not tuned.helps:
        click.echo("the LM does not help on this set: no weight above 0 is better than the first pass", err=True)
    found = ", ".join(f"{name} {weight:.4g}" for name, weight in weights.weights.items() if name != FIRST_PASS)
    same = "" if tuned.low is None else f" (the same from {tuned.low:.4g} to {tuned.high:.4g})"
    how = "" if weights.decision.name == "best" else f", {weights.decision.name}"
    how += "" if weights.decision.scale is None else f" with posteriors exp({weights.decision.scale:.4g} * score)"
    click.echo(f"{chosen.name} {tuned.first_pass:.2f} -> {tuned.value:.2f} at lambda {found}{same}{how}", err=True)
    click.echo(str(sign(chosen, lists, weights)), err=True)
