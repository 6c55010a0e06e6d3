"""What `run` writes beside the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rescore.options import Declared, option

if TYPE_CHECKING:
    from rescore.formats.audio import RecordingSegment
    from rescore.nbest import NbestList
    from rescore.pipeline import Outcome

    Times = dict[str, RecordingSegment] | None
    """Where utterances stand in recordings."""


@dataclass(frozen=True, kw_only=True)
class CurveOption(Declared):
    curve: str | None = option(None, "Write the metric at each weight as CSV.", metavar="FILE", writes="stdout")


@dataclass(frozen=True, kw_only=True)
class RerankedOutputs(Declared):
    """Where reranked lists and texts go."""

    output: str | None = option(
        None,
        "Write the reranked lists: .json or .jsonl, also .gz; - is stdout.",
        "-o",
        "--output",
        metavar="FILE",
        writes="stdout",
        common=True,
    )
    best: str | None = option(
        None,
        "Write the 1-best texts: .trn, .ctm, .srt, .vtt, .txt (plain lines), else Kaldi text.",
        metavar="FILE",
        writes="stdout",
        common=True,
    )


@dataclass(frozen=True, kw_only=True)
class DetokenizeOption(Declared):
    detokenize: str | None = option(
        None, "Undo Moses tokenisation in the output, for a language such as en or de.", metavar="LANGUAGE"
    )


@dataclass(frozen=True, kw_only=True)
class RunOutputs(RerankedOutputs, CurveOption):
    """Files that a run writes."""

    save_weights: str | None = option(
        None, "Write the weights for `rescore rerank` and `rescore analyse`.", metavar="FILE", writes="stdout"
    )
    html: str | None = option(
        None, "Write a report as one HTML page that works offline.", metavar="FILE", writes="stdout", common=True
    )
    segments: str | None = option(
        None,
        "Kaldi segments file with the start and end of each utterance, for --best in .ctm, .srt or .vtt.",
        metavar="FILE",
        reads=True,
    )
    explain: bool = option(False, "Print the decisions of the run and their reasons on stderr.", common=True)

    def check(self) -> Times:
        """Refuse a file of an unknown style, or for an output that the command does not make, before anything is read.

        Returns:
            what --segments says.
        """
        if self.output:
            from rescore.formats import check_output

            check_output(self.output)
        times = None
        if self.segments:
            from rescore.formats.audio import read_segments
            from rescore.formats.times import TIMED

            if not (self.best and self.best.endswith(TIMED)):
                raise click.UsageError(f"--segments needs --best FILE that ends in {', '.join(TIMED)}")
            times = read_segments(self.segments)
        if self.best:
            from rescore.formats.best import check

            check(self.best, times)
        return times

    def check_lists(self, lists: Sequence[NbestList], times: Times) -> None:
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

    @property
    def any(self) -> bool:
        """Whether one is asked for."""
        written = (self.curve, self.output, self.best, self.save_weights, self.html)
        return any(written)

    def write(self, outcome: Outcome, times: Times) -> None:
        """Write the files.

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
            from rescore.tuning.curves import weight_curve, write_curve

            steps = weight_curve(outcome.metric, outcome.dev, outcome.weights)
            with formats.opened(self.curve) as file:
                write_curve(steps, outcome.metric.name, file)
        if self.save_weights:
            outcome.weights.save(Path(self.save_weights))
        if self.html:  # last: it may fail, and nothing else is to be lost then
            from rescore.reports.page import page
            from rescore.tuning.curves import weight_curve

            curve = weight_curve(outcome.metric, outcome.dev, outcome.weights) if outcome.dev else []
            content = page(outcome.results, outcome.metric, outcome.lists, outcome.texts, curve)
            with formats.opened(self.html) as file:
                file.write(content)
