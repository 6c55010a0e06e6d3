"""`rescore recipe`: where the Makefile fragment is, and the stamps by which it knows what changed."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import click

from rescore.cli.bundle import GroupedCommand


@click.command("recipe", cls=GroupedCommand, context_settings={"ignore_unknown_options": True})
@click.option("--stamp", metavar="FILE", help="Write what the arguments stand for, if that changed.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def command(stamp: str | None, arguments: tuple[str, ...]) -> None:
    """Print the path of a Makefile fragment that turns decode folders into RESULTS.md, step by step.

    \b
    DEV  := exp/asr/decode_dev --ref data/dev/text
    TEST := exp/asr/decode_test --ref data/test/text
    include $(shell rescore recipe)

    The fragment itself uses --stamp, which records options, the sizes and times of the files that arguments name (also
    as KIND:PATH), and this program's version.
    """
    if stamp is None:
        click.echo(str(files("rescore") / "recipe.mk"))
        return
    from rescore.files import write_text
    from rescore.version import VERSION

    text = "\n".join([f"rescore {VERSION}", *(line for argument in arguments for line in _described(argument))]) + "\n"
    path = Path(stamp)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text(encoding="utf-8", errors="replace") != text:
        write_text(path, text)


def _described(argument: str) -> list[str]:
    """The argument, and the files that it or a part behind a colon names."""
    places = [argument, *(argument.split(":", number)[-1] for number in range(1, argument.count(":") + 1))]
    lines = [ascii(argument)]
    for place in map(Path, filter(None, places)):
        found = sorted(place.rglob("*")) if place.is_dir() else [place]
        for path in found:
            if path.is_file():
                about = path.stat()
                lines.append(f"{str(path)!a} {about.st_size} {about.st_mtime_ns}")
    return lines
