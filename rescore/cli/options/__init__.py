"""Options that several commands share."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tqdm import tqdm

from rescore import parts
from rescore.cli.options.base import OneOf, option_group
from rescore.cli.options.deciding import DecisionOptions as DecisionOptions
from rescore.cli.options.deciding import ExpansionOptions as ExpansionOptions
from rescore.cli.options.deciding import MeasureOptions as MeasureOptions
from rescore.cli.options.deciding import SearchOptions as SearchOptions
from rescore.cli.options.deciding import TunedWeights as TunedWeights
from rescore.cli.options.deciding import WeightOptions as WeightOptions
from rescore.cli.options.deciding import components_option as components_option
from rescore.cli.options.deciding import decision_options as decision_options
from rescore.cli.options.deciding import expansion_options as expansion_options
from rescore.cli.options.deciding import metric_options as metric_options
from rescore.cli.options.deciding import norm_option as norm_option
from rescore.cli.options.deciding import run_config as run_config
from rescore.cli.options.deciding import search_options as search_options
from rescore.cli.options.deciding import tuned_weights_options as tuned_weights_options
from rescore.cli.options.deciding import weight_options as weight_options
from rescore.cli.options.inputs import InputOptions as InputOptions
from rescore.cli.options.inputs import input_options as input_options
from rescore.cli.options.lms import LanguageModelOptions as LanguageModelOptions
from rescore.cli.options.lms import device_option as device_option
from rescore.cli.options.lms import lm_options as lm_options
from rescore.cli.options.lms import optional_lm_options as optional_lm_options
from rescore.cli.options.lms import scoring_lm_options as scoring_lm_options
from rescore.cli.options.outputs import curve_option as curve_option
from rescore.errors import counted
from rescore.files import shown

if TYPE_CHECKING:
    from rescore.config import RunConfig
    from rescore.engines import OnProgress
    from rescore.metrics.significance import PairedTest
    from rescore.nbest import NbestList
    from rescore.reports.results import Results

log = logging.getLogger(__name__)

nbest_argument = click.argument("nbest", nargs=-1, required=True, metavar="NBEST...")


detokenize_option = click.option(
    "--detokenize", metavar="LANGUAGE", help="Undo Moses tokenisation in the output, for a language such as en or de."
)


def _names(ctx: click.Context, param: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str]:
    names = {}
    for pair in pairs:
        old, equals, new = pair.rpartition("=")
        if not equals or not old or not new:
            raise click.UsageError(f"--rename {pair}: expected OLD=NEW")
        names[old] = new
    return names


rename_option = click.option(
    "--rename",
    multiple=True,
    metavar="OLD=NEW",
    callback=_names,
    help="Print NEW instead of a name in the table, such as 'tta + decoder=T-TA' or 'first pass=Baseline'. May be "
    "repeated.",
)


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The results file, and the names that it has in tables."""

    report: str | None
    table: tuple[str, ...]
    dataset: str | None
    system: str | None

    def check(self) -> None:
        """Refuse tables of no known style before anything is computed."""
        from rescore.styles import endings, style_of

        for path in self.table:
            if style_of(path) is None:
                raise click.UsageError(f"--table {path}: its ending is not one of {endings()}")

    def write(self, results: Results, path: str) -> None:
        """Name the results after the options or the path of the lists, and write them where asked for."""
        from rescore import formats
        from rescore.reports import results as files

        name = "stdin" if path == "-" else shown(Path(path).resolve().name).partition(".")[0]
        results.dataset = self.dataset or name
        results.system = self.system or results.system
        if self.report:
            with formats.opened(self.report) as file:
                files.write(results, file)
        if self.table:
            from rescore.reports import check
            from rescore.styles import style_of

            for place in self.table:
                style = str(style_of(place))
                about = check.environment() if style == "markdown" else ""
                with formats.opened(place) as file:
                    file.write(check.render_overview([results], "espnet", style, about) + "\n")


report_options = option_group(
    "reporting",
    ReportOptions,
    "Report",
    [
        click.option("--report", metavar="FILE", help="Write the results as JSON in full precision."),
        click.option(
            "--table",
            multiple=True,
            metavar="FILE",
            help="Write the results as a table, like `rescore report`: .md, .tex, .csv or .txt. May be repeated.",
        ),
        click.option("--dataset", metavar="NAME", help="Name of the test set in tables.  [default: from the path]"),
        click.option("--system", metavar="NAME", help="Name of the output in tables.  [default: the models]"),
    ],
)


@dataclass(frozen=True, slots=True)
class TestOptions:
    """How differences are tested."""

    test: str
    by_speaker: bool
    speaker: str | None

    def make(self) -> PairedTest:
        from rescore.metrics.significance import SPEAKER, PairedTest

        return PairedTest(self.test, self.by_speaker or bool(self.speaker), self.speaker or SPEAKER)


test_options = option_group(
    "significance",
    TestOptions,
    "Significance",
    [
        click.option(
            "--test",
            type=OneOf(parts.TESTS),
            default="randomisation",
            show_default=True,
            help="Significance test: paired approximate randomisation, paired bootstrap, or the matched-pairs segment "
            "test (WER only).",
        ),
        click.option("--by-speaker", is_flag=True, help="Exchange or resample whole speakers instead of utterances."),
        click.option(
            "--speaker",
            metavar="REGEX",
            help="Regular expression that finds the speaker or document in an utterance id.  [default: ^(.+?)[-_]]",
        ),
    ],
)


def progress_bar(total: int | None, label: str, unit: str = "hyp") -> tqdm | LogProgress:
    """A bar of hypotheses on stderr; where that is no terminal, one line per minute."""
    if sys.stderr.isatty():
        return tqdm(total=total, desc=label, unit=unit, leave=False)
    return LogProgress(total, label, unit)


def scoring_bar(config: RunConfig, *sets: Sequence[NbestList] | None) -> tqdm | LogProgress:
    """A bar of the hypotheses of sets, for all models; how many there will be is not known of lists that grow."""
    from rescore.lms import each

    number = len(each(config.lms)) * sum(len(nbest.hypotheses) for lists in sets for nbest in lists or ())
    return progress_bar(None if config.expands else number or None, f"score {', '.join(config.lms)}")


class LogProgress:
    """A bar for log files: one line per minute, for jobs that somebody looks at from time to time."""

    EVERY = 60.0

    def __init__(self, total: int | None, label: str, unit: str) -> None:
        self._total, self._label, self._unit = total, label, unit
        self._done = self._done_before = 0
        self._reported = time.monotonic()

    def __enter__(self) -> LogProgress:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, done: int) -> None:
        self._done += done
        now = time.monotonic()
        if now - self._reported >= self.EVERY:
            of = f" of {self._total:,}" if self._total else ""
            rate = (self._done - self._done_before) / (now - self._reported)  # of the last minute
            self._reported, self._done_before = now, self._done
            left = ""
            if self._total and rate:
                left = f", {counted(round((self._total - self._done) / rate / 60), 'minute')} to go"
            log.info("%s: %s%s %s, %.0f a second%s", self._label, f"{self._done:,}", of, self._unit, rate, left)


def watched(lists: Iterator[NbestList], progress: OnProgress) -> Iterator[NbestList]:
    """The same stream, which reports how many hypotheses went by."""
    for nbest in lists:
        yield nbest
        progress(len(nbest.hypotheses))
