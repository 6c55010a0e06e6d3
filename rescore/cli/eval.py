"""`rescore eval`: figures of outputs that are there already."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

from rescore.cli import options
from rescore.cli.bridge import given_flags, is_typed
from rescore.config import GROUPS, MEASURES, RunConfig
from rescore.dataset import Dataset
from rescore.errors import OptionError, takes_no
from rescore.files import shown
from rescore.metrics import Metric
from rescore.metrics.base import SESSION, aligned_outputs
from rescore.metrics.significance import PairedTest, by_speakers
from rescore.nbest import NbestList
from rescore.option_readers import reads
from rescore.options import Declared, flattened, option, written_file
from rescore.parts import METRICS, SESSIONS, TESTS, WHOLE, resolve
from rescore.plan import resolve as plan_of
from rescore.reports import outputs
from rescore.reports.markup import write_json
from rescore.reports.outputs import render_systems as render

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TestOptions(Declared):
    """How differences are tested."""

    title = "Significance"

    test: str = option(
        "randomisation",
        "Significance test: paired approximate randomisation, paired bootstrap"
        " resampling as in sacreBLEU, or the matched-pairs segment test (WER only).",
        choices=TESTS,
    )
    by_speaker: bool = option(
        False,
        "Tests exchange, and intervals draw, whole speakers instead of utterances.",
    )
    speaker: str | None = option(
        None,
        "Speaker of each utterance. FIELD: a field of the lists, such as document."
        " REGEX: finds the speaker in an id.  [default: speaker, else ^(.+?)[-_]]",
        metavar="FIELD|REGEX",
    )

    def make_each(self, metrics: Sequence[Metric], lists: Dataset) -> list[PairedTest]:
        """Return the test of each metric; where the test applies to some metrics, the
        default test for the others.

        Args:
            metrics: The metrics.
            lists: The lists of the first output.

        Raises:
            UserError: The test applies to no metric.
        """
        chosen = self.make(lists)
        applies = [chosen.applies(metric) for metric in metrics]
        if not any(applies):
            return [chosen] * len(metrics)  # the test says to which metrics it applies
        tests = []
        for metric, suits in zip(metrics, applies, strict=True):
            if suits:
                tests.append(chosen)
                continue
            tests.append(PairedTest())
            log.info(
                "%s: p-values by randomisation; %s does not apply",
                metric.name,
                self.test,
            )
        return tests

    def make(self, lists: Dataset) -> PairedTest:
        """Return the test.

        Args:
            lists: The lists of the first output.
        """
        if self.by_speaker or self.speaker is not None:
            return by_speakers(lists, self.speaker, self.test)
        return PairedTest(self.test)


@dataclass(frozen=True, kw_only=True)
class Evaluation(options.DetailsOutput):
    common = True

    outputs: tuple[str, ...] = option(
        (), metavar="OUTPUT...", argument=True, required=True, reads=True, lists=True
    )
    report: str | None = written_file(
        None, "Write the figures as JSON in full precision."
    )
    whole: bool = option(
        False,
        "Measure whole recordings: OUTPUT and --ref are CTM, STM, SRT, VTT, JSON, text,"
        " or folders of these, in any segmentation. Pieces of `rescore combine` are"
        " joined.",
        needs="ref",
        reads_only=(
            "outputs",
            "report",
            "details",
            "ref",
            "strict",
            "shape",
            MEASURES,
            GROUPS,
            TestOptions.title,
        ),
    )


@options.command("eval", config=options.config("eval"), inputs=options.OUTPUTS)
def command(
    own: Evaluation,
    config: RunConfig,
    significance: TestOptions,
    inputs: options.InputOptions,
) -> None:
    """Measure N-best lists (first pass and oracle) or 1-best texts (Kaldi text, trn,
    plain lines): WER, CER or BLEU.

    \b
    rescore eval exp/decode_test/text --ref data/test/text
    rescore eval baseline.trn reranked.trn --ref ref.trn
    rescore eval combined a/ b/ --whole --ref ref/

    With --words, further tables have B-WER, U-WER, and the recall, precision and F1 of
    the terms.

    If a column of a table names the system of each row, --field system=COLUMN measures
    each system.

    Each further output has a p-value against the first output. Confidence intervals
    come from 1,000 samples of the bootstrap, with a fixed seed.
    """
    has_systems = inputs.has_systems  # then one table has several outputs
    if len(own.outputs) == 1 and is_typed("test") and not has_systems:
        raise OptionError("--test compares outputs; give another OUTPUT")
    if own.details and len(own.outputs) > 2:
        raise OptionError("--details compares one or two outputs")
    read = _read(own, config, inputs)
    if inputs.allow_missing and len(read) > 1:
        read = outputs.in_common(read)
    if own.details and len(read) > 2:
        raise OptionError("--details compares one or two outputs")
    if config.measuring.words and not config.metrics:
        config = replace(config, metrics=("wer", *_listed_metrics()))
    together = Dataset(chain.from_iterable(lists for _, lists in read))
    every = plan_of(config, together).metrics
    read = [(name, aligned_outputs(every[0], lists)) for name, lists in read]
    tests = significance.make_each(every, read[0][1])
    systems = []
    for metric, test in zip(every, tests, strict=True):
        systems.append(outputs.compare_outputs(read, metric, test, config.by))
    own.write_details(lambda: outputs.output_details(every[0], read[0], read[-1]))
    if own.report:
        write_json(outputs.report_of(systems), own.report)
    options.show(render(systems))


def _read(
    own: Evaluation, config: RunConfig, inputs: options.InputOptions
) -> list[outputs.NamedLists]:
    """Return the lists of each output, with its name.

    Raises:
        OptionError: Whole recordings have several references, or metrics read different
            texts.
    """
    names = [shown(path) for path in own.outputs]
    if any(METRICS[name].reads == SESSION for name in config.metrics):
        every = _sessions(own, config, inputs)
    elif not own.whole:
        read_each: list[outputs.NamedLists] = []
        for path in own.outputs:
            read_each += inputs.read_outputs(path)
        return read_each
    elif len(inputs.ref) > 1:
        raise OptionError(
            "--whole needs one --ref, a file or folder of whole recordings"
        )
    else:
        read = resolve(WHOLE)
        words = config.measuring.values.get("normaliser")
        how = (inputs.strict, inputs.read_options, words)
        every = read(own.outputs, inputs.ref[0], *how)
    return list(zip(names, map(Dataset, every), strict=True))


_ALL_SPEAKERS = "measures whole recordings with all their speakers"
NO_SESSIONS = {
    **dict.fromkeys(("details", "by_speaker", "speaker", "words"), _ALL_SPEAKERS),
    "whole": "reads whole recordings",
}
"""Options that a metric of recordings with speakers does not read, and what it does."""


def _sessions(
    own: Evaluation, config: RunConfig, inputs: options.InputOptions
) -> list[list[NbestList]]:
    """Return the recordings with speakers of each output.

    Raises:
        OptionError: A metric reads other texts, or an option has no meaning here.
    """
    for name in config.metrics:
        if METRICS[name].reads != SESSION:
            raise OptionError(
                f"--metric {name} reads texts without speakers, and another"
                " --metric reads recordings with speakers; measure each by itself"
            )
    asked = f"eval --metric {config.metrics[0]}"
    of_reading = {entry.name for entry in flattened(type(inputs).declared())}
    for name, flag in given_flags().items():
        if name in NO_SESSIONS:
            why = f"; leave out {flag}: the metric {NO_SESSIONS[name]}"
            raise OptionError(f"{takes_no(asked, flag)}{why}")
        if name in of_reading and name not in ("ref", "strict"):
            raise OptionError(takes_no(asked, flag))
    if len(inputs.ref) != 1:
        raise OptionError(f"{asked} needs one --ref, a file or folder with speakers")
    return list(resolve(SESSIONS)(own.outputs, inputs.ref[0], inputs.strict))


def _listed_metrics() -> list[str]:
    """Return the metrics that tell the words of --words from other words."""
    listed = []
    for name, metric in METRICS.loaded():
        if reads(metric, "words"):
            listed.append(name)
    return listed
