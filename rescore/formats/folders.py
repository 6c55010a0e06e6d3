"""Folders: which of their files are read, one after another, as one set of lists."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from rescore.errors import listed
from rescore.files import ending_of
from rescore.formats.shapes import records
from rescore.formats.source import Source, sniff
from rescore.formats.texts import RECORDS
from rescore.parts import FORMATS

log = logging.getLogger(__name__)


def with_files_of_folders(
    paths: Sequence[str | Path | Source], told: bool = False
) -> Iterator[str | Path | Source]:
    """Yield the paths; instead of a folder of JSON Lines, or of the parts of a set, its
    files by name.

    Args:
        paths: Files, folders and streams.
        told: Whether a warning names the files with lists that are left out.
    """
    for path in paths:
        if isinstance(path, Source) or not Path(path).is_dir():
            yield path
            continue
        folder = Path(path)
        files = files_of_folder(folder)
        if told and files != [folder]:
            _tell_left_out(folder, files)
        yield from files


def files_of_folder(folder: Path) -> list[Path]:
    """Return the files of a folder that are read one after another: JSON Lines, or the
    parts of a set; the folder itself if a format reads it as a whole, or no file is
    such a file.

    Args:
        folder: The folder.
    """
    source = Source(folder)
    if sniff(source) is not None:
        return [folder]
    files = [file.path for file in source.files(_is_json_lines)]
    return files or _parts_of_set(folder) or [folder]


def _is_json_lines(path: Path) -> bool:
    """Return whether the name of a file, which may be packed, is that of JSON Lines."""
    return ending_of(path.name) == ".jsonl"


def _tell_left_out(folder: Path, files: Sequence[Path]) -> None:
    """Warn of files of a folder that have lists and are not read with the others."""
    others = Source(folder).files(lambda file: file not in files)
    left_out = [file.path.name for file in others if _has_lists(file)]
    if left_out:
        log.warning(
            "%s: only %s and such files of the folder are read; N-best lists in %s are"
            " left out: give the files",
            folder,
            files[0].name,
            listed(left_out),
        )


def _has_lists(source: Source) -> bool:
    """Return whether a file has N-best lists, as its keys or its form show."""
    name = sniff(source)
    if name == RECORDS:
        return not set(records()[RECORDS].text).isdisjoint(source.peek.keys)
    return name is not None


def _parts_of_set(folder: Path) -> list[Path]:
    """Return the files of a folder that are the parts of a set, of the first format
    that has such files.
    """
    for name, _ in FORMATS.loaded():
        files = parts_in(folder, name)
        if files:
            return files
    return []


def parts_in(folder: Path, name: str) -> list[Path]:
    """Return the files of a folder that a format reads as the parts of one set, by
    name.

    Args:
        folder: A folder with a single file of the format, or with the parts of a set.
        name: The name of the format.
    """
    reader = FORMATS[name]
    files = set()
    for pattern in getattr(reader, "parts", ()):
        for path in folder.glob(pattern):
            if path.is_file() and reader.sniff(Source(path)):
                files.add(path)
    return sorted(files)
