"""What a JSON text begins with, as far as its head shows: enough to tell formats apart in files of any size."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JsonPeek:
    """The first object of a JSON text."""

    root: str
    """`{` or `[`, what the text begins with; empty where it is no JSON."""
    keys: tuple[str, ...]
    """Of the root object, or of the first object in the root list."""
    inner: tuple[str, ...]
    """Of the first object within that object."""
    plain_lists: tuple[str, ...]
    """Those of the keys whose value is a list that begins with a text or a list, not with an object."""
    lines: bool
    """Whether further documents follow, or the first is whole on the first line."""

    @classmethod
    def of(cls, head: str) -> JsonPeek:
        """Of the first 64 KiB or so of a text; what is cut off is not seen."""
        start = head.lstrip()
        root = start[:1] if start[:1] in ("{", "[") else ""
        if not root:
            return cls("", (), (), (), False)
        keys, inner, plain_lists, end = _scan(start, root)
        first_line, newline, _ = start.partition("\n")
        if end is None:  # cut: a line that goes on beyond the head is one record, and not an indented document
            return cls(root, keys, inner, plain_lists, not newline and root == "{")
        return cls(root, keys, inner, plain_lists, end == len(first_line.rstrip()) and root == "{")


def _scan(text: str, root: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], int | None]:
    """Keys of the first object, of the first within it, of plain lists, and where the first document ends, if seen."""
    depth, level = 0, 1 if root == "{" else 2
    keys: list[str] = []
    inner: list[str] = []
    plain_lists: list[str] = []
    opened = False  # whether a list of the first object has just begun
    first_open = inner_open = True
    string = ""
    at = 0
    while at < len(text):
        character = text[at]
        start, at = at, at + 1
        if character == '"':
            end = _end_of_string(text, at)
            if end is None:
                break
            string, at = text[start : end + 1], end + 1
            if opened:
                plain_lists.append(keys[-1])
            opened = False
            continue
        if character.isspace():
            continue
        if opened and character == "[":
            plain_lists.append(keys[-1])
        opened = character == "[" and depth == level and first_open and bool(keys)
        if character in "{[":
            depth += 1
        elif character in "}]":
            if character == "}" and depth == level:
                first_open = False
            if character == "}" and depth == level + 1 and inner:
                inner_open = False
            depth -= 1
            if depth == 0:
                return tuple(keys), tuple(inner), tuple(plain_lists), at
        elif character == ":" and string:
            if depth == level and first_open:
                keys.append(_unquoted(string))
            elif depth == level + 1 and first_open and inner_open:
                inner.append(_unquoted(string))
        string = ""
    return tuple(keys), tuple(inner), tuple(plain_lists), None


def _end_of_string(text: str, at: int) -> int | None:
    """Where the quotation mark is that ends a string which begins before `at`: one behind an even number of \\."""
    while (end := text.find('"', at)) >= 0:
        backslashes = end
        while text[backslashes - 1] == "\\":
            backslashes -= 1
        if (end - backslashes) % 2 == 0:
            return end
        at = end + 1
    return None


def _unquoted(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError:
        return token.strip('"')
