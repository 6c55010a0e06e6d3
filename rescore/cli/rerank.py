"""`rescore rerank`: the decision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from rescore.cli import options
from rescore.config import RunConfig
from rescore.options import option

if TYPE_CHECKING:
    from rescore.cli.options.outputs import Times
    from rescore.nbest import NbestList

    Writer = Callable[[Iterator[tuple[NbestList, str]]], None]


@dataclass(frozen=True, kw_only=True)
class Reranking(options.Lists, options.DetokenizeOption, options.RerankedOutputs):
    """The lists, and where reranked lists and texts go."""

    segments: str | None = option(
        None,
        "Kaldi segments file with utterance times: --best x.ctm, .srt and .vtt count from the start of each utterance.",
        metavar="FILE",
        reads=True,
    )
    keep: int | None = option(
        None,
        "Write only the N best hypotheses of each list to -o, for example for a slow model.  [default: all]",
        "--nbest",
        metavar="N",
        low=1,
        needs="output",
    )

    def checked(self) -> Writer:
        """What writes lists and texts, a stream; a file that cannot be written is refused here, before any work."""
        from rescore.formats import check_output
        from rescore.formats.audio import read_segments
        from rescore.formats.best import check
        from rescore.formats.text import detokeniser

        check_output(self.output or "-")
        undo = detokeniser(self.detokenize) if self.detokenize else str
        times = read_segments(self.segments) if self.segments else None
        if self.best:
            check(self.best, times)
        return partial(self._write, undo, times)

    def _write(self, undo: Callable[[str], str], times: Times, ranked: Iterator[tuple[NbestList, str]]) -> None:
        from rescore import formats

        best = self.best or (None if self.output else "-")
        with formats.opened(best) if best else nullcontext() as file:
            writer = formats.BestWriter(best, file, times) if best and file else None

            def lists() -> Iterator[NbestList]:
                for nbest, text in ranked:
                    if writer:
                        writer.write(nbest, undo(text))
                    yield replace(nbest, hypotheses=nbest.hypotheses[: self.keep])

            if self.output:
                formats.write(lists(), self.output)
            else:
                for _ in lists():
                    pass


@options.command("rerank", config=options.config(options.EXPANSION, options.DECISION, options.MEASURES))
def command(
    own: Reranking,
    weights: options.TunedWeights,
    reporting: options.ReportOptions,
    config: RunConfig,
    inputs: options.InputOptions,
) -> None:
    """Sort each list by the combined score. Without -o, --best and --report, the 1-best goes to stdout as Kaldi text.

    \b
    rescore rerank test.tta.jsonl --weights weights.json --best test.trn

    JSON Lines are reranked as a stream, unless --report, --table or --ref needs all lists at once.
    """
    from rescore import pipeline

    reporting.check()
    write = own.checked()
    loaded = weights.load()
    config = options.configured(config, weights=weights)
    if reporting.report or reporting.table:
        outcome = pipeline.apply(inputs.read(own.nbest, need_references=True), loaded, config)
        reporting.write(outcome.results, own.nbest[0])
        if own.output or own.best:
            write(outcome.ranked())
        return
    texts = own.best is not None or own.output is None
    with options.progress_bar(inputs.count(own.nbest), "rerank") as bar:
        stream = options.watched(inputs.iterate(own.nbest), bar.update)
        write(pipeline.rerank(stream, loaded, config, texts))
