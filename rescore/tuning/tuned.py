"""A record of where weights come from. Sentences and signatures are made from it, and
nothing reads them back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from rescore.nbest import NbestList, content_hash, is_hash_of


class TunedBy(StrEnum):
    """The way in which weights were found."""

    FIRST_PASS = "first_pass"
    """Only the first pass has a weight."""
    TEXTS = "texts"
    """There are no weights, because the texts were not chosen from lists."""
    GIVEN = "given"
    """A user gave them."""
    CARD = "card"
    """The card of a model recommends them."""
    DEV = "dev"
    """They were tuned on dev lists."""
    FOLDS = "folds"
    """Each part of the lists was decided with weights that were tuned on the others."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """Where weights come from: how they were found, and on which lists."""

    by: TunedBy = TunedBy.GIVEN
    source: str = ""
    """The name of the lists that the weights were tuned on, or of the file that gave
    them.
    """
    lists: int = 0
    """Number of lists that the weights were tuned on."""
    digest: str = ""
    """Content hash of these lists (`rescore.nbest.content_hash`)."""
    folds: int = 0
    """Number of parts of the lists; 0 if the lists were not cut into folds."""
    unit: str = ""
    """The thing that stays together in a fold: `speaker` or `utterance`."""
    held_out: bool = False
    """Whether these are weights of one fold, tuned on the lists of the others."""
    how: dict[str, str] = field(default_factory=dict)
    """How the weights of folds were tuned, as far as the weights of all lists do not
    show it, for signatures.
    """
    forced: bool = False
    """Whether the weights are applied to scores of another model (--force-weights)."""

    @classmethod
    def on(
        cls, source: str, lists: Sequence[NbestList], held_out: bool = False
    ) -> Tuned:
        """Return the record of weights that were tuned on lists.

        Args:
            source: The name of the lists.
            lists: The lists.
            held_out: Whether these are the lists of other folds.
        """
        digest = content_hash(lists)
        return cls(TunedBy.DEV, source, len(lists), digest, held_out=held_out)

    def in_folds(self, number: int, unit: str, how: Mapping[str, str]) -> Tuned:
        """Return the record of weights that decided the folds of the same lists.

        Args:
            number: Number of folds.
            unit: The thing that stays together in a fold, `speaker` or `utterance`.
            how: How the weights of each fold were tuned.
        """
        how = dict(how)
        return replace(self, by=TunedBy.FOLDS, folds=number, unit=unit, how=how)

    @property
    def of_all(self) -> Tuned:
        """The record of the weights that were tuned on all lists together, where
        weights of folds have decided nothing.
        """
        if self.by is not TunedBy.FOLDS:
            return self
        return replace(self, by=TunedBy.DEV, folds=0, unit="", how={})

    def is_on(self, lists: Sequence[NbestList]) -> bool:
        """Return whether the weights were tuned on these very lists."""
        return len(lists) == self.lists and is_hash_of(self.digest, lists)

    @property
    def name(self) -> str:
        """The name of the lists that the weights were tuned on."""
        if self.by is TunedBy.FOLDS:
            return f"{self.folds} folds by {self.unit}"
        return self.source

    def __str__(self) -> str:
        """Return the record as a phrase, such as `tuned on dev.json`."""
        match self.by:
            case TunedBy.FIRST_PASS:
                return "first pass"
            case TunedBy.TEXTS:
                return ""
            case TunedBy.GIVEN:
                return self.source or "given"
            case TunedBy.CARD:
                return "recommended by the model card"
        return f"tuned on {self.name}"

    @property
    def signature(self) -> str:
        """The record in a signature: content hashes, no names."""
        if self.by is TunedBy.TEXTS:
            return ""
        parts = []
        if self.by is TunedBy.FOLDS:
            parts += [f"{self.folds}folds", f"by={self.unit}"]
            parts += [f"{name}={value}" for name, value in self.how.items()]
        if self.lists:
            parts.append(f"{self.lists}@{self.digest}")
        elif self.by is TunedBy.CARD:
            parts.append("card")
        else:
            parts.append("given")
        if self.forced:
            parts.append("forced")
        return ",".join(parts)
