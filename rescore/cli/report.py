"""`rescore report`: one table of many results."""

from __future__ import annotations

from pathlib import Path

import click

from rescore import parts
from rescore.cli.bundle import GroupedCommand
from rescore.cli.types import OneOf


@click.command("report", cls=GroupedCommand)
@click.argument("results", nargs=-1, required=True, metavar="RESULTS.json...")
@click.option(
    "--layout",
    type=click.Choice(["espnet", "paper"]),
    default="espnet",
    show_default=True,
    help="One row per output, as in ESPnet's RESULTS.md; or one row per method and one column per set.",
)
@click.option(
    "--style",
    type=OneOf(parts.STYLES),
    help="[default: from the ending of -o, else text]",
)
@click.option("-o", "--output", default="-", show_default=True, metavar="FILE", help=".md, .csv, .tex or .txt.")
@click.option(
    "--environment", is_flag=True, help="Markdown: begin with date and versions, as ESPnet's RESULTS.md does."
)
@click.option("--json", "as_json", is_flag=True, help="All results as one JSON list instead of a table.")
def command(
    results: tuple[str, ...], layout: str, style: str | None, output: str, environment: bool, as_json: bool
) -> None:
    """Make one table of results files that `rescore run --report` wrote.

    \b
    rescore report exp/*/results.json -o RESULTS.md
    rescore report *.json --layout paper --style latex

    --dataset and --system of `rescore run` are the names in it.
    """
    from rescore import formats
    from rescore.reports import overview
    from rescore.reports.results_file import read
    from rescore.reports.styles import as_json as to_json
    from rescore.reports.styles import endings, style_of

    if output.endswith(".json"):
        raise click.UsageError(f"--output {output}: its ending is not one of {endings()}; give --style")
    if as_json:
        with formats.opened(output) as file:
            file.write(to_json([read(Path(path)) for path in results]) + "\n")
        return
    chosen = style or style_of(output) or "text"
    about = overview.environment() if environment else ""
    table = overview.render([read(Path(path)) for path in results], layout, chosen, about)
    with formats.opened(output) as file:
        file.write(table + "\n")
