"""Ids of utterances that are paths of audio files: `spk1/talk.wav`, or, for a part of a
file that starts at a second, `spk1/talk.wav@12.5`.

An id stands as it is in the lists. Here is what other names of the same utterance have
in common with it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

SOUNDS = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a", ".sph")
"""Endings of audio files."""
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
