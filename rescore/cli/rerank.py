"""`rescore rerank`: the decision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rescore.cli import options
from rescore.cli.options.base import MAIN, GroupedCommand, bundled

if TYPE_CHECKING:
    from rescore.nbest import NbestList


@dataclass(frozen=True, slots=True)
class Outputs:
    """Where reranked lists and texts go."""

    output: str | None
    best: str | None
    segments: str | None
    detokenize: str | None

    def write(self, ranked: Iterator[tuple[NbestList, str]]) -> None:
        """Lists and texts as a stream."""
        from rescore import formats
        from rescore.formats.references import read_segments
        from rescore.formats.text import detokeniser

        undo = detokeniser(self.detokenize) if self.detokenize else str
        times = read_segments(self.segments) if self.segments else None
        best = self.best or (None if self.output else "-")
        with formats.opened(best) if best else nullcontext() as file:

            def lists() -> Iterator[NbestList]:
                for nbest, text in ranked:
                    if best and file:
                        formats.write_best(best, [(nbest, undo(text))], file, times)
                    yield nbest

            if self.output:
                formats.write(lists(), self.output)
            else:
                for _ in lists():
                    pass


output_options = bundled(
    "outputs",
    Outputs,
    MAIN,
    [
        click.option(
            "-o", "--output", metavar="FILE", help="Write the reranked lists (.json, .jsonl, also .gz; - is stdout)."
        ),
        click.option("--best", metavar="FILE", help="Write the 1-best: .trn, .stm, .txt (plain), else Kaldi text."),
        click.option("--segments", metavar="FILE", help="Kaldi's segments, with the times that --best x.stm needs."),
        options.detokenize_option,
    ],
)


@click.command("rerank", cls=GroupedCommand)
@options.nbest_argument
@click.option("--weights", metavar="FILE", help="A file that `rescore tune` wrote.  [default: the first pass alone]")
@output_options
@options.report_options
@options.expansion_options
@options.decision_options
@options.metric_options
@options.input_options
def command(
    nbest: tuple[str, ...],
    weights: str | None,
    outputs: Outputs,
    reporting: options.ReportOptions,
    expansion: options.ExpansionOptions,
    decide: options.DecisionOptions,
    measure: options.MeasureOptions,
    inputs: options.InputOptions,
) -> None:
    """Sort each list by its combined score. Without -o, --best and --report the 1-best goes to stdout as Kaldi text.

    \b
    rescore rerank test.tta.jsonl --weights weights.json --best test.trn

    JSON Lines are reranked as a stream, unless --report, --table or --ref needs them all.
    """
    from rescore import pipeline
    from rescore.decision import rerank
    from rescore.tuning import FIRST_PASS_ALONE, Weights

    reporting.check()
    loaded = Weights.load(Path(weights)) if weights else FIRST_PASS_ALONE
    config = options.run_config(expansion, decide, measure)
    choose = outputs.best is not None or outputs.output is None
    if not (reporting.report or reporting.table):
        with options.progress_bar(inputs.count(nbest), "rerank") as bar:
            stream = options.watched(inputs.iterate(nbest), bar.update)
            outputs.write(pipeline.rerank(stream, loaded, config, choose))
        return
    lists = list(pipeline.expand(inputs.read(nbest, need_references=True), config))
    results, texts = pipeline.evaluate(lists, loaded, config)
    reporting.write(results, nbest[0])
    if outputs.output or outputs.best:
        outputs.write(zip((rerank(nbest, loaded.of) for nbest in lists), texts, strict=True))
