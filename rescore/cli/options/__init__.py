"""Options that several commands share."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rescore.cli.bridge import Offer, command
from rescore.cli.options.inputs import DevLists, InputOptions, Lists
from rescore.cli.options.outputs import CurveOption, DetokenizeOption, RerankedOutputs
from rescore.cli.progress import progress_bar, scoring_bar, watched
from rescore.config import DECISION, EXPANSION, MEASURES, MODELS, SYSTEMS, TUNING, WEIGHTS, RunConfig
from rescore.expansion import asked
from rescore.files import resolved, shown
from rescore.lms.base import ComputeOptions
from rescore.options import Declared, flattened, option
from rescore.parts import KINDS, METRICS, TESTS

if TYPE_CHECKING:
    from rescore.lms import LanguageModel
    from rescore.metrics.significance import PairedTest
    from rescore.reports.results import Results
    from rescore.tuning.weights import Weights

__all__ = [
    "CurveOption",
    "DetokenizeOption",
    "DevLists",
    "InputOptions",
    "Lists",
    "Offer",
    "RerankedOutputs",
    "command",
]
__all__ += ["progress_bar", "scoring_bar", "watched"]
__all__ += ["DECISION", "EXPANSION", "MEASURES", "MODELS", "SYSTEMS", "TUNING", "WEIGHTS"]

log = logging.getLogger(__name__)


def _engine(text: str) -> str:
    if text.partition(":")[0] not in ("local", "ray") or text.startswith("local:"):
        raise ValueError(f"{text!r} is neither local nor ray[:ADDRESS]")
    return text


@dataclass(frozen=True, kw_only=True)
class LanguageModelOptions(Declared):
    """The language models of a command, and how they compute."""

    title = "Language models"

    lm: tuple[str, ...] = option(
        (),
        "Language model: a shipped model, or KIND and the PATH of a model. May be repeated. Kinds:",
        metavar="KIND[:PATH]",
        describes=KINDS,
        reads=True,
        common=True,
    )
    computing: ComputeOptions = option(ComputeOptions, nested=ComputeOptions)
    cache: str | None = option(None, "Store scores in DIR, and reuse the scores of earlier runs.", metavar="DIR")
    engine: str = option(
        "local",
        "local: score in this process. ray: score on all cores, GPUs or machines of the Ray cluster at ADDRESS; "
        "without ADDRESS, start a cluster on this machine.",
        metavar="local|ray[:ADDRESS]",
        parse=_engine,
    )
    workers: int | None = option(None, "With ray: number of workers.  [default: one per GPU or core]", low=1)

    def load(self, skip: bool = False) -> list[LanguageModel]:
        """The models, here or in a cluster, which ends with the command; `skip` as in `Cluster`."""
        from rescore.lms import load_all

        if self.computing.prompt:
            able = [name for name in KINDS.names if KINDS[name].prompted]
            if not any(spec.partition(":")[0] in able for spec in self.lm):
                raise click.UsageError(f"--prompt needs --lm {' or '.join(able)}")
        name, _, address = self.engine.partition(":")
        if name == "local" or not self.lm:
            if self.workers:
                raise click.UsageError("--workers needs --engine ray")
            return load_all(self.lm, self.computing, self.cache)
        from rescore.scoring.cluster import Cluster

        cluster = Cluster(self.lm, self.computing, self.cache, address or None, self.workers, skip)
        click.get_current_context().call_on_close(cluster.close)
        return [*cluster.models]


PLAIN = Offer(LanguageModelOptions, required=("lm",))
"""The options of commands that need a language model."""


def config(*groups: str, names: Sequence[str] = ()) -> Offer:
    """The fields of `RunConfig` in some groups, and the fields of these names, as options of a command."""
    return Offer(RunConfig, groups, tuple(names))


@dataclass(frozen=True, kw_only=True)
class TunedWeights(Declared):
    """Weights that were tuned before."""

    weights: str | None = option(
        None,
        "Weights file from `rescore tune` or `rescore run --save-weights`.  [default: the first pass alone]",
        metavar="FILE",
        reads=True,
        common=True,
    )
    force_weights: bool = option(
        False, "Apply weights that were tuned on scores of another model; the signature then contains `forced`."
    )

    def load(self) -> Weights:
        """The weights of the file; without a file, the first pass alone."""
        from rescore.tuning import FIRST_PASS_ALONE, Weights

        return Weights.load(Path(self.weights)) if self.weights else FIRST_PASS_ALONE


def configured(
    config: RunConfig,
    lms: LanguageModelOptions | None = None,
    weights: TunedWeights | None = None,
    dev: Sequence[str] = (),
    **more: Any,
) -> RunConfig:
    """The decisions of a command's options together.

    Args:
        weights: tuned weights, which may be tuned for a metric that reads --words. dev: paths of the dev lists.
        more: further fields.
    """
    if lms:
        more |= {"lms": lms.lm, "cache": lms.cache}
    if weights:
        more["force_weights"] = weights.force_weights
    config = replace(config, dev=shown(", ".join(dev)) or None, **more)
    weighs = config.metrics or "boost" in click.get_current_context().params
    proposed = any(part.reads_words for _, part, _ in asked(config))
    used = proposed or config.boost or (weights and not config.metrics)
    if config.measuring.words and weighs and not used:
        readers = listed_metrics()
        if not set(readers) & {*config.metrics}:
            message = "--words changes nothing here: it is for --respell N, for --boost and for --metric %s"
            log.warning(message, " or ".join(readers))
    return config


def listed_metrics() -> list[str]:
    """The metrics that tell the words of --words from other words."""
    return [
        name
        for name in METRICS.names
        if any(entry.name == "words" for entry in flattened(METRICS[name].Options.declared()))
    ]


def with_one_metric(config: RunConfig) -> RunConfig:
    """The config, for commands that measure one metric."""
    if len(config.metrics) > 1:
        raise click.UsageError("this command has one --metric")
    return config


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
        from rescore.reports.markup import endings, style_of

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
            from rescore.reports.markup import style_of

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
        from rescore.metrics.significance import PairedTest

        return PairedTest(self.test, self.by_speaker or bool(self.speaker), self.speaker)
