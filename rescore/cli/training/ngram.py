"""n-gram models, by KenLM's lmplz."""

from __future__ import annotations

from dataclasses import dataclass

import click

from rescore.cli.options.base import option_group
from rescore.cli.training import Common, report

KINDS = ("ngram",)
PAIRED: tuple[str, ...] = ()
TITLE = "n-gram models"


@dataclass(frozen=True, slots=True)
class NgramOptions:
    order: int
    prune: str | None
    unit: str
    memory: str
    discount_fallback: bool
    arpa: bool

    @property
    def thresholds(self) -> tuple[int, ...]:
        """Of --prune.

        Raises:
            click.UsageError: these are no numbers.
        """
        try:
            return tuple(map(int, (self.prune or "").replace(",", " ").split()))
        except ValueError:
            raise click.UsageError(f"--prune {self.prune}: expected whole numbers, such as 0,0,1") from None


options = option_group(
    "ngram",
    NgramOptions,
    TITLE,
    [
        click.option("-o", "--order", type=click.IntRange(min=1), default=5, show_default=True, help="How long."),
        click.option(
            "--prune", metavar="N,N,...", help="Leave out what was seen so often or less, by order, as in lmplz: 0,0,1."
        ),
        click.option(
            "--unit",
            type=click.Choice(["word", "subword"]),
            default="word",
            show_default=True,
            help="Of words, or of the --tokenizer's pieces.",
        ),
        click.option("--memory", default="50%", show_default=True, metavar="SIZE", help="lmplz's -S."),
        click.option("--discount-fallback", is_flag=True, help="For text too small to estimate discounts from."),
        click.option("--arpa", is_flag=True, help="Keep lm.arpa beside lm.binary."),
    ],
)


def train(common: Common, options: NgramOptions) -> None:
    from rescore.lms import ngram

    if common.text is None:
        raise click.UsageError("no text to train on; give --text FILE")
    recipe = ngram.NgramRecipe(
        options.order,
        options.thresholds,
        options.unit,
        options.memory,
        options.discount_fallback,
        options.arpa,
    )
    ngram.train(
        common.text,
        common.out,
        recipe,
        tokenizer=common.tokenizer,
        normalisation=common.normalisation or "english",
        report=report,
    )
