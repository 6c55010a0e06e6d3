"""`rescore rerank`: the decision."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click

from rescore.cli import options
from rescore.config import RunConfig
from rescore.errors import counted
from rescore.nbest import FIRST_PASS, ranking
from rescore.options import option

if TYPE_CHECKING:
    from rescore.nbest import NbestList

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Reranking(
    options.Lists,
    options.DetokenizeOption,
    options.RerankedOutputs,
    options.DetailsOutput,
):
    """The lists, and where reranked lists and texts go."""

    keep: int | None = option(
        None,
        "Write only the N best hypotheses of each list to -o, for example for a slow"
        " model.  [default: all]",
        "--nbest",
        metavar="N",
        low=1,
        needs="output",
    )

    def write(
        self, ranked: Iterator[tuple[NbestList, str]], times: options.Times
    ) -> None:
        """Write lists and texts as a stream; `times` is what the method `times`
        returned.
        """
        from rescore import formats
        from rescore.formats.text import detokeniser

        undo = detokeniser(self.detokenize) if self.detokenize else str
        best, changed = self.best or (None if self.output else "-"), Counter[bool]()
        with formats.opened(best) if best else nullcontext() as file:
            writer = formats.BestWriter(best, file, times) if best and file else None

            def lists() -> Iterator[NbestList]:
                for nbest, text in ranked:
                    if writer:
                        writer.write(nbest, undo(text))
                    if writer and best != "-":
                        changed[
                            text
                            != nbest.hypotheses[
                                ranking(nbest, nbest.column(FIRST_PASS))[0]
                            ].text
                        ] += 1
                    yield replace(nbest, hypotheses=nbest.hypotheses[: self.keep])

            if self.output:
                formats.write(lists(), self.output)
            else:
                for _ in lists():
                    pass
            if writer:
                writer.close()
        if best and best != "-":
            log.info(
                "%s: %s, %s changed",
                best,
                counted(changed.total(), "text"),
                f"{changed[True]:,}",
            )


@options.command("rerank", config=options.config("rerank"))
def command(
    own: Reranking,
    weights: options.TunedWeights,
    reporting: options.ReportOptions,
    config: RunConfig,
    inputs: options.InputOptions,
) -> None:
    """Sort each list by the combined score. Without files to write, the 1-best goes to
    stdout as Kaldi text.

    \b
    rescore rerank test.tta.jsonl --weights weights.json --best test.trn

    JSON Lines are read as a stream, unless --report, --table, --details (which print
    the figures) or --ref is given.
    """
    from rescore import pipeline
    from rescore.reports.summary import render

    reporting.check()
    times = own.times()
    loaded = weights.load()
    config = options.configured(config, weights=weights)
    reported = bool(reporting.report or reporting.table)
    if reported or own.details:
        outcome = pipeline.apply(
            inputs.read(own.nbest, need_references=reported), loaded, config
        )
        reporting.write(outcome.results, own.nbest[0])
        own.write_details(outcome.results.details)
        if own.output or own.best:
            own.write(outcome.decided.ranked(), times)
        click.echo(
            render(outcome.results),
            err="-" in (own.output, own.best, own.details, reporting.report),
        )
        return
    texts = own.best is not None or own.output is None
    own.write(pipeline.rerank(inputs.iterate(own.nbest), loaded, config, texts), times)
