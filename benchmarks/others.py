"""docs/results/others.json: the numbers that no command of this version wrote.

An object has a list of records for each page, such as `asr` or `docs/faq`. A record
has the numbers of a kind in a section (its heading), in the order of the page. A
section may have several records, and figures of sentences.json, too. tests/
test_results.py reads the pages and checks what each `Kind` promises.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from rescore.errors import UserError
from rescore.files import parsed


class Kind(StrEnum):
    """Why no command of this version wrote a number, and what its page promises."""

    CITED = "cited"
    """A number of a paper or thesis, or of its table. `source` is the place, such as
    "dissertation, Table 4.8", as the section writes it."""
    SETTING = "setting"
    """A level of a mark, an option, a size, or the number of a version. It stands in
    words, or in the head or the first column of a table: it is no result."""
    HOURS = "hours"
    """A figure of a version whose training takes hours, or whose data is not at hand.
    `version` is this version, and the section names it."""
    FORMER = "former"
    """A figure of an earlier version in docs/upgrade.md, which compares versions.
    `version` is this version, and the section names it."""
    TIME = "time"
    """A time, or a speed, of a machine. The page names the `version`, and the CPU or
    the GPU as `machine` has it."""
    QUOTED = "quoted"
    """A number that another `page` of docs/results declares, or another section. A
    figure of a file stands in sentences.json instead."""


KEYS: dict[Kind, tuple[str, ...]] = {
    Kind.CITED: ("source",),
    Kind.SETTING: (),
    Kind.HOURS: ("version",),
    Kind.FORMER: ("version",),
    Kind.TIME: ("version", "machine"),
    Kind.QUOTED: ("page",),
}
"""The keys that a record of a kind has, and a record of another kind has not."""


@dataclass(frozen=True)
class Declared:
    """Numbers of a section that no command of this version wrote."""

    section: str
    kind: Kind
    numbers: str
    """The numbers, separated by blanks."""
    reason: str = ""
    source: str = ""
    version: str = ""
    machine: str = ""
    page: str = ""
    signatures: dict[str, str] = field(default_factory=dict)
    """The signatures of rows."""


def read(file: Path) -> dict[str, list[Declared]]:
    """Return the records of others.json, by page.

    Raises:
        UserError: A record has no kind, or lacks another key.
    """
    pages: dict[str, list[dict[str, Any]]] = json.loads(file.read_text("utf-8"))
    for page, records in pages.items():
        for record in records:
            if record.get("kind") not in set(Kind):
                raise UserError(
                    f"{file.name}: {page}, section {record.get('section')!r}: no"
                    f' "kind"; add one of {", ".join(Kind)} (Kind in'
                    " benchmarks/others.py says what each promises)"
                )
    return parsed(pages, dict[str, list[Declared]], file.name)


def counts(records: Sequence[Declared]) -> Counter[Kind]:
    """Return how many numbers records declare, by kind."""
    counted: Counter[Kind] = Counter()
    for record in records:
        counted[record.kind] += len(record.numbers.split())
    return counted
