"""What is asked on a road, and whether it may stand there: rules say no, first about
names (`RULES`), then about values (`Road.rules`).

A road (`Road`) is a command, and the function of Python with its name. What may be
refused follows from declarations, never from a second list:

- A road says which groups of options its stages read.
- An option says what it needs (`rescore.options.Option.needs`), what has a meaning
  beside it (`Option.reads_only`), and whether its value is a file that is read or
  written.
- A decision, a feature, a format and a metric have the options of their class
  `Options`.

`check_call` asks the rules about names (`RULES`), before files of options are read;
`checked` asks the rules about the values together (`Road.rules`), and returns the
`RunConfig`. Each is asked once in a call, by the command line (`rescore.cli.bridge`)
and from Python (`rescore.border`), and both say the same: `OPTION needs OTHER`, or
`COMMAND takes no OPTION; give it to OTHER`.

What the lists or weights decide, such as the default metric, is not known here:
`rescore.plan` refuses what does not suit them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
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
from rescore.errors import OptionError, UserError, did_you_mean, takes_no
from rescore.expansion import asked_expansions
from rescore.features import all_features
from rescore.file_options import Typed, check_files
from rescore.given import decision_of, given_weights
from rescore.lms import ComputeOptions, single_specs
from rescore.metrics.normalise import FLAGS
from rescore.option_readers import check_read, flags_set, options_of
from rescore.options import Field, Option, several
from rescore.parts import BEST, DECISIONS, FEATURES, METRICS
from rescore.tuning import Weights

OTHER_NAMES = {"metric": "metrics", "decision": "decide"}
"""Arguments of functions, and the fields of `RunConfig` that they set."""
TABLES = tuple(entry.name for entry in RunConfig.declared() if entry.about.parts)
"""Fields of `RunConfig` that hold options of parts."""
OF_LOADING = {"cache", *(field.name for field in fields(ComputeOptions))}
"""Options of `rescore.load`."""


# --- roads and calls -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Road:
    """A command, and the function of Python with its name."""

    name: str
    stages: tuple[str, ...] = ()
    """The groups of options that its stages read."""
    fields: tuple[str, ...] = ()
    """Single fields of `RunConfig` that it reads beside these groups."""
    in_python: tuple[str, ...] = ()
    """Fields of the function alone: the command has options of its own for them, or
    none.
    """
    set_by: Mapping[str, str] = field(default_factory=dict)
    """Fields of `RunConfig` that options of the command's other classes set: the
    option of each field.
    """
    tunes: bool = False
    """Whether the function has dev lists, which have no other name than `dev`."""
    rules: tuple[Callable[[RunConfig], None], ...] = ()
    """What the values together are asked, in this order."""

    def takes(self, name: str, title: str = "") -> bool:
        """Return whether the road takes a field of `RunConfig` or an option of a part.

        Args:
            name: The field or the option.
            title: The title of its group.
        """
        named = {*self.stages, *self.fields, *self.in_python}
        return not named.isdisjoint((name, title))


@dataclass(frozen=True, slots=True)
class Call:
    """The options of one call."""

    road: Road
    options: Mapping[str, Field]
    """The options that may be given, by name."""
    given: Mapping[str, str]
    """The options that are given: the name of each as the caller gave it."""
    values: Mapping[str, Any]
    """The value of each option, of those that are not given too."""
    python: bool = False
    """Whether messages name options as Python does."""

    @classmethod
    def of_python(cls, road: Road, given: Mapping[str, Any]) -> Call:
        """Return the call of a function.

        Args:
            road: The function.
            given: Arguments, fields of `RunConfig` and options, with their values.
        """
        names = _field_names(given)
        options = {entry.name: entry for entry in RunConfig.all_fields()}
        options["normaliser"] = options["measuring"]
        if not names.keys() <= options.keys():  # else parts stay unloaded
            options = {**flattened_options(), **options}
        values = dict.fromkeys(names, True)
        return cls(road, options, names, values, python=True)

    @classmethod
    def of_config(cls, road: Road, config: RunConfig) -> Call:
        """Return the call that a config of a Python user stands for.

        Args:
            road: The function that gets the config.
            config: What was asked.
        """
        given = {}
        for entry in RunConfig.declared():
            value = getattr(config, entry.name)
            if value != entry.default:
                given[entry.name] = value
        return cls.of_python(road, given)

    @classmethod
    def of_loading(cls, lm: str, computing: ComputeOptions) -> Call:
        """Return the call of `rescore.load`.

        Args:
            lm: The name of the model.
            computing: The options.
        """
        options = {entry.name: entry for entry in ComputeOptions.declared()}
        values = {name: getattr(computing, name) for name in options}
        given = {name: name for name, value in values.items() if value is not None}
        options["lm"] = Field("lm", MODELS, Option(), str, None)
        return cls(Road("load"), options, given, {**values, "lm": lm}, python=True)

    def named(self, name: str) -> str:
        """Return an option as the caller knows it.

        Args:
            name: The field.
        """
        return self.options[name].named(self.python)


def _field_names(given: Mapping[str, Any]) -> dict[str, str]:
    """Return the name that was given of each field and option of a part."""
    names = {OTHER_NAMES.get(name, name): name for name in given}
    for table in TABLES:
        if table in names:
            values = given[names.pop(table)].values
            names |= {name: name for name in values}
    return names


# --- rules about the options that are named ------------------------------------------


def _are_taken(call: Call) -> None:
    """A function takes the options of its road. (A command has no other options.)"""
    if call.road.name not in ROADS or not call.python:
        return
    for name, shown in call.given.items():
        if name not in call.options:
            raise OptionError(_unknown(shown, call.options))
        title = call.options[name].title
        if not call.road.takes(name, title):
            able = [other.name for other in ROADS.values() if other.takes(name, title)]
            raise OptionError(takes_no(call.road.name, shown, able))


def _unknown(name: str, known: Collection[str]) -> str:
    """Return the message about a name that is no option."""
    near = "; rescore.load, rescore.score and rescore.compare have it"
    if name not in OF_LOADING:
        near = did_you_mean(name, known)
    return f"{name} is not an option{near}; rescore.RunConfig lists all options"


def _files_are_sound(call: Call) -> None:
    """Lists are there, and no output takes the place of another file."""
    if not call.python:
        check_files(list(typed(call)))


def typed(call: Call) -> Iterator[Typed]:
    """Yield each value of the options of a command, as it is typed.

    Args:
        call: The call of the command.
    """
    for name, entry in call.options.items():
        value = call.values.get(name)
        if isinstance(value, bool):
            continue
        for one in several(value):
            yield Typed(entry.named(), str(one), entry.about)


def have_what_they_need(call: Call) -> None:
    """An option has one of the options that it needs, as far as the road has them.

    Args:
        call: The call.

    Raises:
        OptionError: It has not.
    """
    for name, entry in call.options.items():
        if name in call.given:
            _check_needed(call, entry)


def _check_needed(call: Call, entry: Field) -> None:
    """See that a given option has what it needs.

    Raises:
        OptionError: It has not.
    """
    needed = [call.options[name] for name in entry.about.needed if name in call.options]
    allowed = entry.about.needs_value
    if callable(allowed):
        allowed = tuple(allowed())
    wanted = []
    for other in needed:
        value = call.values.get(other.name)
        suited = entry.about.suits.get(other.name)
        if suited and any(map(suited.test, several(value))):
            return
        if suited:
            wanted.append(f"{other.named(call.python)} {suited.values()}")
            continue
        if _has_value(value, allowed):
            return
        wanted.append(_wanted(other, allowed, call.python))
    if needed:
        raise OptionError(f"{call.named(entry.name)} needs {' or '.join(wanted)}")


def _has_value(value: Any, allowed: Collection[str]) -> bool:
    """Return whether a value is set, and one of the allowed values."""
    if not allowed:
        return bool(value)
    kinds = {str(one).partition(":")[0] for one in several(value)}
    return not kinds.isdisjoint(allowed)


def _wanted(entry: Field, allowed: Sequence[str], python: bool) -> str:
    """Return a needed option as a user should give it."""
    name = entry.named(python)
    if allowed:
        return f"{name} {' or '.join(allowed)}"
    if python or not entry.about.metavar:
        return name
    return f"{name} {entry.about.metavar}"


def stand_beside(call: Call) -> None:
    """An option that replaces what is read (`reads_only`) allows only the options that
    are read then beside it.

    Args:
        call: The call.

    Raises:
        OptionError: An option is not read.
    """
    for name in call.given:
        entry = call.options[name]
        read = {name, *entry.about.reads_only}
        if len(read) == 1 or not call.values[name]:
            continue
        for other in call.given:
            if read.isdisjoint((other, call.options[other].title)):
                switch = f"{call.road.name} {entry.named()}"
                raise OptionError(takes_no(switch, call.named(other)))


RULES = (_are_taken, _files_are_sound, have_what_they_need, stand_beside)
"""What every call is asked, in this order."""


def check_call(call: Call) -> None:
    """See that the options of a call may stand there.

    Args:
        call: The call.

    Raises:
        OptionError: An option is unknown, has no meaning here or lacks another.
        UserError: A path of lists leads nowhere.
    """
    for rule in RULES:
        rule(call)


# --- rules about the values together -------------------------------------------------


def _one_metric(config: RunConfig) -> None:
    """A command that compares nothing measures one metric."""
    if len(config.metrics) > 1:
        raise OptionError("this command has one --metric")


def _one_source_of_weights(config: RunConfig) -> None:
    """Weights are tuned once, or given."""
    if config.dev is not None and config.weights:
        raise OptionError(
            "--dev and --weight exclude each other: --dev tunes the weights that"
            " --weight sets"
        )
    if config.folds and (config.dev is not None or config.weights):
        raise OptionError(
            "--folds tunes on the test lists themselves; leave out --dev and --weight"
        )


def _new_columns_are_tuned(config: RunConfig) -> None:
    """The weights of the columns that expansions add are tuned."""
    if config.tunes:
        return
    for name, part, _ in asked_expansions(config):
        if part.adds:
            raise UserError(
                f"--{name} needs --dev lists (or --folds): the weights of its columns"
                " are tuned"
            )


def _metrics_read_their_options(config: RunConfig) -> None:
    """A named metric, or a feature, reads each option of metrics. (Where none is named,
    the lists decide: the plan asks.)
    """
    if config.metrics:
        check_metric_options(config, config.metrics)


def _decision_takes_its_options(config: RunConfig) -> None:
    """A named decision takes its options. (Where none is named, weights of an earlier
    tuning decide: the plan asks.)
    """
    if config.decide is not None:
        check_decision(config, config.decide)


def _best_takes_no_options(config: RunConfig) -> None:
    """Without weights of an earlier tuning, the default decision is the best score."""
    if config.decide is None:
        check_decision(config, BEST)


def _the_objective_is_quick(config: RunConfig) -> None:
    """Weights are tuned for a metric that is computed quickly."""
    if config.tunes and config.metrics and METRICS[config.metrics[0]].learned:
        name = config.metrics[0]
        raise UserError(
            f"--metric {name}: tune for bleu or chrf, and report {name} with a second"
            " --metric"
        )


def _options_of_tuning_tune(config: RunConfig) -> None:
    """Options about tuning have lists to tune on."""
    if config.tunes:
        return
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
                f"{flag} tune needs --dev lists (or --folds) to tune on; or give NUMBER"
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


def _models_have_weights(config: RunConfig) -> None:
    """Without tuning, each model has a weight: its own, or its card's."""
    if config.lms and not config.tunes:
        given_weights(config, single_specs(config.lms))  # raises if there is none


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


def check_metric_options(
    config: RunConfig, metrics: Sequence[str], why: str = ""
) -> None:
    """See that a metric, or a feature, reads each option of metrics.

    Args:
        config: What was asked.
        metrics: The names of the metrics.
        why: The end of the message: why these metrics are measured.

    Raises:
        OptionError: Nothing reads an option.
    """
    if not flags_set(METRICS, config.measuring):
        return
    by_features: set[str] = set()
    for feature in all_features().values():
        by_features.update(feature.reads)
    check_read("--metric", METRICS, metrics, config.measuring, by_features, why=why)


def check_unmeasured(
    config: RunConfig, weights: Weights, instead: str, compares_words: bool = False
) -> None:
    """Refuse options of the decision and of metrics that nothing reads, in a command
    that measures nothing.

    A decision by posteriors, a bonus of words and new hypotheses read options of
    metrics, but not the options of figures alone, such as how errors are named. It is
    not among the rules of a road: weights of a file say what reads the options.

    Args:
        config: What was asked.
        weights: The weights that decide.
        instead: What the user should do, for messages.
        compares_words: Whether words are compared beside the decision.

    Raises:
        OptionError: Nothing reads an option.
    """
    given = flags_set(METRICS, config.measuring)
    if config.metrics:
        given["metrics"] = "--metric"
    counts = units().keys() & {*weights.weights}
    unread = {"align"}  # --align only names the errors of figures
    decision = decision_of(config, weights)
    check_decision(config, decision.name)
    if decision.is_best and not config.expands and not counts:
        unread = {*given}
        if compares_words:
            unread -= {*FLAGS}
    for name, flag in given.items():
        if name in unread:
            raise OptionError(f"{flag}: nothing is measured here; {instead}")


# --- the table -----------------------------------------------------------------------

WORDS = ("metrics", "normaliser", *FLAGS)
"""The fields that a road takes which measures nothing, but compares words: the metric
says how.
"""
OF_PLANS = (_metrics_read_their_options, _decision_takes_its_options)
"""What a config is asked on every road."""
OF_TUNING = (_best_takes_no_options, *OF_PLANS, _the_objective_is_quick)
"""What the config of a road is asked that tunes."""
OF_RUNS = (
    _one_source_of_weights,
    _new_columns_are_tuned,
    *OF_TUNING,
    _options_of_tuning_tune,
    _models_have_weights,
)
"""What the config of a whole run is asked."""
OF_ONE_METRIC = (_one_metric, *OF_PLANS)
"""What the config of a road is asked that measures one metric."""


_WEIGHTS = {"force_weights": "force_weights"}
_BONUSES = {"word_bonus": "word_bonus", "token_bonus": "token_bonus"}
_ROADS = (
    Road(
        "run",
        (
            *(MODELS, WEIGHTS, FEATURE, TUNING, EXPANSION, DECISION, SYSTEMS, MEASURES),
            *(SIGNIFICANCE, GROUPS),
        ),
        set_by={"lms": "lm", "dev": "dev"},
        rules=OF_RUNS,
    ),
    Road(
        "score",
        (MODELS, EXPANSION),
        fields=("words",),
        in_python=("lms", "count_tokens"),
        set_by={"lms": "lm", "count_tokens": "count_tokens"},
    ),
    Road(
        "tune",
        (FEATURE, TUNING, DECISION, MEASURES),
        fields=("boost", "recombine"),
        in_python=("columns", *_BONUSES),
        set_by={"dev": "nbest", "columns": "column", **_BONUSES},
        tunes=True,
        rules=OF_TUNING,
    ),
    Road(
        "rerank",
        (EXPANSION, DECISION, SYSTEMS, MEASURES, SIGNIFICANCE, GROUPS),
        fields=("speaker",),
        set_by=_WEIGHTS,
        rules=OF_PLANS,
    ),
    Road(
        "evaluate",
        (DECISION, SYSTEMS, MEASURES, SIGNIFICANCE, GROUPS),
        fields=("speaker",),
        rules=OF_PLANS,
    ),
    Road("curve", (MEASURES,), rules=OF_PLANS),
    Road(
        "compare",
        (MODELS, FEATURE, EXPANSION, DECISION, MEASURES, GROUPS),
        fields=("boost", "components", "bagging"),
        in_python=("lms", *_BONUSES, "count_tokens"),
        set_by={"lms": "lm", "dev": "dev", **_BONUSES},
        tunes=True,
        rules=OF_RUNS,
    ),
    Road(
        "serve",
        (EXPANSION, DECISION, MEASURES),
        in_python=("lms", "lm_norm", "force_weights", "count_tokens"),
        set_by=_WEIGHTS,
        rules=OF_PLANS,
    ),
    Road("confidence", (DECISION,), fields=WORDS, set_by=_WEIGHTS, rules=OF_PLANS),
    Road("combine", (GROUPS,), fields=WORDS, rules=OF_ONE_METRIC),
    Road(
        "errors",
        (EXPANSION, DECISION),
        fields=(*WORDS, "align", "words"),
        set_by=_WEIGHTS,
        rules=OF_PLANS,
    ),
    Road("convert", (EXPANSION,)),
    Road("eval", (MEASURES, GROUPS), rules=OF_PLANS),
    Road(
        "analyse",
        (MEASURES, SIGNIFICANCE),
        fields=("speaker",),
        set_by=_WEIGHTS,
        rules=OF_ONE_METRIC,
    ),
    Road("correlate", (MEASURES,), rules=OF_ONE_METRIC),
)
ROADS = {road.name: road for road in _ROADS}
"""All roads that take options of an experiment."""


ANY = Road("resolve", rules=OF_PLANS)
"""The road of a plan that a user of Python makes: any road may execute it."""


def checked(road: Road, config: RunConfig) -> RunConfig:
    """Return what was asked on a road, if the values may stand together.

    Args:
        road: The road, whose names are checked (`check_call`).
        config: What was asked.

    Raises:
        UserError: Two options contradict each other, or an option needs another.
    """
    for rule in road.rules:
        rule(config)
    return _marked(copy(config), road.name)


def _marked(config: RunConfig, road: str) -> RunConfig:
    """Mark a config, which nobody else has yet, as checked."""
    object.__setattr__(config, "checked_for", road)  # the class is frozen
    return config


def changed(config: RunConfig, **fields: Any) -> RunConfig:
    """Return a checked config with fields that the program sets, not the user.

    Args:
        config: The config.
        fields: The fields.
    """
    return _marked(replace(config, **fields), config.checked_for)


def checked_once(road: Road, config: RunConfig) -> RunConfig:
    """Return the config of a function that takes a `RunConfig`: checked here, unless
    the command or the function that calls checked it.

    Args:
        road: The road.
        config: What was asked.

    Raises:
        UserError: An option has no meaning on this road, or contradicts another.
    """
    if config.checked_for:
        return config
    check_call(Call.of_config(road, config))
    return checked(road, config)
