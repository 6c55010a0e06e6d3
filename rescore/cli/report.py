"""`rescore report`: one table of many results."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("report")
@click.argument("results", nargs=-1, required=True, metavar="RESULTS.json...")
@click.option(
    "--layout",
    type=click.Choice(["espnet", "paper"]),
    default="espnet",
    show_default=True,
    help="A row an output, as in ESPnet's RESULTS.md; or a row a method and a column a set.",
)
@click.option(
    "--style",
    type=click.Choice(["text", "markdown", "csv", "latex"]),
    help="[default: from the ending of -o, else text]",
)
@click.option("-o", "--output", default="-", show_default=True, metavar="FILE", help=".md, .csv, .tex or .txt.")
def command(results: tuple[str, ...], layout: str, style: str | None, output: str) -> None:
    """Make one table of results files that `rescore run --report` wrote.

    \b
    rescore report exp/*/results.json -o RESULTS.md
    rescore report *.json --layout paper --style latex

    --dataset and --system of `rescore run` are the names in it.
    """
    from rescore import formats
    from rescore.reporting import summary
    from rescore.reporting.results import read
    from rescore.reporting.styles import ENDINGS, STYLES

    found = [read(Path(path)) for path in results]
    rows = summary.espnet(found) if layout == "espnet" else summary.paper(found)
    chosen = style or ENDINGS.get(Path(output).suffix, "text")
    if chosen not in STYLES:
        raise click.UsageError(f"--output {output}: its ending is none of .md, .csv, .tex, .txt; give --style")
    with formats.opened(output) as file:
        file.write(STYLES[chosen](rows) + "\n")
