"""`rescore run`: it reads lists, calls `rescore.pipeline.run`, and writes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import click

from rescore import formats, pipeline
from rescore.cli import options
from rescore.config import RunConfig
from rescore.dataset import NO_LISTS, Dataset
from rescore.errors import UserError
from rescore.lms.cards import ADVICE, FASTER
from rescore.nbest import NbestList
from rescore.options import written_file
from rescore.pipeline import Outcome
from rescore.reports.page import page
from rescore.reports.records import MetricResult, Record
from rescore.reports.summary import render
from rescore.tuning.curves import weight_curve

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class RunOutputs(options.RerankedOutputs, options.DetailsOutput):
    """Files that a run writes."""

    save_weights: str | None = written_file(
        None,
        "Write the weights, for `rescore rerank` and `analyse` on the lists of -o.",
    )
    html: str | None = written_file(
        None, "Write a report as one HTML page that works offline.", common=True
    )

    @property
    def any(self) -> bool:
        """Whether a file is asked for."""
        return any((self.output, self.best, self.save_weights, self.html, self.details))

    def check_all(self, lists: Dataset, times: options.Times) -> None:
        """Refuse files that cannot be written for these lists, before anything is
        computed.

        Args:
            lists: The lists.
            times: The times of utterances in --segments; None without --segments.

        Raises:
            UserError: There is such a file.
        """
        self.check_lists(lists, times)
        if self.html and not lists.has_references:
            raise UserError("--html needs references; give --ref FILE")

    def pairs(self, outcome: Outcome) -> Iterator[tuple[NbestList, str]]:
        """Return each list with its chosen text, as it is written.

        Args:
            outcome: The outcome of the run.
        """
        texts = map(self.plain, outcome.texts)
        return zip(outcome.lists, texts, strict=True)

    def write(self, outcome: Outcome, times: options.Times) -> None:
        """Write the files.

        Args:
            outcome: The outcome of the run.
            times: The times of utterances in --segments; None without --segments.
        """

        for path in self.output:
            lists = options.RankedLists(outcome.decided.sorted_lists())
            formats.write(lists, path)
            lists.report(path)
        for path in self.best:
            with formats.opened(path) as file:
                formats.write_best(path, self.pairs(outcome), file, times)
        self.write_details(outcome.results.details)
        if self.save_weights:
            outcome.weights.save(Path(self.save_weights))
        if self.html:  # last: it may fail, and nothing else is to be lost then
            curve = []
            if outcome.tuning_lists:
                curve = weight_curve(
                    outcome.metric, outcome.tuning_lists, outcome.weights
                )
            content = page(
                outcome.results, outcome.metric, outcome.lists, outcome.texts, curve
            )
            with formats.opened(self.html) as file:
                file.write(content)


@options.command("run", config=options.config("run"), inputs=options.DECIDED)
def command(
    test: options.Lists,
    lms: options.LanguageModelOptions,
    dev_lists: options.DevLists,
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
    paths = test.nbest
    reporting.check()
    times = outputs.times()
    inputs.read_options.segment_times = outputs.needs_word_times
    lists = inputs.read(paths, need_references=bool(config.folds))
    dev = None
    if dev_lists.dev:
        dev = inputs.read_dev(dev_lists)
    outputs.check_all(lists, times)
    reported = bool(reporting.report or reporting.table)
    writes = outputs.any or reported
    outputs.check_plain(prints_texts=not (writes or lists.has_references))
    with options.scoring_progress(config, lists, dev) as progress:
        outcome = pipeline.run(lists, config, dev, lms.load, progress)
    if reported and outcome.results.tuning.has_figures and dev is not None:
        outcome.results.dev = _figures_on_dev(outcome)
    reporting.write(outcome.results, paths[0])
    if lms.lm == (FASTER,) and _gained(outcome.results):
        log.info("%s", ADVICE)
    outputs.write(outcome, times)
    if writes or outcome.results.metric is not None:
        options.show(render(outcome.results))
        return
    # Without a file and figures the texts are the output: the table goes to stderr.
    formats.write_best("-", outputs.pairs(outcome), sys.stdout)
    click.echo(render(outcome.results), err=True)


def _gained(results: Record) -> bool:
    """Return whether reranking is significantly better under the first metric."""
    return any(one.certain and not one.is_worse for one in results.metrics[:1])


def _figures_on_dev(outcome: Outcome) -> list[MetricResult]:
    """Return the figures of the dev lists, for tables with both sets. Groups of --by
    are measured on the test lists only.

    Args:
        outcome: The outcome of a run with dev lists.
    """
    decided = pipeline.decide_all(
        outcome.plan, outcome.weights, outcome.tuning_lists or NO_LISTS
    )
    without_groups = replace(outcome.plan, by=None)
    return pipeline.measure(without_groups, decided).metrics
