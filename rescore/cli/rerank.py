"""`rescore rerank`: the decision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rescore.cli import options
from rescore.cli.bundle import GroupedCommand

if TYPE_CHECKING:
    from rescore.decision import Decision
    from rescore.nbest import NbestList
    from rescore.tuning.weights import Weights

CHUNK = 1_000


@click.command("rerank", cls=GroupedCommand)
@options.nbest_argument
@click.option("--weights", metavar="FILE", help="A file that `rescore tune` wrote.  [default: the first pass alone]")
@click.option("-o", "--output", metavar="FILE", help="Write the reranked lists (.json, .jsonl, also .gz; - is stdout).")
@click.option("--best", metavar="FILE", help="Write the 1-best: .trn, .stm, .txt (plain), else Kaldi text.")
@click.option("--segments", metavar="FILE", help="Kaldi's segments, with the times that --best x.stm needs.")
@options.detokenize_option
@options.report_options
@options.decision_options
@options.metric_options
@options.input_options
def command(
    nbest: tuple[str, ...],
    weights: str | None,
    output: str | None,
    best: str | None,
    segments: str | None,
    detokenize: str | None,
    reporting: options.ReportOptions,
    decide: options.DecisionOptions,
    measure: options.MetricOptions,
    inputs: options.InputOptions,
) -> None:
    """Sort each list by its combined score. Without -o, --best and --report the 1-best goes to stdout as Kaldi text.

    \b
    rescore rerank test.tta.jsonl --weights weights.json --best test.trn --report results.json

    JSON Lines are reranked as a stream, unless --report, --table or --ref needs them all.
    """
    from rescore.reports.results import evaluate
    from rescore.tuning import FIRST_PASS_ALONE, Weights

    options.check_outputs(("--output", output), ("--best", best), ("--report", reporting.report))
    reporting.check()
    loaded = Weights.load(Path(weights)) if weights else FIRST_PASS_ALONE
    decision = decide.make() if decide.decide != "best" else loaded.decision
    if not (reporting.report or reporting.table):
        with options.progress_bar(inputs.count(nbest), "rerank") as bar:
            stream = options.watched(inputs.iterate(nbest), bar.update)
            _write(
                stream, loaded, decision, measure, output, best or ("-" if not output else None), detokenize, segments
            )
        return
    lists = inputs.read(nbest, need_references=True)
    results, _ = evaluate(measure.choose(lists, loaded), lists, loaded, decision, also=measure.others(lists))
    results.system = loaded.system or "first pass"
    reporting.write(results, nbest[0])
    if output or best:
        _write(iter(lists), loaded, decision, measure, output, best, detokenize, segments)


def _write(
    lists: Iterator[NbestList],
    weights: Weights,
    decision: Decision,
    measure: options.MetricOptions,
    output: str | None,
    best: str | None,
    detokenize: str | None,
    segments: str | None,
) -> None:
    """Lists and 1-best texts as a stream: memory is bounded by `CHUNK` lists."""
    from rescore import formats
    from rescore.decision import rerank
    from rescore.formats.recordings import read_segments
    from rescore.formats.text import detokeniser

    undo = detokeniser(detokenize) if detokenize else str
    times = read_segments(segments) if segments else None
    with formats.opened(best) if best else nullcontext() as file:

        def reranked() -> Iterator[NbestList]:
            metric = None
            while chunk := list(islice(lists, CHUNK)):
                if best and file:
                    metric = metric or measure.choose(chunk, weights)  # once: it must not change within a file
                    texts = [undo(text) for text in decision.texts(metric, chunk, weights.of)]
                    formats.write_best(best, zip(chunk, texts, strict=True), file, times)
                yield from (rerank(one, weights.of) for one in chunk)

        if output:
            formats.write(reranked(), output)
        else:
            for _ in reranked():
                pass
