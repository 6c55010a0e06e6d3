"""Language models by name: what --lm says, the shipped checkpoints, and loading."""

from __future__ import annotations

import copy
import logging
import re
from collections.abc import Iterable, Sequence
from itertools import chain, count
from pathlib import Path

from rescore.dataset import Dataset
from rescore.errors import UserError, did_you_mean
from rescore.lms.base import (
    DEFAULT,
    ComputeOptions,
    LanguageModel,
    Spec,
    kind_of,
    origin,
)
from rescore.lms.folders import card_value
from rescore.nbest import reserved_names
from rescore.parts import KINDS

log = logging.getLogger(__name__)

CASES = ("lower", "upper", "sentence")
"""The cases in which a model of any kind can get its texts (`rescore.lms.wrapped`)."""
ALL = "all"
"""The option that stands for all readings of a kind that has several."""


def shipped_models() -> Path:
    """The folder of shipped checkpoints: inside an installed package, or beside the
    package in a checkout.
    """
    package = Path(__file__).parents[1]
    return (
        package / "models"
        if (package / "models").is_dir()
        else package.parent / "models"
    )


def parse(spec: str) -> Spec:
    """Take apart what --lm was given: a kind or the name of a shipped model, options of
    the kind, and a path.
    """
    first, *rest = spec.split(":")
    kind = (
        card_value(shipped_models() / first, "kind") if first in shipped() else None
    ) or KINDS.known(first)
    if not kind:
        from rescore.lms.misnamed import advice  # here, and below: most names are right

        raise UserError(f"--lm {spec}: {first!r} {advice(spec, shipped())}")
    folder = shipped_models() / (first if first in shipped() else kind)
    options = []
    while rest and rest[0].partition("=")[0] in _options(kind):
        options.append(rest.pop(0))
    place = ":".join(rest)
    if len(rest) > 1 and not Path(place).exists() and Path(":".join(rest[1:])).exists():
        known = ", ".join(_options(kind))
        raise UserError(
            f"--lm {spec}: {rest[0]} is not an option of {kind}; its options are"
            f" {known}"
        )
    if not place and not folder.is_dir():
        named = ":".join([kind, *options, kind_of(kind).place])
        raise UserError(f"--lm {spec}: no {kind} is shipped; give the model as {named}")
    return Spec(kind, tuple(options), Path(place) if place else folder, place)


def _options(kind: str) -> list[str]:
    """The names of the options of a kind's models, without values."""
    own = [option.rstrip("=") for option in kind_of(kind).options]
    return [*own, *CASES, *([ALL] if kind_of(kind).readings else [])]


def each(specs: Sequence[str]) -> list[str]:
    """The specs with a spec for each model: `lexical:all:DIR` becomes the five readings
    of `lexical`.
    """
    single = []
    for spec in specs:
        parsed = parse(spec)
        if ALL not in parsed.options:
            single.append(spec)
            continue
        others = [option for option in parsed.options if option != ALL]
        if any(option not in CASES for option in others):
            raise UserError(
                f"--lm {spec}: {ALL} stands for all readings; leave out {others[0]}, or"
                f" {ALL}"
            )
        for reading in kind_of(parsed.kind).readings:
            single.append(
                ":".join(
                    filter(None, [parsed.kind, reading, *others, str(parsed.path)])
                )
            )
    return single


def load(spec: str, computing: ComputeOptions = DEFAULT) -> LanguageModel:
    """The language model that --lm names."""
    parsed = parse(spec)
    if ALL in parsed.options:
        single = each([spec])
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
        meant = did_you_mean(
            parsed.place.partition(":")[0].partition("=")[0], _options(parsed.kind)
        )
        if parsed.path.exists():
            from rescore.lms.misnamed import fitting

            if (fit := fitting(parsed.path)) and fit != parsed.kind:
                raise UserError(
                    f"--lm {spec}: {error}; name it {fit}:{parsed.path}"
                ) from None
        if parsed.path.exists() or not meant:
            raise
        raise UserError(f"--lm {spec}: {error}{meant}") from None
    if not parsed.place:  # a column is named as its model: tta-small, not tta
        lm.name = lm.name.replace(parsed.kind, parsed.path.name, 1)
    if not cases:
        return lm
    from rescore.lms.wrapped import Recased

    return Recased(lm, cases[0])


def load_all(
    specs: Sequence[str],
    computing: ComputeOptions = DEFAULT,
    cache: str | Path | None = None,
) -> list[LanguageModel]:
    """Several language models, each with a column of its own: of equal names the later
    are called after their folders.

    Args:
        specs: as `each` takes them.
        cache: a folder in which their scores are kept.
    """
    specs = each(specs)
    for spec in dict.fromkeys(specs):
        if specs.count(spec) > 1:
            log.warning(
                "--lm %s is given %d times; give it once", spec, specs.count(spec)
            )
    models = [load(spec, computing) for spec in specs]
    if cache is not None:
        from rescore.lms.cache import Cached

        models = [Cached(model, Path(cache)) for model in models]
    return with_own_columns(models, specs=specs)


FOLDER_NAME = re.compile(r"(?!mean$)[\w-]{1,40}")
"""Names of folders that become a part of a column's name."""


def with_own_columns(
    models: Sequence[LanguageModel],
    norm: str = "sum",
    sets: Iterable[Dataset] = (),
    specs: Sequence[str] = (),
) -> list[LanguageModel]:
    """The models, each with a name of its own, and so a column.

    Where `tta` is taken, a copy is called after the model's folder, such as
    `tta.small`, or else `tta.2`. A name is taken if a model before has it, if a list
    has such a column that is not this model's, or if the name is reserved.

    Args:
        sets: the sets of lists that will be scored.
        specs: how the models were named, where they were.
    """
    specs = each(specs)
    folders = [parse(spec).path.name.partition(".")[0] for spec in specs]
    named: list[LanguageModel] = []
    reserved = reserved_names()
    for rank, model in enumerate(models):
        taken = {*reserved, *(other.name for other in named)}
        for lists in sets:
            known = lists.header.columns
            taken |= {
                name for name in lists.scores if known.get(name) != origin(model, norm)
            }
        folder = folders[rank] if len(folders) == len(models) else ""
        labels = (
            [folder]
            if folders.count(folder) == 1 and FOLDER_NAME.fullmatch(folder)
            else []
        )
        candidates = (f"{model.name}.{label}" for label in chain(labels, count(2)))
        name = next(
            name for name in chain([model.name], candidates) if name not in taken
        )
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


def is_pseudo(spec: str) -> bool:
    """Whether a model's scores are pseudo-log-likelihoods; `spec` is what --lm names,
    or a column's model.
    """
    kind, *options = spec.split(":")
    return kind in KINDS and kind_of(kind).is_pseudo(options)


def shipped() -> list[str]:
    """The names of the shipped models: of their folders, which `--lm` takes like
    kinds.
    """
    return sorted(path.parent.name for path in shipped_models().glob("*/config.json"))
