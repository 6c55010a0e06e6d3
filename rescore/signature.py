"""The signature of a figure: all that one needs to get the same figure again. Rendered and parsed here only.

    WER|case:lc|tok:space|align:sclite|w:s2s=0.638|w:tta=0.362|lm:tta=tta@0c5312ab34cd,sum,float32|tuned:899@51b0e9a2|
    rescore:0.2.0                                                                                     (on one line)

The form is sacreBLEU's: fields with a bar between them, the metric first. Fields of the metric are `name:value`. `w:`
is the weight of a column; `lm:` the model that gave the column, its fingerprint, norm and precision; `top:` how many
hypotheses of each list it scored, and the weights that chose these; `without:` the origins of hypotheses that may not
win; `decide:` the decision rule (nothing for the best score); `tuned:` where the weights come from; `p:` the
significance test, or `by=speaker` where intervals draw speakers. From `rescore:` on they are versions of programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from urllib.parse import quote, unquote

from rescore.errors import UserError
from rescore.nbest import Column, NbestList
from rescore.version import VERSION

FINGERPRINT_DIGITS = 12
"""How many hexadecimal digits of a fingerprint are shown."""
DIGITS = 5
"""Significant digits of weights: more differ between machines."""
SAFE = " !#$&'()*+-./:;<>?[]^_`{}~\"\\"  # all printable characters but % | = , @


@dataclass(frozen=True, slots=True)
class Signature:
    """Two figures can be compared where metric, settings, decision and test agree; the rest says what made them."""

    metric: str
    """WER, CER, BLEU, ...; PPL for perplexities."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """How the metric counts, such as case and tokenizer."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """The weight of each column of scores, rounded to `DIGITS`."""
    columns: Mapping[str, Column] = field(default_factory=dict)
    """The origin of the columns that have a weight, as far as known; fingerprints cut to `FINGERPRINT_DIGITS`."""
    excluded: tuple[str, ...] = ()
    """Origins of hypotheses that may not win, such as `respelled`."""
    decision: str = "best"
    """How a text is chosen from a list."""
    scale: float | None = None
    """Of the posteriors exp(scale * score)."""
    tuned: str | None = None
    """Where the weights come from: `given`, `card`, the tuning set's size and content hash."""
    test: str | None = None
    """The significance test and its settings."""
    versions: Mapping[str, str] = field(default_factory=lambda: {"rescore": VERSION})
    """Of the programs that computed the figure."""

    def __str__(self) -> str:
        """The one line that is printed below a figure."""
        return "|".join(self._parts())

    def _parts(self) -> Iterator[str]:
        yield _quoted(self.metric)
        yield from (f"{name}:{_quoted(value)}" for name, value in self.settings.items())
        yield from (f"w:{_quoted(name)}={weight:.{DIGITS}g}" for name, weight in self.weights.items())
        for name, column in self.columns.items():
            yield (
                f"lm:{_quoted(name)}={_quoted(column.model)}@{column.fingerprint[:FINGERPRINT_DIGITS]},{_quoted(column.norm)},"
                f"{_quoted(column.precision)}"
            )
        if self.excluded:
            yield f"without:{','.join(map(_quoted, self.excluded))}"
        if self.decision != "best":
            yield f"decide:{_quoted(self.decision)}" + ("" if self.scale is None else f",{self.scale:.{DIGITS}g}")
        if self.tuned:
            yield f"tuned:{_quoted_but_at(self.tuned)}"
        if self.test:
            yield f"p:{_quoted_but_at(self.test)}"
        # Last, rescore first: by this it is known what is a version, and what a setting.
        programs = sorted(self.versions, key=lambda name: name != "rescore")
        yield from (f"{name}:{self.versions[name]}" for name in programs)

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Read what `str` wrote.

        Raises:
            UserError: it is no signature.
        """
        metric, *parts = text.split("|")
        values: dict[str, dict[str, object]] = {name: {} for name in ("settings", "weights", "columns", "versions")}
        single: dict[str, object] = {}
        try:
            for part in parts:
                key, colon, value = part.partition(":")
                if not colon:
                    raise ValueError(part)
                if key == "w":
                    name, _, weight = value.partition("=")
                    values["weights"][unquote(name)] = float(weight)
                elif key == "lm":
                    name, _, origin = value.partition("=")
                    model, _, rest = origin.partition("@")
                    fingerprint, norm, precision = rest.split(",")
                    values["columns"][unquote(name)] = Column(
                        unquote(model), fingerprint, unquote(norm), unquote(precision)
                    )
                elif key == "without":
                    single["excluded"] = tuple(map(unquote, value.split(",")))
                elif key == "decide":
                    rule, comma, scale = value.partition(",")
                    single |= {"decision": unquote(rule), "scale": float(scale) if comma else None}
                elif key in ("tuned", "p"):
                    single["test" if key == "p" else key] = unquote(value)
                elif key == "rescore" or values["versions"]:
                    values["versions"][key] = value
                else:
                    values["settings"][key] = unquote(value)
        except ValueError:
            raise UserError(f"signature {text!r}: {part!r} is not a field of a signature") from None
        if not metric or "rescore" not in values["versions"]:
            raise UserError(f"signature {text!r}: has no metric or no version of rescore")
        return cls(unquote(metric), **values, **single)  # type: ignore[arg-type]

    def differences(self, other: Signature) -> dict[str, tuple[str, str]]:
        """The fields that are not the same, as text."""
        ours, theirs = Signature.parse(str(self)), Signature.parse(str(other))  # as they are printed
        return {
            field.name: (_shown(getattr(ours, field.name)), _shown(getattr(theirs, field.name)))
            for field in fields(self)
            if getattr(ours, field.name) != getattr(theirs, field.name)
        }


COMPARABLE = ("metric", "settings", "decision", "test")
"""Where these fields differ two figures cannot be compared; the others say what made them."""


def origins(lists: Sequence[NbestList], weights: Mapping[str, float]) -> dict[str, Column]:
    """The models of the columns that have a weight, as far as the lists know.

    Raises:
        UserError: a column comes from one model in some lists and from another one in others.
    """
    columns: dict[str, Column] = {}
    last = None
    for nbest in lists:
        if nbest.provenance is last:  # the lists of a file share one record
            continue
        last = nbest.provenance
        for name in weights:
            if name not in nbest.provenance or not nbest.provenance[name].fingerprint:
                continue
            if not columns.setdefault(name, nbest.provenance[name]).matches(nbest.provenance[name]):
                raise UserError(
                    f"utterance {nbest.id}: column {name} comes from {nbest.provenance[name].short}, but in other "
                    f"lists from {columns[name].short}; score all lists with the same model"
                )
    return {name: columns[name] for name in weights if name in columns}


def _quoted(text: str) -> str:
    return quote(text, safe=SAFE)


def _quoted_but_at(text: str) -> str:
    return quote(text, safe=SAFE + "@,=")


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_shown(item)}" for name, item in value.items()) or "none"
    if isinstance(value, Column):
        return value.short
    return "none" if value is None else f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value)
