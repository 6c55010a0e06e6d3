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
from rescore.cli.bundle import bundled
from rescore.cli.inputs import InputOptions as InputOptions
from rescore.cli.inputs import input_options as input_options
from rescore.cli.lms import LanguageModelOptions as LanguageModelOptions
from rescore.cli.lms import device_option as device_option
from rescore.cli.lms import lm_options as lm_options
from rescore.cli.lms import optional_lm_options as optional_lm_options
from rescore.cli.types import Number, OneOf

if TYPE_CHECKING:
    from rescore.decision import Decision
    from rescore.engines import OnProgress
    from rescore.metrics import Metric
    from rescore.metrics.significance import PairedTest
    from rescore.nbest import NbestList
    from rescore.reports.results import Results
    from rescore.tuning.weights import Weights

log = logging.getLogger(__name__)

nbest_argument = click.argument("nbest", nargs=-1, required=True, metavar="NBEST...")


def _checked_norm(ctx: click.Context, parameter: click.Parameter, norm: str | None) -> str | None:
    if norm is not None:
        from rescore.scoring.base import length_power

        length_power(norm)
    return norm


norm_option = click.option(
    "--lm-norm",
    metavar="sum|mean|length^A",
    callback=_checked_norm,
    help="LM score as the sum over tokens, the mean, or the sum divided by their number to the power A.  "
    "[default: mean where first-pass scores are means, else sum]",
)


@dataclass(frozen=True, slots=True)
class MetricOptions:
    """What is measured, and what counts as the same word."""

    metric: tuple[str, ...]
    tokenize: str | None
    comet_model: str | None
    case_sensitive: bool
    split_hyphens: bool
    drop_punctuation: bool
    drop_apostrophes: bool
    drop_unknown: bool
    glm: str | None
    normalizer: str | None
    words: str | None

    def choose(self, lists: Sequence[NbestList], weights: Weights | None = None) -> Metric:
        """The (first) metric asked for, or that for which weights were tuned, or the usual one for such lists."""
        return self._make(self.metric[0] if self.metric else None, lists, weights)

    def others(self, lists: Sequence[NbestList]) -> list[Metric]:
        """The further metrics asked for."""
        return [self._make(name, lists, None) for name in dict.fromkeys(self.metric[1:])]

    def only(self) -> MetricOptions:
        """Itself, where one metric at most was asked for; for commands that have no use for more."""
        if len(self.metric) > 1:
            raise click.UsageError("this command has one --metric")
        return self

    def _make(self, name: str | None, lists: Sequence[NbestList], weights: Weights | None) -> Metric:
        from rescore import metrics
        from rescore.metrics.normalise import Glm, WordList

        normaliser = metrics.Normaliser(
            self.case_sensitive,
            self.split_hyphens,
            self.drop_punctuation,
            self.drop_apostrophes,
            self.drop_unknown,
            Glm.load(Path(self.glm)) if self.glm else None,
            self.normalizer == "whisper-english",
        )
        tokenise = self.tokenize
        if name is None and weights and weights.tuned_for:
            name, tokenise = weights.tuned_for.metric, tokenise or weights.tuned_for.tokenise
        listed = WordList.load(Path(self.words)) if self.words else None
        given = metrics.MetricOptions(tokenise, normaliser, self.comet_model, listed)
        return metrics.choose_metric(name, lists, given)


metric_options = bundled(
    "measure",
    MetricOptions,
    "What is measured",
    [
        click.option(
            "--metric",
            type=OneOf(parts.METRICS),
            multiple=True,
            help="The first is tuned for, others are told, too.  [default: bleu for lists with a source, else wer]",
        ),
        click.option(
            "--tokenize",
            type=click.Choice(["13a", "none", "intl", "char", "zh"]),
            help="sacreBLEU's tokenizer.  [default: none where references are tokenised already, else 13a]",
        ),
        click.option(
            "--comet-model", metavar="DIR", help="COMET: its folder, with hparams.yaml and checkpoints/model.ckpt."
        ),
        click.option("--case-sensitive", is_flag=True, help="WER, CER: upper and lower case are errors."),
        click.option("--split-hyphens", is_flag=True, help="WER, CER: compounds count as their parts."),
        click.option("--drop-punctuation", is_flag=True, help="WER, CER: without punctuation marks around words."),
        click.option("--drop-apostrophes", is_flag=True, help="WER, CER: it's is its."),
        click.option("--drop-unknown", is_flag=True, help="WER, CER: without <unk>."),
        click.option("--glm", metavar="FILE", help="WER, CER: replace as a global mapping file says."),
        click.option(
            "--normalizer",
            type=click.Choice(["whisper-english"]),
            help="WER, CER: compare what is left after Whisper's normaliser of English.",
        ),
        click.option("--words", metavar="FILE", help="BWER, UWER: the words to count, or to leave out; one per line."),
    ],
)


@dataclass(frozen=True, slots=True)
class DecisionOptions:
    """How a text is chosen from each list."""

    decide: str
    scale: float | None

    def make(self) -> Decision:
        from rescore.decision import DECISIONS, Decision

        if self.scale is not None and not DECISIONS[self.decide].needs_scale:
            able = [name for name in DECISIONS.names if DECISIONS[name].needs_scale]
            raise click.UsageError(f"--scale is for --decide {', '.join(able)}")
        return Decision(self.decide, self.scale)


decision_options = bundled(
    "decide",
    DecisionOptions,
    "Decision",
    [
        click.option(
            "--decide",
            type=OneOf(parts.DECISIONS),
            default="best",
            show_default=True,
            help="Best score, minimum Bayes risk, or a vote word by word.",
        ),
        click.option(
            "--scale",
            type=Number(0, 1e6, open_low=True),
            help="Of the posteriors exp(scale * score), for mbr and rover.  [default: tuned on --dev]",
        ),
    ],
)


detokenize_option = click.option(
    "--detokenize", metavar="LANGUAGE", help="Undo the Moses tokeniser's work in what is written: en, de, ..."
)
flat_option = click.option(
    "--flat", is_flag=True, help="Of one weight, take the middle of all that the set cannot tell from the best."
)
optimum_option = click.option(
    "--optimum",
    is_flag=True,
    help="Weights that are the best on these very lists, instead of an average over bootstrap samples that has to be "
    "better than the first pass by two standard errors.",
)
negative_option = click.option(
    "--allow-negative",
    multiple=True,
    metavar="COLUMN",
    help="Tune an LM's weight without bounds, as for the internal LM that is subtracted; may be repeated.",
)
condition_option = click.option(
    "--condition",
    metavar="REGEX|column:NAME",
    help="Weights of their own for each condition: what the expression finds in an id, or a column's value.",
)
curve_option = click.option("--curve", metavar="FILE", help="Write the error against each weight as CSV.")


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The results file, and the names that it has in tables."""

    report: str | None
    table: tuple[str, ...]
    dataset: str | None
    system: str | None

    def check(self) -> None:
        """Refuse tables of no known style before anything is computed."""
        from rescore.reports.styles import endings, style_of

        for path in self.table:
            if style_of(path) is None:
                raise click.UsageError(f"--table {path}: its ending is none of {endings()}")

    def write(self, results: Results, path: str) -> None:
        """Name the results after the options or the path of the lists, and write them where asked for."""
        from rescore import formats
        from rescore.reports import results_file as files

        results.dataset = self.dataset or (Path(path).resolve().name.partition(".")[0] if path != "-" else "stdin")
        results.system = self.system or results.system
        if self.report:
            with formats.opened(self.report) as file:
                files.write(results, file)
        if self.table:
            from rescore.reports import overview
            from rescore.reports.styles import style_of

            for place in self.table:
                style = str(style_of(place))
                about = overview.environment() if style == "markdown" else ""
                with formats.opened(place) as file:
                    file.write(overview.render([results], "espnet", style, about) + "\n")


report_options = bundled(
    "reporting",
    ReportOptions,
    "Report",
    [
        click.option("--report", metavar="FILE", help="Write the results as JSON, in full precision."),
        click.option(
            "--table",
            multiple=True,
            metavar="FILE",
            help="Write the figures as a table, as `report` does: RESULTS.md, .tex, .csv, .txt. May be repeated.",
        ),
        click.option("--dataset", metavar="NAME", help="The set's name in tables.  [default: from the path]"),
        click.option("--system", metavar="NAME", help="The output's name in tables.  [default: the models]"),
    ],
)


@dataclass(frozen=True, slots=True)
class TestOptions:
    """How differences are tested."""

    test: str
    by_speaker: bool
    speaker: str | None

    def make(self) -> PairedTest:
        from rescore.metrics.resampling import SPEAKER
        from rescore.metrics.significance import PairedTest

        return PairedTest(self.test, self.by_speaker or bool(self.speaker), self.speaker or SPEAKER)


test_options = bundled(
    "significance",
    TestOptions,
    "Significance",
    [
        click.option(
            "--test",
            type=OneOf(parts.TESTS),
            default="randomisation",
            show_default=True,
            help="Paired approximate randomisation, paired bootstrap, or (WER) the matched-pairs segment test.",
        ),
        click.option("--by-speaker", is_flag=True, help="Exchange or draw speakers, not utterances."),
        click.option(
            "--speaker", metavar="REGEX", help="Where an id has its speaker or document.  [default: ^(.+?)[-_]]"
        ),
    ],
)


def progress_bar(total: int | None, label: str, unit: str = "hyp") -> tqdm | Minutes:
    """A bar of hypotheses on stderr; where that is no terminal, a line a minute."""
    if sys.stderr.isatty():
        return tqdm(total=total, desc=label, unit=unit, leave=False)
    return Minutes(total, label, unit)


class Minutes:
    """A bar for files: a line a minute, for jobs that somebody looks at from time to time."""

    EVERY = 60.0

    def __init__(self, total: int | None, label: str, unit: str) -> None:
        self._total, self._label, self._unit = total, label, unit
        self._done, self._began = 0, time.monotonic()
        self._told = self._began

    def __enter__(self) -> Minutes:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, done: int) -> None:
        self._done += done
        now = time.monotonic()
        if now - self._told >= self.EVERY:
            self._told = now
            of = f" of {self._total:,}" if self._total else ""
            rate = self._done / (now - self._began)
            left = f", {(self._total - self._done) / rate / 60:.0f} minutes to go" if self._total and rate else ""
            log.info("%s: %s%s %s, %.0f a second%s", self._label, f"{self._done:,}", of, self._unit, rate, left)


def watched(lists: Iterator[NbestList], progress: OnProgress) -> Iterator[NbestList]:
    """The same stream, which tells how many hypotheses went by."""
    for nbest in lists:
        yield nbest
        progress(len(nbest.hypotheses))


def check_outputs(*outputs: tuple[str, str | None]) -> None:
    """Refuse two outputs to one file: the second would take the place of the first."""
    seen: dict[Path, str] = {}
    for option, path in outputs:
        if path is None:
            continue
        place = Path(path).resolve() if path != "-" else Path(path)
        if place in seen:
            raise click.UsageError(f"{seen[place]} and {option} both write to {path}; give each a file of its own")
        seen[place] = option
