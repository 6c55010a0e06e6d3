"""Texts of which some parts may be said in several ways, as sclite's `{ it is / it has }`, and how two are compared."""

from __future__ import annotations

from collections.abc import Sequence

from rescore.errors import UserError
from rescore.metrics.alignment import GAP, SUBSTITUTION

Readings = Sequence[Sequence[Sequence[str]]]
"""A text in parts; of each part the alternatives; of each alternative the words."""

MOST_CELLS = 4_000_000
NEVER = 1 << 40  # more than any alignment costs


def ambiguous(text: Readings) -> bool:
    """Whether the text has more than one reading."""
    return any(len(part) > 1 for part in text)


def first(text: Readings) -> list[str]:
    """The words of the first reading."""
    return [word for part in text for word in part[0]]


def nearest(reference: Readings, hypothesis: Readings) -> tuple[list[str], list[str]]:
    """The readings of both whose alignment is the cheapest (`alignment`); of equally cheap ones the first.

    As sclite aligns networks of words: each word follows one of those that can stand before it. Time and memory are
    the product of the words of both.

    Raises:
        UserError: a text with alternatives is too long.
    """
    if not ambiguous(reference) and not ambiguous(hypothesis):
        return first(reference), first(hypothesis)
    expected, expected_before, expected_ends = _network(reference)
    found, found_before, found_ends = _network(hypothesis)
    if len(expected) * len(found) > MOST_CELLS:
        raise UserError(
            f"--glm: {len(found):,} words of a text and {len(expected):,} of its reference are too many to compare "
            f"with their alternatives, at most {MOST_CELLS:,} pairs; cut long recordings into utterances"
        )
    # Of the cheapest alignment of a path up to word i with one up to word j.
    cost = [[0] * len(found) for _ in expected]
    for i, before_i in enumerate(expected_before):
        here = cost[i]
        rows = [cost[p] for p in before_i] or [[NEVER] * len(found)]
        above = rows[0] if len(rows) == 1 else list(map(min, *rows))
        for j, before_j in enumerate(found_before):
            if i or j:
                change = SUBSTITUTION * (expected[i] != found[j])
                least = above[j] + GAP
                for q in before_j:
                    least = min(least, above[q] + change, here[q] + GAP)
                here[j] = least
    i, j = min(((p, q) for p in expected_ends for q in found_ends), key=lambda ends: cost[ends[0]][ends[1]])
    words: tuple[list[str], list[str]] = ([], [])
    while i or j:
        change = SUBSTITUTION * (expected[i] != found[j])
        # Of equally cheap steps the change (or match) is taken first, then the insertion, as in `alignment`.
        steps = [(change, p, q) for p in expected_before[i] for q in found_before[j]]
        steps += [(GAP, i, q) for q in found_before[j]] + [(GAP, p, j) for p in expected_before[i]]
        p, q = next((p, q) for more, p, q in steps if cost[p][q] + more == cost[i][j])
        words[0].extend([expected[i]] * (p != i))
        words[1].extend([found[j]] * (q != j))
        i, j = p, q
    return words[0][::-1], words[1][::-1]


def _network(text: Readings) -> tuple[list[str], list[Sequence[int]], Sequence[int]]:
    """The words of all alternatives after a begin (word 0); for each the places of those before it; and the last."""
    words: list[str] = [""]
    before: list[Sequence[int]] = [()]
    ends: Sequence[int] = [0]
    for part in text:
        starts = ends
        ends = []
        for alternative in part:
            last = starts
            for word in alternative:
                words.append(word)
                before.append(last)
                last = [len(words) - 1]
            ends = [*ends, *(place for place in last if place not in ends)]
    return words, before, ends
