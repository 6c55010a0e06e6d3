"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click
from tqdm import tqdm

Command = TypeVar("Command", bound=Callable[..., Any])

nbest_argument = click.argument("nbest", nargs=-1, required=True, metavar="NBEST...")

lm_option = click.option(
    "--lm",
    required=True,
    metavar="KIND[:DIR]",
    help="Language model: tta (shipped), or tta, bilm, unilm, unilm-bw with :DIR for your own.",
)
device_option = click.option(
    "--device", metavar="NAME", help="cpu, cuda or cuda:N.  [default: cuda where there is one]"
)
norm_option = click.option(
    "--lm-norm",
    type=click.Choice(["sum", "mean"]),
    help="LM score as the sum or the mean over tokens.  [default: mean where first-pass scores are means, else sum]",
)


def input_options(command: Command) -> Command:
    """How N-best lists are read."""
    for option in reversed(
        [
            click.option(
                "--ref", metavar="FILE", help="References: Kaldi text, trn, or a line each in the lists' order."
            ),
            click.option(
                "--format",
                "format_name",
                type=click.Choice(["native", "espnet1", "espnet2", "fairseq"]),
                help="Format of the lists.  [default: found out by looking inside]",
            ),
            click.option("--s2s", default="s2s", show_default=True, metavar="COLUMN", help="The first-pass score."),
            click.option(
                "--lenpen",
                default=1.0,
                show_default=True,
                help="fairseq's length penalty, to recover sums (--s2s sum) from H scores.",
            ),
        ]
    ):
        command = option(command)
    return command


def metric_options(command: Command) -> Command:
    """What is measured."""
    for option in reversed(
        [
            click.option(
                "--metric",
                type=click.Choice(["wer", "cer", "bleu"]),
                help="[default: bleu for lists with a source text, else wer]",
            ),
            click.option(
                "--tokenize",
                type=click.Choice(["13a", "none", "intl", "char", "zh"]),
                help="sacreBLEU's tokenizer.  [default: none where references are tokenised already, else 13a]",
            ),
        ]
    ):
        command = option(command)
    return command


def progress_bar(total: int | None, label: str) -> tqdm:
    """A bar of hypotheses on stderr, at a terminal only."""
    return tqdm(total=total, desc=label, unit="hyp", disable=not sys.stderr.isatty(), leave=False)
