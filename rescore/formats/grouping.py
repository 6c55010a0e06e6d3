"""From hypotheses that come one by one, each with the id of its list, to lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rescore.nbest import NbestList


def grouped(found: Iterable[tuple[str | None, NbestList]], name: str) -> Iterator[NbestList]:
    """Join neighbours of one id, as a stream.

    Args:
        found: an id and a list of one hypothesis that belongs to it; or None and a list that is whole.
        name: of the file.
    """
    current: NbestList | None = None
    for identity, nbest in found:
        if identity is not None and current is not None and current.id == identity:
            current.hypotheses += nbest.hypotheses
            current.references = current.references or nbest.references
            continue
        if current is not None:
            yield current
        current = nbest if identity is not None else None
        if identity is None:
            yield nbest
    if current is not None:
        yield current
