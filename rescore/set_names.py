"""The name of the set of a corpus in the name of a file, such as `test` in
`my.test.csv`.
"""

from __future__ import annotations

import re
from pathlib import Path

from rescore.files import shown, unpacked_name

_SET = re.compile(r"(dev|test|train|valid|validation|val|eval)(?![a-z])", re.IGNORECASE)
"""How a part of a name begins that says which set of a corpus a file has."""

_WORDS = re.compile("(^|[_-])([^_-]*)")
"""The words of a part of a name, each with the mark before it."""


def name_of_set(path: str) -> str:
    """Return the name of the set of a file: the file's name up to its first dot, or up
    to the last part that names a set, such as `my.test` of `my.test.csv`.

    Args:
        path: The path of the file.
    """
    parts = shown(Path(path).name).split(".")
    last = 0
    for place, part in enumerate(parts[:-1]):
        if _SET.match(part):
            last = place
    return ".".join(parts[: last + 1])


def part_beside_set(path: str) -> str:
    """Return the last part of a file's name, without the words in it that name a set of
    a corpus: `qe` of `test.qe.txt`, `dev_qe.txt` and `qe-test.txt`. Empty if nothing is
    left.

    Args:
        path: The path of the file.
    """
    stem = Path(unpacked_name(shown(path))).stem
    for part in reversed(stem.split(".")):
        others = ""
        for mark, word in _WORDS.findall(part):
            if not _SET.match(word):
                others += mark + word
        if others.strip("_-"):
            return others.strip("_-")
    return ""
