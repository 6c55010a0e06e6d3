"""Columns of scores: what they are, where they come from, and the names that features
keep for themselves.

A hypothesis has a score in each column: natural log, higher is better. The first pass
is the column `s2s`. A language model adds a column of its name; features
(`rescore.parts.FEATURES`) add counts and further scores.

The words that this package uses:

    column      the scores of one name, in all hypotheses of all lists
    columns     as a method or an option: the names of columns
    record      where a column comes from: an object of the class `Column`
    role        what a column is: first pass, model, count, ... (`Role`)
    origin      who proposed a hypothesis: the toolkit, or an expansion
    reserved    a name that a feature keeps for a column of its own (`Reserved`)

Three names sound alike: `FIRST_PASS` is the name of a column, `Role.FIRST_PASS` the
role of this column and its likes, `FIRST_PASS_ORIGIN` the origin of hypotheses. A
*first-pass text* is the text of the hypothesis with the best first-pass score.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from rescore.errors import did_you_mean
from rescore.parts import EXPANSIONS, FEATURES, METRICS
from rescore.set_names import part_beside_set

FIRST_PASS_ORIGIN = "first_pass"
"""The origin of hypotheses that the toolkit proposed. The features of
`rescore.parts.FEATURES` name the other origins.
"""


class Role(StrEnum):
    """What a column of scores is."""

    FIRST_PASS = "first_pass"
    """The first pass itself, or the same under another name."""
    LM = "lm"
    """Scores of a language model, or of anything whose weight is tuned like a language
    model's.
    """
    COUNT = "count"
    """A number, such as of words or tokens: its weight is a bonus for each, without
    bounds.
    """
    CHANNEL = "channel"
    """Scores that an expansion gives to its new hypotheses, such as the probability
    that the new words were misheard: their weight has no bounds.
    """
    COMPONENT = "component"
    """A part of the toolkit's own score."""
    MEASUREMENT = "measurement"
    """A figure against the reference, such as a sentence's BLEU. It has no weight
    unless `--column` names it: other lists have no such figure before they are decided.
    """
    SYSTEM = "system"
    """Scores of one of several systems, at the texts that it wrote. These columns make
    the first pass (`rescore.decision.first_pass`).
    """


FIRST_PASS = "s2s"
"""The column with the score that the toolkit ranked by."""

RANK = "rank"
"""What --s2s calls the order of the file. As a score it is minus the natural log of the
number of the hypothesis in its list, from 1.
"""

SUM = "sum"
"""The column with the unnormalised log-probability, where the toolkit ranked by a mean
over tokens.
"""

NORM_SUM = "sum"
"""The norm of a column whose scores are sums over tokens (`Column.norm`)."""

FORMER_FIRST_PASS = "first"
"""The column with what was `s2s` in the file, where --s2s put another column in its
place.
"""

WORDS = "words"
"""The number of words of a hypothesis: a column that every list has, unless a file
gives it one of its own.
"""

TOKENS = "tokens"
"""The column with the number of a language model's tokens, where it was asked for."""


SCORE = "score"
"""What files call the first pass."""


@dataclass(frozen=True, slots=True)
class Reserved:
    """What a name stands for that a feature keeps for a column of its own."""

    role: Role
    unit: str = ""
    """The unit of a bonus, as tables name it: `+0.25 a word`. Empty for a column whose
    weight is no bonus.
    """
    advice: str = ""
    """What the user should do if lists lack the column."""
    if_constant: str = ""
    """Why the weight cannot be tuned if no hypotheses of a list differ in the column,
    and what to give instead; empty for the usual warning.
    """
    comes_with_hypotheses: bool = False
    """Whether an expansion adds the column together with new hypotheses, and names it
    in `rescore.expansion.Expansion.adds`.
    """


def reserved_columns() -> Mapping[str, Reserved]:
    """Return the reserved names that have a role. `role_of_name` returns the role of
    every other name.
    """
    return _of_features(FEATURES.changes).reserved_columns


def forbidden_names() -> Collection[str]:
    """Return the names that no file and no user can give to a column: the names of
    `reserved_columns`; `combined`, the name of the combined score in files, by which
    files of old versions marked new hypotheses; and `score`, the name of the first pass
    in files.
    """
    return _of_features(FEATURES.changes).forbidden_names


def role_of_name(name: str) -> Role:
    """Return what a column without a record is, as its name says: a reserved name has
    its own role, the name of a metric is a measurement, any other name is an LM's.
    """
    known = reserved_columns().get(name)
    if known is not None:
        return known.role
    if name.lower() in MEASUREMENTS:
        return Role.MEASUREMENT
    return Role.LM


MEASUREMENTS = frozenset({*METRICS.shipped, "error", "errors", "edits", "accuracy"})
"""Names, in lower case, of columns that are figures against the reference."""


def units() -> Mapping[str, str]:
    """Return the columns whose weight is a bonus without bounds, with the unit of the
    bonus.
    """
    return {
        name: column.unit for name, column in reserved_columns().items() if column.unit
    }


def score_columns(names: Iterable[str]) -> list[str]:
    """Return the columns that are neither the first pass nor columns with a unit
    (`units`): scores of models, and parts of the toolkit's own score.

    Args:
        names: Columns that have a weight.
    """
    others = {FIRST_PASS, *units()}
    return [name for name in names if name not in others]


def new_word_origins() -> Sequence[str]:
    """Return the origins of hypotheses with words that no system wrote.

    Such hypotheses may win only where this gains something on dev lists
    (`rescore.tuning.tuner`).
    """
    return _of_features(FEATURES.changes).new_word_origins


def all_origins() -> Sequence[str]:
    """Return all origins of hypotheses: the first pass, and the origins that expansions
    give to new hypotheses, with or without new words.
    """
    return _of_features(FEATURES.changes).origins


@dataclass(frozen=True, slots=True)
class _Names:
    """The names that features keep for themselves."""

    reserved_columns: Mapping[str, Reserved]
    forbidden_names: frozenset[str]
    origins: Sequence[str]
    new_word_origins: Sequence[str]


@cache
def _of_features(changes: int) -> _Names:
    """Return the names that the features of the table keep for themselves.

    Args:
        changes: The number of changes to the table so far. It is not read: another
            number only makes the cache forget the names before the change.
    """
    first_pass = Reserved(Role.FIRST_PASS)
    reserved = dict.fromkeys((FIRST_PASS, SUM, FORMER_FIRST_PASS), first_pass)
    known_origins = [FIRST_PASS_ORIGIN]
    with_new_words: list[str] = []
    for _, feature in FEATURES.loaded():
        reserved |= feature.reserved_columns
        known_origins += [*feature.origins, *feature.new_words]
        with_new_words += feature.new_words
    forbidden = frozenset({*reserved, "combined", SCORE})
    return _Names(reserved, forbidden, known_origins, with_new_words)


def free_name(name: str, taken: Collection[str] = ()) -> str:
    """Return the name, or the first free one of `name.2`, `name.3`, ... if it is
    reserved or taken.

    Args:
        name: The name.
        taken: The names of other columns.
    """
    names = forbidden_names()
    candidate = name
    number = 1
    while candidate in names or candidate in taken:
        number += 1
        candidate = f"{name}.{number}"
    return candidate


@dataclass(frozen=True, slots=True)
class Column:
    """Where a column of scores comes from; kept once for all lists of a file."""

    model: str
    """The back-end and its options, such as `bilm:intact`."""
    fingerprint: str
    """Content hash of weights, tokenizer and settings, in hexadecimal; empty where no
    model gave the column.
    """
    norm: str
    """`sum`, `mean` or `length^A` over tokens."""
    precision: str
    """The arithmetic: float32, bf16, fp16 or int8."""
    role: Role = Role.LM
    """What the column is."""

    @classmethod
    def component(cls, toolkit: str) -> Column:
        """Return the record of a part of the toolkit's own score, such as its acoustic
        score.

        Args:
            toolkit: The name of the toolkit.
        """
        return cls(toolkit, "", NORM_SUM, "", Role.COMPONENT)

    @property
    def is_component(self) -> bool:
        return self.role is Role.COMPONENT

    @property
    def short(self) -> str:
        """The record in a few words."""
        return f"{self.model}@{self.fingerprint[:12]} {self.norm} {self.precision}"


FROM_FILE = Column("file", "", "", "", Role.LM)
"""The record of a column that the file itself has. Only a column called `sum` needs
it: without the record it would be the log-probability beside a mean.
"""


def comes_from_expansion(name: str, column: Column | None = None) -> bool:
    """Return whether an expansion added a column together with new hypotheses.

    The feature of the expansion reserves the name. Without this feature (a package that
    is not installed), the record says whether it is a channel. Of a count nobody knows
    then; it may be the file's own.

    Args:
        name: The name of the column.
        column: Its record, if it has one.
    """
    known = reserved_columns().get(name)
    if known is not None:
        return known.comes_with_hypotheses
    return column is not None and column.role is Role.CHANNEL


def found_columns(name: str, known: Iterable[str]) -> str:
    """Return which columns there are, for a message about a column that is not there.

    Args:
        name: The column that is not there. Names of sets in it do not count, as they do
            not count in the names of files of scores.
        known: The columns that are there.

    Example:
        >>> found_columns("test_qe", ["s2s", "qe"])
        '(found: qe, s2s; did you mean qe?)'
    """
    names = sorted(known)
    # the name of a file, with its ending or without
    beside_set = part_beside_set(name) or part_beside_set(f"{name}.txt")
    hint = did_you_mean(beside_set or name, names)
    return f"(found: {', '.join(names) or 'none'}{hint})"


def advice(name: str) -> str:
    """Return what to do where lists lack a column."""
    known = reserved_columns().get(name)
    if known is not None and known.advice:
        return known.advice
    flags = [f"--{flag}" for flag, part in EXPANSIONS.loaded() if name in part.adds]
    if flags:
        return (
            f"add it with {' or '.join(flags)}, and the --words that weights were"
            " tuned with, if there were any"
        )
    return (
        "`rescore score LISTS --lm MODEL -o FILE` (or `rescore run -o FILE`) writes a"
        " FILE with it; give this FILE, or for a column of your own --scores FILE, in"
        f" which the first line names the column {name}"
    )
