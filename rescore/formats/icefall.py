"""icefall (k2) recogs files: lines `cut-id:<TAB>ref=['A', 'B']` and `cut-id:<TAB>hyp=['A', 'C']`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rescore.errors import UserError
from rescore.formats.lines import grouped, literal_words
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import plain
from rescore.formats.writing import check_holds, opened
from rescore.nbest import Hypothesis, NbestList

_TIMES = ("timestamp_ref", "timestamp_hyp")


def sniff(source: Source) -> bool:
    return _parts(source.head.lstrip().partition("\n")[0]) is not None


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """The lines of one cut stand together; several `hyp` lines are several hypotheses. There are no scores."""
    found = (_entry(line, place) for place, line in source.filled())
    yield from grouped((one for one in found if one is not None), source.name, more_references=True)


def _parts(line: str) -> tuple[str, str, str] | None:
    """Of `id:<TAB>ref=[...]` the id, the kind, and the rest."""
    head, equals, rest = line.partition("=")
    cells = head.split()
    if not equals or len(cells) != 2 or not cells[0].endswith(":") or cells[1] not in ("ref", "hyp", *_TIMES):
        return None
    return cells[0][:-1], cells[1], rest


def _entry(line: str, place: str) -> tuple[str, NbestList] | None:
    found = _parts(line)
    if found is None:
        raise UserError(f"{place}: expected `id:<TAB>ref=[...]` or `id:<TAB>hyp=[...]`")
    name, kind, rest = found
    if kind in _TIMES:
        return None
    text = literal_words(rest, place)
    return name, NbestList(name, [], (text,)) if kind == "ref" else NbestList(name, [Hypothesis(plain(text))])


def write(lists: Iterable[NbestList], path: str) -> None:
    """The best hypothesis first, as scores have no place."""
    with opened(path) as file:
        for nbest in check_holds(lists, frozenset({"references"}), path, scores=False):
            for kind, texts in (("ref", nbest.references), ("hyp", [one.text for one in nbest.hypotheses])):
                for text in texts:
                    file.write(f"{nbest.id}:\t{kind}={text.split()}\n")
