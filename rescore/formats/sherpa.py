"""sherpa-onnx: the name of a wave file, then its result as one line of JSON with `text`, `tokens`, `timestamps`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rescore.errors import UserError
from rescore.files import loads
from rescore.formats.lines import json_number
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import plain
from rescore.nbest import FIRST_PASS, Column, Hypothesis, NbestList

_AUDIO = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a")
_PROBABILITIES = ("ys_log_probs", "ys_probs", "token_log_probs")
_COMPONENTS = {"lm": "lm_probs", "context": "context_scores"}
"""Columns, and the fields with their values for each token."""
_COLUMNS = {name: Column.component("sherpa") for name in _COMPONENTS}


def sniff(source: Source) -> bool:
    return not source.is_folder and any(
        line.startswith("{") and '"timestamps"' in line and '"tokens"' in line
        for line in map(str.strip, source.head.split("\n"))
    )


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """An utterance is called after the last wave file named before it, else after its place, from 1.

    The score is the sum of the tokens' log-probabilities where the decoder gave them.
    """
    name, number = None, 0
    for place, line in source.filled():
        if not line.lstrip().startswith("{"):
            name = next((Path(word).stem for word in line.split() if word.lower().endswith(_AUDIO)), name)
            continue
        result = loads(line, place, line=True)
        if not isinstance(result, dict) or not isinstance(result.get("text"), str):
            raise UserError(f'{place}: no "text"')
        number += 1
        values = next((result[key] for key in _PROBABILITIES if result.get(key)), None)
        scores = {} if values is None else {FIRST_PASS: _sum(values, place)}
        scores |= {column: _sum(result[key], place) for column, key in _COMPONENTS.items() if result.get(key)}
        yield NbestList(name or str(number), [Hypothesis(plain(result["text"]), scores)], provenance=_COLUMNS)
        name = None


def _sum(values: Any, place: str) -> float:
    if not isinstance(values, list):
        raise UserError(f"{place}: log-probabilities of tokens are not a list of numbers")
    return sum(json_number(one, place, "a token's log-probability") for one in values)
