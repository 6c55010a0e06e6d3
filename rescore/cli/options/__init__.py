"""Options that several commands share."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from tqdm import tqdm

from rescore.cli.options.base import Command
from rescore.cli.options.base import Offer as Offer
from rescore.cli.options.base import takes as takes
from rescore.cli.options.deciding import TunedWeights as TunedWeights
from rescore.cli.options.deciding import config as config
from rescore.cli.options.deciding import configured as configured
from rescore.cli.options.deciding import listed_metrics as listed_metrics
from rescore.cli.options.deciding import with_one_metric as with_one_metric
from rescore.cli.options.inputs import DevLists as DevLists
from rescore.cli.options.inputs import InputOptions as InputOptions
from rescore.cli.options.lms import COMPARED as COMPARED
from rescore.cli.options.lms import PLAIN as PLAIN
from rescore.cli.options.lms import LanguageModelOptions as LanguageModelOptions
from rescore.cli.options.outputs import CurveOption as CurveOption
from rescore.cli.options.outputs import DetokenizeOption as DetokenizeOption
from rescore.config import DECISION as DECISION
from rescore.config import EXPANSION as EXPANSION
from rescore.config import MEASURES as MEASURES
from rescore.config import MODELS as MODELS
from rescore.config import TUNING as TUNING
from rescore.config import WEIGHTS as WEIGHTS
from rescore.errors import counted
from rescore.files import resolved, shown
from rescore.options import Declared, option
from rescore.parts import TESTS

if TYPE_CHECKING:
    from rescore.config import RunConfig
    from rescore.metrics.significance import PairedTest
    from rescore.nbest import NbestList
    from rescore.reports.results import Results
    from rescore.scoring import OnProgress

log = logging.getLogger(__name__)

nbest_argument = click.argument("nbest", nargs=-1, required=True, metavar="NBEST...")


def output_option(text: str, metavar: str = "FILE") -> Callable[[Command], Command]:
    """`--output`, by default stdout."""
    return click.option("-o", "--output", default="-", show_default=True, metavar=metavar, help=text)


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


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Declared):
    """The results file, and the names that it has in tables."""

    title = "Report"

    report: str | None = option(None, "Write the results as JSON in full precision.", metavar="FILE", common=True)
    table: tuple[str, ...] = option(
        (),
        "Write the results as a table, like `rescore report`: .md, .tex, .csv or .txt. May be repeated.",
        metavar="FILE",
    )
    dataset: str | None = option(None, "Name of the test set in tables.  [default: from the path]", metavar="NAME")
    system: str | None = option(None, "Name of the output in tables.  [default: the models]", metavar="NAME")

    def check(self) -> None:
        """Refuse tables of no known style before anything is computed."""
        from rescore.styles import endings, style_of

        for path in self.table:
            if style_of(path) is None:
                raise click.UsageError(f"--table {path}: its ending is not one of {endings()}")

    def write(self, results: Results, path: str) -> None:
        """Name the results after the options or the path of the lists, and write them where asked for."""
        from rescore import formats
        from rescore.reports import files

        name = "stdin" if path == "-" else shown(resolved(Path(path)).name).partition(".")[0]
        results.dataset = self.dataset or name
        results.system = self.system or results.system
        if self.report:
            with formats.opened(self.report) as file:
                files.write(results, file)
        if self.table:
            from rescore.reports import overview
            from rescore.styles import style_of

            for place in self.table:
                style = str(style_of(place))
                about = overview.environment() if style == "markdown" else ""
                with formats.opened(place) as file:
                    file.write(overview.render_overview([results], "espnet", style, about) + "\n")


@dataclass(frozen=True, kw_only=True)
class TestOptions(Declared):
    """How differences are tested."""

    title = "Significance"

    test: str = option(
        "randomisation",
        "Significance test: paired approximate randomisation, paired bootstrap, or the matched-pairs segment test (WER "
        "only).",
        choices=TESTS,
    )
    by_speaker: bool = option(False, "Tests exchange, and intervals draw, whole speakers instead of utterances.")
    speaker: str | None = option(
        None,
        "Regular expression that finds the speaker or document in an utterance id.  [default: ^(.+?)[-_]]",
        metavar="REGEX",
    )

    def make(self) -> PairedTest:
        from rescore.metrics.significance import SPEAKER, PairedTest

        return PairedTest(self.test, self.by_speaker or bool(self.speaker), self.speaker or SPEAKER)


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
