"""Reading and writing N-best lists: which format a path holds is found out by looking
inside.

For example:

    lists = read(["exp/decode_test"], references="data/test/text")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rescore.parts import FORMATS, resolve

if TYPE_CHECKING:
    from rescore.formats.best import BestWriter, write_best
    from rescore.formats.outputs import read_output
    from rescore.formats.reading import Format, fairseq_logs, from_json, iterate, read
    from rescore.formats.references import References, read_references
    from rescore.formats.source import ReadOptions, sniff
    from rescore.formats.writing import (
        BEST_ENDINGS,
        check_output,
        opened,
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
]
__all__ += [
    "fairseq_logs",
    "from_json",
    "iterate",
    "opened",
    "read",
    "read_output",
    "read_references",
    "sniff",
]
__all__ += ["write", "write_best", "written_formats"]
_LATER = {
    "best": ("BestWriter", "write_best"),
    "outputs": ("read_output",),
    "reading": ("Format", "fairseq_logs", "from_json", "iterate", "read"),
    "references": ("References", "read_references"),
    "source": ("ReadOptions", "sniff"),
    "writing": ("BEST_ENDINGS", "check_output", "opened", "write", "written_formats"),
}
"""What is imported when it is used: most runs read native lists and write nothing."""


def __getattr__(name: str) -> Any:
    for module, names in _LATER.items():
        if name in names:
            return resolve(f"rescore.formats.{module}:{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
