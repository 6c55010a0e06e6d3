"""`rescore eval`: figures of outputs that are there already."""

from __future__ import annotations

from dataclasses import dataclass, replace

import click

from rescore.cli import options
from rescore.config import MEASURES, RunConfig
from rescore.errors import OptionError
from rescore.files import shown
from rescore.metrics.significance import PairedTest
from rescore.options import Declared, flattened, option, written_file
from rescore.parts import METRICS, TESTS, WHOLE, resolve
from rescore.plan import resolve as plan_of
from rescore.reports import outputs
from rescore.reports.markup import write_json
from rescore.reports.outputs import render_systems as render


@dataclass(frozen=True, kw_only=True)
class TestOptions(Declared):
    """How differences are tested."""

    title = "Significance"

    test: str = option(
        "randomisation",
        "Significance test: paired approximate randomisation, or the matched-pairs"
        " segment test (WER only).",
        choices=TESTS,
    )
    by_speaker: bool = option(
        False,
        "Tests exchange, and intervals draw, whole speakers instead of utterances.",
    )
    speaker: str | None = option(
        None,
        "Regular expression that finds the speaker or document in an utterance id. "
        " [default: ^(.+?)[-_]]",
        metavar="REGEX",
    )

    def make(self) -> PairedTest:

        return PairedTest(
            self.test, self.by_speaker or bool(self.speaker), self.speaker
        )


@dataclass(frozen=True, kw_only=True)
class Evaluation(options.DetailsOutput):
    common = True

    outputs: tuple[str, ...] = option(
        (), metavar="OUTPUT...", argument=True, required=True, reads=True
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
            MEASURES,
            TestOptions.title,
        ),
    )


@options.command("eval", config=options.config("eval"))
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

    With --words, the table of WER is followed by those of B-WER, U-WER, and recall,
    precision and F1 of the terms.

    Each further output has a p-value against the first output. Confidence intervals
    come from the bootstrap.
    """

    if own.details and len(own.outputs) > 2:
        raise OptionError("--details compares one or two outputs")
    if own.whole:
        if len(inputs.ref) != 1:
            raise OptionError(
                "--whole needs one --ref, a file or folder of whole recordings"
            )
        measured = resolve(WHOLE)(own.outputs, inputs.ref[0], inputs.strict)
        read = list(zip(map(shown, own.outputs), measured, strict=True))
    else:
        read = [(shown(name), inputs.read_output(name)) for name in own.outputs]
    if config.measuring.words and not config.metrics:
        config = replace(config, metrics=("wer", *_listed_metrics()))
    every = plan_of(
        options.configured(config), [nbest for _, lists in read for nbest in lists]
    ).metrics
    systems = [
        outputs.compare_outputs(read, metric, significance.make()) for metric in every
    ]
    own.write_details(lambda: outputs.output_details(every[0], read[0], read[-1]))
    if own.report:
        write_json(outputs.records_of(systems), own.report)
    click.echo("\n\n".join(map(render, systems)), err=own.report == "-")


def _listed_metrics() -> list[str]:
    """The metrics that tell the words of --words from other words."""
    listed = []
    for name, metric in METRICS.loaded():
        names = [entry.name for entry in flattened(metric.Options.declared())]
        if "words" in names:
            listed.append(name)
    return listed
