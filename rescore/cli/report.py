"""`rescore report`, a table of results files; `rescore check`, results against golden ones."""

from __future__ import annotations

from pathlib import Path

import click

from rescore import parts
from rescore.cli import options
from rescore.cli.options.base import GroupedCommand, Number, OneOf
from rescore.errors import UserError, counted


@click.command("report", cls=GroupedCommand)
@click.argument("results", nargs=-1, required=True, metavar="RESULTS.json...")
@click.option(
    "--layout",
    type=click.Choice(["espnet", "paper"]),
    default="espnet",
    show_default=True,
    help="espnet: one row per output, as in ESPnet's RESULTS.md; paper: one row per method, one column per test set.",
)
@click.option(
    "--style",
    type=OneOf(parts.STYLES),
    help="Style of the table.  [default: from the ending of -o, else text]",
)
@options.output_option("Write the table: .md, .csv, .tex or .txt; - is stdout.")
@click.option(
    "--environment",
    is_flag=True,
    help="Markdown: begin with the date and the software versions, as in ESPnet's RESULTS.md.",
)
@options.rename_option
@click.option("--json", "as_json", is_flag=True, help="Print all results as one JSON list instead of a table.")
def report_command(
    results: tuple[str, ...],
    layout: str,
    style: str | None,
    output: str,
    environment: bool,
    rename: dict[str, str],
    as_json: bool,
) -> None:
    """Make one table of results files that `rescore run --report` wrote.

    \b
    rescore report exp/*/results.json -o RESULTS.md
    rescore report *.json --layout paper --style latex --rename "tta=T-TA"

    The names in the table come from --dataset and --system of `rescore run`.
    """
    from rescore import formats
    from rescore.reports import overview
    from rescore.reports.files import read
    from rescore.styles import as_json as to_json
    from rescore.styles import endings, style_of

    if output.endswith(".json"):
        raise click.UsageError(f"--output {output}: its ending is not one of {endings()}; give --style")
    shown = overview.renamed([read(Path(path)) for path in results], rename)
    if as_json:
        with formats.opened(output) as file:
            file.write(to_json(shown) + "\n")
        return
    chosen = style or style_of(output) or "text"
    about = overview.environment() if environment else ""
    table = overview.render_overview(shown, layout, chosen, about, rename)
    with formats.opened(output) as file:
        file.write(table + "\n")


@click.command("check", cls=GroupedCommand)
@click.argument("results", nargs=-1, required=True, metavar="RESULTS.json...")
@click.option(
    "--golden",
    required=True,
    multiple=True,
    metavar="FILE",
    help="Results file with the expected figures; one for each RESULTS.json, in their order.",
)
@click.option(
    "--tolerance",
    type=Number(0, 1e6),
    default=0.05,
    show_default=True,
    help="Largest loss allowed for a figure, in percentage points.",
)
@click.option("--update", is_flag=True, help="Replace the golden file by RESULTS.json.")
@click.option("--junit", metavar="FILE", help="Write a JUnit XML report for a CI server.")
def check_command(
    results: tuple[str, ...], golden: tuple[str, ...], tolerance: float, update: bool, junit: str | None
) -> int:
    """Compare results files with golden files; exit with 1 if a figure is worse or cannot be compared.

    \b
    rescore test.json --lm tta --dev dev.json --report results.json
    rescore check results.json --golden golden.json
    rescore check a.json b.json --golden golden-a.json --golden golden-b.json

    No figure may be worse by more than --tolerance; counts and settings must be equal. A changed model, weight or
    version is reported, but it is not a failure. Several files end with one summary.
    """
    from rescore import formats
    from rescore.reports import check
    from rescore.reports.files import read, write

    if len(results) != len(golden):
        raise click.UsageError(
            f"{counted(len(results), 'results file')}, but {counted(len(golden), 'golden file')}; give --golden FILE "
            "for each, in the order of the results files"
        )
    findings: dict[str, list[check.Finding]] = {}
    now = [read(Path(path)) for path in results]
    for path, expected, measured in zip(results, golden, now, strict=True):
        if not Path(expected).exists() and not update:
            raise UserError(f"{expected}: no such file; --update writes it from {path}")
        findings[path] = check.compare(read(Path(expected)), measured, tolerance) if Path(expected).exists() else []
    for path in (path for path in results if findings[path]):
        click.echo((f"{path}\n" if len(results) > 1 else "") + check.render(findings[path]))
    if len(results) > 1:
        click.echo(check.summary(findings))
    if junit:
        with formats.opened(junit) as file:
            file.write(check.junit(findings) + "\n")
    for expected, measured in zip(golden, now, strict=True) if update else ():
        with formats.opened(expected) as file:
            write(measured, file)
        click.echo(f"{expected}: updated")
    return int(not update and any(finding.failed for of_file in findings.values() for finding in of_file))
