"""sherpa-onnx: the name of a wave file, then its result as one line of JSON with `text`, `tokens`, `timestamps`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rescore.errors import UserError
from rescore.files import loads
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import plain
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList

_RESULT = re.compile(r'^\s*\{.*"timestamps"\s*:.*"tokens"\s*:|^\s*\{.*"tokens"\s*:.*"timestamps"\s*:', re.MULTILINE)
_AUDIO = re.compile(r"(\S+)\.(?:wav|flac|mp3|ogg|opus|m4a)\b", re.IGNORECASE)
_PROBABILITIES = ("ys_log_probs", "ys_probs", "token_log_probs")


def sniff(source: Source) -> bool:
    return not source.is_folder and _RESULT.search(source.head) is not None


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """An utterance is called after the last wave file named before it, else after its place, from 1.

    The score is the sum of the tokens' log-probabilities where the decoder gave them.
    """
    name, number = None, 0
    for line_number, line in enumerate(source.lines(), 1):
        if not line.lstrip().startswith("{"):
            if match := _AUDIO.search(line):
                name = Path(match[1]).name
            continue
        place = f"{source.name}: line {line_number}"
        result = loads(line, place, line=True)
        if not isinstance(result, dict) or not isinstance(result.get("text"), str):
            raise UserError(f'{place}: no "text"')
        number += 1
        scores = next((values for key in _PROBABILITIES if (values := result.get(key))), None)
        total = {} if scores is None else {FIRST_PASS: _sum(scores, place)}
        yield NbestList(name or str(number), [Hypothesis(plain(result["text"]), total)])
        name = None


def _sum(values: Any, place: str) -> float:
    if not isinstance(values, list) or any(not isinstance(one, (int, float)) for one in values):
        raise UserError(f"{place}: log-probabilities of tokens are not numbers")
    return float(sum(values))
