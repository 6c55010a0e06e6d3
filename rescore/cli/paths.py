"""Which options are files, and that no output destroys another one or an input: for all commands at once."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from pathlib import Path

import click

OUTPUTS = {
    "output", "best", "report", "table", "html", "curve", "save_weights", "tokens", "junit", "plot", "stamp",
    "respellings", "confidence",
}  # fmt: skip
"""Names of parameters that are written to."""
MAKE_FOLDERS = {"stamp"}
"""Of these the ones that make the folder they stand in."""
INPUTS = {
    "nbest", "outputs", "results", "pairs", "file", "ref", "dev", "dev_ref", "weights", "text", "golden", "glm", "gold",
    "segments", "recordings", "others", "dev_with", "lm", "tokenizer", "config", "words", "lexicon", "channel",
}  # fmt: skip
"""Names of parameters that are read from."""


def check(ctx: click.Context) -> None:
    """Refuse two outputs to one file, and an output to a file that is read: the one would take the place of the other.
    And an output into a folder that there is not, before anything is computed for it.

    Links count as what they lead to. What is no file, such as /dev/null, may be given as often as one likes.

    Raises:
        UsageError: there are such.
    """
    files = {one.name for one in ctx.command.params if one.name and "FILE" in (one.metavar or "")}
    for option, value in _given(ctx, files & OUTPUTS - MAKE_FOLDERS):
        if value != "-" and not Path(value).absolute().parent.is_dir():
            folder = Path(value).parent
            raise click.UsageError(f"{option} {value}: there is no folder {folder} to write it in; make it first")
    written: dict[str, str] = {}
    for option, value in _given(ctx, OUTPUTS):
        path = Path(value)
        if value != "-" and path.exists() and not (path.is_file() or path.is_dir()):
            continue
        place = "-" if value == "-" else _resolved(value)
        if place in written:
            where = "cannot both go to stdout" if value == "-" else f"both write to {value}"
            raise click.UsageError(f"{written[place]} and {option} {where}; give each a file of its own")
        written[place] = option
    for option, value in _given(ctx, INPUTS):
        # A language model's path stands behind its kind and options.
        for name in (value, *(value[at + 1 :] for at, letter in enumerate(value) if letter == ":")):
            for place, writer in written.items():
                read = _resolved(name)
                if "-" not in (place, name) and (place == read or fnmatch.fnmatch(place, read)):
                    raise click.UsageError(
                        f"{writer} would write over {value}, which {option} reads; give another file"
                    )


def _given(ctx: click.Context, names: set[str]) -> Iterator[tuple[str, str]]:
    """Options as they are typed, or arguments as the help names them, with each of their values."""
    for parameter in ctx.command.params:
        value = ctx.params.get(parameter.name or "")
        if parameter.name not in names or value is None or isinstance(value, bool):
            continue
        named = isinstance(parameter, click.Option)
        shown = max(parameter.opts, key=len) if named else (parameter.metavar or parameter.name).strip(".[]")
        for each in [value] if isinstance(value, str) else value:
            yield shown, str(each)


def _resolved(value: str) -> str:
    """Where a path leads; a pattern stays one."""
    try:
        return str(Path(value).resolve())
    except (OSError, ValueError, RuntimeError):  # nothing that can be a file; whoever opens it says so
        return value
