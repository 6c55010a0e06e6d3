"""Files of words with their confidences: NIST's CTM, and JSON Lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Protocol

from rescore.errors import UserError
from rescore.formats.recordings import RecordingSegment
from rescore.nbest import NbestList

KINDS = (".ctm", ".jsonl")


class ConfidentWord(Protocol):
    """`rescore.decision.confidence.Word`."""

    @property
    def text(self) -> str: ...
    @property
    def confidence(self) -> float: ...
    @property
    def alternatives(self) -> Sequence[tuple[str, float]]: ...


def check(path: str, has_segments: bool) -> None:
    """See that such a file can be written, before anything is computed.

    Raises:
        UserError: the ending is none of `KINDS`, or a CTM has no segments.
    """
    if not path.endswith(KINDS):
        raise UserError(f"{path}: its ending is none of {', '.join(KINDS)}")
    if path.endswith(".ctm") and not has_segments:
        raise UserError(f"{path}: a CTM has times; give --segments FILE (Kaldi's), or write .jsonl")


def write(
    path: str,
    file: IO[str],
    decided: Iterable[tuple[NbestList, Sequence[ConfidentWord]]],
    segments: dict[str, RecordingSegment] | None = None,
) -> None:
    """Write the words of each list, in the form that the ending of `path` names.

    Args:
        segments: of a CTM: where in which recording each utterance stands.

    Raises:
        UserError: as `check`, or an utterance is not in the segments.
    """
    check(path, segments is not None)
    lines = _ctm_lines(decided, segments) if segments is not None and path.endswith(".ctm") else _json_lines(decided)
    file.writelines(line + "\n" for line in lines)


def _json_lines(decided: Iterable[tuple[NbestList, Sequence[ConfidentWord]]]) -> Iterator[str]:
    for nbest, words in decided:
        rows = []
        for word in words:
            row: dict[str, object] = {"word": word.text, "confidence": round(word.confidence, 4)}
            if word.alternatives:
                row["alternatives"] = [[other, round(mass, 4)] for other, mass in word.alternatives]
            rows.append(row)
        yield json.dumps({"id": nbest.id, "words": rows}, ensure_ascii=False)


def _ctm_lines(
    decided: Iterable[tuple[NbestList, Sequence[ConfidentWord]]], segments: dict[str, RecordingSegment]
) -> Iterator[str]:
    """Lists say no times of words: each takes a part of its utterance in proportion to its letters."""
    for nbest, words in decided:
        if nbest.id not in segments:
            raise UserError(f"utterance {nbest.id}: not in the segments; they need a line for each utterance")
        segment = segments[nbest.id]
        letters = sum(len(word.text) for word in words)
        per_letter = (segment.end - segment.start) / letters if letters else 0.0
        begin = segment.start
        for word in words:
            duration = per_letter * len(word.text)
            yield f"{segment.recording} 1 {begin:.2f} {duration:.2f} {word.text} {word.confidence:.4f}"
            begin += duration
