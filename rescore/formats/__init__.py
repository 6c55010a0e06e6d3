"""Reading and writing N-best lists; the format of a path is detected by looking inside.

For example:

    lists = read(["exp/decode_test"], references="data/test/text")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rescore.files import opened
from rescore.parts import FORMATS, resolve

if TYPE_CHECKING:
    from rescore.formats.best import BestWriter, write_best
    from rescore.formats.folders import parts_in
    from rescore.formats.outputs import read_lists_or_texts, read_output
    from rescore.formats.reading import Format, from_json, iterate, read
    from rescore.formats.references import References, read_references
    from rescore.formats.source import ReadOptions, sniff
    from rescore.formats.writing import (
        BEST_ENDINGS,
        check_output,
        checked_lists,
        write,
        written_formats,
    )

__all__ = [
    "BEST_ENDINGS",
    "FORMATS",
    "BestWriter",
    "Format",
    "ReadOptions",
    "References",
    "check_output",
    "checked_lists",
    "from_json",
    "iterate",
    "opened",
    "parts_in",
    "read",
    "read_lists_or_texts",
    "read_output",
    "read_references",
    "sniff",
    "write",
    "write_best",
    "written_formats",
]

_MODULES = {
    "BestWriter": "best",
    "write_best": "best",
    "read_lists_or_texts": "outputs",
    "read_output": "outputs",
    "Format": "reading",
    "parts_in": "folders",
    "from_json": "reading",
    "iterate": "reading",
    "read": "reading",
    "References": "references",
    "read_references": "references",
    "ReadOptions": "source",
    "sniff": "source",
    "BEST_ENDINGS": "writing",
    "check_output": "writing",
    "checked_lists": "writing",
    "write": "writing",
    "written_formats": "writing",
}
"""The module of each name. It is imported when the name is used: the modules together
take 0.1 s, and most commands need few of them.
"""


def __getattr__(name: str) -> Any:
    """Import a public name of this package."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return resolve(f"rescore.formats.{_MODULES[name]}:{name}")
