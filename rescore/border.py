"""The border of Python callers: what a caller may give as lists, models, weights and
settings becomes our types.

Code behind the border checks nothing of it again. An error that the caller can mend is
a `UserError`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from numbers import Real
from pathlib import Path
from typing import Any, cast

from rescore.config import DECISION, EXPANSION, MEASURES, RunConfig
from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.lms import LanguageModel, each, load
from rescore.lms.function import FunctionModel
from rescore.metrics import MetricOptions, Normaliser
from rescore.metrics.normalise import FLAGS
from rescore.nbest import (
    FIRST_PASS,
    Hypothesis,
    NbestList,
    are_means,
    check_scores,
)
from rescore.options import Field, OptionValues, read_content
from rescore.refusals import check_road
from rescore.tuning import FIRST_PASS_ALONE, Weights

Scorer = Callable[[Sequence[str]], Sequence[float]]
"""A function that gives each of some sentences a score, natural log, higher is
better.
"""


def names_of(lms: Sequence[str | LanguageModel | Scorer]) -> tuple[str, ...]:
    """The names of models, where all were given by name."""
    names = tuple(lm for lm in lms if isinstance(lm, str))
    return names if len(names) == len(lms) else ()


def as_models(given: Iterable[str | LanguageModel | Scorer]) -> list[LanguageModel]:
    every = (
        map(load, each([item])) if isinstance(item, str) else [_as_model(item)]
        for item in given
    )
    return list(chain.from_iterable(every))


def specs_of(given: Iterable[str | LanguageModel | Scorer]) -> list[str | None]:
    """The name of each model of `as_models`; None where it was given as a model or a
    function.
    """
    return [
        spec
        for item in given
        for spec in (each([item]) if isinstance(item, str) else [None])
    ]


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
    """The lists, if they are N-best lists as files may have them; with `texts` they may
    be lists of texts.

    Raises:
        UserError: they are something else, a list has no hypotheses, or a score is no
        number.
    """
    wanted = (
        f"rescore.{function}: expected N-best lists (rescore.read makes them from"
        " files)"
    )
    if (
        isinstance(lists, (str, Path, NbestList, Mapping))
        or hasattr(lists, "iloc")
        or not isinstance(lists, Iterable)
    ):
        raise UserError(f"{wanted}, found one {type(lists).__name__}")
    every = Dataset()
    for number, item in enumerate(lists, 1):
        if (
            texts
            and isinstance(item, Sequence)
            and not isinstance(item, str)
            and all(isinstance(t, str) for t in item)
        ):
            ranked = [
                Hypothesis(text, {FIRST_PASS: -math.log(rank)})
                for rank, text in enumerate(item, 1)
            ]
            item = NbestList(str(number), ranked)
        if not isinstance(item, NbestList):
            raise UserError(
                f"{wanted}, found a {type(item).__name__} in place {number}"
            )
        if wrong := next(
            (each for each in item.hypotheses if not isinstance(each, Hypothesis)), None
        ):
            raise UserError(
                f"rescore.{function}: utterance {item.id} has a {type(wrong).__name__}"
                ' as hypothesis; make a rescore.Hypothesis("text", {"s2s": score})'
                " of each"
            )
        check_scores(item, f"rescore.{function}: utterance {item.id}")
        of_a_file = bool(item.header.name)
        if not of_a_file and are_means(item) and not item.header.means:
            item = replace(item, header=replace(item.header, means=True))
        # which refuses them
        every.append(replace(item) if isinstance(item.references, str) else item)
    return every


def as_weights(
    given: Weights | Mapping[str, float] | float | None, lists: Sequence[NbestList]
) -> Weights:
    """Weights from what a user may give: also a dictionary, or the weight of the only
    LM column.
    """
    if given is None:
        return FIRST_PASS_ALONE
    if isinstance(given, Weights):
        return given
    if isinstance(given, Mapping):
        numbers = {
            name: float(weight) if isinstance(weight, Real) else weight
            for name, weight in given.items()
        }
        return Weights(numbers)
    if not isinstance(given, Real):
        raise UserError(
            f"weights are a {type(given).__name__}; give rescore.Weights"
            " (rescore.load_weights reads a file), a dictionary of columns, or one"
            " number"
        )
    columns = Dataset.of(lists).model_columns
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
        road: The function that is called (`rescore.refusals.ROADS`).
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
    if isinstance(columns := others.get("columns"), str):
        raise UserError(
            f"columns is the text {columns!r}; give a list of names, such as"
            f" [{columns!r}]"
        )
    if not isinstance(metric, str | None):
        raise UserError(f"metric is {metric!r}; give the name of one metric")
    named = {"metric": metric, "decision": decision, "words": words}
    arguments = {**named, "normaliser": normaliser, **others}
    given = {name: value for name, value in arguments.items() if value is not None}
    of_parts = check_road(road, given)
    fields_given: dict[str, Any] = {}
    tables: dict[str, dict[str, Any]] = {field: {} for field in PARTS.values()}
    switches: dict[str, Any] = {}
    for name, value in given.items():
        entry = of_parts.get(name)
        if entry is None:
            fields_given[name] = value
        elif name in FLAGS and PARTS[entry.title] == "measuring":
            switches[name] = value
        else:
            tables[PARTS[entry.title]][name] = _as_read(entry, value)
    chosen = fields_given.pop("normaliser", Normaliser())
    tables["measuring"]["normaliser"] = chosen.merged_with(Normaliser(**switches))
    fields_given["measuring"] = MetricOptions(**tables["measuring"])
    for field in ("expanding", "deciding"):
        before = fields_given.get(field, OptionValues())
        fields_given[field] = OptionValues(**{**before.entries, **tables[field]})
    if "measuring" in others:
        ours = fields_given["measuring"]
        fields_given["measuring"] = others["measuring"].merged_with(ours)
    # A call may also give a field of the configuration by its own name, such as
    # decide="mbr".
    if name := fields_given.pop("metric", None):
        fields_given["metrics"] = (name,)
    if name := fields_given.pop("decision", None):
        fields_given["decide"] = name
    return RunConfig(**{**fields_given, "columns": tuple(columns or ())})


PARTS = {EXPANSION: "expanding", DECISION: "deciding", MEASURES: "measuring"}
"""The field of `RunConfig` that holds the options of parts in a group."""


def _as_read(entry: Field, value: Any) -> Any:
    """Return the value of an option of a part: of a path, what the option reads."""
    if entry.about.read and entry.about.reads and isinstance(value, str | Path):
        return read_content(entry.about, value)
    return value
