"""The signature of a figure: all that one needs to get the same figure again.
`reports.check` reads it.

    WER|case:lc|tok:space|align:sclite|w:s2s=0.638|w:tta=0.362|lm:tta=tta@0c5312ab34cd,sum,float32|tuned:899@51b0e9a2|
    rescore:0.2.0

on one line.

The form is sacreBLEU's: fields with a bar between them, the metric first. Fields of the
metric are `name:value`. `w:` is the weight of a column; `lm:` the model that gave the
column, its fingerprint, norm and precision; `without:` the origins of hypotheses that
may not win; `decide:` the decision rule, its scale and options (nothing for the best
score); `tuned:` where
the weights come from; `p:` the significance test, or `by=speaker` where intervals draw
speakers. From `rescore:` on they are versions of programs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import quote

from rescore.columns import Column
from rescore.errors import UserError
from rescore.nbest import NbestList
from rescore.version import VERSION

FINGERPRINT_DIGITS = 12
"""How many hexadecimal digits of a fingerprint are shown."""
DIGITS = 5
"""Significant digits of weights: more differ between machines."""
SAFE = " !#$&'()*+-./:;<>?[]^_`{}~\"\\"  # all printable characters but % | = , @


@dataclass(frozen=True, slots=True)
class Signature:
    """Two figures can be compared where metric, settings, decision and test agree; the
    rest says what made them.
    """

    metric: str
    """WER, CER, BLEU, ...; PPL for perplexities."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """How the metric counts, such as case and tokenizer."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """The weight of each column of scores, rounded to `DIGITS`."""
    columns: Mapping[str, Column] = field(default_factory=dict)
    """The origin of the columns that have a weight, as far as known; fingerprints cut
    to `FINGERPRINT_DIGITS`.
    """
    excluded: tuple[str, ...] = ()
    """Origins of hypotheses that may not win, such as `respelled`."""
    decision: str = "best"
    """How a text is chosen from a list."""
    scale: float | None = None
    """Of the posteriors exp(scale * score)."""
    deciding: Mapping[str, str] = field(default_factory=dict)
    """The options of the decision that are not the usual ones."""
    tuned: str | None = None
    """Where the weights come from: `given`, `card`, the tuning set's size and content
    hash.
    """
    test: str | None = None
    """The significance test and its settings."""
    versions: Mapping[str, str] = field(default_factory=lambda: {"rescore": VERSION})
    """Of the programs that computed the figure."""

    def __str__(self) -> str:
        """The one line that is printed below a figure."""
        parts = [_quoted(self.metric)]
        parts += [f"{name}:{_quoted(value)}" for name, value in self.settings.items()]
        parts += [
            f"w:{_quoted(name)}={weight:.{DIGITS}g}"
            for name, weight in self.weights.items()
        ]
        for name, column in self.columns.items():
            fingerprint = column.fingerprint[:FINGERPRINT_DIGITS]
            model, norm = _quoted(column.model), _quoted(column.norm)
            origin = f"{model}@{fingerprint},{norm},{_quoted(column.precision)}"
            parts.append(f"lm:{_quoted(name)}={origin}")
        if self.excluded:
            parts.append(f"without:{','.join(map(_quoted, self.excluded))}")
        if self.decision != "best":
            how = [_quoted(self.decision)]
            if self.scale is not None:
                how.append(f"{self.scale:.{DIGITS}g}")
            how += [f"{name}={_quoted(text)}" for name, text in self.deciding.items()]
            parts.append(f"decide:{','.join(how)}")
        if self.tuned:
            parts.append(f"tuned:{quote(self.tuned, safe=SAFE + '@,=')}")
        if self.test:
            parts.append(f"p:{quote(self.test, safe=SAFE + '@,=')}")
        # Last, rescore first: by this it is known what is a version, and what a
        # setting.
        programs = sorted(self.versions, key=lambda name: name != "rescore")
        return "|".join(
            [*parts, *(f"{name}:{self.versions[name]}" for name in programs)]
        )


def origins(
    lists: Sequence[NbestList], weights: Mapping[str, float]
) -> dict[str, Column]:
    """The models of the columns that have a weight, as far as the lists know.

    Raises:
        UserError: a column comes from one model in some lists and from another one in
        others.
    """
    columns: dict[str, Column] = {}
    last = None
    for nbest in lists:
        if nbest.header.columns is last:  # the lists of a file share one record
            continue
        last = nbest.header.columns
        for name, column in last.items():
            if (
                name in weights
                and column.fingerprint
                and columns.setdefault(name, column) != column
            ):
                raise UserError(
                    f"utterance {nbest.id}: column {name} comes from {column.short},"
                    f" but in other lists from {columns[name].short}; score all lists"
                    " with the same model"
                )
    return {name: columns[name] for name in weights if name in columns}


def _quoted(text: str) -> str:
    return quote(text, safe=SAFE)
