"""What a JSON text begins with, as far as its head shows: enough to tell formats apart in files of any size."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Outline:
    """The first object of a JSON text."""

    root: str
    """`{` or `[`, what the text begins with; empty where it is no JSON."""
    keys: tuple[str, ...]
    """Of the root object, or of the first object in the root list."""
    inner: tuple[str, ...]
    """Of the first object within that object."""
    lines: bool
    """Whether further documents follow, or the first is whole on the first line."""

    @classmethod
    def of(cls, head: str) -> Outline:
        """Of the first 64 KiB or so of a text; what is cut off is not seen."""
        start = head.lstrip()
        root = start[:1] if start[:1] in ("{", "[") else ""
        if not root:
            return cls("", (), (), False)
        keys, inner, end = _scan(start, root)
        first_line, newline, _ = start.partition("\n")
        if end is None:  # cut: a line that goes on beyond the head is one record, and not an indented document
            return cls(root, keys, inner, not newline and root == "{")
        return cls(root, keys, inner, end == len(first_line.rstrip()) and root == "{")


def _scan(text: str, root: str) -> tuple[tuple[str, ...], tuple[str, ...], int | None]:
    """Keys of the first object and of the first within it, and where the first document ends, if that is seen."""
    depth, level = 0, 1 if root == "{" else 2
    keys: list[str] = []
    inner: list[str] = []
    first_open = inner_open = True
    string = ""
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "{[":
            depth += 1
        elif token in "}]":
            if token == "}" and depth == level:
                first_open = False
            if token == "}" and depth == level + 1 and inner:
                inner_open = False
            depth -= 1
            if depth == 0:
                return tuple(keys), tuple(inner), match.end()
        elif token == ":" and string:
            if depth == level and first_open:
                keys.append(_unquoted(string))
            elif depth == level + 1 and first_open and inner_open:
                inner.append(_unquoted(string))
        string = token if token[0] == '"' else ""
    return tuple(keys), tuple(inner), None


def _unquoted(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError:
        return token.strip('"')
