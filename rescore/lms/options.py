"""Options of trainings: fields of dataclasses, each declared once with its help; the command line is made of them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from rescore.errors import UserError


@dataclass(frozen=True, slots=True)
class Option:
    """How the command line shows a field; the annotation gives the type."""

    help: str = ""
    names: tuple[str, ...] = ()
    """`--name`, or `--name/--no-name`; without any it is made of the field's name."""
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    open_low: bool = False
    open_high: bool = False
    """Bounds of a number; open bounds are not allowed values."""
    required: bool = False

    def check(self, name: str, value: Any) -> None:
        """
        Raises:
            UserError: the option does not take this value.
        """
        shown = max(self.names or (f"--{name.replace('_', '-')}",), key=len)
        if self.choices and value not in self.choices:
            raise UserError(f"{shown} {value}: expected one of {', '.join(self.choices)}")
        low = self.low is not None and (value <= self.low if self.open_low else not value >= self.low)
        high = self.high is not None and (value >= self.high if self.open_high else not value <= self.high)
        if low or high:
            raise UserError(f"{shown} {value}: expected a number from {self.low:g} to {self.high or math.inf:g}")


def option(default: Any, help: str = "", *names: str, **about: Any) -> Any:  # noqa: A002 (as click calls it)
    """A field that is an option of `rescore train`; the rest as in `Option`."""
    return field(default=default, metadata={"option": Option(help, names, **about)})


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """Options of every training. Kinds of models add fields in subclasses, which several kinds may share."""

    title: ClassVar[str] = "Options"
    """Of a class's own fields in the help."""

    out: Path = option(
        Path(), "Output folder of the model; --lm KIND:DIR scores with it.", metavar="DIR", required=True
    )

    def __post_init__(self) -> None:
        """Subclasses check how their fields fit together, and call this method.

        Raises:
            UserError: an option does not take the value, or options do not fit together.
        """
        for name, _, about in self.declared():
            value = getattr(self, name)
            for element in value if type(value) is tuple else () if value is None else (value,):
                about.check(name, element)

    @classmethod
    def declared(cls) -> Iterator[tuple[str, str, Option]]:
        """Name, title and declaration of each option; options of all trainings come first."""
        titles: dict[str, str] = {}
        for base in reversed(cls.__mro__):
            titles |= {name: base.title for name in vars(base).get("__annotations__", {}) if hasattr(base, "title")}
        for declared_field in fields(cls):
            if (about := declared_field.metadata.get("option")) is not None:
                yield declared_field.name, titles[declared_field.name], about


@dataclass(frozen=True, kw_only=True)
class TextOptions(TrainingOptions):
    text: tuple[Path, ...] = option(
        (), "Training text, one sentence per line, UTF-8 (plain, .gz or .xz). May be repeated.", metavar="FILE"
    )


NORMALISATIONS = ("english", "speech", "text", "folded")
"""How text is normalised before it is cut into tokens; see `rescore.lms.neural.tokenizer`."""


@dataclass(frozen=True, kw_only=True)
class TokenizerOptions(TrainingOptions):
    usual_normalisation: ClassVar[str] = "english"

    tokenizer: Path | None = option(
        None, "Existing tokenizer.json.  [default: train a tokenizer on the text]", metavar="FILE"
    )
    normalize: str | None = option(
        None,
        "Normalisation of a new tokenizer. english: fold case, accents and punctuation; speech: keep accents; "
        "text: keep everything; folded: fold case only.  [default: english; for lexical: folded]",
        choices=NORMALISATIONS,
    )

    @property
    def normalisation(self) -> str:
        return self.normalize or self.usual_normalisation


@dataclass(frozen=True, kw_only=True)
class PairOptions(TrainingOptions):
    pairs: tuple[Path, Path] | None = option(
        None, "Source sentences and their translations, line by line.", metavar="SOURCE TARGET"
    )
