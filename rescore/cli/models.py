"""`rescore models`: what is shipped."""

from __future__ import annotations

import click

from rescore.cli.bundle import GroupedCommand


@click.command("models", cls=GroupedCommand)
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """List the shipped models (size, language, training text, where they are), or print the card of one.

    \b
    rescore models
    rescore models tta
    """
    from rescore import scoring

    if name is not None:
        click.echo(scoring.model_card(name))
        return
    from rescore.reports.styles import text

    rows = [["", "parameters", "layers", "d", "language", "trained on", "weight", "folder"]]
    for model in scoring.shipped():
        rows.append([model, *scoring.describe(model), str(scoring.shipped_models() / model)])
    click.echo(text(rows))
