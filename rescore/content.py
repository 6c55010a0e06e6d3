"""Which lists these are: hashes of their content for signatures, and keys by which
samples and folds are drawn.
"""

from __future__ import annotations

import hashlib
import json
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Any

from rescore.columns import FIRST_PASS, WORDS
from rescore.nbest import (
    NbestList,
    own_indices,
    tie_order,
    with_single_blanks,
    without_copies,
)

CONTENT = "2"
"""The version of `content_hash`, which stands before its digits."""


def content_key(nbest: NbestList) -> str:
    """Return a key that sorts lists by their content alone, not by their id or their
    place in the file. Samples and folds are drawn in this order. New hypotheses do not
    change it, nor do double blanks, which no metric counts.

    The references and the source come first, so that the outputs of several systems for
    the same utterances have one order.
    """
    own = [nbest.hypotheses[index] for index in own_indices(nbest)]
    source = None if nbest.source is None else with_single_blanks(nbest.source)
    references = [with_single_blanks(text) for text in nbest.references]
    rows = []
    for text, *scores in _rows(replace(nbest, hypotheses=own), ()):
        rows.append([with_single_blanks(text), *scores])
    return _digest([references, source]) + _digest(sorted(rows))


def content_hash(lists: Iterable[NbestList], columns: Collection[str] = ()) -> str:
    """Return a version and eight hexadecimal digits that say which lists these are:
    references, sources, texts and first-pass scores.

    Ids and the order of the lists do not count. Columns that were added later do not
    count either, so that a set is the same before and after scoring.

    Args:
        lists: The lists.
        columns: Further columns that count.
    """
    return hash_of_set(content_digest(nbest, columns) for nbest in lists)


def content_digest(nbest: NbestList, columns: Collection[str] = ()) -> str:
    """Return the key of a list in `content_hash`.

    Args:
        nbest: The list.
        columns: Further columns that count.
    """
    return _digest([nbest.references, nbest.source, _rows(nbest, columns)])


def references_hash(lists: Sequence[NbestList]) -> str | None:
    """Return the number of references and a hash of their texts, as `510@2-0f3a9c11`;
    None for references that depend on the output.

    Ids, the order of the lists, the order of several references of a list, white space
    between words, and Unicode forms do not count.

    Args:
        lists: The lists.
    """
    if any(nbest.header.are_references_chosen for nbest in lists):
        return None
    number = 0
    keys = []
    for nbest in lists:
        number += len(nbest.references)
        words = [" ".join(text.split()) for text in nbest.references]
        texts = [unicodedata.normalize("NFC", text) for text in words]
        keys.append(_digest(sorted(texts)))
    return f"{number}@{hash_of_set(keys)}"


def hash_of_set(keys: Iterable[str]) -> str:
    """Return a version and eight hexadecimal digits that say which keys these are, in
    any order.
    """
    return f"{CONTENT}-{_digest(sorted(keys))[:8]}"


def _digest(value: Any) -> str:
    """Return the hexadecimal digest of a value that JSON holds."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


def _rows(nbest: NbestList, columns: Collection[str]) -> list[list[Any]]:
    """Return the text and the scores of each hypothesis, copies once, in the order of
    the first pass.

    Scores have nine digits: the last digits of a computed score differ between
    machines.
    """
    names = dict.fromkeys([FIRST_PASS, *nbest.header.systems, *columns])
    nbest = without_copies(nbest, names)
    scores: list[Sequence[float | None]] = []
    for name in names:
        if name == WORDS:
            scores.append(nbest.column(WORDS))
        else:
            scores.append([one.scores.get(name) for one in nbest.hypotheses])
    rows = []
    for index in tie_order(nbest):
        hypothesis = nbest.hypotheses[index]
        shown = [_nine_digits(column[index]) for column in scores]
        rows.append([hypothesis.text, *shown])
    return rows


def _nine_digits(score: float | None) -> str:
    """Return a score with nine digits; an empty text for no score."""
    return "" if score is None else f"{score + 0.0:.9g}"


def content_hash_1(lists: Iterable[NbestList]) -> str:
    """Return the first version of `content_hash`, which files of version 0.2 have: it
    depends on ids and on the order of the lists.
    """
    digest = hashlib.sha256()
    for nbest in lists:
        hypotheses = [
            (hypothesis.text, hypothesis.scores.get(FIRST_PASS))
            for hypothesis in nbest.hypotheses
        ]
        digest.update(
            json.dumps([nbest.id, nbest.references, nbest.source, hypotheses]).encode()
        )
    return digest.hexdigest()[:8]


def is_hash_of(digest: str, lists: Sequence[NbestList]) -> bool:
    """Return whether a digest, of any version of `content_hash`, is of these lists."""
    if digest.startswith(f"{CONTENT}-"):
        return digest == content_hash(lists)
    return digest == content_hash_1(lists)
