"""HyPoradise (Chen et al. 2023): a JSON list of `{"input": [hypotheses], "output": reference, ...}`.

Scores stand under `score` or `am_score`, one a hypothesis; some sets have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from rescore.errors import UserError
from rescore.files import parsed
from rescore.formats.native import load_json
from rescore.formats.source import ReadOptions, Source
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList


class _Entry(msgspec.Struct):
    input: list[str]
    output: str | None = None
    id: str | int | None = None
    score: list[float] | None = None
    am_score: list[float] | None = None


def sniff(source: Source) -> bool:
    return re.match(r"\s*\[\s*\{", source.head) is not None and '"input"' in source.head


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """Entries without an id are called after their place, from 1."""
    document = load_json(source)
    if not isinstance(document, list):
        raise UserError(f'{source.name}: expected a JSON list of objects with "input" and "output"')
    for number, value in enumerate(document, 1):
        place = f"{source.name}: entry {number}"
        entry = parsed(value, _Entry, place)
        scores = entry.score if entry.score is not None else entry.am_score
        if scores is not None and len(scores) != len(entry.input):
            raise UserError(f"{place}: {len(scores)} scores for {len(entry.input)} hypotheses")
        hypotheses = [
            Hypothesis(" ".join(text.split()), {} if scores is None else {FIRST_PASS: scores[rank]})
            for rank, text in enumerate(entry.input)
        ]
        references = () if entry.output is None else (" ".join(entry.output.split()),)
        yield NbestList(str(number if entry.id is None else entry.id), hypotheses, references)
