"""The format `pipes`: `utterance|score|text` on each line, best first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from math import log

from rescore.columns import FIRST_PASS
from rescore.errors import UserError
from rescore.formats.source import Place, ReadOptions, Source
from rescore.formats.writing import opened
from rescore.nbest import Hypothesis, NbestList
from rescore.options import Declared, option


class Pipes:
    """lines of utterance|score|text"""

    place = Place.SHAPE
    """Detection asks formats with a mark of their own first."""

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        """Options of reading: all commands that read lists have them."""

        base: float | None = option(
            None, "pipes: base of the logarithms.  [default: e]", "--log-base", low=1.1
        )

    def sniff(self, source: Source) -> bool:
        """Return whether a file has this format, judged by its beginning."""
        return source.head.partition("\n")[0].count("|") == 2

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Yield the lists of a file."""
        base = options.of(Pipes.Options).base
        factor = log(base) if base else 1.0
        rows = (_row(place, line) for place, line in source.filled())
        for utterance, same in groupby(rows, key=lambda row: row[0]):
            hypotheses = []
            for _, score, text in same:
                hypotheses.append(Hypothesis(text, {FIRST_PASS: factor * score}))
            yield NbestList(utterance, hypotheses)

    def write(self, lists: Iterable[NbestList], path: str) -> None:
        """Write lists; `-` is stdout."""
        with opened(path) as file:
            for nbest in lists:
                for one in nbest.hypotheses:
                    file.write(f"{nbest.id}|{one.scores[FIRST_PASS]:g}|{one.text}\n")


def _row(place: str, line: str) -> tuple[str, float, str]:
    """Return the three fields of a line."""
    try:
        utterance, score, text = line.split("|")
        return utterance, float(score), text
    except ValueError:
        raise UserError(f"{place}: expected utterance|score|text") from None


PIPES = Pipes()
