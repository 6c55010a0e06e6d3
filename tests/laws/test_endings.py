"""Law: an output whose ending names a form that it does not have is refused before
anything is computed.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rescore.cli.bridge import entry_of
from rescore.cli.main import COMMANDS
from rescore.errors import UserError
from rescore.file_options import FORMS, Typed, check_files, check_form
from rescore.options import Field
from tests.conftest import Run, assert_one_line_error, parameters_of, write_json

BY_COMMAND = {
    ("report", "output"),  # a path with --style may have any ending
    ("score", "output"),  # with --text it has figures, else lists
    ("convert", "output"),  # with --to it may have any ending
}
"""Outputs whose form depends on another option: tested below."""
BY_STYLE = {"output", "table", "plot"}
"""Outputs with a form for each ending; other endings are refused, too."""


def written() -> list[tuple[str, Field]]:
    """Each command with each option that writes a file of a form of its own."""
    options = []
    for command in COMMANDS:
        for parameter in parameters_of(command):
            entry = entry_of(parameter)
            if entry is None or not entry.about.writes:
                continue
            if entry.about.metavar != "FILE" or (command, entry.name) in BY_COMMAND:
                continue
            if entry.about.may_write is None and entry.name in BY_STYLE:
                continue
            options.append((command, entry))
    return options


@pytest.mark.parametrize(
    ("command", "entry"), written(), ids=lambda part: getattr(part, "name", part)
)
def test_no_output_but_a_chart_is_svg(command: str, entry: Field) -> None:
    typed = Typed(entry.named(), "x.svg", entry.about)
    with pytest.raises(UserError, match=r"x\.svg: cannot be written as \.svg; give "):
        check_files([typed])


@pytest.mark.parametrize("ending", sorted(FORMS))
def test_a_packed_file_has_the_ending_before_it(ending: str) -> None:
    check_form(f"x{ending}.gz", (ending,))
    check_form("x", (ending,))
    check_form("x.out", (ending,))
    check_form("-", (ending,))
    with pytest.raises(UserError, match=r"cannot be written as .*; give \.other"):
        check_form(f"x{ending}.gz", (".other",))


@pytest.mark.parametrize(
    "line",
    [
        "report r.json -o x.html",
        "score l.json --lm tta -o x.html",
        "score --text t --lm tta -o x.csv",
        "score --text t --lm tta --tokens x.csv",
        "convert l.json -o x.html",
        "rerank l.json --best x.html",
        "compare l.json --dev l.json --lm tta -o x.html",
        "run l.json --table x.html",
    ],
)
def test_outputs_whose_form_depends_on_other_options(
    line: str, rescore: Run, tmp_path: Path
) -> None:
    hypotheses = {"hyp_1": {"score": -1, "text": "an owl"}}
    write_json(tmp_path / "l.json", {"u": {**hypotheses, "ref": "an owl"}})
    (tmp_path / "t").write_text("an owl\n", encoding="utf-8")
    write_json(tmp_path / "r.json", {})
    assert_one_line_error(rescore(*line.split()), "x", ".")
    assert not list(tmp_path.glob("x*"))


def test_a_style_that_is_typed_takes_any_ending(rescore: Run, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("u1 an owl\n", encoding="utf-8")
    assert rescore("eval", "a", "--ref", "a", "--report", "e.json").returncode == 0
    done = rescore("report", "e.json", "--style", "markdown", "-o", "x.html")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "x.html").read_text(encoding="utf-8").startswith("| ")
