"""Every option acts, or is refused by a message that names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest

from rescore.cli.bridge import entry_of
from rescore.cli.main import cli
from rescore.config import RunConfig
from rescore.errors import OptionError, UserError
from rescore.options import Field, Option, flattened
from rescore.refusals import ROADS, Typed, check_files, check_road

OPTIONS = {entry.name: entry for entry in flattened(RunConfig.declared())}
"""All options of an experiment, with those of parts."""


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("name", OPTIONS)
def test_a_road_takes_an_option_or_names_it(road: str, name: str) -> None:
    entry = OPTIONS[name]
    groups, fields = ROADS[road]
    offered = bool({entry.title, name} & {*groups, *fields})
    given: dict[str, Any] = {name: True}
    for needed in entry.about.needed:
        given[needed] = True
    if offered:
        check_road(road, given)
        return
    with pytest.raises(OptionError) as error:
        check_road(road, given)
    assert name in str(error.value)
    assert road in str(error.value)


def commands() -> list[tuple[str, click.Command]]:
    context = click.Context(cli, help_option_names=["-h", "--help"])
    found = []
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        found.append((name, command))
    return found


def entries_of(command: click.Command) -> dict[str, Field]:
    context = click.Context(command, help_option_names=["-h", "--help"])
    entries = {}
    for parameter in command.get_params(context):
        entry = entry_of(parameter)
        if entry is not None:
            entries[entry.name] = entry
    return entries


@pytest.mark.parametrize(("name", "command"), commands())
def test_what_an_option_needs_is_an_option_of_the_same_command(
    name: str, command: click.Command
) -> None:
    entries = entries_of(command)
    for entry in entries.values():
        needed = entry.about.needed
        assert not needed or not entries.keys().isdisjoint(needed), entry.name


def typed(flag: str, value: Path | str, **about: Any) -> Typed:
    return Typed(flag, str(value), Option(**about))


WRITES = {"writes": "stdout", "metavar": "FILE"}


def test_two_outputs_do_not_share_a_file(tmp_path: Path) -> None:
    first = typed("-o", tmp_path / "a", **WRITES)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "a").touch()
    for second in (tmp_path / "a", tmp_path / "link"):
        with pytest.raises(OptionError, match="-o and --best both write to"):
            check_files([first, typed("--best", second, **WRITES)])
    with pytest.raises(OptionError, match="cannot both go to stdout"):
        check_files([typed("-o", "-", **WRITES), typed("--best", "-", **WRITES)])
    check_files([first, typed("--best", tmp_path / "b", **WRITES)])
    check_files([typed("-o", "/dev/null", **WRITES)] * 2)


def test_an_output_does_not_take_the_place_of_an_input(tmp_path: Path) -> None:
    (tmp_path / "in.json").touch()
    output = typed("-o", tmp_path / "in.json", **WRITES)
    for value in ("in.json", "*.json"):
        read = typed("NBEST", tmp_path / value, reads=True)
        with pytest.raises(OptionError, match="-o would write over"):
            check_files([read, output])
    model = typed("--lm", f"tta:{tmp_path / 'in.json'}", reads=True)
    with pytest.raises(OptionError, match="-o would write over"):
        check_files([output, model])


def test_lists_that_are_not_there_are_told_first(tmp_path: Path) -> None:
    lists = typed("NBEST", tmp_path / "absent", metavar="NBEST...", reads=True)
    output = typed("-o", tmp_path / "no" / "out", **WRITES)
    with pytest.raises(UserError, match="absent"):
        check_files([output, lists])
    with pytest.raises(OptionError, match="there is no folder"):
        check_files([output])
    with pytest.raises(OptionError, match="is a folder"):
        check_files([typed("-o", tmp_path, **WRITES)])
