"""`rescore rerank`: the decision."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rescore.cli import options

if TYPE_CHECKING:
    from rescore.decision.decide import Decision
    from rescore.nbest import NbestList
    from rescore.tuning.weights import Weights

CHUNK = 1_000


@click.command("rerank")
@options.nbest_argument
@click.option("--weights", required=True, metavar="FILE", help="A file that `rescore tune` wrote.")
@click.option("-o", "--output", metavar="FILE", help="Write the reranked lists (.json, .jsonl, also .gz; - is stdout).")
@click.option("--best", metavar="FILE", help="Write the 1-best: .trn, .txt (plain), else Kaldi text.")
@options.report_options
@options.decision_options
@options.metric_options
@options.input_options
def command(
    nbest: tuple[str, ...],
    weights: str,
    output: str | None,
    best: str | None,
    reporting: options.Reporting,
    decide: options.Decide,
    measure: options.Measure,
    inputs: options.Inputs,
) -> None:
    """Sort each list by its combined score. Without -o, --best and --report the 1-best goes to stdout as Kaldi text.

    \b
    rescore rerank test.tta.jsonl --weights weights.json --best test.trn --report results.json

    JSON Lines are reranked as a stream, unless --report or --ref needs them all.
    """
    from rescore import evaluation
    from rescore.tuning.weights import Weights

    loaded = Weights.load(Path(weights))
    decision = decide.make() if decide.decide != "best" else loaded.decision
    if not reporting.report:
        with options.progress_bar(inputs.count(nbest), "rerank") as bar:
            stream = options.watched(inputs.iterate(nbest), bar.update)
            _write(stream, loaded, decision, measure, output, best or ("-" if not output else None))
        return
    lists = inputs.read(nbest, need_references=True)
    signature = evaluation.weights_signature(loaded)
    results, _ = evaluation.evaluate(measure.choose(lists), lists, loaded, signature, decision)
    results.system = " + ".join(loaded.language_models) or "first pass"
    reporting.write(results, nbest[0])
    if output or best:
        _write(iter(lists), loaded, decision, measure, output, best)


def _write(
    lists: Iterator[NbestList],
    weights: Weights,
    decision: Decision,
    measure: options.Measure,
    output: str | None,
    best: str | None,
) -> None:
    """Lists and 1-best texts as a stream: memory is bounded by `CHUNK` lists."""
    from rescore import formats
    from rescore.decision import rerank

    with formats.opened(best) if best else nullcontext() as file:

        def reranked() -> Iterator[NbestList]:
            while chunk := list(islice(lists, CHUNK)):
                if best and file:
                    texts = decision.texts(measure.choose(chunk), chunk, weights.of)
                    formats.write_best(best, zip(chunk, texts, strict=True), file)
                yield from (rerank(one, weights.of) for one in chunk)

        if output:
            formats.write(reranked(), output)
        else:
            for _ in reranked():
                pass
