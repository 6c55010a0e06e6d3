"""Every option acts, or is refused by a message that names it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest

import rescore as rescore_package
from rescore import asked, formats, pipeline
from rescore.asked import (
    ROADS,
    Call,
    Road,
    check_call,
    checked,
    checked_once,
    have_what_they_need,
    stand_beside,
)
from rescore.cli.bridge import entry_of
from rescore.cli.help import INSTEAD
from rescore.cli.main import cli
from rescore.cli.train import trained_kinds
from rescore.config import RunConfig
from rescore.errors import OptionError, UserError
from rescore.file_options import Typed, check_files
from rescore.metrics import MetricOptions, Normaliser
from rescore.metrics.steps import STEPS
from rescore.nbest import Hypothesis, NbestList
from rescore.option_readers import check_read, options_of
from rescore.options import Field, Option, OptionValues, flattened
from rescore.parts import DECISIONS, FORMATS, METRICS
from tests import test_roads
from tests.conftest import run_main
from tests.sources import PACKAGE, nodes

OPTIONS = {entry.name: entry for entry in flattened(RunConfig.declared())}
"""All options of an experiment, with those of parts."""


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("name", OPTIONS)
def test_a_road_takes_an_option_or_names_it(road: str, name: str) -> None:
    entry = OPTIONS[name]
    offered = ROADS[road].takes(name, entry.title)
    given: dict[str, Any] = {name: True}
    for needed in entry.about.needed:
        if needed not in OPTIONS:
            continue
        # of several that are needed, one is enough: one that the road takes
        if not offered or ROADS[road].takes(needed, OPTIONS[needed].title):
            given[needed] = True
    call = Call.of_python(ROADS[road], given)
    if offered:
        check_call(call)
        return
    with pytest.raises(OptionError, match=f"^{road} takes no {name}; give it to .*run"):
        check_call(call)


ROOT_CONTEXT = click.Context(cli, help_option_names=["-h", "--help"])
"""Commands below one context make their parameters once."""


def commands() -> list[tuple[str, click.Command]]:
    found = []
    for name in cli.list_commands(ROOT_CONTEXT):
        command = cli.get_command(ROOT_CONTEXT, name)
        assert command is not None
        found.append((name, command))
    return found


def entries_of(command: click.Command) -> dict[str, Field]:
    context = click.Context(command, ROOT_CONTEXT)
    entries = {}
    for parameter in command.get_params(context):
        entry = entry_of(parameter)
        if entry is not None:
            entries[entry.name] = entry
    return entries


COMMANDS = commands()
BY_PREFIX = {step.name for step in STEPS}
"""Options that are read by a name of a table."""


def read_names() -> set[str]:
    """The names of all attributes that the package reads."""
    names = set()
    for path in PACKAGE:
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                names.add(node.attr)
    return names


def test_some_code_reads_each_option() -> None:
    declared = set(OPTIONS)
    for _, command in COMMANDS:
        declared |= entries_of(command).keys()
    for _, kind in trained_kinds().loaded():
        options = kind.training_options()
        assert options is not None
        declared |= {entry.name for entry in flattened(options.declared())}
    assert declared - read_names() <= BY_PREFIX


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_a_command_takes_an_option_or_names_it(
    name: str, command: click.Command
) -> None:
    """Of each other command an option that this command lacks."""
    own = flags_of(command)
    foreign = set()
    for _, other in COMMANDS:
        lacking = sorted(flags_of(other) - own)
        foreign.update(lacking[:1])
    for flag in foreign:
        with (
            click.Context(command, ROOT_CONTEXT, info_name=name) as context,
            pytest.raises(click.UsageError) as error,
        ):
            command.parse_args(context, [flag])
        assert flag in error.value.format_message()
        if (name, flag) not in INSTEAD:
            assert f"{name} takes no {flag}; give it to" in str(error.value)


def flags_of(command: click.Command) -> set[str]:
    context = click.Context(command, ROOT_CONTEXT)
    flags: set[str] = set()
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option):
            flags.update(parameter.opts)
    return flags


def call_of(
    command: str, entries: dict[str, Field], given: list[str], values: dict[str, Any]
) -> Call:
    """The call of a command with some options."""
    return Call(Road(command), entries, {name: name for name in given}, values)


def value_of(entry: Field, allowed: Any) -> Any:
    """A value with which another option has a meaning."""
    values = tuple(allowed() if callable(allowed) else allowed)
    return values[0] if values else True


SUITED = {
    ("recordings", "lm"): ("tta:context=2:folder",),
    ("recordings", "best"): "out.ctm",
    ("audio", "lm"): ("ngram:one", "hf-speech:folder"),
    ("precision", "lm"): ("ngram:one", "tta:folder"),
    ("segments", "best"): "out.ctm",
    ("segments", "output"): "out.ctm",
}
"""Values with which an option has a meaning, by the option and the needed field."""


@pytest.mark.parametrize(("name", "command"), COMMANDS)
def test_an_option_without_what_it_needs_is_refused(
    name: str, command: click.Command
) -> None:
    entries = entries_of(command)
    for entry in entries.values():
        flag = entry.named()
        needed = [other for other in entry.about.needed if other in entries]
        assert needed or not entry.about.needs, f"{flag} needs no option of {name}"
        alone = dict.fromkeys(entries) | {entry.name: True}
        if needed:
            with pytest.raises(OptionError, match=f"^{flag} needs --"):
                have_what_they_need(call_of(name, entries, [entry.name], alone))
        else:
            have_what_they_need(call_of(name, entries, [entry.name], alone))
        for other in needed:
            with_needed = {other: value_of(entries[other], entry.about.needs_value)}
            if other in entry.about.suits:
                with_needed = {other: SUITED[entry.name, other]}
            have_what_they_need(
                call_of(name, entries, [entry.name], alone | with_needed)
            )


def test_a_value_that_an_option_needs_may_have_more_behind_it() -> None:
    name = "run"
    entries = entries_of(dict(COMMANDS)[name])
    for value in ("ray", "ray:127.0.0.1:6379"):
        have_what_they_need(
            call_of(name, entries, ["workers"], {"workers": 2, "engine": value})
        )
    with pytest.raises(OptionError, match=r"^--workers needs --engine ray$"):
        have_what_they_need(
            call_of(name, entries, ["workers"], {"workers": 2, "engine": "local"})
        )
    values = {"prompt": "{text}", "lm": ("tta", "hf-causal:gpt2")}
    have_what_they_need(call_of(name, entries, ["prompt", "lm"], values))
    with pytest.raises(OptionError, match=r"^--prompt needs --lm hf-causal or server$"):
        have_what_they_need(
            call_of(name, entries, ["prompt", "lm"], values | {"lm": ("tta",)})
        )


SWITCHES = []
"""Options that change what a command reads, with the command."""
for name, command in COMMANDS:
    for entry in entries_of(command).values():
        if entry.about.reads_only:
            SWITCHES.append((name, entry.name))


def test_there_are_options_that_change_what_is_read() -> None:
    assert ("score", "text") in SWITCHES
    assert ("eval", "whole") in SWITCHES


@pytest.mark.parametrize(("name", "switch"), SWITCHES)
def test_an_option_acts_beside_another_or_is_refused(name: str, switch: str) -> None:
    entries = entries_of(dict(COMMANDS)[name])
    about = entries[switch].about
    titles = {entry.title for entry in entries.values()}
    assert {*about.reads_only} <= {*entries, *titles}
    for other, entry in entries.items():
        given = [other, switch]
        values = dict.fromkeys(given, True)
        if {other, entry.title} & {switch, *about.reads_only}:
            stand_beside(call_of(name, entries, given, values))
            continue
        message = f"{name} {entries[switch].named()} takes no {entry.named()}"
        with pytest.raises(OptionError, match=f"^{message}$"):
            stand_beside(call_of(name, entries, given, values))
        stand_beside(call_of(name, entries, given, values | {switch: False}))


TABLES = {"--decide": DECISIONS, "--format": FORMATS, "--metric": METRICS}


@pytest.mark.parametrize("chooser", TABLES)
def test_a_part_reads_an_option_or_the_message_names_parts_that_do(
    chooser: str,
) -> None:
    table = TABLES[chooser]
    read: dict[str, set[str]] = {}
    flags: dict[str, str] = {}
    for name, part in table.loaded():
        read[name] = set()
        for entry in options_of(part):
            read[name].add(entry.name)
            flags[entry.name] = entry.named()
    assert flags
    for name in table:
        for option, flag in flags.items():
            given = OptionValues(**{option: "value"})
            if option in read[name]:
                check_read(chooser, table, [name], given)
                continue
            able = [other for other, options in read.items() if option in options]
            message = f"{flag} needs {chooser} {' or '.join(able)}"
            with pytest.raises(OptionError) as error:
                check_read(chooser, table, [name], given)
            assert str(error.value) == message
            check_read(chooser, table, [name, able[0]], given)
            check_read(chooser, table, [name], given, read_elsewhere=[option])


def test_nested_options_count_where_they_differ_from_their_defaults() -> None:
    plain = OptionValues(normaliser=Normaliser())
    check_read("--metric", METRICS, ["bleu"], plain)
    changed = OptionValues(normaliser=Normaliser(nfkc=True))
    check_read("--metric", METRICS, ["bleu", "wer"], changed)
    with pytest.raises(OptionError, match=r"^--nfkc needs --metric wer or "):
        check_read("--metric", METRICS, ["bleu"], changed)


def test_python_says_the_same() -> None:
    with pytest.raises(UserError, match=r"^prompt needs lm hf-causal or server$"):
        rescore_package.load("tta", prompt="{text}")
    with pytest.raises(UserError, match=r"^nbest_size needs format lattice or "):
        rescore_package.read("any.json", format="native", nbest_size=3)


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
    lists = typed("NBEST", tmp_path / "absent", lists=True, reads=True)
    output = typed("-o", tmp_path / "no" / "out", **WRITES)
    with pytest.raises(UserError, match="absent"):
        check_files([output, lists])
    with pytest.raises(OptionError, match="there is no folder"):
        check_files([output])
    with pytest.raises(OptionError, match="is a folder"):
        check_files([typed("-o", tmp_path, **WRITES)])


# --- once in a call ------------------------------------------------------------------


def longer(sentences: list[str]) -> list[float]:
    return [float(len(sentence)) for sentence in sentences]


def read() -> list[NbestList]:
    return rescore_package.read("l.jsonl")


def no_bagging(**options: Any) -> dict[str, Any]:
    return {"bagging": False, **options}


CALLS: dict[str, tuple[str, Callable[[], Any]]] = {
    "run": ("run", lambda: run_main("run", "l.jsonl", *DEV, "--decide", "mbr")),
    "compare": ("compare", lambda: run_main("compare", "l.jsonl", *DEV, *MODEL)),
    "tune": ("tune", lambda: run_main("tune", "l.jsonl", "--no-bagging")),
    "pipeline.run": (
        "run",
        lambda: pipeline.run(read(), RunConfig(**no_bagging(decide="mbr")), read()),
    ),
    "rescore.tune": ("tune", lambda: rescore_package.tune(read(), **no_bagging())),
    "rescore.compare": (
        "compare",
        lambda: rescore_package.compare(read(), read(), longer, **no_bagging()),
    ),
}
"""Calls, with the road of each."""
DEV = ("--dev", "l.jsonl", "--no-bagging")
MODEL = ("--lm", "ngram:lm.arpa")


@pytest.fixture
def asked_of() -> Iterator[list[str]]:
    """What is asked: the names, or the values, of which road."""
    counted: list[str] = []
    rules = [(road, road.rules) for road in (*ROADS.values(), asked.ANY)]
    with pytest.MonkeyPatch.context() as patch:

        def names(call: Call) -> None:
            counted.append(f"names of {call.road.name}")

        patch.setattr(asked, "RULES", (*asked.RULES, names))
        for road, own in rules:
            count = partial(counted.append, f"values of {road.name}")
            more = (*own, lambda config, count=count: count())
            object.__setattr__(road, "rules", more)
        yield counted
    for road, own in rules:
        object.__setattr__(road, "rules", own)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_asked_once(
    name: str, asked_of: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lists = []
    for number in range(4):
        texts = {"a b": -1.0, "a c": -1.5 + number % 2}
        hypotheses = [
            Hypothesis(text, {"s2s": score, "lm": -score})
            for text, score in texts.items()
        ]
        lists.append(NbestList(f"u{number}", hypotheses, ("a c",)))
    formats.write(lists, "l.jsonl")
    Path("lm.arpa").write_text(test_roads.arpa(0.0))
    road, call = CALLS[name]
    done = call()
    assert getattr(done, "returncode", 0) == 0, done.stderr
    assert asked_of == [f"names of {road}", f"values of {road}"]


def test_a_changed_config_is_asked_again() -> None:
    config = checked(ROADS["run"], RunConfig(decide="mbr", scale=1.0))
    assert config.checked_for == "run" and config == RunConfig(decide="mbr", scale=1.0)
    assert checked_once(ROADS["run"], config) is config
    assert asked.changed(config, dev="dev").checked_for == "run"
    other = replace(config, decide="best")
    with pytest.raises(OptionError, match=r"^--scale needs --decide mbr or rover$"):
        checked_once(ROADS["run"], other)


VALUES: dict[str, tuple[str, dict[str, Any], str]] = {
    "one metric": ("analyse", {"metrics": ("wer", "cer")}, "has one --metric"),
    "quick": ("tune", {"metrics": ("comet",), "dev": "d"}, "tune for bleu or chrf"),
    "read": (
        "eval",
        {"metrics": ("bleu",), "measuring": MetricOptions(align="jiwer")},
        "--align needs --metric wer",
    ),
    "no decision": ("tune", {"scale": 1.0, "dev": "d"}, "--scale needs --decide mbr"),
}
"""Values that exclude each other: the road, the config, and a part of the message."""


@pytest.mark.parametrize("what", VALUES)
def test_values_are_refused_before_anything_is_read(what: str) -> None:
    road, fields, message = VALUES[what]
    with pytest.raises(UserError, match=message):
        checked(ROADS[road], RunConfig(**fields))
