"""The command `rescore words`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import click

from rescore.cli import options
from rescore.columns import FIRST_PASS
from rescore.nbest import ranking
from rescore.options import option


@dataclass(frozen=True, kw_only=True)
class Words(options.Lists):
    """The options of the command."""

    most: int = option(10, "Number of words.", metavar="N", low=1)


@options.command("words", inputs=options.UNMEASURED)
def command(own: Words, inputs: options.InputOptions) -> None:
    """Count the words of the best hypotheses of N-best lists.

    \b
    rescore words lists.json --most 5
    """
    counts = Counter[str]()
    for nbest in inputs.iterate(own.nbest):
        best, *_ = ranking(nbest, nbest.column(FIRST_PASS))
        counts.update(nbest.hypotheses[best].text.split())
    for word, number in counts.most_common(own.most):
        click.echo(f"{number} {word}")
