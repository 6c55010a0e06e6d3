"""`rescore models`: what is shipped."""

from __future__ import annotations

import click


@click.command("models")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """List the shipped models, or print the card of one.

    \b
    rescore models
    rescore models tta
    """
    from rescore import scoring

    if name is not None:
        click.echo(scoring.model_card(name))
        return
    for kind, weight in scoring.shipped():
        click.echo(f"{kind}  recommended weight {weight:g}")
