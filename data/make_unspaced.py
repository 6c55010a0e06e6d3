"""Writes rescore/unspaced.py: letters of the scripts without blanks between words, from
Unicode's properties.

    python data/make_unspaced.py

The package regex (`pip install regex`) has the properties.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path

import regex

MODULE = Path(__file__).parents[1] / "rescore" / "unspaced.py"


def is_southeast_asian(letter: str) -> bool:
    """Return whether lines may break within words of the letter's script, where only a
    dictionary knows the words (line break class SA).
    """
    return regex.match(r"\p{Line_Break=SA}", letter) is not None


def is_mark(letter: str) -> bool:
    """Return whether a letter belongs to the letter before it."""
    is_combining = unicodedata.category(letter) in ("Mn", "Mc")
    return is_southeast_asian(letter) and is_combining


def ranges(holds: Callable[[str], bool]) -> str:
    """Return the ranges of letters for which a function holds, for a regular
    expression.
    """
    spans: list[list[int]] = []
    for code in range(0x110000):
        if not holds(chr(code)):
            continue
        if spans and spans[-1][1] == code - 1:
            spans[-1][1] = code
        else:
            spans.append([code, code])
    return "".join(f"{_escaped(first)}-{_escaped(last)}" for first, last in spans)


def _escaped(code: int) -> str:
    """Return a letter as Python writes it in a text."""
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def assigned(name: str, value: str) -> str:
    """Return the lines that give a name to a text of ranges."""
    parts = value.replace("\\", " \\").split()
    lines = [f"{name} = ("]
    for start in range(0, len(parts), 8):
        lines.append(f'    "{"".join(parts[start : start + 8])}"')
    return "\n".join([*lines, ")"])


def main() -> None:
    """Write the module."""
    head, _, rest = MODULE.read_text("utf-8").partition("SOUTHEAST_ASIAN = (")
    _, _, tail = rest.partition("# --- end of the table")
    table = [
        assigned("SOUTHEAST_ASIAN", ranges(is_southeast_asian)),
        '"""Letters of Thai, Lao, Burmese, Khmer and scripts of their neighbours."""',
        assigned("MARKS", ranges(is_mark)),
        '"""Those of them that belong to the letter before: vowels and tones."""',
    ]
    lines = "\n".join(table)
    MODULE.write_text(f"{head}{lines}\n# --- end of the table{tail}", "utf-8")


if __name__ == "__main__":
    main()
