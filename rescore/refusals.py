"""Options that have no meaning where they are given: refusals that follow from
declarations.

What may be refused follows from declarations, never from a second list:

- `ROADS` says which groups of options a road takes: a command, and the function of
  Python with its name.
- An option says what it needs (`rescore.options.Option.needs`), what has a meaning
  beside it (`Option.reads_only`), and whether its value is a file that is read or
  written.
- A decision, a feature, a format and a metric have the options of their class
  `Options`.

The command line and Python read the same declarations, and say the same: `OPTION needs
OTHER`, or `COMMAND takes no OPTION; give it to OTHER`.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rescore.columns import units
from rescore.config import (
    DECISION,
    EXPANSION,
    FEATURE,
    GROUPS,
    MEASURES,
    MODELS,
    SIGNIFICANCE,
    SYSTEMS,
    TUNING,
    WEIGHTS,
    Bonus,
    RunConfig,
    flattened_options,
)
from rescore.decision.rules import Decision
from rescore.errors import OptionError, UserError, did_you_mean, takes_no
from rescore.files import absent, identity
from rescore.lms import ComputeOptions
from rescore.metrics.normalise import FLAGS
from rescore.option_readers import check_read, flags_set, options_of
from rescore.options import Field, Option, several
from rescore.parts import DECISIONS, FEATURES, METRICS

WORDS = ("metrics", "normaliser", *FLAGS)
"""The fields that a road takes which measures nothing, but compares words: the metric
says how.
"""
ROADS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "run": (
        (
            *(MODELS, WEIGHTS, FEATURE, TUNING, EXPANSION, DECISION, SYSTEMS, MEASURES),
            *(SIGNIFICANCE, GROUPS),
        ),
        (),
    ),
    "score": ((MODELS, EXPANSION, "words"), ("lms", "count_tokens")),
    "tune": (
        (FEATURE, TUNING, DECISION, MEASURES, "boost", "recombine"),
        ("columns", "word_bonus", "token_bonus"),
    ),
    "rerank": (
        (EXPANSION, DECISION, SYSTEMS, MEASURES, SIGNIFICANCE, GROUPS, "speaker"),
        (),
    ),
    "evaluate": ((DECISION, SYSTEMS, MEASURES, SIGNIFICANCE, GROUPS, "speaker"), ()),
    "curve": ((MEASURES,), ()),
    "compare": (
        (
            *(MODELS, FEATURE, EXPANSION, DECISION, MEASURES, GROUPS),
            *("boost", "components", "bagging"),
        ),
        ("lms", "word_bonus", "token_bonus", "count_tokens"),
    ),
    "serve": (
        (EXPANSION, DECISION, MEASURES),
        ("lms", "lm_norm", "force_weights", "count_tokens"),
    ),
    "confidence": ((DECISION, *WORDS), ()),
    "combine": ((*WORDS, GROUPS), ()),
    "errors": ((EXPANSION, DECISION, *WORDS, "align", "words"), ()),
    "convert": ((EXPANSION,), ()),
    "eval": ((MEASURES, GROUPS), ()),
    "analyse": ((MEASURES, SIGNIFICANCE, "speaker"), ()),
    "correlate": ((MEASURES,), ()),
}
"""The groups and single fields of `RunConfig` that a road takes: a command, and the
function of Python with its name; then fields of the function alone, for which the
command has options of its own, or none.
"""


# --- roads ---------------------------------------------------------------------------

OTHER_NAMES = {"metric": "metrics", "decision": "decide"}
"""Arguments of functions, and the fields of `RunConfig` that they set."""
TABLES = tuple(entry.name for entry in RunConfig.declared() if entry.about.parts)
"""Fields of `RunConfig` that hold options of parts."""
OF_LOADING = {"cache", *(field.name for field in fields(ComputeOptions))}
"""Options of `rescore.load`."""


def check_road(road: str, given: Mapping[str, Any]) -> dict[str, Field]:
    """Return the options of parts among the options that are given.

    Args:
        road: The function or command.
        given: Arguments, fields of `RunConfig` and options, with their values.

    Raises:
        OptionError: A name is unknown, has no meaning on this road, or lacks another.
    """
    names = _field_names(given)
    options = {entry.name: entry for entry in RunConfig.declared()}
    options["normaliser"] = options["measuring"]
    known = {*options, *(field.name for field in fields(RunConfig))}
    of_parts: dict[str, Field] = {}
    if not names.keys() <= known:  # else parts stay unloaded
        every = flattened_options()
        of_parts = {name: one for name, one in every.items() if name not in known}
    for field, name in names.items():
        option = of_parts.get(field, options.get(field))
        if option is None and field not in known:
            raise OptionError(_unknown(name, {*known, *of_parts}))
        _check_taken(road, field, name, option)
    check_needs({**options, **of_parts}, names, dict.fromkeys(names, True), python=True)
    return of_parts


def _field_names(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the name that was given of each field and option of a part."""
    names = {OTHER_NAMES.get(name, name): name for name in given}
    for table in TABLES:
        if table in names:
            values = given[names.pop(table)].values
            names |= {name: name for name in values}
    return names


def _unknown(name: str, known: Collection[str]) -> str:
    """Return the message about a name that is no option."""
    near = "; rescore.load, rescore.score and rescore.compare have it"
    if name not in OF_LOADING:
        near = did_you_mean(name, known)
    return f"{name} is not an option{near}; rescore.RunConfig lists all options"


def _check_taken(road: str, field: str, name: str, option: Field | None) -> None:
    """See that a road takes a field or an option.

    Raises:
        OptionError: It does not; other roads may.
    """
    titles = {field}
    if option:
        titles.add(option.title)
    able = [other for other, taken in ROADS.items() if titles & {*taken[0], *taken[1]}]
    if road not in able:
        raise OptionError(takes_no(road, name, able))


# --- what an option needs ------------------------------------------------------------


def check_needs(
    entries: Mapping[str, Field],
    given: Collection[str],
    values: Mapping[str, Any],
    python: bool = False,
) -> None:
    """See that options that are given have what they need.

    Args:
        entries: The options of a command or a function.
        given: The names of the options that are given.
        values: The value of each option.
        python: Whether messages name options as Python does.

    Raises:
        OptionError: An option lacks what it needs.
    """
    for name, entry in entries.items():
        if name in given:
            _check_needed(entry, entries, values, python)


def _check_needed(
    entry: Field, entries: Mapping[str, Field], values: Mapping[str, Any], python: bool
) -> None:
    """See that a given option has what it needs, as far as the command has options for
    it.

    Raises:
        OptionError: It has not.
    """
    needed = [entries[name] for name in entry.about.needed if name in entries]
    allowed = entry.about.needs_value
    if callable(allowed):
        allowed = tuple(allowed())
    wanted = []
    for other in needed:
        suited = entry.about.suits.get(other.name)
        if suited and any(map(suited.test, several(values.get(other.name)))):
            return
        if suited:
            wanted.append(f"{other.named(python)} {suited.values()}")
            continue
        if _has_value(values.get(other.name), allowed):
            return
        wanted.append(_wanted(other, allowed, python))
    if needed:
        raise OptionError(f"{entry.named(python)} needs {' or '.join(wanted)}")


def _has_value(value: Any, allowed: Collection[str]) -> bool:
    """Return whether a value is set, and one of the allowed values."""
    if not allowed:
        return bool(value)
    several = (value,)
    if isinstance(value, tuple):
        several = value
    kinds = {str(one).partition(":")[0] for one in several}
    return not kinds.isdisjoint(allowed)


def _wanted(entry: Field, allowed: Sequence[str], python: bool) -> str:
    """Return a needed option as a user should give it."""
    name = entry.named(python)
    if allowed:
        return f"{name} {' or '.join(allowed)}"
    if python or not entry.about.metavar:
        return name
    return f"{name} {entry.about.metavar}"


def check_loading(lm: str, computing: ComputeOptions) -> None:
    """See that a language model reads the options with which it is loaded from Python.

    Args:
        lm: The name of the model.
        computing: The options.

    Raises:
        OptionError: It does not read one of them.
    """
    entries = {entry.name: entry for entry in ComputeOptions.declared()}
    values = {name: getattr(computing, name) for name in entries}
    given = [name for name, value in values.items() if value is not None]
    entries["lm"] = Field("lm", MODELS, Option(), str, None)
    check_needs(entries, given, {**values, "lm": lm}, python=True)


def check_beside(
    command: str,
    entries: Mapping[str, Field],
    given: Collection[str],
    values: Mapping[str, Any],
) -> None:
    """See that options have a meaning beside each other.

    Args:
        command: The command.
        entries: The options of the command.
        given: The names of the options that are given.
        values: The value of each option.

    Raises:
        OptionError: An option has no meaning beside another.
    """
    for name in given:
        entry = entries[name]
        read = {name, *entry.about.reads_only}
        if len(read) == 1 or not values[name]:
            continue
        for other in given:
            if read.isdisjoint((other, entries[other].title)):
                flag = entries[other].named()
                raise OptionError(takes_no(f"{command} {entry.named()}", flag))


def refuse_tuning(config: RunConfig) -> None:
    """Refuse options about tuning where nothing is tuned.

    Args:
        config: What was asked, without tuning.

    Raises:
        OptionError: There is such an option.
    """
    for name, title, about, _, default in RunConfig.declared():
        value = getattr(config, name)
        if title == TUNING and value != default:
            raise OptionError(
                f"{about.flag(name)} is about tuning; give --dev or --folds"
            )
    for entry, value in _bonuses(config):
        if value is True:
            flag = entry.about.flag(entry.name)
            raise OptionError(
                f"{flag} tune needs --dev lists to tune on; or give NUMBER"
            )


def _bonuses(config: RunConfig) -> Iterator[tuple[Field, Any]]:
    """Yield the options of bonuses with their values: fields of the config, and the
    options of features that are set.

    Args:
        config: What was asked.
    """
    for entry in RunConfig.declared():
        if entry.hint == Bonus:
            yield entry, getattr(config, entry.name)
    of_features = config.weighing.values
    if not of_features:  # parts stay unloaded
        return
    for _, feature in FEATURES.loaded():
        for entry in options_of(feature):
            if entry.hint == Bonus:
                yield entry, of_features.get(entry.name)


def refuse_several_sources(config: RunConfig) -> None:
    """Refuse several sources of weights.

    Args:
        config: What was asked.

    Raises:
        OptionError: Weights would be tuned twice, or tuned and given.
    """
    if config.dev is not None and config.weights:
        raise OptionError(
            "--dev and --weight exclude each other: --dev tunes the weights that"
            " --weight sets"
        )
    if config.folds and (config.dev is not None or config.weights):
        raise OptionError(
            "--folds tunes on the test lists themselves; leave out --dev and --weight"
        )


def check_decision(config: RunConfig, decision: str) -> None:
    """See that a decision takes the options that are given.

    Args:
        config: What was asked.
        decision: The name of the decision.

    Raises:
        OptionError: It takes no scale, or not such an option.
    """
    if config.scale is not None and not DECISIONS[decision].uses_posteriors:
        able = [name for name, rule in DECISIONS.loaded() if rule.uses_posteriors]
        raise OptionError(f"--scale needs --decide {' or '.join(able)}")
    check_read("--decide", DECISIONS, [decision], config.deciding)


# --- files ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Typed:
    """An option or argument as it is typed, with one value."""

    flag: str
    value: str
    about: Option


def check_files(typed: Sequence[Typed]) -> None:
    """See, before anything is computed, that lists are there and that no output takes
    the place of another file.

    Links count as the files that they lead to. A path that is no file, such as
    /dev/null, may be given twice.

    Args:
        typed: Each value of the options and arguments of a command.

    Raises:
        UserError: A path of lists leads nowhere, and is neither standard input nor a
            pattern.
        OptionError: Two outputs go to one file, or an output takes the place of a file
            that is read.
    """
    for one in typed:
        if one.about.lists:
            _check_present(one.value)
    written: dict[str, str] = {}
    for one in typed:
        if _is_output(one):
            _check_output(one, written)
    for one in typed:
        if one.about.reads:
            _check_not_overwritten(one, written)


def _check_present(value: str) -> None:
    """See that lists are there: a typing error is the most frequent error.

    Raises:
        UserError: They are not.
    """
    is_pattern = bool(set(value) & set("*?["))
    if value != "-" and not is_pattern and not Path(value).exists():
        raise UserError(absent(Path(value)))


def _is_output(one: Typed) -> bool:
    """Return whether a value is a file, a folder or stdout that is written."""
    if not one.about.writes:
        return False
    if one.value == "-":
        return one.about.writes == "stdout"
    path = Path(one.value)
    return not path.exists() or path.is_file() or path.is_dir()


def _check_output(one: Typed, written: dict[str, str]) -> None:
    """Add an output to the outputs that are known, by place.

    Raises:
        UserError: Another output has its place, it cannot be a file there, or its
            ending is of another kind of file.
    """
    place = one.value
    if one.value != "-":
        place = os.path.realpath(one.value)
    if place in written:
        where = f"both write to {one.value}"
        if one.value == "-":
            where = "cannot both go to stdout"
        both = f"{written[place]} and {one.flag}"
        if one.flag == written[place]:
            both = f"two {one.flag}"
        raise OptionError(f"{both} {where}; give each a file of its own")
    if one.about.may_write is not None:
        one.about.may_write(one.value)
    path = Path(one.value)
    if one.about.metavar == "FILE" and path.is_dir():
        raise OptionError(f"{one.flag} {path}: is a folder; give a file")
    if one.about.metavar == "FILE" and not path.parent.is_dir():
        raise OptionError(
            f"{one.flag} {path}: there is no folder {path.parent} to write it in; make"
            " it first"
        )
    written[place] = one.flag


def _check_not_overwritten(one: Typed, written: Mapping[str, str]) -> None:
    """See that no output takes the place of a path that is typed. The files to which a
    folder leads are compared where they are read (`rescore.files.note_read`).

    Raises:
        OptionError: There is such an output.
    """
    for name in _paths_in(one.value):
        for place, writer in written.items():
            if _leads_to(name, place):
                raise OptionError(
                    f"{writer} would write over {one.value}, which {one.flag} reads;"
                    " give another file"
                )


def _leads_to(name: str, place: str) -> bool:
    """Return whether a path or pattern that is read leads to an output.

    Args:
        name: The path or pattern.
        place: The path of the output, without links.
    """
    read = os.path.realpath(name)
    if place == read:
        return True
    if not os.path.lexists(name):
        return fnmatch.fnmatch(place, read)
    file = identity(name)
    return file is not None and file == identity(place)


def _paths_in(value: str) -> Iterable[str]:
    """Return the paths that a value may name: the path of a language model stands
    behind its kind and options.
    """
    return {value, value.rpartition(":")[2]} - {"-"}


def check_unmeasured(
    config: RunConfig,
    columns: Collection[str],
    decision: Decision,
    instead: str,
    compares_words: bool = False,
) -> None:
    """Refuse options of metrics that nothing reads, in a command that measures nothing.

    A decision by posteriors, a bonus of words and new hypotheses read options of
    metrics, but not the options of figures alone, such as how errors are named.

    Args:
        config: What was asked.
        columns: The columns that the weights name.
        decision: The decision, with the options of the call.
        instead: What the user should do, for messages.
        compares_words: Whether words are compared beside the decision.

    Raises:
        OptionError: Nothing reads an option.
    """
    given = flags_set(METRICS, config.measuring)
    if config.metrics:
        given["metrics"] = "--metric"
    counts = units().keys() & {*columns}
    unread = {"align"}  # --align only names the errors of figures
    if decision.is_best and not config.expands and not counts:
        unread = {*given}
        if compares_words:
            unread -= {*FLAGS}
    for name, flag in given.items():
        if name in unread:
            raise OptionError(f"{flag}: nothing is measured here; {instead}")
