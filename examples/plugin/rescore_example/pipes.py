"""The format `pipes`: `utterance|score|text` on each line, best first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import log

from rescore.columns import FIRST_PASS
from rescore.errors import UserError
from rescore.formats.rows import Row, RowFormat
from rescore.formats.source import Place, ReadOptions, Source
from rescore.formats.writing import opened
from rescore.nbest import NbestList
from rescore.options import Declared, option


class Pipes(RowFormat):
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

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield what each line says; rescore makes lists of rows."""
        base = options.of(Pipes.Options).base
        factor = log(base) if base else 1.0
        for place, line in source.filled():
            utterance, score, text = _cells(place, line)
            yield Row(utterance, place, text, total=factor * score)

    def write(self, lists: Iterable[NbestList], path: str) -> None:
        """Write lists; `-` is stdout."""
        with opened(path) as file:
            for nbest in lists:
                for one in nbest.hypotheses:
                    file.write(f"{nbest.id}|{one.scores[FIRST_PASS]:g}|{one.text}\n")


def _cells(place: str, line: str) -> tuple[str, float, str]:
    """Return the three fields of a line."""
    try:
        utterance, score, text = line.split("|")
        return utterance, float(score), text
    except ValueError:
        raise UserError(f"{place}: expected utterance|score|text") from None


PIPES = Pipes()
