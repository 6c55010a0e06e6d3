"""The signature of a figure: everything that one needs to get the same figure again.
`rescore.reports.check` reads it back.

    WER|case:lc|tok:space|align:sclite|w:s2s=0.638|w:tta=0.362|lm:tta=tta@0c5312ab34cd,sum,float32|tuned:899@51b0e9a2|
    rescore:0.2.0

on one line.

The form is sacreBLEU's: fields with a bar between them, the metric first. Settings of
the metric are `name:value`. The other fields are:

- `w:` the weight of a column;
- `lm:` the model that gave a column, its fingerprint, norm and precision;
- `without:` the origins of hypotheses that may not win;
- `decide:` the decision rule, its scale and options; absent for the best score;
- `tuned:` the place where the weights come from;
- `p:` the significance test, or `by=speaker` if intervals draw speakers;
- from `rescore:` on the versions of programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from rescore.errors import UserError
from rescore.nbest import Column, NbestList
from rescore.version import VERSION

FINGERPRINT_DIGITS = 12
"""Number of hexadecimal digits of a fingerprint in a signature."""
DIGITS = 5
"""Significant digits of weights: more differ between machines."""
SAFE = " !#$&'()*+-./:;<>?[]^_`{}~\"\\"
"""Characters of names and values that stay as they are: all printable ones but % | = ,
and @.
"""


@dataclass(frozen=True, slots=True)
class Signature:
    """The fields of a signature. Two figures can be compared if metric, settings,
    decision and test agree; the other fields say what made them.
    """

    metric: str
    """The name of the metric, such as WER; PPL for perplexities."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings of the metric, such as case and tokenizer."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """The weight of each column of scores, rounded to `DIGITS`."""
    columns: Mapping[str, Column] = field(default_factory=dict)
    """The record of each column that has a weight, as far as known; fingerprints are
    shown cut to `FINGERPRINT_DIGITS`.
    """
    excluded: tuple[str, ...] = ()
    """Origins of hypotheses that may not win, such as `respelled`."""
    decision: str = "best"
    """The name of the rule that chooses a text from a list."""
    scale: float | None = None
    """The scale of the posteriors exp(scale * score)."""
    deciding: Mapping[str, str] = field(default_factory=dict)
    """The options of the decision that differ from their usual values."""
    tuned: str | None = None
    """The place where the weights come from: `given`, `card`, or the size and content
    hash of the tuning set.
    """
    test: str | None = None
    """The significance test and its settings."""
    versions: Mapping[str, str] = field(default_factory=lambda: {"rescore": VERSION})
    """The versions of the programs that computed the figure."""

    def __str__(self) -> str:
        """Return the signature as one line."""
        parts = [_quoted(self.metric)]
        for name, value in self.settings.items():
            parts.append(f"{name}:{_quoted(value)}")
        for name, weight in self.weights.items():
            parts.append(f"w:{_quoted(name)}={weight:.{DIGITS}g}")
        for name, column in self.columns.items():
            parts.append(f"lm:{_quoted(name)}={_model(column)}")
        if self.excluded:
            parts.append(f"without:{','.join(map(_quoted, self.excluded))}")
        if self.decision != "best":
            parts.append(f"decide:{self._how()}")
        if self.tuned:
            parts.append(f"tuned:{quote(self.tuned, safe=SAFE + '@,=')}")
        if self.test:
            parts.append(f"p:{quote(self.test, safe=SAFE + '@,=')}")
        # Versions come last and `rescore` is the first of them: so a reader knows where
        # the settings end.
        for name in sorted(self.versions, key=lambda name: name != "rescore"):
            parts.append(f"{name}:{self.versions[name]}")
        return "|".join(parts)

    def _how(self) -> str:
        """Return the decision with its scale and options."""
        parts = [_quoted(self.decision)]
        if self.scale is not None:
            parts.append(f"{self.scale:.{DIGITS}g}")
        for name, text in self.deciding.items():
            parts.append(f"{name}={_quoted(text)}")
        return ",".join(parts)


def origins(
    lists: Sequence[NbestList], weights: Mapping[str, float]
) -> dict[str, Column]:
    """Return the record of each column that has a weight, as far as the lists know it.

    Args:
        lists: The lists.
        weights: The weight of each column.

    Raises:
        UserError: A column comes from one model in some lists and from another model in
            others.
    """
    columns: dict[str, Column] = {}
    last = None
    for nbest in lists:
        if nbest.header.columns is last:  # The lists of a file share one record.
            continue
        last = nbest.header.columns
        for name, column in last.items():
            if name not in weights or not column.fingerprint:
                continue
            known = columns.setdefault(name, column)
            if known != column:
                raise UserError(
                    f"utterance {nbest.id}: column {name} comes from {column.short},"
                    f" but in other lists from {known.short}; score all lists"
                    " with the same model"
                )
    return {name: columns[name] for name in weights if name in columns}


def _model(column: Column) -> str:
    """Return the record of a column as a signature has it."""
    fingerprint = column.fingerprint[:FINGERPRINT_DIGITS]
    norm = _quoted(column.norm)
    precision = _quoted(column.precision)
    return f"{_quoted(column.model)}@{fingerprint},{norm},{precision}"


def _quoted(text: str) -> str:
    """Return a text in which % | = , and @ are escaped, as in a URL."""
    return quote(text, safe=SAFE)
