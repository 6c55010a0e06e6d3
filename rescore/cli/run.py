"""`rescore run`: the main job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from rescore.cli import options
from rescore.cli.options.outputs import RunOutputs
from rescore.config import RunConfig

if TYPE_CHECKING:
    from rescore.plan import Plan


@options.command(
    "run",
    config=options.config(
        options.MODELS,
        options.WEIGHTS,
        options.TUNING,
        options.EXPANSION,
        options.SYSTEMS,
        options.DECISION,
        options.MEASURES,
    ),
)
def command(
    own: options.Lists,
    lms: options.LanguageModelOptions,
    weights: options.DevLists,
    config: RunConfig,
    outputs: RunOutputs,
    reporting: options.ReportOptions,
    inputs: options.InputOptions,
) -> None:
    """Score N-best lists with language models, tune their weights on --dev, rerank, and report.

    \b
    rescore test.json --lm tta --dev dev.json
    rescore exp/decode_test --ref data/test/text --lm tta --weight 0.3
    rescore test.gen.txt --lm tta --dev dev.gen.txt --report results.json
    rescore test.json --lm tta --lm ngram:lm.arpa --dev dev.json
    rescore test.json --lm tta --dev dev.json --table RESULTS.md --best out.trn
    rescore a/test --with b/test --dev a/dev --dev-with b/dev --decide rover

    With several --lm, all weights and a word bonus are tuned together. Without --dev and --weight, the model card gives
    the weight. Without --lm, the scores in the lists are used.
    """
    from rescore import expansion, formats, pipeline
    from rescore.plan import check
    from rescore.reports.results import render

    nbest = own.nbest
    reporting.check()
    config = check(options.configured(config, lms, dev=weights.dev))
    times = outputs.check()
    if outputs.curve and not config.tunes:
        raise click.UsageError("--curve is about tuning; give --dev or --folds")
    lists = inputs.read(nbest, need_references=bool(config.folds))
    dev = inputs.read_dev(weights.dev, weights.dev_ref) if weights.dev else None
    lists, dev = expansion.joined(config, lists, dev, nbest[0], inputs.read_alone)
    outputs.check_lists(lists, times)
    with options.scoring_bar(config, lists, dev) as bar:
        outcome = pipeline.run(
            lists, config, dev, lms.load, bar.update, _explain if outputs.explain else lambda plan: None
        )
    reporting.write(outcome.results, nbest[0])
    outputs.write(outcome, times)
    to_stdout = "-" in (outputs.output, outputs.best, reporting.report)
    if not (outputs.any or reporting.report or reporting.table) and outcome.results.metric is None:
        formats.write_best("-", zip(outcome.lists, outcome.texts, strict=True), sys.stdout)
        to_stdout = True
    click.echo(render(outcome.results), err=to_stdout)


def _explain(plan: Plan) -> None:
    """The lines that --verbose logs in all commands."""
    for reason in plan.reasons:
        click.echo(str(reason), err=True)
