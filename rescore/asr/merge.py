"""The lists of several systems as one: `rescore merge`, and `rescore run --with`."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rescore.config import SYSTEMS, RunConfig
from rescore.errors import UserError
from rescore.expansion import Expansion, Read
from rescore.files import resolved, shown
from rescore.metrics.normalise import EXACT, Normaliser
from rescore.nbest import FIRST_PASS, Column, Hypothesis, NbestList, Origin, component_columns, free_name, score_columns
from rescore.options import Declared, option

log = logging.getLogger(__name__)

MISSING = "missing."
MERGED = "merged"


def merge(
    first: Sequence[NbestList], others: Mapping[str, Sequence[NbestList]], normaliser: Normaliser | None = None
) -> Iterator[NbestList]:
    """The lists of the first system, with the hypotheses and the scores of the others.

    A text that several systems propose is one hypothesis. The first system gives the first-pass score; its hypotheses
    keep their origin, and hypotheses from other systems alone have the origin `MERGED`.

    Args:
        others: lists by the name of their column. normaliser: says which texts are the same; None for exact texts.

    Raises:
        UserError: an utterance is not in the first lists, these have scores of models, which the new hypotheses would
            lack, or two columns would have the same name.
    """
    known = {nbest.id for nbest in first}
    systems = {free_name(name): {nbest.id: nbest for nbest in lists} for name, lists in others.items()}
    for name, lists in systems.items():
        unknown = next((utterance for utterance in lists if utterance not in known), None)
        if unknown is not None:
            raise UserError(
                f"{name}: utterance {unknown} is not in the lists of the first system; give the same set of each"
            )
        if absent := len(known) - len(lists):
            log.warning(
                "%s: %d of %d utterances are missing; for them, the hypotheses come from the other systems",
                name,
                absent,
                len(known),
            )
    for nbest in first:
        refuse_scored(nbest, "merge")
        yield _merged(nbest, {name: lists.get(nbest.id) for name, lists in systems.items()}, normaliser or EXACT)


def _merged(nbest: NbestList, others: Mapping[str, NbestList | None], normaliser: Normaliser) -> NbestList:
    def key(text: str) -> str:
        return " ".join(normaliser(text))

    best: dict[str, dict[str, float]] = {}
    for name, theirs in others.items():
        if name in nbest.hypotheses[0].scores:
            raise UserError(f"{name}: the lists of the first system have a column of that name; rename the file")
        scores = best[name] = {}
        for hypothesis in theirs.hypotheses if theirs else ():  # of texts that are the same, the best score counts
            text, score = key(hypothesis.text), hypothesis.scores[FIRST_PASS]
            scores[text] = max(score, scores.get(text, score))

    def columns_of(text: str) -> dict[str, float]:
        columns = {}
        for name, scores in best.items():
            columns[name] = scores[text] if text in scores else worst(list(scores.values()))
            columns[MISSING + name] = float(text not in scores)
        return columns

    hypotheses = [
        replace(one, scores={MISSING + FIRST_PASS: 0.0, **one.scores, **columns_of(key(one.text))})
        for one in nbest.hypotheses
    ]
    present = {key(one.text) for one in nbest.hypotheses}
    absent = {name: worst(nbest.column(name)) for name in (FIRST_PASS, *component_columns(nbest))}
    absent |= _missing(nbest) | {MISSING + FIRST_PASS: 1.0}
    for theirs in others.values():
        for one in theirs.hypotheses if theirs else ():
            if (text := key(one.text)) not in present:
                present.add(text)
                scores = {**absent, **columns_of(text)}
                hypotheses.append(Hypothesis(" ".join(one.text.split()), scores, Origin.MERGED, one.times))
    names = [*others, *(MISSING + system for system in (FIRST_PASS, *others))]
    return replace(
        nbest,
        hypotheses=hypotheses,
        provenance={**nbest.provenance, **{name: Column.component(MERGED) for name in names}},
    )


def lacking(nbest: NbestList) -> dict[str, float]:
    """The columns of merged lists for a text that no other system has: as in a list without it."""
    merged = [name for name in component_columns(nbest) if nbest.provenance[name].model == MERGED]
    columns = {name: worst(nbest.column(name)) for name in merged} | _missing(nbest)
    return columns | {MISSING + FIRST_PASS: 0.0} if columns else columns


def _missing(nbest: NbestList) -> dict[str, float]:
    """Of merged lists the columns that say for each system whether it lacks a text: this one, they do."""
    return {name: 1.0 for name in component_columns(nbest) if name.startswith(MISSING)}


def worst(scores: Sequence[float]) -> float:
    """The worst finite score, or 0: -inf for an unknown score would make a text impossible."""
    return min(filter(math.isfinite, scores), default=0.0)


def refuse_scored(nbest: NbestList, verb: str) -> None:
    """
    Raises:
        UserError: the list has scores of models; `verb` names the refused operation.
    """
    if columns := score_columns(nbest):
        raise UserError(f"utterance {nbest.id}: has scores {columns[0]} already; {verb} lists before they are scored")


def system_names(paths: Sequence[str], given: Sequence[str], number: int) -> tuple[str, ...]:
    """The names of the last systems: by default the last part of all paths in which they differ, if there is one.

    Args:
        given: the names that the user gives. number: how many systems need a name.

    Raises:
        UserError: there is one system only, names are missing, or two systems have the same name.
    """
    if len(paths) < 2:
        raise UserError("give the outputs of two systems or more")
    if given and len(given) != number:
        raise UserError(f"{number} systems need a name, but there are {len(given)} --name; give one each")
    places = [resolved(Path(path)) for path in paths]
    parts = [(shown(place.name).partition(".")[0], *map(shown, reversed(place.parent.parts))) for place in places]
    apart = (same_depth for same_depth in zip(*parts, strict=False) if len(set(same_depth)) == len(places))
    names = tuple(given or next(apart, [part[0] for part in parts])[-number:])
    if len(set(names)) < len(names):
        raise UserError(
            f"two systems would be called {max(names, key=names.count)}; rename a path, or give `merge` or `combine` "
            "a --name for each"
        )
    return names


class Merging(Expansion):
    """The hypotheses of further systems; their scores become components, whose weights are tuned."""

    @dataclass(frozen=True, kw_only=True)
    class Options(Declared):
        title = SYSTEMS

        others: tuple[str, ...] = option(
            (),
            "Lists of another system for the same utterances. Its hypotheses join the lists, and its score gets its "
            "own weight. May be repeated.",
            "--with",
            metavar="NBEST",
            reads=True,
        )
        dev_with: tuple[str, ...] = option(
            (), "Dev lists of each --with system, in the same order.", metavar="NBEST", needs="others", reads=True
        )

    @classmethod
    def configured(cls, options: Options, config: RunConfig) -> RunConfig:
        if not config.tunes:
            raise UserError("--with: weights of systems are tuned; give --dev and --dev-with, or --folds")
        if config.folds and options.dev_with:
            raise UserError("--dev-with needs --dev; --folds tunes on the lists themselves")
        if not config.folds and len(options.dev_with) != len(options.others):
            raise UserError(
                f"{len(options.others)} --with, but {len(options.dev_with)} --dev-with; give the dev lists of each, in "
                "the same order"
            )
        return replace(config, components=True)

    @classmethod
    def join(
        cls,
        options: Options,
        config: RunConfig,
        lists: list[NbestList],
        dev: list[NbestList] | None,
        path: str,
        read: Read,
    ) -> tuple[list[NbestList], list[NbestList] | None]:
        from rescore.plan import metrics_of

        names = system_names([path, *options.others], (), len(options.others))
        same = metrics_of(config, lists, dev)[0].words

        def merged(first: list[NbestList], paths: Sequence[str]) -> list[NbestList]:
            return list(merge(first, {name: read(path) for name, path in zip(names, paths, strict=True)}, same))

        return merged(lists, options.others), dev and merged(dev, options.dev_with)
