"""`rescore rerank`: the decision."""

from __future__ import annotations

from pathlib import Path

import click

from rescore.cli import options


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
    """
    from rescore import evaluation, formats
    from rescore.decision import rerank
    from rescore.tuning.weights import Weights

    loaded = Weights.load(Path(weights))
    decision = decide.make() if decide.decide != "best" else loaded.decision
    lists = inputs.read(nbest, need_references=bool(reporting.report))
    metric = measure.choose(lists)
    if reporting.report:
        signature = evaluation.weights_signature(loaded)
        results, chosen = evaluation.evaluate(metric, lists, loaded, signature, decision)
        results.system = " + ".join(loaded.language_models) or "first pass"
        reporting.write(results, nbest[0])
    else:
        chosen = decision.texts(metric, lists, loaded.of)
    if output:
        formats.write((rerank(one, loaded.of) for one in lists), output)
    if best or not (output or reporting.report):
        with formats.opened(best or "-") as file:
            formats.write_best(best or "-", zip(lists, chosen, strict=True), file)
