"""icefall (k2) recogs files: lines `cut-id:<TAB>ref=['A', 'B']` and `cut-id:<TAB>hyp=['A', 'C']`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from rescore.errors import UserError
from rescore.formats.lines import grouped
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import plain
from rescore.formats.writing import check_holds, opened
from rescore.nbest import Hypothesis, NbestList

_LINE = re.compile(r"(\S+?):\s+(ref|hyp)=(.*)")


def sniff(source: Source) -> bool:
    return _LINE.match(source.head) is not None


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """The lines of one cut stand together; several `hyp` lines are several hypotheses. There are no scores."""
    yield from grouped((_entry(line, place) for place, line in source.filled()), source.name, more_references=True)


def _entry(line: str, place: str) -> tuple[str, NbestList]:
    match = _LINE.fullmatch(line)
    if not match:
        raise UserError(f"{place}: expected `id:<TAB>ref=[...]` or `id:<TAB>hyp=[...]`")
    name, text = match[1], _words(match[3], place)
    return name, NbestList(name, [], (text,)) if match[2] == "ref" else NbestList(name, [Hypothesis(plain(text))])


def _words(text: str, place: str) -> str:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    if isinstance(value, str):
        return value
    if not isinstance(value, list) or any(not isinstance(word, str) for word in value):
        raise UserError(f"{place}: expected a list of words such as ['A', 'B'], found {text[:40]}")
    return " ".join(value)


def write(lists: Iterable[NbestList], path: str) -> None:
    """The best hypothesis first, as scores have no place."""
    with opened(path) as file:
        for nbest in check_holds(lists, frozenset({"references"}), path, scores=False):
            for kind, texts in (("ref", nbest.references), ("hyp", [one.text for one in nbest.hypotheses])):
                for text in texts:
                    file.write(f"{nbest.id}:\t{kind}={text.split()}\n")
