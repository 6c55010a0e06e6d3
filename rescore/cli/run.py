"""`rescore run`: the main job."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from rescore import formats, pipeline
from rescore.cli import options
from rescore.config import RunConfig
from rescore.errors import UserError
from rescore.nbest import NbestList
from rescore.options import written_file
from rescore.pipeline import Outcome
from rescore.plan import check
from rescore.reports.page import page
from rescore.reports.summary import render
from rescore.tuning.curves import weight_curve


@dataclass(frozen=True, kw_only=True)
class RunOutputs(options.RerankedOutputs, options.DetailsOutput):
    """Files that a run writes."""

    save_weights: str | None = written_file(
        None, "Write the weights for `rescore rerank` or `analyse` of the -o lists."
    )
    html: str | None = written_file(
        None, "Write a report as one HTML page that works offline.", common=True
    )

    @property
    def any(self) -> bool:
        """Whether a file is asked for."""
        return any((self.output, self.best, self.save_weights, self.html, self.details))

    def check_all(self, lists: Sequence[NbestList], times: options.Times) -> None:
        """Refuse files that cannot be written of lists, before anything is computed.

        Args:
            lists: The lists.
            times: What the method `times` returned.

        Raises:
            UserError: There is such a file.
        """
        self.check_lists(lists, times)
        if self.html and not any(nbest.references for nbest in lists):
            raise UserError("--html needs references; give --ref FILE")

    def write(self, outcome: Outcome, times: options.Times) -> None:
        """Write the files.

        Args:
            outcome: The outcome of the run.
            times: What the method `times` returned.
        """

        if self.output:
            lists = options.RankedLists(outcome.decided.ranked())
            formats.write(lists, self.output)
            lists.report(self.output)
        if self.best:
            pairs = zip(outcome.lists, outcome.texts, strict=True)
            with formats.opened(self.best) as file:
                formats.write_best(self.best, pairs, file, times)
        self.write_details(outcome.results.details)
        if self.save_weights:
            outcome.weights.save(Path(self.save_weights))
        if self.html:  # last: it may fail, and nothing else is to be lost then
            curve = []
            if outcome.dev:
                curve = weight_curve(outcome.metric, outcome.dev, outcome.weights)
            content = page(
                outcome.results, outcome.metric, outcome.lists, outcome.texts, curve
            )
            with formats.opened(self.html) as file:
                file.write(content)


@options.command("run", config=options.config("run"), inputs=options.DECIDED)
def command(
    own: options.Lists,
    lms: options.LanguageModelOptions,
    weights: options.DevLists,
    config: RunConfig,
    outputs: RunOutputs,
    reporting: options.ReportOptions,
    inputs: options.InputOptions,
) -> None:
    """Score N-best lists with language models, tune their weights on --dev, rerank, and
    report.

    \b
    rescore test.json --lm tta --dev dev.json
    rescore exp/decode_test --ref data/test/text --lm tta --weight 0.3
    rescore test.gen.txt --lm tta --dev dev.gen.txt --report results.json
    rescore test.json --lm tta --lm ngram:lm.arpa --dev dev.json
    rescore test.json --lm tta --dev dev.json --table RESULTS.md --best out.trn

    With several --lm, all weights and a word bonus are tuned together. Without --dev
    and --weight, the model card gives the weight. Without --lm, the scores in the lists
    are used.
    """
    nbest = own.nbest
    reporting.check()
    config = check(options.configured(config, lms, dev=weights.dev))
    times = outputs.times()
    lists = inputs.read(nbest, need_references=bool(config.folds))
    dev = None
    if weights.dev:
        dev = inputs.read_dev(weights.dev, weights.dev_ref, weights.dev_src)
    outputs.check_all(lists, times)
    with options.scoring_progress(config, lists, dev) as progress:
        outcome = pipeline.run(lists, config, dev, lms.load, progress)
    reported = reporting.report or reporting.table
    if reported and outcome.results.dev and dev is not None:
        on_dev = pipeline.decide_all(outcome.plan, outcome.weights, outcome.dev or ())
        outcome.results.dev.metrics = pipeline.measure(outcome.plan, on_dev).metrics
    reporting.write(outcome.results, nbest[0])
    outputs.write(outcome, times)
    writes = outputs.any or reported
    if writes or outcome.results.metric is not None:
        options.show(render(outcome.results))
        return
    pairs = zip(outcome.lists, outcome.texts, strict=True)
    formats.write_best("-", pairs, sys.stdout)
    click.echo(render(outcome.results), err=True)
