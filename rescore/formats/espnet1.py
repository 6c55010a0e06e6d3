"""ESPnet1 data.json: one file, or the folder that parallel decoding leaves (data.1.json, data.2.json, ...)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from rescore.errors import UserError
from rescore.files import parsed
from rescore.formats.native import is_espnet1, load_json
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import plain
from rescore.formats.writing import check_holds, opened
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList

_FILE = re.compile(r"data(?:\.(\d{1,9}))?\.json")


class _Output(msgspec.Struct):
    rec_text: str
    score: float


def sniff(source: Source) -> bool:
    if source.is_folder:
        return bool(_files(source.path))
    return is_espnet1(source.peek)


def _files(folder: Path) -> list[Path]:
    """data.json where there is one (ESPnet joins the parts into it), else data.1.json, data.2.json, ... in order."""
    found = {path: match for path in folder.iterdir() if (match := _FILE.fullmatch(path.name))}
    parts = sorted((int(match[1]), path) for path, match in found.items() if match[1])
    whole = [path for path, match in found.items() if not match[1]]
    return whole or [path for _, path in parts]


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    for part in [Source(path, source.warnings) for path in _files(source.path)] if source.is_folder else [source]:
        yield from _read_file(part)


def _read_file(source: Source) -> Iterator[NbestList]:
    document = load_json(source)
    utterances = document.get("utts") if isinstance(document, dict) else None
    if not isinstance(utterances, dict):
        raise UserError(f'{source.name}: expected a JSON object with "utts"')
    for name, entry in utterances.items():
        place = f"{source.name}: utterance {name}"
        output = entry.get("output") if isinstance(entry, dict) else None
        if not isinstance(output, list):
            raise UserError(f'{place}: no "output" list')
        hypotheses = [_hypothesis(value, f"{place}, hypothesis {rank}") for rank, value in enumerate(output, 1)]
        reference = output[0].get("text") if output else None
        if not isinstance(reference, str | None):
            raise UserError(f'{place}: "text" is {reference!r}, not a text')
        yield NbestList(name, hypotheses, () if reference is None else (plain(reference),))


def _hypothesis(value: Any, place: str) -> Hypothesis:
    if isinstance(value, list):
        raise UserError(
            f"{place}: is a list, as of recognisers of several speakers; "
            'write a file for each speaker, with that one\'s list as "output"'
        )
    if not isinstance(value, dict) or "rec_text" not in value:
        raise UserError(
            f'{place}: no "rec_text"; is this the data.json of a data folder? Give the one that decoding wrote'
        )
    found = parsed(value, _Output, place)
    return Hypothesis(plain(found.rec_text), {FIRST_PASS: found.score})


def write(lists: Iterable[NbestList], path: str) -> None:
    """One data.json as ESPnet's add_results_to_json writes it; tokens, which lists do not keep, are left out."""
    separator = '{"utts": {\n'
    with opened(path) as file:
        for nbest in check_holds(lists, frozenset({"reference"}), path):
            reference = {"text": nbest.references[0]} if nbest.references else {}
            output = [
                {"name": f"target1[{rank}]", "rec_text": one.text, "score": one.scores[FIRST_PASS], **reference}
                for rank, one in enumerate(nbest.hypotheses, 1)
            ]
            value = json.dumps({"output": output}, ensure_ascii=False, indent=1)
            file.write(f"{separator}{json.dumps(nbest.id, ensure_ascii=False)}: {value}")
            separator = ",\n"
        file.write("\n}}\n" if separator == ",\n" else '{"utts": {}}\n')
