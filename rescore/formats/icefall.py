"""icefall (k2) recogs files: lines `cut-id:<TAB>ref=['A', 'B']` and `cut-id:<TAB>hyp=['A', 'C']`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from rescore.errors import UserError
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import plain
from rescore.formats.writing import check_holds, opened
from rescore.nbest import Hypothesis, NbestList

_LINE = re.compile(r"(\S+?):\s+(ref|hyp)=(.*)")


def sniff(source: Source) -> bool:
    return _LINE.match(source.head) is not None


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """The lines of one cut stand together; several `hyp` lines are several hypotheses. There are no scores."""
    current: NbestList | None = None
    for number, line in enumerate(source.lines(), 1):
        if not line.strip():
            continue
        place = f"{source.name}: line {number}"
        match = _LINE.fullmatch(line)
        if not match:
            raise UserError(f"{place}: expected `id:<TAB>ref=[...]` or `id:<TAB>hyp=[...]`")
        if current is not None and current.id != match[1]:
            yield current
            current = None
        current = current or NbestList(match[1], [])
        text = _words(match[3], place)
        if match[2] == "ref":
            current.references = (text,)
        else:
            current.hypotheses.append(Hypothesis(plain(text)))
    if current is not None:
        yield current


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
    """The order of the hypotheses stays, their scores have no place."""
    with opened(path) as file:
        for nbest in check_holds(lists, frozenset({"references"}), path):
            for kind, texts in (("ref", nbest.references), ("hyp", [one.text for one in nbest.hypotheses])):
                for text in texts:
                    file.write(f"{nbest.id}:\t{kind}={text.split()}\n")
