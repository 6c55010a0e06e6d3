"""`rescore merge`: lists of several recognisers as one; and the options by which `run` does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rescore.cli import options
from rescore.config import RunConfig
from rescore.files import resolved, shown
from rescore.options import Declared, option

if TYPE_CHECKING:
    from rescore.metrics import Normaliser
    from rescore.nbest import NbestList


@dataclass(frozen=True, kw_only=True)
class Merging(options.Lists):
    name: tuple[str, ...] = option(
        (), "Name of the second, third, ... system, and of its columns.  [default: from its path]", metavar="NAME"
    )
    output: str = option(
        "-",
        "Write the merged lists: .json, .jsonl, also .gz; - is stdout.",
        "-o",
        "--output",
        metavar="FILE",
        writes="stdout",
    )


@options.command("merge", own=Merging, config=options.config(options.MEASURES), inputs=options.InputOptions)
def command(own: Merging, config: RunConfig, inputs: options.InputOptions) -> None:
    """Merge the N-best lists of several systems for the same utterances.

    \b
    rescore merge a/dev b/dev --name b -o dev.jsonl
    rescore merge a/test b/test --name b -o test.jsonl
    rescore test.jsonl --dev dev.jsonl --components --decide rover

    The first system stays the first pass. Each further system gets two columns: its scores, and a mark on hypotheses
    that it did not propose. --components tunes the weights of these columns, with or without --lm. `rescore run --with`
    merges, scores, tunes and reranks in one command. For whole recordings in different segmentations, see `rescore
    combine`.
    """
    from rescore import formats
    from rescore.plan import metrics_of

    names = system_names(own.nbest, own.name, len(own.nbest) - 1)
    first = inputs.read(own.nbest[:1])
    words = metrics_of(options.with_one_metric(options.configured(config)), first)[0].words
    formats.write(read_merged(first, own.nbest[1:], names, inputs, words), own.output)


def system_names(paths: Sequence[str], given: Sequence[str], number: int) -> tuple[str, ...]:
    """The names of the last systems: by default the last part of all paths in which they differ, if there is one.

    Args:
        given: the names that the user gives. number: how many systems need a name.

    Raises:
        UsageError: there is one system only, names are missing, or two systems have the same name.
    """
    if len(paths) < 2:
        raise click.UsageError("give the outputs of two systems or more")
    if given and len(given) != number:
        raise click.UsageError(f"{number} systems need a name, but there are {len(given)} --name; give one each")
    places = [resolved(Path(path)) for path in paths]
    parts = [(shown(place.name).partition(".")[0], *map(shown, reversed(place.parent.parts))) for place in places]
    apart = (same_depth for same_depth in zip(*parts, strict=False) if len(set(same_depth)) == len(places))
    names = tuple(given or next(apart, [part[0] for part in parts])[-number:])
    if len(set(names)) < len(names):
        raise click.UsageError(
            f"two systems would be called {max(names, key=names.count)}; rename a path, or give `merge` or `combine` "
            "a --name for each"
        )
    return names


def read_merged(
    first: Sequence[NbestList],
    paths: Sequence[str],
    names: Sequence[str],
    inputs: options.InputOptions,
    normaliser: Normaliser | None,
) -> list[NbestList]:
    """The lists of the first system, with the hypotheses of further systems and the references of the first.

    Args:
        normaliser: says which texts are the same; None for exact texts.
    """
    from rescore.asr.recombine import merge

    alone = replace(inputs, ref=())
    others = {name: alone.read([path]) for name, path in zip(names, paths, strict=True)}
    return list(merge(first, others, normaliser))


@dataclass(frozen=True, kw_only=True)
class SystemOptions(Declared):
    """Further systems that decided about the same utterances."""

    title = "Several systems"

    others: tuple[str, ...] = option(
        (),
        "Lists of another system for the same utterances. Its hypotheses join the lists, and its score gets its own "
        "weight. May be repeated.",
        "--with",
        metavar="NBEST",
        reads=True,
    )
    dev_with: tuple[str, ...] = option(
        (), "Dev lists of each --with system, in the same order.", metavar="NBEST", reads=True
    )

    def configured(self, config: RunConfig) -> RunConfig:
        """The weights of all systems are tuned, if there are several.

        Raises:
            UsageError: they cannot be, or dev lists are missing.
        """
        if not (self.others or self.dev_with):
            return config
        if not config.tunes:
            raise click.UsageError("--with: weights of systems are tuned; give --dev and --dev-with, or --folds")
        if config.folds and self.dev_with:
            raise click.UsageError("--dev-with needs --dev; --folds tunes on the lists themselves")
        if not config.folds and len(self.dev_with) != len(self.others):
            raise click.UsageError(
                f"{len(self.others)} --with, but {len(self.dev_with)} --dev-with; give the dev lists of each, in the "
                "same order"
            )
        return replace(config, components=True)

    def merged(
        self,
        lists: list[NbestList],
        nbest: Sequence[str],
        inputs: options.InputOptions,
        normaliser: Normaliser | None,
        dev: bool = False,
    ) -> list[NbestList]:
        """The first system's lists with what the others propose; columns have the names of the test lists.

        Args:
            normaliser: says which texts are the same; None for exact texts.

        Raises:
            UsageError: two systems would have the same name.
        """
        if not self.others:
            return lists
        names = system_names([nbest[0], *self.others], (), len(self.others))
        return read_merged(lists, self.dev_with if dev else self.others, names, inputs, normaliser)
