"""What `run` writes beside the report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rescore.cli.bundle import MAIN, bundled

if TYPE_CHECKING:
    from rescore.pipeline import Outcome

curve_option = click.option("--curve", metavar="FILE", help="Write the error against each weight as CSV.")


@dataclass(frozen=True, slots=True)
class RunOutputs:
    """Files that a run writes."""

    curve: str | None
    output: str | None
    best: str | None
    save_weights: str | None
    html: str | None
    respellings: str | None

    def check(self, respell: int) -> None:
        """Refuse a table of no known style, or of what is not asked for, before anything is computed."""
        from rescore.reports.styles import endings, style_of

        if self.respellings and not respell:
            raise click.UsageError("--respellings is for --respell N")
        if self.respellings and style_of(self.respellings) is None:
            raise click.UsageError(f"--respellings {self.respellings}: its ending is not one of {endings()}")

    @property
    def any(self) -> bool:
        """Whether one is asked for."""
        return any((self.curve, self.output, self.best, self.save_weights, self.html, self.respellings))

    def write(self, outcome: Outcome) -> None:
        """Write what was asked for."""
        from rescore import formats
        from rescore.decision import rerank
        from rescore.reports.details import details, weight_curve, write_curve
        from rescore.reports.page import page
        from rescore.reports.styles import style_of

        if self.output:
            formats.write((rerank(one, outcome.weights.of) for one in outcome.lists), self.output)
        if self.best:
            with formats.opened(self.best) as file:
                formats.write_best(self.best, zip(outcome.lists, outcome.texts, strict=True), file)
        if self.curve and outcome.dev:
            steps = weight_curve(outcome.metric, outcome.dev, outcome.weights)
            with formats.opened(self.curve) as file:
                write_curve(steps, outcome.metric.name, file)
        if self.html:
            run = (outcome.metric, outcome.lists, outcome.texts, outcome.weights, outcome.lms[0], outcome.dev)
            content = page(outcome.results, details(*run))
            with formats.opened(self.html) as file:
                file.write(content)
        if self.respellings:
            from rescore.reports.respellings import render, respellings

            table = render(respellings(outcome.metric, outcome.lists, outcome.texts), str(style_of(self.respellings)))
            with formats.opened(self.respellings) as file:
                file.write(table + "\n")
        if self.save_weights:
            outcome.weights.save(Path(self.save_weights))


run_outputs = bundled(
    "outputs",
    RunOutputs,
    MAIN,
    [
        curve_option,
        click.option(
            "-o", "--output", metavar="FILE", help="Write the reranked lists (.json, .jsonl, also .gz; - is stdout)."
        ),
        click.option("--best", metavar="FILE", help="Write the 1-best: .trn, .txt (plain), else Kaldi text."),
        click.option("--save-weights", metavar="FILE", help="Write the weights, for `rescore rerank` and `analyse`."),
        click.option("--html", metavar="FILE", help="Write a report to look at: one page, no network needed."),
        click.option(
            "--respellings",
            metavar="FILE",
            help="--respell: write what was heard, what is written instead, how often, and whether that is better "
            "(.md, .csv, .tex, .txt).",
        ),
    ],
)
