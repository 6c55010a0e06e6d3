"""`rescore rerank`: the decision."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import click

from rescore import formats, pipeline
from rescore.cli import options
from rescore.columns import FIRST_PASS
from rescore.config import RunConfig
from rescore.errors import counted
from rescore.formats.text import detokeniser
from rescore.nbest import NbestList, ranking
from rescore.options import option
from rescore.reports.summary import render

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
        """Write lists and texts as a stream.

        Args:
            ranked: Sorted lists with the texts chosen for them.
            times: What the method `times` returned.
        """
        undo = detokeniser(self.detokenize) if self.detokenize else str
        best = self.best
        if best is None and not self.output:
            best = "-"
        changed = Counter[bool]()
        with ExitStack() as stack:
            writer = None
            if best:
                file = stack.enter_context(formats.opened(best))
                writer = formats.BestWriter(best, file, times)

            def lists() -> Iterator[NbestList]:
                for nbest, text in ranked:
                    if writer:
                        writer.write(nbest, undo(text))
                    if best and best != "-":
                        changed[text != _first_text(nbest)] += 1
                    yield replace(nbest, hypotheses=nbest.hypotheses[: self.keep])

            if self.output:
                formats.write(lists(), self.output)
            else:
                deque(lists(), maxlen=0)
            if writer:
                writer.close()
        if best and best != "-":
            log.info(
                "%s: %s, %s changed",
                best,
                counted(changed.total(), "text"),
                f"{changed[True]:,}",
            )


def _first_text(nbest: NbestList) -> str:
    """Return the text with the best first-pass score."""
    return nbest.hypotheses[ranking(nbest, nbest.column(FIRST_PASS))[0]].text


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
