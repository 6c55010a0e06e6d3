"""The interface of expansions: parts that add new hypotheses, or columns, to lists
before they are scored.

An expansion is a class of the table `rescore.parts.EXPANSIONS`; another package adds
one by an entry point of the group `rescore.expansions`. It is made once for the lists
and the dev lists of an experiment, and is called for each set.

A new hypothesis names its origin, and a feature declares this origin
(`rescore.features.Feature.origins` or `new_words`). It has the first-pass scores of the
hypothesis that it is made of, and no score of a language model: it is scored
afterwards, with all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from rescore.columns import Column, all_origins
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.nbest import NbestList
from rescore.options import Declared, OptionValues
from rescore.parts import EXPANSIONS


class Expansion:
    """Adds new hypotheses, or columns, to lists; one object for an experiment."""

    Options: ClassVar[type[Declared]]
    """An option without `needs` switches the expansion on; options with `needs`
    refine it.
    """
    adds: ClassVar[tuple[str, ...]] = ()
    """The names of the columns that come with its new hypotheses: they are tuned as
    bonuses, so the expansion needs dev lists.
    """
    reads_neighbours: ClassVar[bool] = False
    """Whether the new hypotheses of a list depend on the lists beside it."""

    @classmethod
    def made(cls, options: Any, config: RunConfig, dev: Dataset | None) -> Expansion:
        """Return the expansion of an experiment.

        Args:
            options: The options, an object of the class `Options`.
            config: What was asked.
            dev: The lists that it may learn from; None if there are none.
        """
        return cls()

    @property
    def records(self) -> Mapping[str, Column]:
        """The record of each column that it adds, by the column's name."""
        return {}

    def check_components(self, lists: Dataset, names: Sequence[str]) -> None:
        """Refuse components of the first pass that new hypotheses would lack.

        Args:
            lists: The lists.
            names: The names of the components whose weights are tuned.

        Raises:
            UserError: New hypotheses would lack one of them.
        """

    def __call__(
        self, lists: Iterable[NbestList], dev: bool = False
    ) -> Iterator[NbestList]:
        """Yield copies of the lists with new hypotheses, or with columns.

        Args:
            lists: The lists; a stream stays a stream.
            dev: Whether these are the dev lists.
        """
        return iter(lists)


def expanded(
    expansions: Sequence[Expansion], lists: Iterable[NbestList], dev: bool = False
) -> Iterable[NbestList]:
    """Return the lists with what expansions add, one after another.

    Args:
        expansions: The expansions.
        lists: The lists.
        dev: Whether these are the dev lists.

    Raises:
        UserError: An expansion makes hypotheses of an origin that no feature declares;
            a file with these lists could not be read.
    """
    if not expansions:
        return lists
    for expansion in expansions:
        lists = expansion(lists, dev)
    return _with_known_origins(lists)


def _with_known_origins(lists: Iterable[NbestList]) -> Iterator[NbestList]:
    """Yield lists whose hypotheses have origins that features declare."""
    known = frozenset(all_origins())
    for nbest in lists:
        for hypothesis in nbest.hypotheses:
            if hypothesis.origin not in known:
                raise UserError(
                    f"utterance {nbest.id}: an expansion made a hypothesis of origin"
                    f" {hypothesis.origin!r}, which no feature declares; name it in"
                    " `origins` or `new_words` of a feature (rescore.features.Feature)"
                )
        yield nbest


def asked_expansions(config: RunConfig) -> list[tuple[str, type[Expansion], Any]]:
    """Return the expansions that a config asks for: name, class and options, in the
    order of the table. No expansion is loaded if there is none.
    """
    if not config.expands:
        return []
    values: OptionValues = config.expanding
    expansions = []
    for name, part in EXPANSIONS.loaded():
        entries = part.Options.declared()
        switches = [entry.name for entry in entries if not entry.about.needs]
        if any(values.values.get(switch) for switch in switches):
            expansions.append((name, part, values.of(part.Options)))
    return expansions
