"""Which utterance of one side is which utterance of the other: the one rule of ids.

A side is a set of lists, a file of texts, the output of a system, or recordings. Ids
are compared as they stand. Where they differ in leading zeros of their numbers, in the
folder, or in the ending of an audio file alone, they are matched if each fits a single
other id, and a message says so; in trn, case does not count. Ids that do not match are
an error. Only sides without ids are paired by order, if their numbers are equal, and a
message says so, too. Outputs, which hold more than ids, are paired in
`rescore.formats.pairs`.

Whether the first words of a text are ids depends on both sides (`are_ids`): on the ids
of the other side if it has certain ids, else on the look of the words. Texts that are
nearly equal begin with the same words for this reason: the words are no ids.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from rescore.errors import UserError, counted
from rescore.formats.text import duplicated, split_id, split_trn, undo_entities
from rescore.ids import are_alike, is_path, parts_of_path, plain_id

log = logging.getLogger(__name__)

T = TypeVar("T")

# --- sides ---------------------------------------------------------------------------

LISTS = "the lists"
"""The name of lists in messages about another side."""


@dataclass(frozen=True)
class Side:
    """The utterances of a set or a file."""

    ids: Sequence[str] | None
    """The ids in their order; None for a side without ids."""
    place: str = LISTS
    """The file, or the name of the set, for messages."""
    number: int = -1
    """The number of utterances; it follows from the ids if there are ids."""
    ignores_case: bool = False
    """Whether case does not count in the ids, as in sclite's trn."""
    is_ordered: bool = False
    """Whether the user says that the utterances stand in the order of the other
    side.
    """
    unit: str = "utterance"
    """What is counted: utterances, recordings, or lines of a text."""

    def __len__(self) -> int:
        return self.number if self.ids is None else len(self.ids)

    @cached_property
    def is_numbered(self) -> bool:
        """Whether the ids are numbers that ascend, as those of lists without ids."""
        return self.ids is not None and ascend(self.ids)


def ascend(ids: Sequence[str]) -> bool:
    """Return whether ids are numbers that ascend: lists without ids, or some of them,
    have such ids.

    Args:
        ids: The ids in their order.
    """
    last = -1
    for name in ids:
        if not _is_number(name) or str(int(name)) != name or int(name) <= last:
            return False
        last = int(name)
    return bool(ids)


def are_numbers(ids: Sequence[str]) -> bool:
    """Return whether ids are numbers without a gap, as of lists that have no ids.

    Args:
        ids: The ids of lists.
    """
    return ascend(ids) and int(ids[-1]) - int(ids[0]) == len(ids) - 1


def _is_number(name: str) -> bool:
    """Return whether an id is a whole number."""
    return name.isascii() and name.isdecimal() and len(name) <= LONGEST_NUMBER


LONGEST_NUMBER = 18
"""Digits of an id that is a number, at most; longer ids are names."""


def some(ids: Iterable[str]) -> str:
    """Return two ids for a message, shortened; or the only one.

    Args:
        ids: The ids, of which the first two are shown.
    """
    shown = []
    for name in ids:
        shown.append(name[-SHOWN:])
        if len(shown) == 2:
            break
    return ", ".join(shown)


SHOWN = 60
"""Characters of an id in a message, at most."""

# --- pairs ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Pairing:
    """Which utterance of their side is which of ours."""

    ours: Side
    theirs: Side
    places: tuple[int | None, ...]
    """For each of our utterances, the place of its partner; None without a partner."""
    left: tuple[int, ...] = ()
    """The places of their utterances without a partner."""
    note: str = ""
    """How the pairs were found, for users; empty for equal ids."""
    is_by_number: bool = False
    """Whether the lists of both sides have no ids, and no references show that lists
    with the same number are the same utterance.
    """

    @cached_property
    def missing(self) -> list[str]:
        """Our ids without a partner."""
        pairs = zip(self.ours.ids or (), self.places, strict=False)
        return [name for name, place in pairs if place is None]

    @property
    def found(self) -> list[str]:
        """Our ids with a partner."""
        pairs = zip(self.ours.ids or (), self.places, strict=False)
        return [name for name, place in pairs if place is not None]

    @property
    def renamed(self) -> dict[str, str]:
        """Our id of each of their ids that has a partner."""
        ids = self.theirs.ids or ()
        pairs = zip(self.ours.ids or (), self.places, strict=False)
        return {ids[place]: name for name, place in pairs if place is not None}

    @property
    def left_out(self) -> list[str]:
        """Their ids without a partner."""
        ids = self.theirs.ids or ()
        return [ids[place] for place in self.left]

    def of(self, values: Sequence[T]) -> list[T]:
        """Return the value of each of our utterances.

        Args:
            values: The values of their utterances, in their order.
        """
        return [values[place] for place in self.places if place is not None]

    def check(self, noun: str, kind: str = "ids are", advice: str = "") -> None:
        """Check that each of our utterances has a partner.

        Args:
            noun: What the partner is, for the message.
            kind: What their ids are, for the message.
            advice: The end of the message.

        Raises:
            UserError: An utterance has none.
        """
        if not self.missing:
            return
        absent = f"{len(self.missing):,} of {len(self.ours):,} missing"
        others = self.left_out or self.theirs.ids or ("none",)
        raise UserError(
            f"{self.theirs.place}: no {noun} for {self.ours.unit} {some(self.missing)}"
            f" ({absent}); its {kind} such as {some(others)}{advice}"
        )

    def tell(self) -> None:
        """Tell how the pairs were found, if ids are not equal."""
        if self.note:
            log.info("%s", self.note)


def paired(ours: Side, theirs: Side) -> Pairing:
    """Return which utterance of their side is which of ours.

    Args:
        ours: The utterances that look for a partner.
        theirs: The utterances among which the partners are.

    Returns:
        The pairs. Where both sides have ids, utterances of either side may have no
        partner.

    Raises:
        UserError: One side has ids, and the other has none; two sides without ids have
            different numbers of utterances; or an id fits several others.
    """
    if ours.ids is None or theirs.ids is None:
        return _in_order(ours, theirs)
    place_of = {name: place for place, name in enumerate(theirs.ids)}
    note = ""
    partner = {name: name for name in ours.ids if name in place_of}
    if (ours.ignores_case or theirs.ignores_case) and len(partner) < len(ours):
        partner |= _without_case(ours.ids, theirs.ids, partner)
    if len(partner) < len(ours):
        taken = set(partner.values())
        rest = {name: name for name in theirs.ids if name not in taken}
        others = ByName(rest, theirs.place)
        for name in ours.ids:
            other = None if name in partner else others.find(name)
            if other is not None:
                partner[name] = other
                note = note or others.note(name, other)
    places = []
    for name in ours.ids:
        places.append(place_of[partner[name]] if name in partner else None)
    left = tuple(sorted(set(place_of.values()).difference(places)))
    return Pairing(ours, theirs, tuple(places), left, note)


def with_names_of(
    ours: Iterable[str], values: Mapping[str, T], place: str
) -> dict[str, T]:
    """Return values by our names of their recordings; those that we do not have keep
    their names.

    Args:
        ours: Our names.
        values: The values by their names.
        place: Their file, for messages.

    Raises:
        UserError: A name fits several others.
    """
    pairing = paired(Side(list(ours)), Side(list(values), place))
    pairing.tell()
    names = pairing.renamed
    return {names.get(name, name): value for name, value in values.items()}


def _without_case(
    ours: Sequence[str], theirs: Sequence[str], known: Mapping[str, str]
) -> dict[str, str]:
    """Return the partners of ids that differ in case alone, as far as each fits a
    single other id.
    """
    taken = set(known.values())
    own = _by_key([name for name in ours if name not in known])
    other = _by_key([name for name in theirs if name not in taken])
    pairs = {}
    for key, names in own.items():
        if len(names) == 1 and len(other.get(key, ())) == 1:
            pairs[names[0]] = other[key][0]
    return pairs


def _by_key(names: Iterable[str]) -> dict[str, list[str]]:
    """Return ids by their lower case."""
    by_key: dict[str, list[str]] = {}
    for name in names:
        by_key.setdefault(name.lower(), []).append(name)
    return by_key


def _in_order(ours: Side, theirs: Side) -> Pairing:
    """Return the pairs of sides of which at least one has no ids.

    Raises:
        UserError: The other has ids that are no numbers of lines, or their numbers
            differ.
    """
    side = theirs if theirs.ids is None else ours
    other = ours if side is theirs else theirs
    number = counted(len(side), side.unit)
    if len(side) != len(other):
        what = f"{side.place}: {number} for {counted(len(other), other.unit)}"
        is_ordered = ours.is_ordered or theirs.is_ordered
        if other.ids is None or is_ordered:
            order = ", as --ref-format plain says" if is_ordered else ""
            raise UserError(
                f"{what} of {other.place}; give one line an utterance{order}"
            )
        raise UserError(
            f"{what}, and the lines do not begin or end with ids such as"
            f" {some(other.ids)}; give Kaldi text, trn, or one line an utterance"
        )
    places = tuple(range(len(ours)))
    if ours.is_ordered or theirs.is_ordered:
        return Pairing(ours, theirs, places)
    if other.ids is not None and not other.is_numbered:
        wanted = WITH_IDS if side is theirs else OUTPUT_WITH_IDS
        raise UserError(
            f"{side.place}: its {side.unit}s have no ids such as {some(other.ids)} of"
            f" {other.place}; give {wanted}, or --ref-format plain if both have the"
            " same order"
        )
    order = f"{side.place}: its {number} have no ids, and are taken in the order of"
    return Pairing(ours, theirs, places, note=f"{order} {other.place}")


WITH_IDS = "Kaldi text or trn"
OUTPUT_WITH_IDS = "an output with ids (rescore rerank --best NAME, not NAME.txt)"
"""What to give for a side without ids, if the other has ids."""

# --- ids that differ in leading zeros, folder or ending alone ------------------------

DEEPEST = 8
"""Parts of a path that are compared, at most."""


class ByName(Generic[T]):
    """Values of utterances, which are asked for one after another.

    Args:
        values: The value of each id.
        place: The file of the values, for messages.
    """

    def __init__(self, values: Mapping[str, T], place: str) -> None:
        self._values = values
        self.place = place
        self._taken: dict[str, str] = {}
        """The utterance that has the value of each id."""
        self._has_told = False

    @cached_property
    def _alike(self) -> dict[str, list[str]]:
        """The ids that differ in leading zeros, folder or ending alone."""
        alike: dict[str, list[str]] = {}
        for name in self._values:
            alike.setdefault(plain_id(name), []).append(name)
        return alike

    def get(self, name: str) -> T | None:
        """Return the value of an utterance; None if it has none.

        Args:
            name: The utterance.

        Raises:
            UserError: Several ids fit the utterance, or the value belongs to another
                utterance.
        """
        found = self.find(name)
        if found is None:
            return None
        if found != name and not self._has_told:
            self._has_told = True
            log.info("%s", self.note(name, found))
        return self._values[found]

    def note(self, name: str, found: str) -> str:
        """Return what users are told of an id that differs from its utterance.

        Args:
            name: The utterance.
            found: The id.
        """
        return (
            f"{self.place}: {found[-SHOWN:]} is taken for {name[-SHOWN:]}: ids are"
            " matched apart from leading zeros, folders, and endings of audio files"
        )

    def find(self, name: str) -> str | None:
        """Return the id whose value an utterance has; None if it has none.

        Args:
            name: The utterance.

        Raises:
            UserError: Several ids fit the utterance, or the value belongs to another
                utterance.
        """
        found = name
        if name not in self._values:
            names = self._fitting(name)
            if not names:
                return None
            if len(names) > 1:
                raise UserError(
                    f"{self.place}: {names[0][-80:]} and {names[1][-80:]} fit"
                    f" utterance {name[-80:]}; give both files the same ids"
                )
            found = names[0]
        other = self._taken.setdefault(found, name)
        if other != name:
            raise UserError(
                f"{self.place}: {found[-80:]} fits utterances {other[-80:]} and"
                f" {name[-80:]}; give both files the same ids"
            )
        return found

    def _fitting(self, name: str) -> list[str]:
        """Return the ids that an utterance may have, by as many parts of its path as
        tell them apart.
        """
        names = []
        for other in self._alike.get(plain_id(name), ()):
            if are_alike(name, other):
                names.append(other)
        for depth in range(2, DEEPEST + 1):
            if len(names) < 2 or len(parts_of_path(name)) < depth:
                break
            own = plain_id(name, depth)
            fitting = [other for other in names if plain_id(other, depth) == own]
            if not fitting:
                break
            names = fitting
        return names


# --- texts whose first words may be ids ----------------------------------------------

_DIGIT = re.compile("[0-9]")
_ID_MARK = re.compile(r"[\w.][-_]\w|\d")
"""A hyphen or underscore between letters, or a digit."""
FEW_LINES = 3
"""Fewer lines may all begin with different numbers by chance."""
SORTED_LINES = 5
"""Fewer lines may be sorted by chance: five lines are in one of 120 cases."""
LIKELY = 0.2
"""Where so many first words are the same with this probability or a higher one, if they
are as often the same as the words behind them, they are words.
"""
ALIKE_LINES = 20
"""As many lines with different first words speak for ids, also in texts that are alike.
"""
_TAB_BEHIND = re.compile(r"[^ \t]+\t")
"""A first word with a tab behind it."""


@dataclass(frozen=True)
class Words:
    """A text whose first words may be ids."""

    lines: Sequence[str]
    place: str
    format: str | None = None
    """`kaldi` if the user says that the first words are ids, `plain` if the user says
    that they are words.
    """

    @cached_property
    def first(self) -> list[str]:
        """The first words of the lines that are not empty."""
        return first_words(self.lines)

    @cached_property
    def keys(self) -> frozenset[str]:
        """What is compared of the first words."""
        return frozenset(map(plain_id, self.first))

    @cached_property
    def have_look(self) -> bool:
        """Whether the lines begin with different words that have digits, or in several
        lines a hyphen or underscore between letters; or with paths of audio files.
        """
        if begin_with_ids(self.lines):
            return True
        are_different = 0 < len(set(self.first)) == len(self.first)
        if are_different and all(map(is_path, self.first)):
            return True
        are_several = len(self.first) >= FEW_LINES
        return are_several and begin_with_ids(self.lines, self.lines)

    @property
    def are_in_order(self) -> bool:
        """Whether the lines are sorted by their first words, as Kaldi sorts ids, and
        more of them than are sorted by chance.
        """
        return len(self.first) >= SORTED_LINES and self.first == sorted(self.first)

    @property
    def have_tabs(self) -> bool:
        """Whether a tab stands behind the first word of each line."""
        lines = [line.strip(" \t") for line in self.lines if line.strip()]
        return all(_TAB_BEHIND.match(line) for line in lines)

    @property
    def ids(self) -> list[str] | None:
        """The first words, if they look like ids; None if they do not."""
        if self.format is None:
            return self.first if self.have_look else None
        return self.first if self.format == "kaldi" else None

    def is_reordered(self, other: Words) -> bool:
        """Return whether the lines begin with different words, and those of another
        text with the same words in another order: they are ids, since texts of the same
        utterances have one order.

        Args:
            other: The other text.
        """
        is_like_ids = FEW_LINES <= len(self.keys) == len(self.first)
        has_same = self.keys == other.keys and len(self.first) == len(other.first)
        return is_like_ids and has_same and self.first != other.first

    def has_paths_of(self, other: Words) -> bool:
        """Return whether the lines begin with different words in folders, or with
        endings of audio files, and those of another text with the same words without
        these: they are ids.

        Args:
            other: The other text.
        """
        if self.keys != other.keys or not 1 < len(self.keys) == len(self.first):
            return False
        are_paths = all("/" in word or is_path(word) for word in self.first)
        return are_paths and set(self.first) != set(other.first)

    @property
    def side(self) -> Side:
        """The lines as a side without ids."""
        return Side(
            None,
            self.place,
            len(self.lines),
            is_ordered=self.format == "plain",
            unit="line",
        )


def are_ids(text: Words, other: Side | Words) -> bool:
    """Return whether the first words of a text are ids.

    The ids of the other side decide, if it has certain ids: a single id in common is
    enough, but of numbers, with which sentences begin, too, more than half. Without
    them, and where no id is in common, the look of the words decides.

    Args:
        text: The text.
        other: The other side: a side with certain ids or surely without, or a text
            whose first words may be ids, too.

    Raises:
        UserError: Both texts begin with the same words, which may be ids or words.
    """
    if text.format is not None:
        return text.format == "kaldi"
    if isinstance(other, Words):
        return _are_ids_beside_words(text, other)
    known = frozenset(map(plain_id, other.ids or ()))
    keys = text.keys
    if other.ignores_case:
        known = frozenset(map(str.lower, known))
        keys = frozenset(map(str.lower, keys))
    in_common = len(known & keys)
    has_names = not all(map(_is_number, known))
    if 2 * in_common > len(known) or (in_common and has_names):
        return True
    return _surely_look(text, len(other))


def _are_ids_beside_words(text: Words, other: Words) -> bool:
    """Return whether the first words of a text are ids, beside a text for which this is
    not known either.

    Raises:
        UserError: They may be ids or words.
    """
    in_common = text.keys & other.keys
    if text.has_paths_of(other) or other.has_paths_of(text):
        return True
    if in_common and (text.have_look or other.have_look):
        return True
    if text.have_look:
        return _surely_look(text, len(other.lines))
    are_different = 1 < len(text.keys) == len(text.first)
    if not are_different or 2 * len(in_common) <= len(text.keys):
        return False
    if text.is_reordered(other) or begin_with_ids(text.lines, other.lines):
        return True
    if _are_single_words(text) and _are_single_words(other):
        return False  # as in scripts without blanks: ids would leave no text
    is_like_kaldi = text.are_in_order or text.have_tabs
    is_short = len(text.lines) < ALIKE_LINES
    if is_short and not is_like_kaldi and _are_alike(text, other, len(in_common)):
        return False
    raise UserError(
        f"{text.place}: its lines and those of {other.place} begin with the same words"
        f" ({text.first[0]}), which may be ids or words; give --ref-format kaldi if"
        " they are ids, --ref-format plain if they are words"
    )


def _are_single_words(text: Words) -> bool:
    """Return whether most lines of a text have a single word."""
    single = [line for line in text.lines if len(line.split()) == 1]
    return 2 * len(single) > len(text.lines)


def _are_alike(text: Words, other: Words, number: int) -> bool:
    """Return whether two texts have so many words in common that they may begin with
    the same words by chance.

    Args:
        text: A text.
        other: The other text.
        number: The number of first words in common.
    """
    equal = 0
    every = 0
    for line, other_line in zip(text.lines, other.lines, strict=False):
        words = Counter(split_id(line)[1].split())
        other_words = Counter(split_id(other_line)[1].split())
        equal += (words & other_words).total()
        every += max(words.total(), other_words.total())
    share = equal / max(every, 1)
    return share**number >= LIKELY


def _surely_look(text: Words, number: int) -> bool:
    """Return whether the first words of a text look like ids, and not like numbers with
    which a few sentences begin.

    Args:
        text: The text.
        number: The number of utterances of the other side.
    """
    if not text.have_look:
        return False
    first = text.first
    if not all(map(_is_number, first)) or len(first) >= FEW_LINES:
        return True
    # the numbers of the lines
    counts = first[0] in ("0", "1") and are_numbers(first)
    return counts and 1 < len(first) == number


# --- the look of ids -----------------------------------------------------------------


def begin_with_ids(lines: Sequence[str], beside: Sequence[str] = ()) -> bool:
    """Return whether all lines begin with different words that look like ids: each has
    a digit.

    Args:
        lines: Lines of a text; empty lines do not count.
        beside: Lines of another text that begin with the same words. A hyphen or
            underscore between letters is then as good as a digit, and no id is a
            further word of these texts.
    """
    first = first_words(lines)
    if not first or len(set(first)) < len(first):
        return False
    unescaped = list(map(undo_entities, first))  # &#64; is no id
    if not beside:
        return all(map(_DIGIT.search, unescaped))
    words = set[str]()
    for line in (*lines, *beside):
        words.update(split_id(line)[1].split())
    return words.isdisjoint(first) and all(map(_ID_MARK.search, unescaped))


def end_with_ids(lines: Sequence[str]) -> bool:
    """Return whether all lines end with different ids in brackets, as lines of trn do.

    Args:
        lines: Lines of a text that are not empty.
    """
    ids = set()
    for line in lines:
        parts = split_trn(line)
        if parts is None or parts[1] in ids:
            return False
        ids.add(parts[1])
    return True


def first_words(lines: Sequence[str]) -> list[str]:
    """Return the first words of the lines that are not empty."""
    return [split_id(line)[0] for line in lines if line.strip()]


def check_ids(lines: Sequence[tuple[str, str]]) -> None:
    """Check that lines without ids are not those of a file in which most lines have an
    id: a line of trn that lacks its id, or a line of Kaldi text whose id stands twice.

    Args:
        lines: The lines of a file that is neither trn nor Kaldi text, each behind its
            place.

    Raises:
        UserError: Most lines have ids.
    """
    without = [place for place, line in lines if split_trn(line) is None]
    if 0 < 2 * len(without) < len(lines):
        raise UserError(
            f"{without[0]}: no (id) at its end, unlike most lines of this file; add it"
        )
    places: dict[str, str] = {}
    again = []
    for place, line in lines:
        word = split_id(line)[0]
        if not _ID_OF_LINE.match(word):
            return
        if word in places:
            again.append((word, place))
        places.setdefault(word, place)
    if again and 2 * len(places) > len(lines):
        word, place = again[0]
        form = "; the file is read as Kaldi text: an id and its words in each line"
        raise duplicated(word, place, places[word], form)


_ID_OF_LINE = re.compile(r"(?=.*\d)(?=.*[^\W\d]).*[\w][-_]\w")
"""A word with letters, digits, and a hyphen or underscore between them."""
