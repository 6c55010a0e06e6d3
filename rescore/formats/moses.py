"""n-best files of Moses, Marian, Sockeye and Joshua: `id ||| hypothesis ||| features ||| total`, or more columns.

Nematus writes three columns, of which the last is a cost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rescore.errors import UserError
from rescore.formats.lines import as_number, grouped
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import plain
from rescore.formats.writing import check_holds, checked_number, line, opened
from rescore.nbest import FIRST_PASS, Column, Hypothesis, NbestList

_COMPONENT = Column.component("moses")
_OF_WORDS = "WordScores="
_FIRST = re.compile(r"\s*\d+\s*\|\|\|")


def sniff(source: Source) -> bool:
    return _FIRST.match(source.head) is not None


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """The lines of one id stand together, and are read as a stream.

    `s2s` is the total. Features go into columns of their names; of a feature with several values, each gets a number.
    """
    columns: dict[str, Column] = {}

    def entry(line: str, place: str) -> tuple[str, NbestList]:
        name, hypothesis = _entry(line, place)
        columns.update((key, _COMPONENT) for key in hypothesis.scores if key != FIRST_PASS and key not in columns)
        return name, NbestList(name, [hypothesis], provenance=columns)

    yield from grouped((entry(line, place) for place, line in source.filled()), source.name)


def _entry(text: str, place: str) -> tuple[str, Hypothesis]:
    columns = [column.strip() for column in text.split("|||")]
    if len(columns) < 3:
        raise UserError(f"{place}: expected `id ||| hypothesis ||| features ||| total`, found {len(columns)} columns")
    name, said = columns[:2]
    if len(columns) == 3:
        cost = as_number(columns[2], place)
        return name, Hypothesis(plain(said), {FIRST_PASS: -cost if cost > 0 else cost})
    at = _features_at(columns)
    return name, Hypothesis(
        plain(said), {FIRST_PASS: as_number(columns[at + 1], place), **_features(columns[at], place)}
    )


def _features_at(columns: list[str]) -> int:
    """Which column has the features: the third, or where Marian writes alignments and scores of words before it."""
    named = (at for at in range(2, len(columns) - 1) if "=" in columns[at] and not columns[at].startswith(_OF_WORDS))
    return next(named, 2)


def _features(text: str, place: str) -> dict[str, float]:
    """`LM0= -1 -2` of Moses and Marian, `lm_0=-1` of Joshua."""
    values: dict[str, list[float]] = {}
    name = "feature"
    for word in text.split():
        before, equals, number = word.rpartition("=")
        if equals and before:
            name = before
        if number or not equals:
            values.setdefault(name, []).append(as_number(number if before else word, place))
    return {
        column if len(numbers) == 1 else f"{column}.{rank}": number
        for column, numbers in values.items()
        for rank, number in enumerate(numbers, 1)
    }


def write(lists: Iterable[NbestList], path: str) -> None:
    """Each column but the first pass is a feature; bars in a text are escaped as the Moses tokeniser does."""
    with opened(path) as file:
        for nbest in check_holds(lists, frozenset({"columns"}), path, written=_escaped):
            number = checked_number(nbest, path)
            for hypothesis in nbest.hypotheses:
                features = [f"{name}= {score!r}" for name, score in hypothesis.scores.items() if name != FIRST_PASS]
                text = _escaped(hypothesis.text)
                cells = (number, text, " ".join(features), repr(hypothesis.scores[FIRST_PASS]))
                file.write(" ||| ".join(cells) + "\n")


def _escaped(text: str) -> str:
    return line(text).replace("&", "&amp;").replace("|", "&#124;")
