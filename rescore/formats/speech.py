"""JSON of speech services and Vosk: alternatives for each phrase of a recording, one file a recording.

Azure     {"NBest": [{"Lexical": "a b", "Confidence": 0.9}, ...]}, batch: {"recognizedPhrases": [{"nBest": ...}]}
Google    {"results": [{"alternatives": [{"transcript": "a b", "confidence": 0.9}, ...]}, ...]}
AWS       {"results": {"segments": [{"alternatives": [{"transcript": "a b", "items": [...]}, ...]}, ...]}}
Vosk      {"alternatives": [{"text": "a b", "confidence": 231.4}, ...]}
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from rescore.errors import UserError
from rescore.files import loads
from rescore.formats.lines import json_number
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import plain
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList

_ALTERNATIVES = ("NBest", "nBest", "alternatives")
_RESULTS = {"alternatives", "transcripts", "segments", "items"}
_TEXTS = ("Lexical", "lexical", "transcript", "text", "Display", "display")


def sniff(source: Source) -> bool:
    keys, inner = set(source.peek.keys), set(source.peek.inner)
    if source.peek.root != "{":
        return False
    results = "results" in keys and not keys & {"utts", "hyps"} and (not inner or bool(inner & _RESULTS))
    return results or bool(keys & {*_ALTERNATIVES, "recognizedPhrases"})


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """A phrase is a list, called after the file and (where there are several) its number.

    Confidences are probabilities, whose natural log is the score; Vosk's are scores as they are. Where an alternative
    has none, as all but Google's first, the order is the first pass.
    """
    phrases = [found for place, value in _documents(source) for found in _phrases(value, place)]
    for number, (place, alternatives) in enumerate(phrases, 1):
        name = source.stem if len(phrases) == 1 else f"{source.stem}-{number}"
        yield NbestList(name, _hypotheses(alternatives, place))


def _documents(source: Source) -> Iterator[tuple[str, Any]]:
    if source.peek.lines:
        for place, text in source.filled():
            yield place, loads(text, place, line=True)
    else:
        yield source.name, loads(source.read_all(), source.name)


def _phrases(value: Any, place: str) -> Iterator[tuple[str, list[Any]]]:
    """The alternatives of each phrase, with the place for errors."""
    if (found := _alternatives(value)) is not None:
        yield place, found
        return
    phrases = value.get("recognizedPhrases", value.get("results")) if isinstance(value, dict) else None
    phrases = phrases.get("segments") if isinstance(phrases, dict) else phrases
    if not isinstance(phrases, list):
        raise UserError(f"{place}: no alternatives in it, such as NBest, or results with alternatives")
    for number, one in enumerate(phrases, 1):
        found = _alternatives(one)
        if found is None:
            raise UserError(f"{place}, phrase {number}: no alternatives in it")
        if found:  # Google has phrases in which nothing was said
            yield f"{place}, phrase {number}", found


def _alternatives(value: Any) -> list[Any] | None:
    if not isinstance(value, dict):
        return None
    return next((value[key] for key in _ALTERNATIVES if isinstance(value.get(key), list)), None)


def _hypotheses(alternatives: list[Any], place: str) -> list[Hypothesis]:
    texts, confidences = [], []
    for rank, one in enumerate(alternatives, 1):
        key = next((key for key in _TEXTS if isinstance(one.get(key), str)), None) if isinstance(one, dict) else None
        if key is None:
            raise UserError(f"{place}, alternative {rank}: no text, such as Lexical, transcript or text")
        texts.append(plain(one[key]))
        confidence = one.get("Confidence", one.get("confidence"))
        if confidence is not None:
            number = json_number(confidence, f"{place}, alternative {rank}", "confidence")
            confidences.append(number if key == "text" else _log(number))
    if len(confidences) < len(texts):
        return [Hypothesis(text) for text in texts]
    return [Hypothesis(text, {FIRST_PASS: score}) for text, score in zip(texts, confidences, strict=True)]


def _log(probability: float) -> float:
    return math.log(probability) if probability > 0 else -math.inf
