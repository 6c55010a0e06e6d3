"""Texts with alternatives, as sclite knows them: what they stand for, and which of
their readings two texts have in the cheapest alignment.

The words of a text and of all its alternatives are a network. Two networks are aligned
as sclite aligns them, also between alignments that cost the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from rescore.errors import UserError

MOST_READINGS = 1024
"""Readings of a text, at most."""
EMPTY = ""
"""The empty word (`@`)."""
Text = tuple[Any, ...]
"""A text with alternatives: its parts in a row. A part is a text of words, the empty
word, or a tuple of alternatives, each of which is again a tuple of parts.
"""
Cut = Callable[[str], Sequence[str]]
"""Cuts a text into words."""


class Readings(tuple[str, ...]):
    """The references of an utterance: all readings of texts with alternatives.

    Args:
        readings: The readings of all texts.
        texts: The texts, one from each file of references.
    """

    texts: tuple[Text, ...]

    def __new__(cls, readings: Sequence[str], texts: Sequence[Text]) -> Readings:
        self = super().__new__(cls, readings)
        self.texts = tuple(texts)
        return self

    def __getnewargs__(self) -> tuple[tuple[str, ...], tuple[Text, ...]]:
        return tuple(self), self.texts

    def __eq__(self, other: object) -> bool:
        """Return whether other references have the same texts and readings. References
        of the same files have fewer texts where there are no alternatives.
        """
        if isinstance(other, Readings) and self.texts != other.texts:
            return False
        return tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


def together(references: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Return the references of an utterance from several files.

    Args:
        references: The references from each file.
    """
    every: list[str] = []
    texts: list[Text] = []
    for own in references:
        every += own
        texts += own.texts if isinstance(own, Readings) else [(text,) for text in own]
    if any(isinstance(own, Readings) for own in references):
        return Readings(every, texts)
    return tuple(every)


class Reading(NamedTuple):
    """A reading of a text, and the number of its empty words."""

    text: str
    empty: int


@lru_cache(maxsize=1 << 12)
def weighed_readings(text: Text, place: str = "a reference") -> tuple[Reading, ...]:
    """Return all readings of a text, those with the fewest empty words first: sclite
    prefers them to others that are as close.

    Args:
        text: The text.
        place: The file and utterance, for the message.

    Raises:
        UserError: The text has more than `MOST_READINGS` readings.
    """
    every = sorted(_expanded(text, place), key=lambda reading: reading.empty)
    different: dict[str, Reading] = {}
    for reading in every:
        different.setdefault(reading.text, reading)
    return tuple(different.values())


def readings_of(text: Text, place: str) -> tuple[str, ...]:
    """Return the texts of `weighed_readings`.

    Args:
        text: The text.
        place: The file and utterance, for the message.

    Raises:
        UserError: The text has more than `MOST_READINGS` readings.
    """
    return tuple(reading.text for reading in weighed_readings(text, place))


def _expanded(text: Text, place: str) -> list[Reading]:
    """Return all readings of a text, in the order of its alternatives."""
    every = [Reading("", 0)]
    for part in text:
        of_part = list(_readings_of_part(part, place))
        longer = []
        for before, behind in product(every, of_part):
            words = " ".join(filter(None, (before.text, behind.text)))
            longer.append(Reading(words, before.empty + behind.empty))
        every = list(dict.fromkeys(longer))
        if len(every) > MOST_READINGS:
            raise UserError(
                f"{place}: its alternatives make more than {MOST_READINGS:,} readings;"
                " leave some out"
            )
    return every


def _readings_of_part(part: str | tuple[Text, ...], place: str) -> Iterator[Reading]:
    """Yield the readings of a part of a text."""
    if part == EMPTY:
        yield Reading("", 1)
    elif isinstance(part, str):
        yield Reading(part, 0)
    else:
        for alternative in part:
            yield from _expanded(alternative, place)


# --- networks ------------------------------------------------------------------------


@dataclass(slots=True)
class WordNetwork:
    """The words of a text and of all its alternatives. A word knows the words before
    it, one in each alternative. The word 0 is the begin of the text.
    """

    words: list[str] = field(default_factory=lambda: [EMPTY])
    before: list[list[int]] = field(default_factory=lambda: [[]])
    parts: list[int] = field(default_factory=lambda: [0])
    """The part of the text that each word belongs to."""
    texts: list[str] = field(default_factory=lambda: [EMPTY])
    """The text of each part."""
    last: list[int] = field(default_factory=lambda: [0])
    """The last words of the text, one in each alternative."""

    @classmethod
    def of(cls, text: Text, cut: Cut) -> WordNetwork:
        """Return the network of a text.

        Args:
            text: The text.
            cut: Cuts each part of the text into words.
        """
        network = cls()
        network.last = network._with(text, [0], cut)
        return network

    def _with(self, text: Text, ends: list[int], cut: Cut) -> list[int]:
        """Append a text behind some words, and return its last words."""
        for part in text:
            if isinstance(part, str):
                ends = self._with_words(part, ends, cut)
            else:
                joined: list[int] = []
                for alternative in part:
                    joined += self._with(alternative, ends, cut)
                ends = joined
        return ends

    def _with_words(self, part: str, ends: list[int], cut: Cut) -> list[int]:
        """Append the words of a part; a part without words is the empty word."""
        self.texts.append(part)
        for word in cut(part) or [EMPTY]:
            self.words.append(word)
            self.before.append(ends)
            self.parts.append(len(self.texts) - 1)
            ends = [len(self.words) - 1]
        return ends

    def reading(self, path: Sequence[int]) -> str:
        """Return the text that the words of a path belong to.

        Args:
            path: Words from the first to the last.
        """
        parts = dict.fromkeys(self.parts[word] for word in path)
        return " ".join(filter(None, (self.texts[part] for part in parts)))


class CheapestReadings(NamedTuple):
    """The readings of a reference and of an output in their cheapest alignment."""

    cost: float
    """sclite's cost: 4 for a substitution, 3 for other errors, 0.001 for @."""
    reference: str
    heard: str


def cheapest(
    reference: Text, heard: Text, cut: Cut, across: bool = False
) -> CheapestReadings:
    """Return the readings of two texts that sclite aligns with each other.

    Args:
        reference: The reference.
        heard: The output.
        cut: Cuts a text into words.
        across: Whether a word may change with its neighbours, so that whole readings
            have to be cut.

    Raises:
        UserError: Whole readings have to be cut, and a text has more than
            `MOST_READINGS` of them.
    """
    if across:
        reference = _of_whole_readings(reference)
        heard = _of_whole_readings(heard)
    ours = WordNetwork.of(reference, cut)
    theirs = WordNetwork.of(heard, cut)
    cost, path = _cheapest_path(ours, theirs)
    return CheapestReadings(
        cost,
        ours.reading([word for word, _ in path]),
        theirs.reading([word for _, word in path]),
    )


def closest_reading(
    references: Sequence[str], heard: Text, cut: Cut, across: bool = False
) -> str:
    """Return the reading of an output that costs the least beside a reference; of
    equals that of the first reference.

    Args:
        references: The references of the utterance.
        heard: The output.
        cut: Cuts a text into words.
        across: Whether a word may change with its neighbours.

    Raises:
        UserError: As `cheapest`.
    """
    texts: Sequence[Text] = [(text,) for text in references]
    if isinstance(references, Readings):
        texts = references.texts
    choices = [cheapest(text, heard, cut, across) for text in texts]
    return min(choices, key=lambda choice: choice.cost).heard


def _of_whole_readings(text: Text) -> Text:
    """Return a text whose alternatives are its readings."""
    return (tuple((reading,) for reading in readings_of(text, "a text")),)


Cell = tuple[int, int]
"""A word of the reference and a word of the output, which are the last so far."""
PAIR, INSERTED, DELETED = range(3)
"""The last step to a cell, in the order in which sclite prefers steps that cost the
same.
"""


def _cheapest_path(ours: WordNetwork, theirs: WordNetwork) -> tuple[float, list[Cell]]:
    """Return the cost of the cheapest alignment, and its cells behind the begin.

    Of steps that cost the same, the first of PAIR, INSERTED and DELETED is taken; of
    words before it, the first alternative. Costs are added as 32-bit numbers, as in
    sclite: their rounding decides between paths with equally many @.
    """
    import numpy as np  # few texts have alternatives

    single = np.float32
    gap, empty, pair, changed = single(3), single(0.001), single(0), single(4)
    costs: dict[Cell, Any] = {(0, 0): single(0)}
    steps: dict[Cell, Cell] = {}
    for cell in product(range(len(ours.words)), range(len(theirs.words))):
        row, column = cell
        expected = ours.words[row]
        said = theirs.words[column]
        ways: list[tuple[Any, int, Cell]] = []
        if row and column:
            same = expected == said != EMPTY
            before = _first(costs, ours.before[row], theirs.before[column])
            ways.append((costs[before] + (pair if same else changed), PAIR, before))
        if column:
            before = _first(costs, [row], theirs.before[column])
            added = gap if said else empty
            ways.append((costs[before] + added, INSERTED, before))
        if row:
            before = _first(costs, ours.before[row], [column])
            added = gap if expected else empty
            ways.append((costs[before] + added, DELETED, before))
        if ways:
            costs[cell], _, steps[cell] = min(ways)
    cell = _first(costs, ours.last, theirs.last)
    cost = float(costs[cell])
    path = []
    while cell in steps:
        path.append(cell)
        cell = steps[cell]
    return cost, path[::-1]


def _first(costs: dict[Cell, Any], rows: list[int], columns: list[int]) -> Cell:
    """Return the first of the cheapest cells."""
    if len(rows) == len(columns) == 1:
        return rows[0], columns[0]
    return min(product(rows, columns), key=costs.__getitem__)
