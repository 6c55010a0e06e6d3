"""`rescore report`, a table of results files; `rescore check`, results against golden ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from rescore import parts
from rescore.cli import options
from rescore.errors import UserError, counted
from rescore.options import Declared, option


@dataclass(frozen=True, kw_only=True)
class ResultsFiles(Declared):
    common = True

    results: tuple[str, ...] = option((), metavar="RESULTS.json...", argument=True, required=True, reads=True)


@dataclass(frozen=True, kw_only=True)
class Table(ResultsFiles):
    layout: str = option(
        "espnet",
        "espnet: one row per output, as in ESPnet's RESULTS.md; paper: one row per method, one column per test set.",
        choices=("espnet", "paper"),
    )
    style: str | None = option(
        None, "Style of the table.  [default: from the ending of -o, else text]", choices=parts.STYLES
    )
    output: str = option(
        "-",
        "Write the table: .md, .csv, .tex or .txt; - is stdout.",
        "-o",
        "--output",
        metavar="FILE",
        writes="stdout",
    )
    as_json: bool = option(False, "Print all results as one JSON list instead of a table.", "--json")


def _renaming(text: str) -> tuple[str, str]:
    old, equals, new = text.rpartition("=")
    if not equals or not old or not new:
        raise click.UsageError(f"--rename {text}: expected OLD=NEW")
    return old, new


@dataclass(frozen=True, kw_only=True)
class RenameOption(Declared):
    """Names in a table."""

    common = True

    rename: Mapping[str, str] = option(
        {},
        "Print NEW instead of a name in the table, such as 'tta + decoder=T-TA' or 'first pass=Baseline'. May be "
        "repeated.",
        metavar="OLD=NEW",
        parse=_renaming,
        read=dict,
    )


@options.command("report")
def report_command(own: Table, naming: RenameOption) -> None:
    """Make one table of results files that `rescore run --report` wrote.

    \b
    rescore report exp/*/results.json -o RESULTS.md
    rescore report *.json --layout paper --style latex --rename "tta=T-TA"

    The names in the table come from --dataset and --system of `rescore run`.
    """
    from rescore import formats
    from rescore.reports import overview
    from rescore.reports.files import read
    from rescore.reports.markup import as_json as to_json
    from rescore.reports.markup import endings, style_of

    if own.output.endswith(".json"):
        raise click.UsageError(f"--output {own.output}: its ending is not one of {endings()}; give --style")
    shown = overview.renamed([read(Path(path)) for path in own.results], naming.rename)
    if own.as_json:
        text = to_json(shown)
    else:
        style = own.style or style_of(own.output) or "text"
        text = overview.render_overview(shown, own.layout, style, naming.rename)
    with formats.opened(own.output) as file:
        file.write(text + "\n")


@dataclass(frozen=True, kw_only=True)
class Regression(ResultsFiles):
    golden: tuple[str, ...] = option(
        (),
        "Results file with the expected figures; one for each RESULTS.json, in their order.",
        metavar="FILE",
        required=True,
        reads=True,
    )
    tolerance: float = option(0.05, "Largest loss allowed for a figure, in percentage points.", low=0, high=1e6)
    update: bool = option(False, "Replace the golden file by RESULTS.json.")


@options.command("check")
def check_command(own: Regression) -> int:
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

    results, golden, update = own.results, own.golden, own.update
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
        findings[path] = check.compare(read(Path(expected)), measured, own.tolerance) if Path(expected).exists() else []
    for path in (path for path in results if findings[path]):
        click.echo((f"{path}\n" if len(results) > 1 else "") + check.render(findings[path]))
    if len(results) > 1:
        click.echo(check.summary(findings))
    for expected, measured in zip(golden, now, strict=True) if update else ():
        with formats.opened(expected) as file:
            write(measured, file)
        click.echo(f"{expected}: updated")
    return int(not update and any(finding.failed for of_file in findings.values() for finding in of_file))
