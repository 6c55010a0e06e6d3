"""Law: whether an option takes a value is asked in one place, so that the command line
and Python refuse the same values in the same words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import rescore
from rescore.border import config_of
from rescore.config import RunConfig
from rescore.errors import OptionError
from rescore.options import Field, flattened
from rescore.values import kind_of
from tests.conftest import run_main

OPTIONS = {entry.name: entry for entry in flattened(RunConfig.declared())}


def wrong_values(entry: Field) -> Iterator[tuple[str, Any]]:
    """Yield what may be typed, and given in Python, that the option does not take."""
    about = entry.about
    kind = kind_of(entry.hint).type
    if about.parse is not None:
        return
    if about.choices:
        yield "no-such-name", "no-such-name"
    if kind in (int, float):
        yield "nan", "nan"
        if about.low is not None:
            yield str(kind(about.low - 1)), kind(about.low - 1)
        if about.high is not None:
            yield str(kind(about.high + 1)), kind(about.high + 1)
    if kind is int:
        yield "2.5", 2.5


CASES = [
    (name, *values)
    for name, entry in OPTIONS.items()
    for values in wrong_values(entry)
    if not kind_of(entry.hint).several
]


@pytest.mark.parametrize(("name", "typed", "given"), CASES)
def test_both_spellings_refuse_a_value(name: str, typed: str, given: Any) -> None:
    entry = OPTIONS[name]
    with pytest.raises(rescore.UserError) as refused:
        config_of("run", **{name: given})
    try:
        entry.check(entry.of_text(typed))
    except OptionError as error:
        here = str(error).removeprefix(entry.named())
    except rescore.UserError as error:  # a name of a table
        here = str(error)
    else:
        pytest.fail(f"{entry.named()} takes {typed}")
    here = here.removeprefix(": ")
    there = str(refused.value).removeprefix(name)
    assert words(there) == words(here)


def words(message: str) -> str:
    """Return a message without the quotes of a value, which Python alone shows."""
    return " ".join(message.replace("'", "").replace('"', "").split())


def test_there_are_cases() -> None:
    assert len(CASES) > 20, len(CASES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--folds", "x"), "--folds x: expected a whole number from 2 on"),
        (("--folds", "1"), "--folds 1: expected a whole number from 2 on"),
        (("--align", "sclit"), "expected one of sclite, jiwer; did you mean sclite?"),
        (("--boost", "x"), "--boost: 'x' is neither tune nor off nor a number"),
        (("--metric", "wr"), "--metric: metric 'wr' is not one of wer, "),
    ],
)
def test_an_error_names_the_option_first(
    arguments: tuple[str, ...], message: str
) -> None:
    done = run_main("run", "data/two.json", "--lm", "tta", *arguments)
    assert done.returncode == 2 and message in done.stderr


def test_lists_are_tuples() -> None:
    assert config_of("run", metrics=["wer", "cer"]).metrics == ("wer", "cer")
    with pytest.raises(rescore.UserError, match="metrics 'wer': expected a list of"):
        config_of("run", metrics="wer")
    with pytest.raises(rescore.UserError, match="columns 'tta': expected a list of"):
        config_of("tune", columns="tta")
