"""The border of Python callers: what a caller may give as lists, models, weights and
settings becomes our types.

Code behind the border checks nothing of it again. An error that the caller can mend is
a `UserError`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from typing import Any, cast

from rescore.asked import (
    OF_LOADING,
    OTHER_NAMES,
    ROADS,
    TABLES,
    Call,
    check_call,
    checked,
)
from rescore.columns import FIRST_PASS, FROM_FILE, SUM
from rescore.config import RunConfig, table_of
from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.lms import ComputeOptions, LanguageModel, load, single_specs
from rescore.lms.cache import Cached
from rescore.lms.function import FunctionModel
from rescore.metrics import MetricOptions, Normaliser
from rescore.metrics.normalise import FLAGS
from rescore.nbest import Header, Hypothesis, NbestList, SharedChange, check_scores
from rescore.options import Field, OptionValues
from rescore.tuning import FIRST_PASS_ALONE, Weights

Scorer = Callable[[Sequence[str]], Sequence[float]]
"""A function that gives each of some sentences a score, natural log, higher is
better.
"""

OWN_PARTS = {
    "metric": ("METRICS", "rescore.metrics.Metric"),
    "decision": ("DECISIONS", "rescore.decision.rules.DecisionRule"),
}
"""For each argument that names a part: the table of its parts, and their class."""


def names_of(lms: Sequence[str | LanguageModel | Scorer]) -> tuple[str, ...]:
    """Return the names of models; nothing if a model was given in another way."""
    names = tuple(lm for lm in lms if isinstance(lm, str))
    if len(names) < len(lms):
        return ()
    return names


def loading_of(
    lms: Sequence[str | LanguageModel | Scorer], options: dict[str, Any]
) -> dict[str, Any]:
    """Take the options of `rescore.load` out of the options of a call.

    Args:
        lms: The models of the call.
        options: The options, which lose those of loading.

    Returns:
        The options of loading that are not None, by name.

    Raises:
        UserError: There is such an option, and no model is given by its name.
    """
    names = sorted(OF_LOADING & options.keys())
    loading = {name: options.pop(name) for name in names}
    loading = {name: value for name, value in loading.items() if value is not None}
    if loading and not any(isinstance(lm, str) for lm in lms):
        raise UserError(
            f"{min(loading)}: is an option of models that are given by name; give it"
            ' to rescore.load, or give a name, such as "tta"'
        )
    return loading


def as_models(
    given: Iterable[str | LanguageModel | Scorer],
    loading: Mapping[str, Any] | None = None,
) -> list[LanguageModel]:
    """Return the models of names, models and functions.

    Args:
        given: The names, models and functions.
        loading: Options of `rescore.load`, for the names.

    Raises:
        UserError: An item is none of these, or a model cannot be loaded.
    """
    models: list[LanguageModel] = []
    for item in given:
        if isinstance(item, str):
            for name in single_specs([item]):
                models.append(loaded(name, **(loading or {})))
        else:
            models.append(_as_model(item))
    return models


def loaded(lm: str, cache: str | Path | None = None, **options: Any) -> LanguageModel:
    """Return a language model by its name.

    Args:
        lm: The name.
        cache: A folder in which scores are kept.
        options: Fields of `ComputeOptions`.

    Raises:
        UserError: The model cannot be loaded, or takes no such option.
    """
    _check_kind("rescore.load", "lm", lm, str, "the name of a model, such as tta")
    computing = ComputeOptions(**options)
    check_call(Call.of_loading(lm, computing))
    model = load(lm, computing)
    if cache is None:
        return model
    _check_kind("rescore", "cache", cache, str | Path, "the path of a folder")
    return Cached(model, Path(cache))


def specs_of(given: Iterable[str | LanguageModel | Scorer]) -> list[str | None]:
    """Return the name of each model of `as_models`; None for a model that was given as
    a model or a function.
    """
    specs: list[str | None] = []
    for item in given:
        if isinstance(item, str):
            specs += single_specs([item])
        else:
            specs.append(None)
    return specs


def _as_model(given: LanguageModel | Scorer) -> LanguageModel:
    if hasattr(given, "score") and hasattr(given, "fingerprint"):
        return cast("LanguageModel", given)
    if callable(given):
        return FunctionModel(given)
    raise UserError(
        "expected a model's name, a model or a function of sentences, found"
        f" {type(given).__name__}"
    )


def checked_lists(function: str, lists: Iterable[Any], texts: bool = False) -> Dataset:
    """Return the lists of a caller, if they are N-best lists as files may have them.

    Args:
        function: The function that the caller called.
        lists: The lists.
        texts: Whether lists may be lists of texts, best first.

    Raises:
        UserError: They are something else, a list has no hypotheses, or a score is no
            number.
    """
    wanted = (
        f"rescore.{function}: expected N-best lists (rescore.read makes them from"
        " files)"
    )
    is_one = isinstance(lists, (str, Path, NbestList, Mapping)) or hasattr(
        lists, "iloc"
    )
    if is_one or not isinstance(lists, Iterable):
        raise UserError(f"{wanted}, found one {type(lists).__name__}")
    every = []
    with_sum = SharedChange(lambda header: header.with_records({SUM: FROM_FILE}))
    for number, item in enumerate(lists, 1):
        nbest = item
        if texts and _are_texts(item):
            nbest = _as_list(number, item)
        if not isinstance(nbest, NbestList):
            raise UserError(
                f"{wanted}, found a {type(nbest).__name__} in place {number}"
            )
        _check_list(function, nbest)
        if _has_sums_beside(nbest):
            nbest = replace(nbest, header=with_sum(nbest.header))
        every.append(nbest)
    return Dataset(every)


def _are_texts(item: Any) -> bool:
    """Return whether an item is a list of texts."""
    if isinstance(item, str) or not isinstance(item, Sequence):
        return False
    return all(isinstance(text, str) for text in item)


def _as_list(number: int, texts: Sequence[str]) -> NbestList:
    """Return texts as a list; their first-pass score is minus the log of the rank."""
    hypotheses = [
        Hypothesis(text, {FIRST_PASS: -math.log(rank)})
        for rank, text in enumerate(texts, 1)
    ]
    return NbestList(str(number), hypotheses)


def _has_sums_beside(nbest: NbestList) -> bool:
    """Return whether a column `sum` of a caller has no record, and so is a score of its
    own.
    """
    header = nbest.header
    if header.name or header.scores_are_means or SUM in header.records:
        return False
    return SUM in nbest.hypotheses[0].scores


def _check_list(function: str, nbest: NbestList) -> None:
    """See that a list has hypotheses and scores as files may have them.

    Raises:
        UserError: It has something that is no hypothesis, or a score that is no number.
    """
    place = f"rescore.{function}: utterance {nbest.id!s:.40}"
    _check_kind(place, "id", nbest.id, str, "a text")
    _check_kind(place, "hypotheses", nbest.hypotheses, Sequence, "a list")
    _check_kind(place, "source", nbest.source, str | None, "a text or None")
    _check_kind(place, "header", nbest.header, Header, "a header")
    _check_kind(place, "references", nbest.references, Sequence, "a tuple of texts")
    for reference in nbest.references:
        _check_kind(place, "a reference", reference, str, "a text")
    for item in nbest.hypotheses:
        if not isinstance(item, Hypothesis):
            raise UserError(
                f"rescore.{function}: utterance {nbest.id} has a {type(item).__name__}"
                ' as hypothesis; make a rescore.Hypothesis("text", {"s2s": score})'
                " of each"
            )
        _check_kind(place, "the text of a hypothesis", item.text, str, "a text")
        _check_kind(place, "scores", item.scores, Mapping, "a dictionary")
    check_scores(nbest, f"rescore.{function}: utterance {nbest.id}")
    if isinstance(nbest.references, str):
        replace(nbest)  # which refuses references that are one text


def _check_kind(place: str, what: str, value: Any, kind: Any, wanted: str) -> None:
    """Raise an error if a value of a caller is of another kind.

    Args:
        place: The function and the utterance, for the message.
        what: What the value is.
        value: The value.
        kind: The types that it may have.
        wanted: These types, in words.

    Raises:
        UserError: The value has another type.
    """
    if not isinstance(value, kind):
        raise UserError(f"{place}: {what} is {value!r:.60}; give {wanted}")


def checked_texts(function: str, what: str, texts: Any) -> list[str]:
    """Return the texts of a caller as a list.

    Args:
        function: The function that the caller called.
        what: The name of the argument.
        texts: The texts; one text alone would be read letter by letter.

    Raises:
        UserError: They are something else.
    """
    if isinstance(texts, str):
        raise UserError(
            f"rescore.{function}: {what} is the text {texts[:40]!r}; give a list of"
            f" texts, such as [{texts[:40]!r}]"
        )
    place = f"rescore.{function}"
    _check_kind(place, what, texts, Iterable, "a list of texts")
    every = list(texts)
    for text in every:
        _check_kind(place, f"one of {what}", text, str, "texts")
    return every


def check_number(function: str, what: str, value: Any) -> None:
    """Raise an error if an argument of a caller is neither a number nor None.

    Args:
        function: The function that the caller called.
        what: The name of the argument.
        value: The argument.

    Raises:
        UserError: It is something else.
    """
    _check_kind(f"rescore.{function}", what, value, Real | None, "a number")


def as_weights(
    given: Weights | Mapping[str, float] | float | None, lists: Dataset
) -> Weights:
    """Return weights from what a user may give.

    Args:
        given: Weights, a dictionary of columns, the weight of the only LM column, or
            None for the first pass alone.
        lists: The lists that will be decided.

    Raises:
        UserError: It is something else, or there is more than one LM column.
    """
    if given is None:
        return FIRST_PASS_ALONE
    if isinstance(given, Weights):
        return given
    if isinstance(given, Mapping):
        numbers = dict(given)
        for name, weight in given.items():
            if isinstance(weight, Real):
                numbers[name] = float(weight)
        return Weights(numbers)
    if not isinstance(given, Real):
        raise UserError(
            f"weights are a {type(given).__name__}; give rescore.Weights"
            " (rescore.load_weights reads a file), a dictionary of columns, or one"
            " number"
        )
    columns = lists.model_columns
    if len(columns) != 1:
        raise UserError(
            f"one number is the weight of one LM, but the lists have {len(columns)}:"
            f" {', '.join(columns)}"
        )
    return Weights.interpolation({columns[0]: float(given)})


def config_of(
    road: str,
    metric: str | None = None,
    decision: str | None = None,
    words: str | Path | None = None,
    normaliser: Normaliser | None = None,
    **others: Any,
) -> RunConfig:
    """Return the settings of a call: fields of `RunConfig`, and options of expansions,
    decisions and metrics, where its road has them.

    Args:
        road: The function that is called (`rescore.asked.ROADS`).
        metric: The name of a metric.
        decision: The name of a decision.
        words: A file of words, the option of metrics.
        normaliser: What counts as the same word.
        others: Fields of `RunConfig`, and options of parts; an option that reads a file
            may be given as the path or as what is read.

    Raises:
        UserError: A name is unknown or has no meaning on this road, or a value is not
            one that the option takes.
    """
    _check_own_parts(metric, decision, normaliser)
    named = {"metric": metric, "decision": decision, "words": words}
    arguments = {**named, "normaliser": normaliser, **others}
    given = {name: value for name, value in arguments.items() if value is not None}
    call = Call.of_python(ROADS[road], given)
    check_call(call)
    own = {entry.name: entry for entry in RunConfig.all_fields()}
    beside = {*own, *OTHER_NAMES, "normaliser"}
    of_parts = {name: call.options[name] for name in given if name not in beside}
    fields_given: dict[str, Any] = {}
    for name, value in given.items():
        if name in own:
            fields_given[name] = own[name].of_python(value)
        elif name not in of_parts:
            fields_given[name] = value
    tables = _tables_of_parts(given, of_parts)
    chosen = fields_given.pop("normaliser", Normaliser())
    switches = OptionValues(**tables.pop("normaliser")).of(Normaliser)
    tables["measuring"]["normaliser"] = chosen.merged_with(switches)
    measuring = MetricOptions(**tables["measuring"])
    if "measuring" in others:
        measuring = others["measuring"].merged_with(measuring)
    fields_given["measuring"] = measuring
    for field in TABLES:
        if field == "measuring":
            continue
        before = fields_given.get(field, OptionValues())
        fields_given[field] = OptionValues(**{**before.entries, **tables[field]})
    # A call may also give a field of the configuration by its own name, such as
    # decide="mbr".
    if "metric" in fields_given:
        fields_given["metrics"] = (fields_given.pop("metric"),)
    if "decision" in fields_given:
        fields_given["decide"] = fields_given.pop("decision")
    if call.road.tunes:
        fields_given["dev"] = "dev"
    return RunConfig(**fields_given)


def checked_config(road: str, *named: Any, **options: Any) -> RunConfig:
    """Return the settings of a call, whose values may stand together.

    Args:
        road: The function that is called.
        named: The other arguments of `config_of`, in their order.
        options: Its arguments by name.

    Raises:
        UserError: As for `config_of`; or two options contradict each other.
    """
    return checked(ROADS[road], config_of(road, *named, **options))


def _tables_of_parts(
    given: Mapping[str, Any], of_parts: Mapping[str, Field]
) -> dict[str, dict[str, Any]]:
    """Return the options of parts that are given, by the field of `RunConfig` that
    holds them. The normaliser is one option, made from its own options.
    """
    tables: dict[str, dict[str, Any]] = {field: {} for field in TABLES}
    tables["normaliser"] = {}
    for name, entry in of_parts.items():
        if name not in given:
            continue
        table = str(table_of(name))
        if name in FLAGS and table == "measuring":
            table = "normaliser"
        tables[table][name] = entry.of_python(given[name])
    return tables


def _check_own_parts(metric: Any, decision: Any, normaliser: Any) -> None:
    """See that parts are named, and say how a part of the caller's own gets a name.

    Raises:
        UserError: A metric or a decision is given as something else, or a normaliser is
            none.
    """
    if not isinstance(normaliser, Normaliser | None):
        raise UserError(
            f"normaliser is {normaliser!r:.60}; give a rescore.Normaliser, such as"
            " rescore.Normaliser(drop_punctuation=True)"
        )
    for name, value in (("metric", metric), ("decision", decision)):
        if not isinstance(value, str | None):
            table, base = OWN_PARTS[name]
            raise UserError(
                f"{name} is {value!r:.60}; give the name of one {name}; to name your"
                f' own, call rescore.parts.{table}.register("NAME", CLASS) with a'
                f" subclass of {base}"
            )
