"""`rescore models`: what is shipped."""

from __future__ import annotations

from pathlib import Path

import click

from rescore.cli.bundle import GroupedCommand

CONFUSIONS = 20
"""How many are shown of a channel."""


@click.command("models", cls=GroupedCommand)
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """List the shipped models (size, language, training text, where they are), or print the card of one.

    \b
    rescore models
    rescore models tta
    rescore models channel:DIR

    Of a channel (for --respell) the letters that are most often heard as others are shown, too.
    """
    from rescore import scoring

    if name is not None and name.partition(":")[0] == "channel":
        _describe_channel(name.partition(":")[2])
        return
    if name is not None:
        click.echo(scoring.model_card(name))
        return
    from rescore.expansion import Channel
    from rescore.reports.styles import text
    from rescore.scoring.cards import card_value

    rows = [["", "parameters", "layers", "d", "language", "trained on", "weight", "folder"]]
    for model in scoring.shipped():
        rows.append([model, *scoring.describe(model), str(scoring.shipped_models() / model)])
    channel = Channel.shipped()
    said = [card_value(channel, key) or "" for key in ("language", "trained_on")]
    rows.append(["channel", f"{Channel.load(channel).size:,}", "", "", *said, "", str(channel)])
    click.echo(text(rows))


def _describe_channel(folder: str) -> None:
    from rescore.expansion import Channel
    from rescore.reports.styles import text
    from rescore.scoring.cards import card

    path = Path(folder) if folder else Channel.shipped()
    found = Channel.load(path)
    click.echo(card(path))
    rows = [["meant", "heard", "times", "probability"]]
    for meant, heard, count, probability in found.confusions(CONFUSIONS):
        rows.append([f"[{meant}]", f"[{heard}]", f"{count:,.0f}", f"{probability:.3f}"])
    click.echo(text(rows))
