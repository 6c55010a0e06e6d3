"""Lists with an acoustic and an LM score for each hypothesis: Kaldi's folders and
SRILM's files.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rescore.errors import UserError
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import (
    as_number,
    grouped,
    numbered,
    split_id,
    strip_markup,
    table,
    utterance_of,
)
from rescore.nbest import FIRST_PASS, Column, Header, Hypothesis, NbestList, free_name
from rescore.options import Declared, option

ACOUSTIC, LANGUAGE = "am", "lm"
"""Columns of the acoustic score, and of the score of the language model (Kaldi's
graph).
"""
_WORDS = [
    name + packed
    for name in ("words_text", "words", "text", "nbest")
    for packed in ("", ".gz")
]
_ACOUSTIC_COSTS, _GRAPH_COSTS = (
    ("acwt", "ac_cost"),
    ("lmwt.withlm", "lmwt", "lm_cost", "lmwt.nolm"),
)
_NUMBERED = re.compile(r"(.+)-(\d{1,9})")
_ARCHIVES = re.compile(r"archives\.(\d+)")


@dataclass(frozen=True, kw_only=True)
class AcousticScale(Declared):
    acoustic_scale: float | None = option(
        None,
        "First-pass score of Kaldi lists, SRILM lists and lattices: A times the"
        " acoustic score, plus the LM score.  [default: 1/12 for Kaldi, 1/8 for SRILM;"
        " lattices: acscale in the file, or 1]",
        metavar="A",
        low=0,
        high=1e6,
    )


class _Kaldi:
    """A folder of archives in text form, as `nbest-to-linear` and
    `steps/rnnlmrescore.sh` leave it.

    `words_text` (or `text`) has the lines `utt-1 words`, `utt-2 words`, ...; `acwt` (or
    `ac_cost`) and `lmwt.withlm` (or `lmwt`, `lm_cost`, `lmwt.nolm`) the acoustic and
    the graph costs. Costs are negative logs: as scores they change sign. Any file may
    be gzipped.
    """

    Options = AcousticScale
    SCALE = 1 / 12
    """Kaldi's own default, --inv-acwt 12."""
    _column = Column.component("kaldi")

    def sniff(self, source: Source) -> bool:
        if source.is_folder:
            return bool(self._parts(source.path))
        first = split_id(source.head.partition("\n")[0])[0]
        return (
            source.is_regular
            and _NUMBERED.fullmatch(first) is not None
            and bool(self._costs(source.path.parent))
        )

    def _parts(self, path: Path) -> list[Path]:
        """The files of words in the folder itself, or in its archives.1, archives.2,
        ...
        """
        archives = numbered(path, _ARCHIVES)
        folders = archives or [path]
        texts = [
            next((part / name for name in _WORDS if (part / name).is_file()), None)
            for part in folders
        ]
        return [
            text
            for text in texts
            if text is not None and (archives or self._costs(text.parent))
        ]

    def _costs(self, folder: Path) -> dict[str, Path]:
        """Files of costs by their names without .gz."""
        files = {
            path.name.removesuffix(".gz"): path
            for path in sorted(folder.iterdir())
            if path.is_file()
        }
        known = (*_ACOUSTIC_COSTS, *_GRAPH_COSTS)
        return {
            name: path
            for name, path in files.items()
            if name in known or name.startswith("lmwt.")
        }

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """`s2s` is the graph score and the acoustic score times --acoustic-scale
        (1/12); both have columns, too.
        """
        scale = options.of(AcousticScale).acoustic_scale
        for path in self._parts(source.path) if source.is_folder else [source.path]:
            words = Source(path, source.warnings) if source.is_folder else source
            costs = {
                name: table(file, source.warnings)
                for name, file in self._costs(path.parent).items()
            }
            yield from self._lists(words, costs, self.SCALE if scale is None else scale)

    def _lists(
        self, words: Source, costs: dict[str, dict[str, str]], scale: float
    ) -> Iterator[NbestList]:
        graph = next((name for name in _GRAPH_COSTS if name in costs), None)
        columns: dict[str, Column] = {}
        header = Header(columns=columns)

        def entry(text: str, place: str) -> tuple[str, NbestList]:
            key, said = split_id(text)
            match = _NUMBERED.fullmatch(key)
            if not match:
                raise UserError(f"{place}: expected `utterance-1 words`, found {key!r}")
            scores: dict[str, float] = {}
            for name, values in costs.items():
                file = words.path.parent / name
                if key not in values:
                    raise UserError(
                        f"{file}: no cost for {key}, but {words.name} contains it"
                    )
                column = name.removeprefix("lmwt.")
                # A name like `lmwt.s2s` does not make a column the first pass.
                column = free_name(column) if column == FIRST_PASS else column
                column = (
                    ACOUSTIC
                    if name in _ACOUSTIC_COSTS
                    else FIRST_PASS
                    if name == graph
                    else column
                )
                scores[column] = -as_number(
                    values[key].split(",")[0], f"{file}: {key}", "cost"
                )
            if scores:
                language = scores.pop(FIRST_PASS, 0.0)
                total = language + scale * scores.get(ACOUSTIC, 0.0)
                both = (
                    {ACOUSTIC: scores.pop(ACOUSTIC), LANGUAGE: language}
                    if ACOUSTIC in scores
                    else {}
                )
                scores = {FIRST_PASS: total, **both, **scores}
            columns.update(
                (name, self._column)
                for name in scores
                if name != FIRST_PASS and name not in columns
            )
            return match[1], NbestList(
                match[1], [Hypothesis(strip_markup(said), scores)], header=header
            )

        yield from grouped(
            (entry(text, place) for place, text in words.filled()), words.name
        )


LN10 = math.log(10)
_LOG = r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?[ \t]+"
_OWN = re.compile(rf"(?!\d+\s+\d+\s){_LOG}{_LOG}\d+(?:\s|$)", re.IGNORECASE)
_SRILM = Header(
    columns={name: Column.component("srilm") for name in (ACOUSTIC, LANGUAGE)}
)
_DECIPHER = ("NBestList1.0", "NBestList2.0")
_SILENT = {"<s>", "</s>", "-pau-", "<pau>"}


class _Srilm:
    """SRILM N-best lists (nbest-format(5)): one file per utterance, named after it; or
    a folder of such files.

    The lines are `acoustic language words w1 w2 ...`, in logs of base 10.
    """

    Options = AcousticScale
    SCALE = 1 / 8
    """SRILM's own default, a language model weight of 8."""

    def sniff(self, source: Source) -> bool:
        files = source.files()[:1]
        return bool(files) and (
            files[0].head.startswith(_DECIPHER) or _OWN.match(files[0].head) is not None
        )

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """`s2s` is the LM score and the acoustic score times --acoustic-scale (1/8),
        which have columns.
        """
        scale = options.of(AcousticScale).acoustic_scale
        for file in source.files():
            nbest = NbestList(utterance_of(file.path.name), [], header=_SRILM)
            for place, line in file.filled():
                if line.startswith(_DECIPHER):
                    raise UserError(
                        f"{place}: Decipher's format is not read; convert it with"
                        " SRILM's rescore-decipher"
                    )
                nbest.hypotheses.append(
                    _hypothesis(
                        line.split(), self.SCALE if scale is None else scale, place
                    )
                )
            yield nbest


def _hypothesis(cells: list[str], scale: float, place: str) -> Hypothesis:
    if len(cells) < 3:
        raise UserError(f"{place}: expected `acoustic language words w1 w2 ...`")
    acoustic, language = (as_number(cell, place) * LN10 for cell in cells[:2])
    text = strip_markup(" ".join(word for word in cells[3:] if word not in _SILENT))
    scores = {
        FIRST_PASS: language + scale * acoustic,
        ACOUSTIC: acoustic,
        LANGUAGE: language,
    }
    return Hypothesis(text, scores if acoustic else {FIRST_PASS: language})


KALDI = _Kaldi()
SRILM = _Srilm()
