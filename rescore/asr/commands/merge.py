"""`rescore merge`: lists of several recognisers as one; and the options by which `run` does it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from rescore.cli import options
from rescore.cli.options.base import GroupedCommand
from rescore.config import RunConfig

if TYPE_CHECKING:
    pass


@click.command("merge", cls=GroupedCommand)
@options.nbest_argument
@click.option(
    "--name",
    multiple=True,
    metavar="NAME",
    help="Name of the second, third, ... system, and of its columns.  [default: from its path]",
)
@options.output_option("Write the merged lists: .json, .jsonl, also .gz; - is stdout.")
@options.takes(config=options.config(options.MEASURES), inputs=options.InputOptions)
def command(
    nbest: tuple[str, ...],
    name: tuple[str, ...],
    output: str,
    config: RunConfig,
    inputs: options.InputOptions,
) -> None:
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
    from rescore.asr.merge import merge, system_names
    from rescore.plan import metrics_of

    names = system_names(nbest, name, len(nbest) - 1)
    first = inputs.read(nbest[:1])
    words = metrics_of(options.with_one_metric(options.configured(config)), first)[0].words
    alone = replace(inputs, ref=())
    others = {name: alone.read([path]) for name, path in zip(names, nbest[1:], strict=True)}
    formats.write(merge(first, others, words), output)
