"""Expansions: parts that add new hypotheses, or columns, to lists before they are
scored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from rescore.columns import Column
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.nbest import NbestList
from rescore.options import Declared, OptionValues
from rescore.parts import EXPANSIONS


class Expansion:
    """Adds new hypotheses, or columns, to lists; made once for all lists of an
    experiment.
    """

    Options: ClassVar[type[Declared]]
    """An option without `needs` switches the expansion on; options with `needs`
    refine it.
    """
    adds: ClassVar[tuple[str, ...]] = ()
    """The columns that it adds and whose weights are tuned as bonuses."""
    reads_neighbours: ClassVar[bool] = False
    """Whether the new hypotheses of a list depend on the lists beside it."""

    @classmethod
    def made(
        cls, options: Any, config: RunConfig, dev: Sequence[NbestList] | None
    ) -> Expansion:
        """The expansion of an experiment; `dev` are the lists that it may learn
        from.
        """
        return cls()

    @classmethod
    def configured(cls, options: Any, config: RunConfig) -> RunConfig:
        """The config of a whole run with what the expansion needs, if it can be part of
        this run.
        """
        return config

    @property
    def columns(self) -> Mapping[str, Column]:
        """The records of the columns that it adds."""
        return {}

    def check_components(self, lists: Dataset, names: Sequence[str]) -> None:
        """Refuse components of the first pass whose weights are tuned and that new
        hypotheses of a list would lack.
        """

    def __call__(
        self, lists: Iterable[NbestList], dev: bool = False
    ) -> Iterator[NbestList]:
        """The lists with new hypotheses, as a stream.

        Args:
            dev: whether these are the dev lists.
        """
        return iter(lists)


def asked(config: RunConfig) -> list[tuple[str, type[Expansion], Any]]:
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


def configured(config: RunConfig) -> RunConfig:
    """The config of a whole run with what its expansions need, if they can be part of
    this run.
    """
    for name, part, options in asked(config):
        if part.adds and not config.tunes:
            raise UserError(
                f"--{name} needs --dev lists (or --folds): the weights of its columns"
                " are tuned"
            )
        config = part.configured(options, config)
    return config
