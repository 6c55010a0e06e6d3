"""`rescore run`: the main job."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rescore.cli import options
from rescore.cli.bundle import GroupedCommand
from rescore.cli.types import Number

if TYPE_CHECKING:
    from rescore.tuning.weights import Weights

log = logging.getLogger(__name__)


@click.command("run", cls=GroupedCommand)
@options.nbest_argument
@options.optional_lm_options
@click.option("--dev", multiple=True, metavar="NBEST", help="Lists to tune the weight on. May be repeated.")
@click.option("--dev-ref", multiple=True, metavar="FILE", help="References of the dev lists.")
@click.option(
    "--weight",
    type=Number(-1e9, 1e9),
    multiple=True,
    metavar="NUMBER",
    help="The LM's weight in [0, 1], instead of tuning; one a --lm.",
)
@click.option(
    "--word-bonus",
    metavar="tune|off|NUMBER",
    help="Added for each word of a hypothesis.  [default: tune with --dev and several --lm, else off]",
)
@click.option(
    "--token-bonus",
    metavar="tune|off|NUMBER",
    help="Added for each token of the first --lm.  [default: tune with 500 dev lists or more, where that LM gives "
    "pseudo-log-likelihoods; else off]",
)
@click.option("--folds", type=int, metavar="K", help="Without --dev: tune on the other parts for each of K.")
@click.option("--speaker", metavar="REGEX", help="Where an id has its speaker, which a fold keeps whole.")
@options.flat_option
@options.optimum_option
@options.negative_option
@options.condition_option
@options.curve_option
@click.option("-o", "--output", metavar="FILE", help="Write the reranked lists (.json, .jsonl, also .gz; - is stdout).")
@click.option("--best", metavar="FILE", help="Write the 1-best: .trn, .txt (plain), else Kaldi text.")
@click.option("--save-weights", metavar="FILE", help="Write the weights, for `rescore rerank` and `analyse`.")
@click.option("--html", metavar="FILE", help="Write a report to look at: one page, no network needed.")
@options.report_options
@options.norm_option
@options.decision_options
@options.metric_options
@options.input_options
def command(
    nbest: tuple[str, ...],
    lms: options.LanguageModelOptions,
    dev: tuple[str, ...],
    dev_ref: tuple[str, ...],
    weight: tuple[float, ...],
    word_bonus: str | None,
    token_bonus: str | None,
    folds: int | None,
    speaker: str | None,
    flat: bool,
    optimum: bool,
    allow_negative: tuple[str, ...],
    condition: str | None,
    curve: str | None,
    output: str | None,
    best: str | None,
    save_weights: str | None,
    html: str | None,
    reporting: options.ReportOptions,
    lm_norm: str | None,
    decide: options.DecisionOptions,
    measure: options.MetricOptions,
    inputs: options.InputOptions,
) -> None:
    """Score N-best lists with a language model, tune its weight on --dev, rerank, and report.

    \b
    rescore test.json --lm tta --dev dev.json
    rescore exp/decode_test --ref data/test/text --lm tta --weight 0.3 --best out.trn
    rescore test.generate.txt --lm tta --dev dev.generate.txt --report results.json
    rescore test.json --lm tta --lm ngram:lm.arpa --dev dev.json
    rescore test.json --lm tta --dev dev.json --table RESULTS.md --table results.tex --best text

    With several --lm all weights and a word bonus are tuned together. Without --dev and --weight the weight is the one
    that the model's card recommends. Without --lm lists are decided (--decide mbr, rover) and measured as they are.
    """
    from rescore import formats, scoring
    from rescore.decision import rerank
    from rescore.experiment import run
    from rescore.nbest import LARGE_SET, TOKENS, WORDS
    from rescore.reports.details import details, weight_curve, write_curve
    from rescore.reports.page import page
    from rescore.reports.results import render
    from rescore.tuning import TuningOptions

    if dev and weight:
        raise click.UsageError("--dev and --weight exclude each other: the one tunes what the other gives")
    if folds and (dev or weight):
        raise click.UsageError("--folds tunes on the test lists themselves; leave out --dev and --weight")
    if dev_ref and not dev:
        raise click.UsageError("--dev-ref is of no use without --dev")
    reporting.check()
    options.check_outputs(
        ("--output", output),
        ("--best", best),
        ("--report", reporting.report),
        *(("--table", path) for path in reporting.table),
        ("--html", html),
        ("--curve", curve),
        ("--save-weights", save_weights),
    )
    if html and not lms.lm:
        raise click.UsageError("--html shows the model's log-probabilities; give an --lm")
    decision = decide.make()
    if decision.needs_scale and not (dev or folds):
        raise click.UsageError(
            f"--decide {decision.name} needs --dev lists to tune the scale of posteriors on, or --scale"
        )
    tuned = bool(dev or folds)
    if (flat or optimum or curve or condition or allow_negative) and not tuned:
        raise click.UsageError(
            "--flat, --optimum, --allow-negative, --condition and --curve are about tuning; give --dev or --folds"
        )
    bonuses = {
        WORDS: _bonus("--word-bonus", word_bonus or ("tune" if tuned and len(lms.specs) > 1 else "off"), tuned),
        TOKENS: _bonus("--token-bonus", token_bonus or "off", tuned),
    }
    lists = inputs.read(nbest, need_references=bool(folds))
    dev_lists = inputs.read_dev(dev, dev_ref) if dev else None
    if token_bonus is None and tuned and lms.specs and len(dev_lists or lists) >= LARGE_SET:
        bonuses[TOKENS] = scoring.is_pseudo(lms.specs[0])
    weights = None if tuned else _weights(lms.specs, weight, {name: float(bonus) for name, bonus in bonuses.items()})
    chosen_metric = measure.choose(dev_lists or lists)
    models = lms.load()
    total = len(models) * sum(len(one.hypotheses) for one in [*lists, *(dev_lists or [])])
    with options.progress_bar(total or None, f"score {', '.join(model.name for model in models)}") as bar:
        counted = tuple(name for name in bonuses if bonuses[name])
        tuning = TuningOptions(counted, flat, optimum, allow_negative, condition, decision)
        outcome = run.run(
            lists,
            models,
            chosen_metric,
            dev=dev_lists,
            dev_source=", ".join(dev) or "dev",
            weights=weights,
            folds=run.FoldOptions(folds, speaker) if folds else None,
            norm=lm_norm,
            tuning=tuning if tuned else None,
            decide=None if tuned else decision,
            count_tokens=bool(bonuses[TOKENS]),
            also=measure.others(dev_lists or lists),
            progress=bar.update,
        )
    reporting.write(outcome.results, nbest[0])
    if output:
        formats.write((rerank(one, outcome.weights.of) for one in outcome.lists), output)
    if best:
        with formats.opened(best) as file:
            formats.write_best(best, zip(outcome.lists, outcome.texts, strict=True), file)
    if curve and outcome.dev:
        with formats.opened(curve) as file:
            steps = weight_curve(chosen_metric, outcome.dev, outcome.weights)
            write_curve(steps, chosen_metric.name, file)
    if html:
        shown = details(chosen_metric, outcome.lists, outcome.texts, outcome.weights, models[0], outcome.dev)
        content = page(outcome.results, shown)
        with formats.opened(html) as file:
            file.write(content)
    if save_weights:
        outcome.weights.save(Path(save_weights))
    if not (output or best or reporting.report or reporting.table or save_weights) and outcome.results.metric is None:
        formats.write_best("-", zip(outcome.lists, outcome.texts, strict=True), sys.stdout)
        best = "-"
    click.echo(render(outcome.results), err="-" in (output, best, reporting.report))


def _bonus(option: str, value: str, tuning: bool) -> bool | float:
    """True to tune one, False for none, or a number to use."""
    if value in ("off", "tune"):
        if value == "tune" and not tuning:
            raise click.UsageError(f"{option} tune needs --dev lists to tune on")
        return value == "tune"
    try:
        number = float(value)
    except ValueError:
        raise click.UsageError(f"{option} {value}: neither tune nor off nor a number") from None
    if tuning:
        raise click.UsageError(f"{option} NUMBER goes with --weight; with --dev it is tuned")
    return number


def _weights(
    specs: list[str], given: tuple[float, ...], bonuses: dict[str, float]
) -> Callable[[Sequence[str]], Weights]:
    """Weights from the command line, or the one that the model's card recommends; made once the columns are known."""
    from rescore import scoring
    from rescore.tuning.weights import Weights

    numbers, origin, tuned = list(given), "given", "given"
    if not specs and not given:
        return lambda columns: Weights.interpolation({}, "first pass", "given", bonuses)
    if not given:
        if len(specs) > 1:
            raise click.UsageError("several --lm need --dev lists to tune on, or a --weight each")
        numbers, origin = [scoring.recommended_weight(specs[0])], "recommended by the model card"
        tuned = "card"
        log.info("no --dev and no --weight: lambda %g, as the model card of %s recommends", numbers[0], specs[0])
    if len(numbers) != len(specs):
        raise click.UsageError(f"{len(specs)} --lm, but {len(numbers)} --weight; give one each")
    # A weight out of range is told before anything is scored.
    Weights.interpolation(dict(zip(specs, numbers, strict=True)), origin, tuned, bonuses)
    return lambda columns: Weights.interpolation(dict(zip(columns, numbers, strict=True)), origin, tuned, bonuses)
