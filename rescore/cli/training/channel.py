"""Channels, for --respell: what a recogniser writes where something else was said."""

from __future__ import annotations

from dataclasses import dataclass

import click

from rescore.cli.options.base import option_group
from rescore.cli.training import Common, report

KINDS = ("channel",)
PAIRED: tuple[str, ...] = ()
TITLE = "Channels"


@dataclass(frozen=True, slots=True)
class ChannelOptions:
    ref: tuple[str, ...]


options = option_group(
    "channel",
    ChannelOptions,
    TITLE,
    [
        click.option(
            "--ref",
            multiple=True,
            metavar="FILE",
            help="References of the lists, where these have none; again for a second one of each utterance.",
        ),
    ],
)


def train(common: Common, options: ChannelOptions) -> None:
    from rescore.expansion import channel

    if common.text is None:
        raise click.UsageError("no lists to learn a channel from; give --text LISTS")
    if common.tokenizer or common.normalisation:
        raise click.UsageError(f"--tokenizer and --normalize do not apply to --lm {common.kind}")
    channel.train([str(common.text)], common.out, options.ref, report)
