"""`rescore report`, a table of results files; `rescore check`, results against golden
ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from rescore import formats, parts
from rescore.cli import options
from rescore.errors import OptionError, UserError
from rescore.files import ending_of
from rescore.options import Declared, option, read_file, written_file
from rescore.reports.check import compare, compare_reports, render
from rescore.reports.figures import Shown
from rescore.reports.files import read, read_each, read_outputs
from rescore.reports.markup import endings, style_of
from rescore.reports.overview import (
    LAYOUTS,
    render_overview,
    told_apart,
    with_dev,
    without_systems,
)
from rescore.reports.records import Record


@dataclass(frozen=True, kw_only=True)
class Table(Declared):
    common = True

    results: tuple[str, ...] = option(
        (), metavar="RESULTS.json...", argument=True, required=True, reads=True
    )
    dev: bool = option(
        False, "Also show the dev lists that each result was tuned on (`run --dev`)."
    )
    layout: str = option(
        "espnet",
        "espnet: one row per output, as in ESPnet's RESULTS.md; paper: one row per"
        " method, one column per test set.",
        choices=LAYOUTS,
    )
    systems: bool = option(
        True,
        "Show a row for each of several systems whose lists were combined.",
        "--systems/--no-systems",
    )
    style: str | None = option(
        None,
        "Style of the table.  [default: from the ending of -o, else text]",
        choices=parts.STYLES,
    )
    output: tuple[str, ...] = written_file(
        ("-",),
        "Write the table: .md, .csv, .tex or .txt; - is stdout. May be repeated.",
        "-o",
        "--output",
    )


@options.command("report")
def report_command(own: Table, shown: Shown) -> None:
    """Make one table of results files: of `run`, `rerank` and `eval --report`.

    \b
    rescore report exp/*/results.json -o RESULTS.md
    rescore report *.json --layout paper --style latex --intervals

    The names in the table come from --dataset and --system of `rescore run`. The
    outputs of a file of `rescore eval` are compared with its first output, and their
    test set has the name of the file.
    """
    for path in own.output:
        if ending_of(path) == ".json":
            raise OptionError(
                f"--output {path}: its ending is not one of {endings()}; give --style"
            )
    results: list[Record] = []
    for path in own.results:
        results += read_each(Path(path))
    if own.dev:
        results = list(with_dev(results))
    if not own.systems:
        results = without_systems(results)
    results = told_apart(results)
    for path in own.output:
        style = own.style or style_of(path) or "text"
        table = render_overview(results, own.layout, style, shown)
        with formats.opened(path) as file:
            file.write(table + "\n")


@dataclass(frozen=True, kw_only=True)
class Regression(Declared):
    common = True

    results: str = option(
        "", metavar="RESULTS.json", argument=True, required=True, reads=True
    )
    golden: str = read_file(
        "",
        "Results file with the expected figures: a copy of RESULTS.json.",
        required=True,
    )
    tolerance: float = option(
        0.05,
        "Largest loss allowed for a figure, in percentage points.",
        low=0,
        high=1e6,
    )
    renamed: tuple[str, ...] = option(
        (),
        "An output or a system of the golden file has another name now. May be"
        " repeated.",
        metavar="OLD=NEW",
    )

    def new_names(self) -> dict[str, str]:
        """Return the new name of each output that --renamed names.

        Raises:
            OptionError: A value has another form.
        """
        names = {}
        for typed in self.renamed:
            old, sign, new = typed.partition("=")
            if not (old and sign and new):
                raise OptionError(
                    f"--renamed {typed}: expected OLD=NEW, such as a.trn=b.trn"
                )
            names[old] = new
        return names


@options.command("check")
def check_command(own: Regression) -> int:
    """Compare a results file with a golden file; exit with 1 if a figure is worse or
    cannot be compared.

    \b
    rescore test.json --lm tta --dev dev.json --report results.json
    rescore check results.json --golden golden.json

    Reports of `rescore eval`, of 1-best texts, are checked in the same way:

    \b
    rescore eval output.trn --ref ref.trn --report results.json

    No figure may be worse by more than --tolerance; counts and settings must be equal.
    A changed model, weight or version is reported, but it is not a failure. Outputs of
    `rescore eval` are matched by the names that tables print; an output that is missing
    is a failure, and --renamed gives its new name.
    """
    golden_path, path = Path(own.golden), Path(own.results)
    golden = read_outputs(golden_path)
    new_names = own.new_names()
    if golden is None:
        expected = read(golden_path)
        if new_names and not expected.metrics[0].systems:
            raise OptionError(
                f"--renamed names outputs of `rescore eval` or systems, and"
                f" {golden_path} has none; leave out --renamed"
            )
        findings = compare(expected, read(path), own.tolerance, new_names)
    else:
        outputs = read_outputs(path)
        if outputs is None:
            raise UserError(
                f"{path}: is no file of `rescore eval --report`, as {golden_path} is;"
                " give two files of the same command"
            )
        findings = compare_reports(golden, outputs, own.tolerance, new_names)
    click.echo(render(findings))
    return int(any(finding.failed for finding in findings))
