"""Records in JSON documents, before anybody asks what they mean: JSON Lines, one list, one object by id; manifests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rescore.errors import UserError
from rescore.files import loads
from rescore.formats.source import Source


def records_of(source: Source, text_keys: Sequence[str] = ()) -> Iterator[tuple[int, Any, str]]:
    """The records with their numbers and places; JSON Lines as a stream. `text_keys`: where they have hypotheses."""
    peek = source.peek
    if peek.root == "{" and peek.lines:
        number = 0
        for line_number, line in enumerate(source.lines(), 1):
            if line.strip():
                number += 1
                place = f"{source.name}: line {line_number}"
                value = loads(line, place, line=True)
                for one in _by_id(value, text_keys) or [value]:
                    yield number, one, place
        return
    document = loads(source.read_all(), source.name)
    if by_id := _by_id(document, text_keys):
        for number, value in enumerate(by_id, 1):
            yield number, value, f"{source.name}: utterance {value['id']}"
        return
    values = document if isinstance(document, list) else [document]
    for number, value in enumerate(values, 1):
        yield number, value, f"{source.name}: entry {number}" if isinstance(document, list) else source.name


def _by_id(document: Any, text_keys: Sequence[str]) -> list[dict[str, Any]]:
    """The records of `{"utt": {"reference": ..., "hypotheses": [...]}}` or `{"utt": ["text", ...]}`; [] of others."""
    if not isinstance(document, dict) or not document or set(document) & set(text_keys):
        return []
    if all(isinstance(value, list) and value and not isinstance(value[0], (int, float)) for value in document.values()):
        return [{"id": name, "hyps": value} for name, value in document.items()]
    if all(isinstance(value, dict) for value in document.values()):
        return [{**value, "id": name} for name, value in document.items()]
    return []


def first_of(value: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    return next((key for key in keys if value.get(key) is not None), None)


def identity_of(value: Any) -> str:
    """An id; of the path of an audio file its name without folder and ending."""
    text = str(value)
    return Path(text).stem if re.search(r"\.(wav|flac|mp3|ogg|m4a|opus|sph)$", text) else text


_MANIFEST_TEXT = ("reference", "ref", "text", "sentence", "transcript")


def is_manifest(source: Source) -> bool:
    """Whether records have an audio file and a text, but no hypotheses: NeMo's manifests as training reads them."""
    keys = set(source.peek.keys)
    return (
        bool({"audio_filepath", "audio", "path"} & keys and set(_MANIFEST_TEXT) & keys)
        and not {"beams", "pred_text"} & keys
    )


def references_of(source: Source) -> dict[str, tuple[str, ...]]:
    """The texts of a manifest, called after their audio files.

    Raises:
        UserError: an utterance is duplicated, or has no text.
    """
    found: dict[str, tuple[str, ...]] = {}
    for _, value, place in records_of(source):
        key = first_of(value, ("audio_filepath", "audio", "path")) if isinstance(value, dict) else None
        text = next((value[name] for name in _MANIFEST_TEXT if isinstance(value.get(name), str)), None) if key else None
        if key is None or text is None:
            raise UserError(f"{place}: expected an object with audio_filepath and text")
        name = identity_of(value[key])
        if name in found:
            raise UserError(f"{place}: utterance {name} is duplicated; give each utterance once")
        found[name] = (" ".join(text.split()),)
    return found
