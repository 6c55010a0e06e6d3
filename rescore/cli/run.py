"""`rescore run`: the main job."""

from __future__ import annotations

import logging
from functools import partial

import click

from rescore.cli import options

log = logging.getLogger(__name__)


@click.command("run")
@options.nbest_argument
@options.lm_option
@click.option("--dev", multiple=True, metavar="NBEST", help="Lists to tune the weight on. May be repeated.")
@click.option("--dev-ref", metavar="FILE", help="References of the dev lists.")
@click.option("--weight", type=float, metavar="NUMBER", help="The LM's weight in [0, 1], instead of tuning it.")
@click.option("-o", "--output", metavar="FILE", help="Write the reranked lists (.json, .jsonl, also .gz; - is stdout).")
@click.option("--best", metavar="FILE", help="Write the 1-best: .trn, .txt (plain), else Kaldi text.")
@click.option("--report", metavar="FILE", help="Write the results as JSON, in full precision.")
@options.norm_option
@options.metric_options
@options.input_options
@options.device_option
def command(
    nbest: tuple[str, ...],
    lm: str,
    dev: tuple[str, ...],
    dev_ref: str | None,
    weight: float | None,
    output: str | None,
    best: str | None,
    report: str | None,
    lm_norm: str | None,
    metric: str | None,
    tokenize: str | None,
    ref: str | None,
    format_name: str | None,
    s2s: str,
    lenpen: float,
    device: str | None,
) -> None:
    """Score N-best lists with a language model, tune its weight on --dev, rerank, and report.

    \b
    rescore test.json --lm tta --dev dev.json
    rescore exp/decode_test --ref data/test/text --lm tta --weight 0.3 --best out.trn
    rescore test.generate.txt --lm tta --dev dev.generate.txt --report results.json

    Without --dev and --weight the weight is the one that the model's card recommends.
    """
    from rescore import decision, formats, pipeline, scoring
    from rescore.metrics import choose_metric
    from rescore.reporting import results, table
    from rescore.tuning.weights import Weights

    if dev and weight is not None:
        raise click.UsageError("--dev and --weight exclude each other: the one tunes what the other gives")
    if dev_ref and not dev:
        raise click.UsageError("--dev-ref is of no use without --dev")
    read = partial(formats.read, format_name=format_name, s2s=s2s, lenpen=lenpen)
    lists = read(nbest, references=ref)
    dev_lists = read(dev, references=dev_ref, need_references=True) if dev else None
    weights = None
    if dev_lists is None:
        origin = "given"
        if weight is None:
            weight, origin = scoring.recommended_weight(lm), "recommended by the model card"
            log.info("no --dev and no --weight: lambda %g, as the model card of %s recommends", weight, lm)
        weights = partial(Weights.interpolation, weight=weight, origin=origin)
        weights(column="lm")  # a weight out of range is told before anything is scored
    chosen_metric = choose_metric(metric, tokenize, dev_lists or lists)
    model = scoring.load(lm, device)
    total = sum(len(one.hypotheses) for one in [*lists, *(dev_lists or [])])
    with options.progress_bar(total, f"score {model.name}") as bar:
        outcome = pipeline.run(
            lists,
            model,
            chosen_metric,
            dev=dev_lists,
            dev_source=", ".join(dev) or "dev",
            weights=weights,
            norm=lm_norm,
            progress=bar.update,
        )
    if output:
        formats.write((decision.rerank(one, outcome.weights.columns) for one in outcome.lists), output)
    if best:
        chosen = zip(outcome.lists, outcome.chosen, strict=True)
        with formats.opened(best) as file:
            formats.write_best(best, ((one, one.hypotheses[index].text) for one, index in chosen), file)
    if report:
        with formats.opened(report) as file:
            results.write(outcome.results, file)
    click.echo(table.render(outcome.results), err="-" in (output, best, report))
