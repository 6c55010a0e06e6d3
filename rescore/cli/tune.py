"""`rescore tune`: the weights, from dev lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from rescore import formats, pipeline
from rescore.cli import options
from rescore.columns import FIRST_PASS
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.deciding import first_pass
from rescore.decision import Decision
from rescore.errors import OptionError
from rescore.metrics.base import text_statistics
from rescore.metrics.texts import warn_of_texts
from rescore.options import option, written_file
from rescore.reports.figures import sign
from rescore.reports.summary import why_all_zero
from rescore.tuning import Weights
from rescore.tuning.curves import weight_curve, write_curve
from rescore.tuning.phrases import effective_weights, notes


@dataclass(frozen=True, kw_only=True)
class TunedColumns(options.Lists):
    column: tuple[str, ...] = option(
        (),
        "Column with LM scores, or a part of the toolkit's score, whose weight may be"
        " negative. May be repeated.  [default: the columns that `rescore score` added;"
        " if it added none, all but the first pass]",
        metavar="NAME",
    )
    word_bonus: bool | None = option(
        None,
        "Also tune a word bonus.  [default: with several columns, not for BLEU]",
        "--word-bonus/--no-word-bonus",
    )
    token_bonus: bool | None = option(
        None,
        "Also tune a token bonus; the lists need `score --count-tokens`.  [default: if"
        " a column has pseudo-log-likelihoods and 500 lists or more have token counts,"
        " not for BLEU]",
        "--token-bonus/--no-token-bonus",
    )
    output: str = written_file(
        "-", "Write the weights as JSON; - is stdout.", "-o", "--output"
    )
    curve: str | None = written_file(None, "Write the metric at each weight as CSV.")


@options.command("tune", config=options.config("tune"), inputs=options.NOT_HEARD)
def command(own: TunedColumns, config: RunConfig, inputs: options.InputOptions) -> None:
    """Tune the weights for the best WER, CER or BLEU on lists with LM scores and
    references.

    \b
    rescore score dev.json --lm tta -o dev.tta.jsonl
    rescore tune dev.tta.jsonl -o weights.json

    A single weight is tuned exactly, without a grid; several weights are tuned together
    by exact line searches. The weights are the mean of the best weights of bootstrap
    samples of the lists, and 0 if the gain is not significant.
    --no-bagging takes the weights with the lowest error on the lists.
    """
    dev = inputs.read(own.nbest, need_references=True)
    plan = pipeline.resolve(config, dev=dev)
    if own.curve and not plan.decision.is_best:
        raise OptionError(
            "--curve is the curve of --decide best; leave out --curve or --decide"
            f" {config.decide}"
        )
    metric = plan.metric
    warn_of_texts(metric, dev)
    lists = Dataset(pipeline.expand(plan, dev, dev=True))
    weights = pipeline.tune(plan, lists)
    weights.save(Path(own.output))
    if own.curve:
        with formats.opened(own.curve) as file:
            write_curve(weight_curve(metric, lists, weights), metric.name, file)
    statistics = text_statistics(metric, lists, first_pass(lists).texts)
    counts = metric.details(statistics.sum(axis=0))
    found = _found(metric.name, weights, counts)
    for line in (*found, sign(metric, lists, weights)):
        click.echo(str(line), err=True)


def _found(metric: str, weights: Weights, counts: Mapping[str, float]) -> Iterator[str]:
    """Yield what tuning found, in lines for a person.

    Args:
        metric: The name of the metric.
        weights: The weights.
        counts: The counts of errors of the first pass.
    """
    about = weights.tuning
    assert about.value is not None
    assert about.first_pass is not None
    tuned = dict(weights.weights)
    tuned.pop(FIRST_PASS, None)
    if weights.mixture:
        yield str(weights.mixture)
    elif not tuned and not (about.options and about.options.bonuses):
        yield (
            "no column is tuned; --components or --column NAME also tunes scores in the"
            " lists"
        )
    yield from why_all_zero(weights, metric, counts)
    yield from notes([weights.weights], about.columns, about.with_all, about.value)
    line = f"{metric} {about.first_pass:.2f} -> {about.value:.2f}"
    if tuned:
        named = ", ".join(f"{name} {weight:.4g}" for name, weight in tuned.items())
        line += f" at lambda {named}"
        if about.low is not None:
            line += f" (the same from {about.low:.4g} to {about.high:.4g})"
    yield line + _decided_by(weights.decision)
    yield from effective_weights(about.toolkit, weights.weights)


def _decided_by(decision: Decision) -> str:
    """Return the decision with its options and its scale; empty for the best score."""
    how = ""
    if not decision.is_best:
        how = f", {decision.name}"
    for name, value in decision.for_signature.items():
        how += f", {name.replace('-', ' ')} {value}"
    if decision.scale is not None:
        how += f" with posteriors exp({decision.scale:.4g} * score)"
    return how
