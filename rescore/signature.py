"""The signature of a figure: all that is needed to get the same figure again.

    WER|case:lc|tok:space|align:sclite|w:s2s=0.638|w:tta=0.362|lm:tta=tta@0c5312ab34cd,sum,float32|
    tuned:899@2-51b0e9a2|lists:1206@2-0b1f6d70|sig:2|rescore:0.3.0

on one line.

The form is sacreBLEU's: the name of the metric, then fields, with a bar between them.

name:value
    A setting of the metric.
w:
    The weight of a column.
lm:
    The model that gave a column, its fingerprint, norm and precision.
without:
    The origins of hypotheses that may not win.
decide:
    The decision rule, its scale and options; absent for the best score.
for:
    The metric that the weights of folds were tuned for, or whose expected loss the
    decision takes, where this is not the metric of the figure with its settings.
tuned:
    The lists that the weights come from.
lists:
    The number of lists that were decided (`90of100` if ten without a reference were
    left out), and the hash of their content: references,
    sources, hypotheses, first-pass scores, and each column that has a weight and whose
    model is not named.
p:
    The significance test, or `by=speaker` if intervals draw speakers.
sig:
    The version of this form. Version 1 is absent; it has no `for` and no `lists`.
rescore:
    The version of the program. All fields behind it are versions of other programs.

`parse` reads a signature again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, unquote

from rescore.columns import Column
from rescore.content import content_hash, hash_of_set
from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.nbest import NbestList, first_of_each_header
from rescore.parts import BEST
from rescore.version import VERSION

FINGERPRINT_DIGITS = 12
"""Hexadecimal digits of a fingerprint that are shown."""
FORM = 2
"""The version of the form of signatures: it changes where a field is added."""
DIGITS = 5
"""Significant digits of weights: more differ between machines."""
SAFE = " !#$&'()*+-./:;<>?[]^_`{}~\"\\"
"""Characters that stand as they are, beside letters and digits: all printable
characters but % | = , @.
"""
SAFE_ALONE = SAFE + "@,="
"""Characters that stand as they are in a field that is one value."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """How a figure was measured: all that its signature says beside the choice."""

    settings: dict[str, str]
    """Settings of the metric, such as case and tokenizer."""
    objective: str | None = None
    """As in `Signature`."""
    lists: str | None = None
    """The number of lists that were decided, and the hash of their content."""
    test: str | None = None
    """The significance test and its settings."""
    versions: dict[str, str] = field(default_factory=lambda: {"rescore": VERSION})
    """Versions of the programs that computed the figure."""
    form: int = FORM
    """The version of the form of the signature."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature of a figure.

    Figures can be compared if metric, settings, decision and test are the same. The
    other fields say what made the figures.
    """

    metric: str
    """Name of the metric, such as WER, CER or BLEU; PPL for perplexities."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the metric, such as case and tokenizer."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """The weight of each column of scores."""
    columns: Mapping[str, Column] = field(default_factory=dict)
    """The record of the columns that have a weight, as far as known."""
    excluded: tuple[str, ...] = ()
    """Origins of hypotheses that may not win, such as `respelled`."""
    decision: str = BEST
    """Name of the rule that chooses a text from a list."""
    scale: float | None = None
    """Scale of the posteriors, p proportional to exp(scale * score); None for rules
    without posteriors.
    """
    deciding: Mapping[str, str] = field(default_factory=dict)
    """Options of the decision that differ from their defaults."""
    objective: str | None = None
    """The metric, with its settings, that weights of folds were tuned for, or whose
    expected loss the decision takes; None where it is the metric of the figure.
    """
    votes: str | None = None
    """Where the first pass of several systems comes from, such as an estimate without
    references; None if it was tuned, and for lists of one system.
    """
    tuned: str | None = None
    """Where the weights come from: `given`, `card`, or the size and the content hash of
    the tuning set.
    """
    lists: str | None = None
    """The number of lists that were decided, and the hash of their content."""
    test: str | None = None
    """The significance test and its settings."""
    form: int = FORM
    """The version of the form of the signature."""
    versions: Mapping[str, str] = field(default_factory=lambda: {"rescore": VERSION})
    """Versions of the programs that computed the figure."""

    @property
    def conditions(self) -> Conditions:
        """How the figure was measured."""
        return Conditions(
            dict(self.settings),
            self.objective,
            self.lists,
            self.test,
            dict(self.versions),
            self.form,
        )

    def __str__(self) -> str:
        """Return the line that is printed below a figure."""
        parts = [_quoted(self.metric)]
        for name, setting in self.settings.items():
            parts.append(f"{name}:{_quoted(setting)}")
        for name, weight in self.weights.items():
            parts.append(f"w:{_quoted(name)}={weight:.{DIGITS}g}")
        for name, column in self.columns.items():
            parts.append(f"lm:{_quoted(name)}={_of_record(column)}")
        if self.excluded:
            origins = [_quoted(origin) for origin in self.excluded]
            parts.append(f"without:{','.join(origins)}")
        if self.decision != BEST:
            parts.append(f"decide:{self._rule()}")
        single = {
            "for": self.objective,
            "votes": self.votes,
            "tuned": self.tuned,
            "lists": self.lists,
            "p": self.test,
        }
        for name, value in single.items():
            if value:
                parts.append(f"{name}:{quote(value, safe=SAFE_ALONE)}")
        if self.form > 1:
            parts.append(f"sig:{self.form}")
        # Versions stand last, and rescore is the first of them: a reader tells versions
        # from settings by this.
        for name in sorted(self.versions, key=lambda name: name != "rescore"):
            parts.append(f"{name}:{self.versions[name]}")
        return "|".join(parts)

    def _rule(self) -> str:
        """Return the decision rule with its scale and its options."""
        parts = [_quoted(self.decision)]
        if self.scale is not None:
            parts.append(f"{self.scale:.{DIGITS}g}")
        for name, setting in self.deciding.items():
            parts.append(f"{name}={_quoted(setting)}")
        return ",".join(parts)


def _of_record(column: Column) -> str:
    """Return the model that gave a column, its fingerprint, norm and precision."""
    fingerprint = column.fingerprint[:FINGERPRINT_DIGITS]
    settings = f"{fingerprint},{_quoted(column.norm)},{_quoted(column.precision)}"
    return f"{_quoted(column.model)}@{settings}"


def column_records(
    lists: Iterable[NbestList], weights: Mapping[str, float]
) -> dict[str, Column]:
    """Return the record of each column that has a weight, as far as the lists know it.

    Args:
        lists: The lists.
        weights: The weight of each column.

    Raises:
        UserError: A column comes from one model in some lists and from another model in
            other lists.
    """
    columns: dict[str, Column] = {}
    for nbest in first_of_each_header(lists):
        for name, column in nbest.header.records.items():
            if name not in weights or not column.fingerprint:
                continue
            known = columns.setdefault(name, column)
            if known != column:
                raise UserError(
                    f"utterance {nbest.id}: column {name} comes from {column.short},"
                    f" but in other lists from {known.short}; score all lists with the"
                    " same model"
                )
    return {name: columns[name] for name in weights if name in columns}


def content(lists: Dataset, weights: Mapping[str, float]) -> str:
    """Return the number of lists, and the hash of their content, for a signature.

    Args:
        lists: The lists that were decided.
        weights: The weight of each column. A column whose model the signature names
            does not count in the hash.
    """
    named = column_records(lists, weights)
    columns = []
    for name, weight in weights.items():
        if weight and name not in named:
            columns.append(name)
    content = content_hash(lists, columns) if columns else lists.content_hash
    if any("context=" in column.model for column in named.values()):
        content = hash_of_set([content, *_recordings(lists)])
    return f"{number_of(lists)}@{content}"


def number_of(lists: Dataset) -> str:
    """Return the number of lists for a signature; `90of100` if ten of the set are left
    out.

    Args:
        lists: The lists.
    """
    left_out = lists.header.left_out
    if not left_out:
        return str(len(lists))
    return f"{len(lists)}of{len(lists) + left_out}"


def _recordings(lists: Dataset) -> Iterator[str]:
    """Yield the content of each list and of the list before it in its recording, for
    models that read neighbours.
    """
    last: NbestList | None = None
    last_key = ""
    for nbest, key in zip(lists, lists.content_keys, strict=True):
        is_next = last is not None and last.recording == nbest.recording
        yield last_key + key if is_next else key
        last, last_key = nbest, key


def _quoted(text: str) -> str:
    """Return a text without the characters that separate fields."""
    return quote(text, safe=SAFE)


# --- signatures that are read again ---------------------------------------------------

WHOLE = {
    "for": "objective",
    "votes": "votes",
    "tuned": "tuned",
    "lists": "lists",
    "p": "test",
}
"""The keys of fields that are one text, and the fields."""


def parse(text: str) -> Signature:
    """Return the signature of a line, as `str` of a `Signature` writes it.

    Args:
        text: The line.

    Raises:
        UserError: The line is no signature.
    """
    metric, *parts = text.split("|")
    # Version 1 of the form has no `sig`.
    signature = Signature(unquote(metric), form=1, versions={})
    for part in parts:
        try:
            signature = _with_field(signature, part)
        except ValueError:
            raise UserError(
                f"signature {text!r}: {part!r} is not a field of a signature"
            ) from None
    if not metric or "rescore" not in signature.versions:
        raise UserError(f"signature {text!r}: has no metric or no version of rescore")
    return signature


def _with_field(signature: Signature, part: str) -> Signature:
    """Return a signature with one field more.

    Args:
        signature: The signature of all that stands before.
        part: What stands between two bars.

    Raises:
        ValueError: It is no field.
    """
    key, colon, value = part.partition(":")
    if not colon:
        raise ValueError(part)
    if key == "w":
        name, _, weight = value.partition("=")
        weights = {**signature.weights, unquote(name): float(weight)}
        return replace(signature, weights=weights)
    if key == "lm":
        return replace(signature, columns={**signature.columns, **_column(value)})
    if key == "without":
        origins = tuple(unquote(origin) for origin in value.split(","))
        return replace(signature, excluded=origins)
    if key == "decide":
        return _with_decision(signature, value)
    if key in WHOLE:
        changed: dict[str, Any] = {WHOLE[key]: unquote(value)}
        return replace(signature, **changed)
    if key == "sig":
        return replace(signature, form=int(value))
    if key == "rescore" or signature.versions:
        # The version of rescore is the first version.
        return replace(signature, versions={**signature.versions, key: value})
    return replace(signature, settings={**signature.settings, key: unquote(value)})


def _column(value: str) -> dict[str, Column]:
    """Return the column of a field `lm:`, by its name."""
    name, _, source = value.partition("=")
    model, _, record = source.partition("@")
    fingerprint, norm, precision = record.split(",")
    column = Column(unquote(model), fingerprint, unquote(norm), unquote(precision))
    return {unquote(name): column}


def _with_decision(signature: Signature, value: str) -> Signature:
    """Return a signature with the field `decide:`: a rule, perhaps a scale, and
    options.
    """
    rule, *rest = value.split(",")
    scale = None
    options = {}
    for part in rest:
        name, equals, setting = part.partition("=")
        if equals:
            options[name] = unquote(setting)
        else:
            scale = float(part)
    return replace(signature, decision=unquote(rule), scale=scale, deciding=options)
