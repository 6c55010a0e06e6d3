"""`rescore check`: the gate for tables."""

from __future__ import annotations

from pathlib import Path

import click

from rescore.cli.bundle import GroupedCommand
from rescore.cli.types import Number


@click.command("check", cls=GroupedCommand)
@click.argument("results", metavar="RESULTS.json")
@click.option("--golden", required=True, metavar="FILE", help="A results file with the figures that have to be met.")
@click.option(
    "--tolerance",
    type=Number(0, 1e6),
    default=0.05,
    show_default=True,
    help="Percentage points by which a figure may be worse.",
)
@click.option("--update", is_flag=True, help="Write RESULTS.json over the golden file.")
@click.option("--junit", metavar="FILE", help="Write JUnit XML for a CI server.")
def command(results: str, golden: str, tolerance: float, update: bool, junit: str | None) -> int:
    """Compare a results file with a golden one; exit with 1 where a figure is worse or cannot be compared.

    \b
    rescore test.json --lm tta --dev dev.json --report results.json
    rescore check results.json --golden golden.json

    Figures, counts and settings have to agree. That the model, its weights or versions changed is reported, and is
    no failure by itself.
    """
    from rescore import formats
    from rescore.reports import check
    from rescore.reports.results_file import read, write

    now = read(Path(results))
    if update and not Path(golden).exists():
        findings = []
    else:
        findings = check.compare(read(Path(golden)), now, tolerance)
        click.echo(check.render(findings))
    if junit:
        with formats.opened(junit) as file:
            file.write(check.junit(findings, results) + "\n")
    if update:
        with formats.opened(golden) as file:
            write(now, file)
        click.echo(f"{golden}: updated")
        return 0
    return int(any(one.failed for one in findings))
