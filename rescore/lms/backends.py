"""Language models by name: the values of --lm, the shipped checkpoints, and loading."""

from __future__ import annotations

import copy
import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import replace
from pathlib import Path

from rescore.columns import NORM_SUM, Column, forbidden_names
from rescore.dataset import Dataset
from rescore.errors import UserError, did_you_mean
from rescore.formats.understood import tell_column
from rescore.lms.base import (
    DEFAULT,
    ComputeOptions,
    LanguageModel,
    Question,
    Spec,
    TokenScores,
    Wrapped,
    kind_of,
    record_of,
)
from rescore.lms.cache import Cached
from rescore.lms.folders import card_value, fitting
from rescore.parts import KINDS
from rescore.signature import FINGERPRINT_DIGITS

log = logging.getLogger(__name__)


def sentence_case(text: str) -> str:
    """Return a text in lower case, with its first letter in upper case.

    Args:
        text: The text.
    """
    lower = text.lower()
    for place, letter in enumerate(lower):
        if letter.isalpha():
            return lower[:place] + letter.upper() + lower[place + 1 :]
    return lower


CASES: dict[str, Callable[[str], str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "sentence": sentence_case,
}
"""The options of the cases in which a model of any kind can get its texts."""
ALL = "all"
"""The option that stands for all readings of a kind that has several."""


def shipped_models() -> Path:
    """Return the folder of shipped checkpoints.

    It is inside an installed package, and beside the package in a checkout.
    """
    package = Path(__file__).parents[1]
    inside = package / "models"
    if inside.is_dir():
        return inside
    return package.parent / "models"


def parse(spec: str, option: str = "--lm ") -> Spec:
    """Return the parts of a value of --lm.

    Args:
        spec: A kind or the name of a shipped model, options of the kind, and a path,
            joined by colons.
        option: How an error names the option with the value; empty for an argument.

    Raises:
        UserError: There is no such kind, option or shipped model.
    """
    first, *rest = spec.split(":")
    kind, folder = _kind_and_folder(first)
    if not kind:
        raise UserError(f"{option}{spec}: {first!r} {_advice_on_name(spec, option)}")
    known = _options(kind)
    options = []
    while rest and rest[0].partition("=")[0] in known:
        options.append(rest.pop(0))
    place = ":".join(rest)
    behind_first = Path(":".join(rest[1:]))
    if len(rest) > 1 and not Path(place).exists() and behind_first.exists():
        raise UserError(
            f"{option}{spec}: {rest[0]} is not an option of {kind}; its options are"
            f" {', '.join(known)}"
        )
    needs = kind_of(kind).place
    if place and not needs:
        without = ":".join([kind, *options])
        raise UserError(f"{option}{spec}: {kind} reads no file; give {option}{without}")
    if needs and not place and not folder.is_dir():
        named = ":".join([kind, *options, needs])
        raise UserError(
            f"{option}{spec}: no {kind} is shipped; give the model as {named}"
        )
    return Spec(kind, tuple(options), Path(place) if place else folder, place)


def _kind_and_folder(name: str) -> tuple[str, Path]:
    """Return the kind of a shipped model or the kind of this name, and the folder of
    the shipped model. The kind is empty if there is none.
    """
    if name in shipped():
        folder = shipped_models() / name
        return card_value(folder, "kind") or KINDS.known(name), folder
    kind = KINDS.known(name)
    return kind, shipped_models() / kind


def _advice_on_name(spec: str, option: str) -> str:
    """Return what to give instead of a spec whose first part names no kind and no
    shipped model.
    """
    first, _, place = spec.partition(":")
    for path in (place, spec):
        kind = fitting(Path(path)) if path else ""
        if kind:
            return (
                f"is no kind of model; {path} holds a model of the kind {kind}: give"
                f" {option}{kind}:{path}"
            )
    known = shipped()
    known += [name for name in KINDS.names if name not in known]
    similar = [name for name in known if name.startswith(f"{first}-")]
    if similar:
        meant = f"; did you mean {' or '.join(similar)}?"
    else:
        meant = did_you_mean(first, known) or "; give KIND or KIND:PATH"
    return f"is not one of {', '.join(known)}{meant}"


def _options(kind: str) -> list[str]:
    """Return the names of the options of a kind's models, without values."""
    names = [option.rstrip("=") for option in kind_of(kind).options]
    names += CASES
    if kind_of(kind).readings:
        names.append(ALL)
    return names


def single_specs(specs: Sequence[str]) -> list[str]:
    """Return a spec for each model.

    `lexical:all:DIR`, which names several models, becomes the five readings of
    `lexical`.

    Args:
        specs: Values of --lm.

    Raises:
        UserError: A value is not valid, or has `all` beside another option.
    """
    single = []
    for spec in specs:
        parsed = parse(spec)
        if ALL in parsed.options:
            single += _readings(spec, parsed)
        else:
            single.append(spec)
    return single


def _readings(text: str, spec: Spec) -> list[str]:
    """Return the spec of each reading that `all` in a spec stands for."""
    others = [option for option in spec.options if option != ALL]
    if not CASES.keys() >= set(others):
        raise UserError(
            f"--lm {text}: {ALL} stands for all readings; leave out {others[0]}, or"
            f" {ALL}"
        )
    readings = []
    for reading in kind_of(spec.kind).readings:
        parts = [spec.kind, reading, *others, str(spec.path)]
        readings.append(":".join(filter(None, parts)))
    return readings


class Recased(Wrapped):
    """A language model that gets its texts, their sources and neighbours in another
    case.
    """

    def __init__(self, lm: LanguageModel, case: str) -> None:
        """Wrap a model.

        Args:
            lm: The model.
            case: A key of `CASES`.
        """
        super().__init__(lm)
        self._case = case

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the model in this case."""
        content = f"{self._case} {self._lm.fingerprint}"
        return hashlib.sha256(content.encode()).hexdigest()

    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        """Return places and scores in the order of the model."""
        return super().as_scored([self._recased(question) for question in questions])

    def _recased(self, question: Question) -> Question:
        """Return a question in the case."""
        case = CASES[self._case]
        return replace(
            question,
            text=case(question.text),
            source=None if question.source is None else case(question.source),
            before=tuple(map(case, question.before)),
            after=tuple(map(case, question.after)),
        )


def load(spec: str, computing: ComputeOptions = DEFAULT) -> LanguageModel:
    """Return the language model that --lm names.

    Args:
        spec: The value of --lm, for a single model.
        computing: Where and how the model computes.

    Raises:
        UserError: The value is not valid, or the model cannot be loaded.
    """
    parsed = parse(spec)
    if ALL in parsed.options:
        single = single_specs([spec])
        raise UserError(
            f"--lm {spec}: stands for {len(single)} models, and a single model is"
            f" needed; give {single[0]}"
        )
    cases = [option for option in parsed.options if option in CASES]
    if len(cases) > 1:
        raise UserError(f"--lm {spec}: {cases[0]} and {cases[1]} exclude each other")
    try:
        lm = kind_of(parsed.kind).load(parsed, computing)
    except UserError as error:
        advice = _advice_on_place(parsed)
        if not advice:
            raise
        raise UserError(f"--lm {spec}: {error}{advice}") from None
    if not parsed.place:  # a column is named as its model: tta-small, not tta
        lm.name = lm.name.replace(parsed.kind, parsed.path.name, 1)
    if cases:
        return Recased(lm, cases[0])
    return lm


def _advice_on_place(spec: Spec) -> str:
    """Return what to give instead of a spec whose model cannot be loaded; empty where
    nothing is known.
    """
    if spec.path.exists():
        kind = fitting(spec.path)
        return f"; name it {kind}:{spec.path}" if kind not in ("", spec.kind) else ""
    option = spec.place.partition(":")[0].partition("=")[0]
    return did_you_mean(option, _options(spec.kind))


def load_all(
    specs: Sequence[str],
    computing: ComputeOptions = DEFAULT,
    cache: str | Path | None = None,
) -> list[LanguageModel]:
    """Return several language models, each with a column of its own.

    Args:
        specs: Values of --lm, as `single_specs` takes them.
        computing: Where and how the models compute.
        cache: The folder in which scores are kept; None to keep no scores.

    Raises:
        UserError: A value is not valid, or a model cannot be loaded.
    """
    specs = single_specs(specs)
    for spec in dict.fromkeys(specs):
        if specs.count(spec) > 1:
            log.warning(
                "--lm %s is given %d times; give it once", spec, specs.count(spec)
            )
    models = [load(spec, computing) for spec in specs]
    if cache is not None:
        models = [Cached(model, Path(cache)) for model in models]
    return with_own_columns(models, specs=specs)


FOLDER_NAME = re.compile(r"(?!mean$)[\w-]{1,40}")
"""Names of folders that may become a part of a column's name."""


def with_own_columns(
    models: Sequence[LanguageModel],
    norm: str = NORM_SUM,
    sets: Iterable[Dataset] = (),
    specs: Sequence[str] = (),
) -> list[LanguageModel]:
    """Return the models, each with a name of its own, and so a column.

    Where `tta` is taken, a copy is called after the model's folder, such as
    `tta.small`, or else `tta.2`. A name is taken if a model before has it, if a list
    has such a column that is not this model's, or if the name is reserved.

    Args:
        models: The models; a model that gets another name is copied.
        norm: The normalisation by length of their scores.
        sets: The sets of lists that will be scored.
        specs: The values of --lm that name the models; empty where nothing names them.

    Raises:
        UserError: A value of --lm is not valid.
    """
    folders = [parse(spec).path.name.partition(".")[0] for spec in single_specs(specs)]
    if len(folders) != len(models):
        folders = [""] * len(models)
    named: list[LanguageModel] = []
    reserved = forbidden_names()
    for model, folder in zip(models, folders, strict=True):
        taken = {*reserved, *(other.name for other in named)}
        for lists in sets:
            taken |= _columns_of_others(lists, record_of(model, norm))
        label = folder if folders.count(folder) == 1 else ""
        name = _free_name(model.name, label, taken)
        if model.name in reserved:
            log.warning(
                "the scores of %s are called %s, because the name %s is reserved",
                model.name,
                name,
                model.name,
            )
        if name != model.name:
            model = copy.copy(model)  # the caller's model keeps its name
            model.name = name
        named.append(model)
    return named


def tell_paths(models: Sequence[LanguageModel], specs: Sequence[str]) -> None:
    """Log which model a column belongs to, for each model with a path: the name of a
    column has only the kind, and its signature only the hash.

    Args:
        models: The models, under the names of their columns.
        specs: The value of --lm that names each.
    """
    for model, spec in zip(models, specs, strict=True):
        if parse(spec).place:
            digits = model.fingerprint[:FINGERPRINT_DIGITS]
            tell_column(model.name, spec, digits)


def _columns_of_others(lists: Dataset, own: Column) -> set[str]:
    """Return the names of the columns of lists that do not have the record `own`."""
    columns = lists.header.records
    return {name for name in lists.score_names if columns.get(name) != own}


def _free_name(name: str, label: str, taken: Set[str]) -> str:
    """Return a name that is not taken: the name itself, the name with the label, or the
    name with a number.
    """
    if name not in taken:
        return name
    if FOLDER_NAME.fullmatch(label) and f"{name}.{label}" not in taken:
        return f"{name}.{label}"
    number = 2
    while f"{name}.{number}" in taken:
        number += 1
    return f"{name}.{number}"


def is_pseudo(spec: str) -> bool:
    """Return whether a model's scores are pseudo-log-likelihoods.

    Args:
        spec: The value of --lm, or the model of a column.
    """
    kind, *options = spec.split(":")
    return kind in KINDS and kind_of(kind).is_pseudo(options)


def shipped() -> list[str]:
    """Return the names of the shipped models, which --lm takes like kinds.

    A model is called like its folder.
    """
    return sorted(path.parent.name for path in shipped_models().glob("*/config.json"))
