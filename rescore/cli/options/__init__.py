"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rescore.cli.bridge import Offer as Offer
from rescore.cli.bridge import command as command
from rescore.cli.options.deciding import TunedWeights as TunedWeights
from rescore.cli.options.deciding import config as config
from rescore.cli.options.deciding import configured as configured
from rescore.cli.options.deciding import listed_metrics as listed_metrics
from rescore.cli.options.deciding import with_one_metric as with_one_metric
from rescore.cli.options.inputs import DevLists as DevLists
from rescore.cli.options.inputs import InputOptions as InputOptions
from rescore.cli.options.inputs import Lists as Lists
from rescore.cli.options.lms import COMPARED as COMPARED
from rescore.cli.options.lms import PLAIN as PLAIN
from rescore.cli.options.lms import LanguageModelOptions as LanguageModelOptions
from rescore.cli.options.outputs import CurveOption as CurveOption
from rescore.cli.options.outputs import DetokenizeOption as DetokenizeOption
from rescore.cli.options.outputs import RerankedOutputs as RerankedOutputs
from rescore.cli.progress import progress_bar as progress_bar
from rescore.cli.progress import scoring_bar as scoring_bar
from rescore.cli.progress import watched as watched
from rescore.config import DECISION as DECISION
from rescore.config import EXPANSION as EXPANSION
from rescore.config import MEASURES as MEASURES
from rescore.config import MODELS as MODELS
from rescore.config import SYSTEMS as SYSTEMS
from rescore.config import TUNING as TUNING
from rescore.config import WEIGHTS as WEIGHTS
from rescore.files import resolved, shown
from rescore.options import Declared, option
from rescore.parts import TESTS

if TYPE_CHECKING:
    from rescore.metrics.significance import PairedTest
    from rescore.reports.results import Results


def _renaming(text: str) -> tuple[str, str]:
    old, equals, new = text.rpartition("=")
    if not equals or not old or not new:
        raise click.UsageError(f"--rename {text}: expected OLD=NEW")
    return old, new


@dataclass(frozen=True, kw_only=True)
class RenameOption(Declared):
    """Names in a table."""

    common = True

    rename: Mapping[str, str] = option(
        {},
        "Print NEW instead of a name in the table, such as 'tta + decoder=T-TA' or 'first pass=Baseline'. May be "
        "repeated.",
        metavar="OLD=NEW",
        parse=_renaming,
        read=dict,
    )


@dataclass(frozen=True, kw_only=True)
class ReportOptions(Declared):
    """The results file, and the names that it has in tables."""

    title = "Report"

    report: str | None = option(
        None, "Write the results as JSON in full precision.", metavar="FILE", writes="stdout", common=True
    )
    table: tuple[str, ...] = option(
        (),
        "Write the results as a table, like `rescore report`: .md, .tex, .csv or .txt. May be repeated.",
        metavar="FILE",
        writes="stdout",
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

        name = "stdin" if path == "-" else shown(resolved(Path(path)).name).partition(".")[0]
        results.dataset = self.dataset or name
        results.system = self.system or results.system
        if self.report:
            from rescore.reports import files

            with formats.opened(self.report) as file:
                files.write(results, file)
        if self.table:
            from rescore.reports import overview
            from rescore.styles import style_of

            for place in self.table:
                style = str(style_of(place))
                with formats.opened(place) as file:
                    file.write(overview.render_overview([results], "espnet", style) + "\n")


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
