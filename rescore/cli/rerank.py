"""`rescore rerank`: the decision."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

from rescore import formats, pipeline
from rescore.asked import check_unmeasured
from rescore.cli import options
from rescore.columns import FIRST_PASS
from rescore.config import RunConfig
from rescore.errors import counted
from rescore.nbest import NbestList, ranking
from rescore.options import option
from rescore.reports.figures import FIRST, baseline_of
from rescore.reports.summary import change_of, render

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Reranking(
    options.Lists,
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
            times: The times of utterances in --segments; None without --segments.
        """
        best = self.best
        if not (best or self.output):
            best = ("-",)
        writers = []
        with ExitStack() as stack:
            for path in best:
                file = stack.enter_context(formats.opened(path))
                texts = _Texts(path, formats.BestWriter(path, file, times), self.plain)
                ranked = texts.written(ranked)
                writers.append(texts)
            self._write_lists(ranked)
            for texts in writers:
                texts.writer.close()
        for texts in writers:
            texts.tell()

    def _write_lists(self, ranked: Iterator[tuple[NbestList, str]]) -> None:
        """Write the lists of a stream. The lists of several files are held in memory.

        Args:
            ranked: Sorted lists with the texts chosen for them.
        """
        pairs: Iterable[tuple[NbestList, str]] = ranked
        if len(self.output) > 1:
            pairs = list(ranked)
        for path in self.output:
            lists = options.RankedLists(pairs)
            formats.write(self._kept(lists), path)
            lists.report(path)
        deque(ranked, maxlen=0)  # what no file of lists has read

    def _kept(self, lists: Iterable[NbestList]) -> Iterator[NbestList]:
        """Yield the lists with the hypotheses that are written."""
        for nbest in lists:
            yield replace(nbest, hypotheses=nbest.hypotheses[: self.keep])


class _Texts:
    """The 1-best texts, which are written to a file while lists pass."""

    def __init__(
        self, path: str, writer: formats.BestWriter, plain: Callable[[str], str]
    ) -> None:
        """Begin to write.

        Args:
            path: The file, for the message.
            writer: Writes the texts.
            plain: Returns a text as it is written.
        """
        self.writer = writer
        self._path = path
        self.number = 0
        self.changed = 0
        """Texts that differ from the first pass."""
        self.baseline = FIRST
        """The name of the first pass."""
        self._plain = plain

    def written(
        self, ranked: Iterable[tuple[NbestList, str]]
    ) -> Iterator[tuple[NbestList, str]]:
        """Yield lists with their texts, after each text is written.

        Args:
            ranked: Sorted lists with the texts chosen for them.
        """
        for nbest, text in ranked:
            self.writer.write(nbest, self._plain(text))
            self.number += 1
            if nbest.header.by_systems:
                self.baseline = baseline_of(several=True)
            if text != _first_text(nbest):
                self.changed += 1
            yield nbest, text

    def tell(self) -> None:
        """Log how many texts the file has, and how many differ from the first pass."""
        if self._path == "-":
            return
        number = counted(self.number, "text")
        change = change_of(self.changed, self.baseline)
        log.info("%s: %s, %s %s", self._path, number, f"{self.changed:,}", change)


def _first_text(nbest: NbestList) -> str:
    """Return the text with the best first-pass score."""
    return nbest.hypotheses[ranking(nbest, nbest.column(FIRST_PASS))[0]].text


_MEASURED = ("report", "table", "details")
"""Options with which figures are computed."""


@options.command(
    "rerank",
    config=options.config("rerank", by=_MEASURED, by_speaker=_MEASURED),
    inputs=options.DECIDED,
)
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

    JSON Lines are read as a stream, unless --report, --table, --details or --ref is
    given. With --report, --table or --details the figures are printed, too.
    """
    reporting.check()
    measures = reporting.report or reporting.table or own.details
    own.check_plain(prints_texts=not (measures or own.output))
    times = own.times()
    inputs.read_options.segment_times = own.needs_word_times
    loaded = weights.load()
    reported = bool(reporting.report or reporting.table)
    if reported or own.details:
        lists = inputs.read(own.nbest, need_references=reported)
        own.check_lists(lists, times)
        outcome = pipeline.apply(lists, loaded, config)
        reporting.write(outcome.results, own.nbest[0])
        own.write_details(outcome.results.details)
        if own.output or own.best:
            own.write(outcome.decided.sorted_lists(), times)
        options.show(render(outcome.results))
        return
    instead = "give --report, --table or --details, which print figures"
    check_unmeasured(config, loaded, instead)
    if inputs.ref and not own.output:
        log.info("--ref is not used: %s", instead)
    stream = own.check_lists(inputs.iterate(own.nbest), times)
    own.write(pipeline.rerank(stream, loaded, config), times)
