"""Options that trainings of several kinds share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rescore.options import Declared, option, read_file


@dataclass(frozen=True, kw_only=True)
class TrainingOptions(Declared):
    """Options of every training. Kinds of models add fields in subclasses, which
    several kinds may share.
    """

    out: Path = option(
        Path(),
        "Output folder of the model, which may hold no model yet; --lm KIND:DIR scores"
        " with it.",
        metavar="DIR",
        required=True,
        common=True,
        harmless=True,
    )


@dataclass(frozen=True, kw_only=True)
class TextOptions(TrainingOptions):
    """Options of kinds that learn from text."""

    text: tuple[Path, ...] = read_file(
        (),
        "Training text, one sentence per line, UTF-8 (plain, .gz or .xz). May be"
        " repeated.",
        common=True,
    )


NORMALISATIONS = ("english", "speech", "text", "folded")
"""How text is normalised before it is cut into tokens; see
`rescore.lms.training.vocabulary`.
"""


@dataclass(frozen=True, kw_only=True)
class TokenizerOptions(TrainingOptions):
    """Options of kinds that cut text into tokens."""

    usual_normalisation: ClassVar[str] = "english"
    """The normalisation where no option says it."""

    tokenizer: Path | None = read_file(
        None,
        "Take this tokenizer.json.  [default: train a tokenizer on the text]",
        common=True,
    )
    normalize: str | None = option(
        None,
        "Normalisation of a new tokenizer. english: fold case, accents and punctuation;"
        " speech: keep accents; text: keep everything; folded: fold case only. "
        " [default: english; for lexical: folded]",
        choices=NORMALISATIONS,
    )

    @property
    def normalisation(self) -> str:
        """The normalisation of a new tokenizer, one of `NORMALISATIONS`."""
        return self.normalize or self.usual_normalisation


@dataclass(frozen=True, kw_only=True)
class PairOptions(TrainingOptions):
    """Options of kinds that learn from pairs of sentences."""

    pairs: tuple[Path, Path] | None = option(
        None,
        "Source sentences and their translations, line by line.",
        metavar="SOURCE TARGET",
        reads=True,
        common=True,
    )
