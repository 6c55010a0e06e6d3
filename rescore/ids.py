"""Ids of utterances that are paths of audio files: `spk1/talk.wav`, or, for a part of a
file that starts at a second, `spk1/talk.wav@12.5`.

An id stands as it is in the lists. Here is what other names of the same utterance have
in common with it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

SOUNDS = (
    *(".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".sph"),
    *(".mp4", ".webm"),
)
"""Endings of files with sound; no other table says which these are."""
FEATURES = (".mfc", ".plp", ".fbk")
"""Endings of files with acoustic features, as HTK writes them."""
_ENDINGS = "|".join(ending.removeprefix(".") for ending in (*SOUNDS, *FEATURES))
_ENDING = re.compile(rf"\.(?:{_ENDINGS})(?:@\d+(?:\.\d+)?)?$", re.IGNORECASE)


def is_path(name: str) -> bool:
    """Return whether an id is the path of an audio file, or of a part of one."""
    return _ENDING.search(name) is not None


def without_ending(name: str) -> str:
    """Return an id; of a path of an audio file, the path without its ending."""
    return _ENDING.sub("", name)


def without_blanks(path: str) -> str:
    """Return a path of an audio file as an id: blanks and round brackets, which no file
    of texts with ids can hold, are written as in URLs (`%20`).
    """
    if not is_path(path):
        return path
    return re.sub(r"[\s()]", lambda match: f"%{ord(match[0]):02X}", path)


def short(name: str) -> str:
    """Return an id; of a path of an audio file, its name without folder and ending.

    Args:
        name: The id.

    Example:
        >>> short("calls/talk.2024-01-01.wav")
        'talk.2024-01-01'
    """
    return tail(name, 1)


def tail(name: str, depth: int) -> str:
    """Return an id; of a path of an audio file, its last parts without the ending.

    Args:
        name: The id.
        depth: The number of parts.
    """
    if not is_path(name):
        return name
    parts = re.split(r"[/\\]+", without_ending(without_blanks(name)))
    return "/".join(parts[-depth:])


def parts_of_path(name: str) -> list[str]:
    """Return the parts of an id between slashes, without the ending of an audio file.

    Args:
        name: The id.

    Example:
        >>> parts_of_path("calls/talk.wav"), parts_of_path("talk")
        (['calls', 'talk'], ['talk'])
    """
    parts = re.split(r"[/\\]+", without_ending(without_blanks(name)))
    return [part for part in parts if part] or [name]


def plain_id(name: str, depth: int = 1) -> str:
    """Return what is compared of an id that has no equal: its last parts between
    slashes, without the ending of an audio file, and without leading zeros of numbers.

    Args:
        name: The id.
        depth: The number of parts.

    Example:
        >>> plain_id("utt-007"), plain_id("spk1/a.wav"), plain_id("spk1/a.wav", 2)
        ('utt-7', 'a', 'spk1/a')
    """
    return without_zeros("/".join(parts_of_path(name)[-depth:]))


def without_zeros(name: str) -> str:
    """Return a name without the leading zeros of its numbers.

    Args:
        name: An id, or what a `*` stands for in the name of a column.

    Example:
        >>> without_zeros("utt-007"), without_zeros("t=1.05"), without_zeros("0")
        ('utt-7', 't=1.05', '0')
    """
    return _ZEROS.sub("", name)


_ZEROS = re.compile(r"(?<!\d)(?<!\d\.)0+(?=\d)")
"""The leading zeros of a number; digits behind a point are no number of their own."""


def are_alike(name: str, other: str) -> bool:
    """Return whether two ids with the same last part may be of one utterance. Ids in
    different folders are, if one of them is the path of an audio file: another machine
    has other folders.

    Args:
        name: An id.
        other: The other id.

    Example:
        >>> are_alike("in/a/1", "a/01"), are_alike("a/1", "b/1")
        (True, False)
    """
    return is_path(name) or is_path(other) or is_part_of_path(name, other)


def is_part_of_path(name: str, other: str) -> bool:
    """Return whether two ids have the same parts between slashes, as far as both have
    folders.

    Args:
        name: An id.
        other: The other id.
    """
    depth = min(len(parts_of_path(name)), len(parts_of_path(other)))
    return plain_id(name, depth) == plain_id(other, depth)


def piece_id(recording: str, number: int) -> str:
    """Return the id of a piece of a recording that several systems wrote.

    Args:
        recording: The name of the recording.
        number: The number of the piece, from 1.

    Example:
        >>> piece_id("talk", 7)
        'talk-00007'
    """
    return f"{recording}-{number:05}"


_PIECE = re.compile(r"-\d{5,}")


def is_piece_of(name: str, recording: str) -> bool:
    """Return whether an id is one of `piece_id`.

    Args:
        name: The id.
        recording: The name of the recording.
    """
    number = name.removeprefix(recording)
    return name.startswith(recording) and _PIECE.fullmatch(number) is not None


def part_of(path: str, offset: object) -> str:
    """Return the id of an audio file, or of the part of a file that starts at a second,
    as manifests name it: `talk.wav` or `talk.wav@12.5`.

    Args:
        path: The path, or another id, which stays as it is. Blanks in a path are
            written as in URLs.
        offset: The start in seconds, as JSON has it; None for the whole file.
    """
    path = without_blanks(path)
    if isinstance(offset, bool) or not isinstance(offset, (int, float)):
        return path
    if not offset or not math.isfinite(offset) or not is_path(path):
        return path
    return f"{path}@{repr(offset).removesuffix('.0')}"


def by_number(names: Sequence[str]) -> list[int]:
    """Return the places of ids in the order of their numbers, if they differ in numbers
    only, such as `request-2` and `request-10`; else in the order that they have.

    Args:
        names: The ids.
    """
    parts = [re.split(r"([0-9]+)", name) for name in names]
    if len({tuple(own[::2]) for own in parts}) > 1:
        return list(range(len(names)))
    numbers = [tuple(map(int, own[1::2])) for own in parts]
    return sorted(range(len(names)), key=numbers.__getitem__)
