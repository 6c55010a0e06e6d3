"""NeMo's manifests and files of beams, and HyPoradise's lists."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rescore.errors import UserError
from rescore.formats.records import Records
from rescore.formats.settings import ListSize
from rescore.formats.source import ReadOptions, Source
from rescore.formats.tables import NUMBER
from rescore.formats.text import as_number, portions, strip_markup
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList

NEMO = Records(
    "NeMo manifest",
    text=("beams", "pred_text"),
    score=("score", "pred_score"),
    id=("audio_filepath", "id"),
    ref=("text",),
    src=(),
    needs=("audio_filepath",),
)
HYPORADISE = Records(
    "HyPoradise",
    text=("input",),
    score=("score", "am_score"),
    ref=("output",),
    needs=("input",),
)

_WIDTH = re.compile(r"width(\d+)")


class _NemoBeams:
    """NeMo's beams file: `text<TAB>score` lines, the same number of them for each utterance."""

    Options = ListSize

    def sniff(self, source: Source) -> bool:
        lines = [line for line in source.head.split("\n")[:20] if line]
        cells = [line.split("\t") for line in lines[: max(1, len(lines) - 1)]]
        return bool(cells) and all(len(row) == 2 and NUMBER.fullmatch(row[1]) is not None for row in cells)

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Ids are numbers from 1. The width of the beam is in the file's name, or given by --nbest-size."""
        width = _WIDTH.search(source.path.name)
        size = options.of(ListSize).size or (int(width[1]) if width else None)
        if not size:
            raise UserError(
                f"{source.name}: how many lines has an utterance? Say it with --nbest-size N (the beam width)"
            )
        lines = enumerate(source.lines(), 1)
        hypotheses = (self._hypothesis(line, f"{source.name}: line {number}") for number, line in lines)
        yield from portions(hypotheses, size, source.name)

    def _hypothesis(self, line: str, place: str) -> Hypothesis:
        text, tab, score = line.rpartition("\t")
        if not tab:
            raise UserError(f"{place}: expected `text<TAB>score`")
        return Hypothesis(strip_markup(text), {FIRST_PASS: as_number(score, place)})


NEMO_BEAMS = _NemoBeams()
