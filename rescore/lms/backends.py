"""Language models by name: what --lm says, the shipped checkpoints, and loading."""

from __future__ import annotations

import copy
import json
import logging
import math
import re
from collections.abc import Mapping, Sequence
from itertools import chain, count
from pathlib import Path

from rescore.errors import UserError
from rescore.files import read_json
from rescore.lms.base import (
    DEFAULT,
    ComputeOptions,
    LanguageModel,
    Spec,
    kind_of,
    origin,
)
from rescore.lms.folders import card, card_value
from rescore.nbest import RESERVED, Column, NbestList
from rescore.parts import KINDS, did_you_mean

log = logging.getLogger(__name__)

CASES = ("lower", "upper", "sentence")
"""The cases in which a model of any kind can get its texts (`rescore.lms.wrapped`)."""
ALL = "all"
"""The option that stands for all readings of a kind that has several."""


PLACE = re.compile(r"[./~]|[^@]*/$|[^@/]*/[^@/]*/")
"""How the path of a folder begins, or goes on, that cannot be a name on the Hugging Face Hub."""


def shipped_models() -> Path:
    """The folder of shipped checkpoints: inside an installed package, or beside the package in a checkout."""
    package = Path(__file__).parents[1]
    return package / "models" if (package / "models").is_dir() else package.parent / "models"


def parse(spec: str) -> Spec:
    """Take apart what --lm was given."""
    kind, *rest = spec.split(":")
    folder = shipped_models() / kind
    try:
        kind = KINDS.check(kind)
    except UserError as error:
        kind = card_value(folder, "kind") or "" if kind in shipped() else ""
        if not kind:
            advice = "give KIND or KIND:PATH"
            if not PLACE.match(spec) and not did_you_mean(spec, KINDS.names):
                hub = " or ".join(f"{name}:{spec}" for name in KINDS.names if kind_of(name).on_hub)
                advice += f"; a model of the Hugging Face Hub is {hub}"
            raise UserError(f"--lm {spec}: {error}; {advice}") from None
    options = []
    known = (*kind_of(kind).options, *([ALL] if kind_of(kind).readings else []), *CASES)
    while rest and (rest[0] in known or "".join(rest[0].partition("=")[:2]) in known):
        options.append(rest.pop(0))
    if kind_of(kind).remote:
        address = ":".join(rest)
        if not address:
            raise UserError(f"--lm {spec}: give the address and the model as {':'.join([kind, *options])}:URL#MODEL")
        return Spec(kind, tuple(options), Path(address), address)
    path = Path(":".join(rest)) if any(rest) else folder
    if kind_of(kind).on_hub and PLACE.match(":".join(rest)) and not path.exists():
        raise UserError(f"--lm {spec}: {path}: no such folder; models of the Hugging Face Hub are named OWNER/MODEL")
    names = {name.rstrip("=") for name in known}
    first = rest[0].partition("=")[0] if rest else ""
    meant = did_you_mean(first, sorted(names)) if first and first not in names else ""
    if meant and not path.exists() and (len(rest) > 1 or not kind_of(kind).on_hub):
        raise UserError(f"--lm {spec}: {path}: no such folder{meant}")
    if not any(rest) and not path.is_dir():
        raise UserError(
            f"--lm {spec}: no {kind} is shipped; train one and give it as {':'.join([kind, *options])}:PATH"
        )
    return Spec(kind, tuple(options), path)


def each(specs: Sequence[str]) -> list[str]:
    """The specs with a spec for each model: `lexical:all:DIR` becomes the five readings of `lexical`."""
    single = []
    for spec in specs:
        parsed = parse(spec)
        if ALL not in parsed.options:
            single.append(spec)
            continue
        others = [option for option in parsed.options if option != ALL]
        if any(option not in CASES for option in others):
            raise UserError(f"--lm {spec}: {ALL} stands for all readings; leave out {others[0]}, or {ALL}")
        for reading in kind_of(parsed.kind).readings:
            single.append(":".join(filter(None, [parsed.kind, reading, *others, str(parsed.path)])))
    return single


def load(spec: str, computing: ComputeOptions = DEFAULT) -> LanguageModel:
    """The language model that --lm names."""
    parsed = parse(spec)
    if ALL in parsed.options:
        single = each([spec])
        raise UserError(f"--lm {spec}: stands for {len(single)} models, and a single model is needed; give {single[0]}")
    cases = [option for option in parsed.options if option in CASES]
    if len(cases) > 1:
        raise UserError(f"--lm {spec}: {cases[0]} and {cases[1]} exclude each other")
    lm = kind_of(parsed.kind).load(parsed, computing)
    if not cases:
        return lm
    from rescore.lms.wrapped import Recased

    return Recased(lm, cases[0])


def load_all(
    specs: Sequence[str], computing: ComputeOptions = DEFAULT, cache: str | Path | None = None
) -> list[LanguageModel]:
    """Several language models, each with a column of its own: of equal names the later are called after their folders.

    Args:
        specs: as `each` takes them.
        cache: a folder in which their scores are kept.
    """
    specs = each(specs)
    for spec in dict.fromkeys(specs):
        if specs.count(spec) > 1:
            log.warning("--lm %s is given %d times; give it once", spec, specs.count(spec))
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
    heads: Sequence[NbestList] = (),
    specs: Sequence[str] = (),
    tuned: Mapping[str, Column | None] | None = None,
) -> list[LanguageModel]:
    """The models, each with a name of its own, and so a column.

    Where `tta` is taken, a copy is called after the model's folder, such as `tta.small`, or else `tta.2`. A model whose
    scores weights were tuned on keeps the name of that column.

    A name is taken if a model before has it, if a list has such a column that is not this model's, or if the column's
    name is reserved.

    Args:
        heads: a list of each set that will be scored. specs: how the models were named, where they were. tuned: the
            columns that weights were tuned on, with their origins as far as known.
    """
    specs = each(specs)
    folders = [parse(spec).path.name.partition(".")[0] for spec in specs] if len(specs) == len(models) else []
    tuned = tuned or {}
    named: list[LanguageModel] = []

    def is_free(name: str, model: LanguageModel) -> bool:
        if name in RESERVED or any(name == other.name for other in named):
            return False
        of_others = (nbest for nbest in heads if nbest.provenance.get(name) != origin(model, norm))
        return not any(name in nbest.hypotheses[0].scores for nbest in of_others)

    for model, folder in zip(models, folders or [""] * len(models), strict=True):
        tuned_labels = [
            name.removeprefix(f"{model.name}.")
            for name, column in tuned.items()
            if name.startswith(f"{model.name}.") and column in (None, origin(model, norm))
        ]
        folder_labels = [folder] if folders.count(folder) == 1 and FOLDER_NAME.fullmatch(folder) else []
        labels = chain(tuned_labels, folder_labels, map(str, count(2)))
        first = [model.name] if not tuned_labels or model.name in tuned else []
        candidates = chain(first, (f"{model.name}.{label}" for label in labels))
        name = next(name for name in candidates if is_free(name, model))
        if model.name in RESERVED:
            log.warning("the scores of %s are called %s, because the name %s is reserved", model.name, name, model.name)
        if name != model.name:
            model = copy.copy(model)  # the caller's model keeps its name
            model.name = name
        named.append(model)
    return named


def model_card(spec: str) -> str:
    """The text of a model's README.md; empty where it has none."""
    parsed = parse(spec)
    return "" if kind_of(parsed.kind).remote else card(parsed.path)


def recommended_weight(spec: str) -> float:
    """The weight that the model's card recommends where there are no dev lists to tune on."""
    parsed = parse(spec)
    path = parsed.path
    if kind_of(parsed.kind).remote:
        raise UserError(f"--lm {parsed.name}: a server has no recommended_weight; give --dev LISTS or --weight NUMBER")
    if not path.exists():
        raise UserError(f"{path}: no such file or folder; give the path of an existing model as KIND:PATH")
    try:
        weight = float(card_value(path, "recommended_weight") or "none")
    except ValueError:
        weight = -1.0
    if not 0 <= weight <= 1:
        place = path / "README.md" if path.is_dir() else path
        raise UserError(
            f"{place}: no recommended_weight between 0 and 1 in its card; give --dev LISTS or --weight NUMBER"
        )
    return weight


def is_pseudo(spec: str) -> bool:
    """Whether a model's scores are pseudo-log-likelihoods; `spec` is what --lm names, or a column's model."""
    kind, *options = spec.split(":")
    return kind in KINDS and kind_of(kind).is_pseudo(options)


def shipped() -> list[str]:
    """The names of the shipped models: of their folders, which `--lm` takes like kinds."""
    return sorted(path.parent.name for path in shipped_models().glob("*/config.json"))


def describe(name: str) -> list[str]:
    """A shipped model's parameters, layers, width, language, training text and recommended weight."""
    folder = shipped_models() / name
    config = read_json(folder / "config.json")
    with open(folder / "model.safetensors", "rb") as file:  # the header has all shapes; tensors are not read
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    parameters = sum(math.prod(about["shape"]) for name, about in header.items() if name != "__metadata__")
    about = [card_value(folder, key) or "" for key in ("language", "trained_on")]
    return [f"{parameters:,}", str(config["layers"]), str(config["d_model"]), *about, f"{recommended_weight(name):g}"]
