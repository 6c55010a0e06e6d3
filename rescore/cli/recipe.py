"""`rescore recipe`: where the Makefile fragment is."""

from __future__ import annotations

from importlib.resources import files

import click


@click.command("recipe")
def command() -> None:
    """Print the path of a Makefile fragment that turns decode folders into RESULTS.md, step by step.

    \b
    DEV  := exp/asr/decode_dev --ref data/dev/text
    TEST := exp/asr/decode_test --ref data/test/text
    include $(shell rescore recipe)
    """
    click.echo(str(files("rescore") / "recipe.mk"))
