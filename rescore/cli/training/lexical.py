"""Translation models of single words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import click

from rescore.cli.options.base import Number, bundled
from rescore.cli.training import Common, report

KINDS = ("lexical",)
PAIRED = KINDS
TITLE = "Lexical translation models"


@dataclass(frozen=True, slots=True)
class LexicalOptions:
    alignment: str
    iterations: int
    pieces: int
    lists: tuple[str, ...]
    dev_pairs: tuple[str, str] | None
    pairs_weight: tuple[float, ...]


options = bundled(
    "lexical",
    LexicalOptions,
    TITLE,
    [
        click.option(
            "--alignment",
            type=click.Choice(["none", "diagonal"]),
            default="diagonal",
            show_default=True,
            help="none: a word may come from any other (IBM Model 1); diagonal: rather from one at its place, as in "
            "fast_align.",
        ),
        click.option(
            "--iterations",
            type=click.IntRange(1, 100),
            default=5,
            show_default=True,
            help="Of Model 1, and as many with an alignment.",
        ),
        click.option(
            "--pieces",
            type=click.IntRange(0, 1_000_000),
            default=8_000,
            show_default=True,
            metavar="N",
            help="Of so many subwords, trained on both sides or those of --tokenizer; 0: of words.",
        ),
        click.option(
            "--lists",
            multiple=True,
            metavar="NBEST",
            help="Lists whose sources and best first-pass texts are further pairs. May be repeated.",
        ),
        click.option(
            "--dev-pairs",
            nargs=2,
            metavar="SOURCE TARGET",
            help="With several --pairs: a held-out text, which the weights of the texts make likeliest.",
        ),
        click.option(
            "--pairs-weight",
            type=Number(0, math.inf, open_low=True, open_high=True),
            multiple=True,
            metavar="NUMBER",
            help="With several --pairs: how often a pair of each text counts, in their order.  [default: 1, or learned "
            "on --dev-pairs]",
        ),
    ],
)


def train(common: Common, options: LexicalOptions) -> None:
    from rescore import formats
    from rescore.lms.lexical import estimation

    if not common.texts:
        raise click.UsageError("no translations to train on; give --pairs SOURCE TARGET")
    if common.text is not None:
        raise click.UsageError(f"--text does not apply to --lm {common.kind}")
    if options.dev_pairs and options.pairs_weight:
        raise click.UsageError("--dev-pairs and --pairs-weight exclude each other")
    if (options.dev_pairs or options.pairs_weight) and len(common.texts) < 2:
        raise click.UsageError("--dev-pairs and --pairs-weight are for several --pairs")
    if len(options.pairs_weight) not in (0, len(common.texts)):
        raise click.UsageError(
            f"{len(common.texts)} --pairs, but {len(options.pairs_weight)} --pairs-weight; give one for each --pairs"
        )
    recipe = estimation.LexicalRecipe(
        pieces=options.pieces,
        alignment=options.alignment,
        iterations=(options.iterations, options.iterations),
        weights=options.pairs_weight,
    )
    estimation.train(
        common.texts,
        common.out,
        recipe,
        dev=(Path(options.dev_pairs[0]), Path(options.dev_pairs[1])) if options.dev_pairs else None,
        lists=formats.read(list(options.lists)) if options.lists else [],
        tokenizer=common.tokenizer,
        normalisation=common.normalisation or "folded",
        report=report,
    )
