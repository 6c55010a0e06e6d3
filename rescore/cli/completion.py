"""`rescore completion`: for shells."""

from __future__ import annotations

import click

from rescore.cli.bundle import GroupedCommand


@click.command("completion", cls=GroupedCommand)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print shell code that completes commands, options and their values.

    \b
    rescore completion bash >> ~/.bashrc
    rescore completion zsh >> ~/.zshrc
    rescore completion fish > ~/.config/fish/completions/rescore.fish
    """
    from click.shell_completion import get_completion_class

    from rescore.cli.main import cli

    found = get_completion_class(shell)
    assert found is not None
    click.echo(found(cli, {}, "rescore", "_RESCORE_COMPLETE").source())
