"""What `run` writes beside the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rescore.options import Declared, option

if TYPE_CHECKING:
    from rescore.asr.confidences import Confidences
    from rescore.formats.recordings import RecordingSegment
    from rescore.metrics import Metric
    from rescore.nbest import NbestList
    from rescore.pipeline import Outcome

    Times = dict[str, RecordingSegment] | None
    """Where utterances stand in recordings."""


@dataclass(frozen=True, kw_only=True)
class CurveOption(Declared):
    curve: str | None = option(None, "Write the metric at each weight as CSV.", metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class RerankedOutputs(Declared):
    """Where reranked lists and texts go."""

    output: str | None = option(
        None,
        "Write the reranked lists: .json or .jsonl, also .gz; - is stdout.",
        "-o",
        "--output",
        metavar="FILE",
        common=True,
    )
    best: str | None = option(
        None,
        "Write the 1-best texts: .trn, .ctm, .srt, .vtt, .txt (plain lines), else Kaldi text.",
        metavar="FILE",
        common=True,
    )


@dataclass(frozen=True, kw_only=True)
class WordOutputs(Declared):
    """What is written of words with their confidences."""

    alternatives: int = option(
        0,
        "List up to N alternatives to each word, with their posteriors (in .jsonl and on the HTML page).",
        low=0,
    )
    segments: str | None = option(
        None,
        "Kaldi segments file with the start and end of each utterance; .ctm confidences need it.",
        metavar="FILE",
    )


@dataclass(frozen=True, kw_only=True)
class DetokenizeOption(Declared):
    detokenize: str | None = option(
        None, "Undo Moses tokenisation in the output, for a language such as en or de.", metavar="LANGUAGE"
    )


@dataclass(frozen=True, slots=True)
class ConfidenceFile:
    """A file of decided words with their confidences."""

    path: str
    alternatives: int
    segments: str | None

    def times(self) -> Times:
        """Where utterances stand, if this is given; a file that cannot be written is refused here, before any work."""
        from rescore.asr.confidences import check_file
        from rescore.formats.recordings import read_segments

        times = read_segments(self.segments) if self.segments else None
        check_file(self.path, times is not None)
        return times

    def write(self, lists: Sequence[NbestList], confidences: Confidences, times: Times) -> None:
        from rescore import formats
        from rescore.asr.confidences import write

        with formats.opened(self.path) as file:
            write(self.path, file, lists, confidences.words, times)


@dataclass(frozen=True, kw_only=True)
class RunOutputs(WordOutputs, RerankedOutputs, CurveOption):
    """Files that a run writes."""

    save_weights: str | None = option(
        None, "Write the weights for `rescore rerank` and `rescore analyse`.", metavar="FILE"
    )
    html: str | None = option(None, "Write a report as one HTML page that works offline.", metavar="FILE", common=True)
    respellings: str | None = option(
        None,
        "With --respell: write a table of the replaced words, with the number of replacements and how many were better "
        "or worse (.md, .csv, .tex, .txt).",
        metavar="FILE",
    )
    confidence: str | None = option(
        None,
        "Write each word of the output with the probability that it is right, calibrated on --dev (.jsonl or .ctm).",
        metavar="FILE",
    )

    def check(self, respell: int) -> Times:
        """Refuse a file of an unknown style, or for an output that the command does not make, before anything is read.

        Returns:
            what --segments says.
        """
        from rescore.formats.times import TIMED
        from rescore.styles import endings, style_of

        if self.output:
            from rescore.formats import check_output

            check_output(self.output)
        if self.respellings and not respell:
            raise click.UsageError("--respellings needs --respell N")
        if self.respellings and style_of(self.respellings) is None:
            raise click.UsageError(f"--respellings {self.respellings}: its ending is not one of {endings()}")
        if self.segments and not (self.confidence or (self.best and self.best.endswith(TIMED))):
            raise click.UsageError(
                f"--segments needs --confidence FILE, or --best FILE that ends in {', '.join(TIMED)}"
            )
        if self.alternatives and not (self.confidence or self.html):
            raise click.UsageError("--alternatives needs --confidence FILE or --html FILE")
        times = None
        if self.segments:
            from rescore.formats.recordings import read_segments

            times = read_segments(self.segments)
        if self.best:
            from rescore.formats.best import check

            check(self.best, times)
        if self.confidence:
            from rescore.asr.confidences import check_file

            check_file(self.confidence, times is not None)
        return times

    def check_lists(self, lists: Sequence[NbestList], metric: Metric, times: Times) -> None:
        """Refuse what cannot be written of these lists, before anything is computed.

        Raises:
            UserError: there is such a file.
        """
        from rescore.errors import UserError

        if self.best:
            from rescore.formats.best import check

            check(self.best, times, lists)
        if self.html and not any(nbest.references for nbest in lists):
            raise UserError("--html needs references; give --ref FILE")
        if self.confidence:
            from rescore.asr import confidences

            confidences.check(metric)

    @property
    def any(self) -> bool:
        """Whether one is asked for."""
        written = (self.curve, self.output, self.best, self.save_weights, self.html, self.respellings, self.confidence)
        return any(written)

    def write(self, outcome: Outcome, times: Times) -> Confidences | None:
        """Write what was asked for; returns the confidences of words, if these are among it.

        Args:
            times: what `check` returned.
        """
        from rescore import formats

        if self.output:
            formats.write((nbest for nbest, _ in outcome.ranked()), self.output)
        if self.best:
            with formats.opened(self.best) as file:
                formats.write_best(self.best, zip(outcome.lists, outcome.texts, strict=True), file, times)
        if self.curve and outcome.dev:
            from rescore.reports.details import weight_curve, write_curve

            steps = weight_curve(outcome.metric, outcome.dev, outcome.weights)
            with formats.opened(self.curve) as file:
                write_curve(steps, outcome.metric.name, file)
        if self.respellings:
            from rescore.reports.words import render_respellings as render
            from rescore.reports.words import respellings
            from rescore.styles import style_of

            table = render(respellings(outcome.metric, outcome.lists, outcome.texts), str(style_of(self.respellings)))
            with formats.opened(self.respellings) as file:
                file.write(table + "\n")
        if self.save_weights:
            outcome.weights.save(Path(self.save_weights))
        certain = self._confidences(outcome)  # last: these may fail, and nothing else is to be lost then
        if self.confidence and certain:
            ConfidenceFile(self.confidence, self.alternatives, self.segments).write(outcome.lists, certain, times)
        if self.html:
            from rescore.reports.details import details
            from rescore.reports.page import page

            run = (outcome.metric, outcome.lists, outcome.texts, outcome.weights, outcome.lms[0], outcome.dev)
            content = page(outcome.results, details(*run, certain.words if certain else None))
            with formats.opened(self.html) as file:
                file.write(content)
        return certain if self.confidence else None

    def _confidences(self, outcome: Outcome) -> Confidences | None:
        """Of the decided texts, calibrated on dev lists; of a page's words, where there are some and they can be."""
        if not (self.confidence or (self.html and outcome.metric.words)):
            return None
        from rescore.asr.confidences import confidences
        from rescore.errors import UserError

        run = (outcome.metric, outcome.lists, outcome.texts, outcome.weights, outcome.decision)
        dev = outcome.dev if outcome.dev is not outcome.lists else None  # folds leave none that is not in `lists`
        try:
            return confidences(*run, dev, self.alternatives)
        except UserError:
            if self.confidence:
                raise
            return confidences(*run, None, self.alternatives)
