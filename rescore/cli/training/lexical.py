"""Translation models of single words."""

from __future__ import annotations

from dataclasses import dataclass

import click

from rescore.cli.options.base import option_group
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


options = option_group(
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
    ],
)


def train(common: Common, options: LexicalOptions) -> None:
    from rescore import formats
    from rescore.lms.lexical import estimation

    if common.pairs is None:
        raise click.UsageError("no translations to train on; give --pairs SOURCE TARGET")
    if common.text is not None:
        raise click.UsageError(f"--text does not apply to --lm {common.kind}")
    recipe = estimation.LexicalRecipe(
        pieces=options.pieces,
        alignment=options.alignment,
        iterations=(options.iterations, options.iterations),
    )
    estimation.train(
        *common.pairs,
        common.out,
        recipe,
        lists=formats.read(list(options.lists)) if options.lists else [],
        tokenizer=common.tokenizer,
        normalisation=common.normalisation or "folded",
        report=report,
    )
