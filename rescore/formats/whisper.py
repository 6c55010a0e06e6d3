"""Whisper's JSON (OpenAI's, faster-whisper's, whisper.cpp's likes): one file a recording, made of segments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rescore.errors import UserError
from rescore.formats.lines import json_number
from rescore.formats.native import load_json
from rescore.formats.source import ReadOptions, Source
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList


def sniff(source: Source) -> bool:
    if source.is_folder:
        files = sorted(source.path.glob("*.json"))
        return bool(files) and sniff(Source(files[0]))
    peek = source.peek
    return "segments" in peek.keys or (peek.root == "[" and {"avg_logprob", "text"} <= set(peek.keys))


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """A recording is a list of one hypothesis, called after the file.

    Its score is the sum of `avg_logprob` times the segment's tokens and its end, which is what Whisper averaged over.
    """
    if source.is_folder:
        for path in sorted(source.path.glob("*.json")):
            yield from read(Source(path, source.warnings), options)
        return
    document = load_json(source)
    segments = document.get("segments") if isinstance(document, dict) else document
    if not isinstance(segments, list) or any(not isinstance(one, dict) for one in segments):
        raise UserError(f'{source.name}: expected a list of segments, with "text" in each')
    texts, total, scored = [], 0.0, bool(segments)
    for number, segment in enumerate(segments, 1):
        text = segment.get("text")
        if not isinstance(text, str):
            raise UserError(f'{source.name}: segment {number}: no "text"')
        texts.append(text.strip())
        score = _score(segment, f"{source.name}: segment {number}")
        scored = scored and score is not None
        total += score or 0.0
    yield NbestList(source.stem, [Hypothesis(" ".join(" ".join(texts).split()), {FIRST_PASS: total} if scored else {})])


def _score(segment: dict[str, Any], place: str) -> float | None:
    mean, tokens = segment.get("avg_logprob"), segment.get("tokens")
    if mean is None:
        return None
    return json_number(mean, place, "avg_logprob") * (len(tokens) + 1 if isinstance(tokens, list) else 1)
