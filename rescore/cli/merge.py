"""`rescore merge`: lists of several recognisers as one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click

from rescore.cli import options
from rescore.cli.bundle import GroupedCommand


@click.command("merge", cls=GroupedCommand)
@options.nbest_argument
@click.option(
    "--name",
    multiple=True,
    metavar="NAME",
    help="The column of the second, third, ... system.  [default: from its path]",
)
@click.option(
    "-o", "--output", default="-", show_default=True, metavar="FILE", help="The lists: .json, .jsonl, also .gz."
)
@options.input_options
def command(nbest: tuple[str, ...], name: tuple[str, ...], output: str, inputs: options.InputOptions) -> None:
    """Merge the N-best lists that several systems made of the same utterances.

    \b
    rescore merge a/dev b/dev --name b -o dev.jsonl
    rescore merge a/test b/test --name b -o test.jsonl
    rescore test.jsonl --dev dev.jsonl --components --decide rover

    The first system stays the first pass. Each other one has a column with its scores, and one that says which
    hypotheses it did not propose; --components tunes their weights, with or without an --lm.
    """
    from rescore import formats
    from rescore.expansion.merge import merge

    if len(nbest) < 2:
        raise click.UsageError("give the lists of two systems or more")
    if name and len(name) != len(nbest) - 1:
        raise click.UsageError(f"{len(nbest) - 1} further systems, but {len(name)} --name; give one each")
    names = name or tuple(Path(path).resolve().name.partition(".")[0] for path in nbest[1:])
    if len(set(names)) < len(names):
        raise click.UsageError(f"two systems would be called {max(names, key=names.count)}; give each a --name")
    first, *others = (
        (inputs if rank == 0 else replace(inputs, ref=())).read([path]) for rank, path in enumerate(nbest)
    )
    formats.write(merge(first, dict(zip(names, others, strict=True))), output)
