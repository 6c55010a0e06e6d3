"""A first look into a JSON text: the keys of its first object, which tell the formats of JSON from each other."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_JSON = re.compile(r"""\{(?:\S|\s*(?:["}]|$))|\[\s*(?:["\[{\]\d-]|$)""")
"""The beginning of JSON, unlike texts of sclite with alternatives such as `{ uh / @ }` or a `[noise]`."""


@dataclass(frozen=True, slots=True)
class JsonPeek:
    """The first object of a JSON text."""

    root: str
    """`{` or `[`, the first character of the text; empty if it is not JSON."""
    keys: tuple[str, ...]
    """Of the root object, or of the first object in the root list."""
    inner: tuple[str, ...]
    """Of the first object within that object."""
    plain_lists: tuple[str, ...]
    """The keys whose value is a list that begins with a text or a list, not with an object."""
    lines: bool
    """Whether further documents follow, or the first is whole on the first line."""

    @classmethod
    def of(cls, head: str) -> JsonPeek:
        """The peek of the first 64 KiB or so of a text; the rest is not seen."""
        start = head.lstrip()
        if not _JSON.match(start):
            return cls("", (), (), (), False)
        root = start[0]
        keys, inner, plain_lists, end = _scan(start, root)
        first_line, newline, _ = start.partition("\n")
        if end is None:  # cut: a line that goes on beyond the head is one record, and not an indented document
            return cls(root, keys, inner, plain_lists, not newline and root == "{")
        return cls(root, keys, inner, plain_lists, end == len(first_line.rstrip()) and root == "{")


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:"]', re.DOTALL)
"""A string or a mark of JSON; a quotation mark alone is a string that is cut. No token is read twice."""


def _scan(text: str, root: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], int | None]:
    """Keys of the first object, of the first within it, of plain lists, and where the first document ends, if seen.

    Strict parsers would not do: the text may be cut, damaged, or hold `-Infinity`.
    """
    depth, level = 0, 1 if root == "{" else 2
    list_at: int = 0
    keys: list[str] = []
    inner: list[str] = []
    plain_lists: list[str] = []
    outer_open = inner_open = True
    last = ""
    for match in _TOKEN.finditer(text):
        token, before, last = match[0], last, match[0]
        if token == '"':
            break
        begins = before == "[" and not text[list_at : match.start()].strip()
        if begins and depth == level + 1 and outer_open and keys and token[0] in '"[':
            plain_lists.append(keys[-1])
        if token in ("{", "["):
            depth += 1
            list_at = match.end()
        elif token in ("}", "]"):
            outer_open &= token != "}" or depth != level
            inner_open &= token != "}" or depth != level + 1 or not inner
            depth -= 1
            if depth == 0:
                return tuple(keys), tuple(inner), tuple(plain_lists), match.end()
        elif token == ":" and before[:1] == '"' and outer_open:
            if depth == level:
                keys.append(_unquoted(before))
            elif depth == level + 1 and inner_open:
                inner.append(_unquoted(before))
    return tuple(keys), tuple(inner), tuple(plain_lists), None


def _unquoted(token: str) -> str:
    try:
        return str(json.loads(token))
    except ValueError:
        return token.strip('"')
