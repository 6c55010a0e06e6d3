"""Lists of several systems for the same utterances as one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rescore.asr.features import MERGED
from rescore.asr.formats.systems import align_systems
from rescore.columns import FIRST_PASS, SUM, Column, Role, free_name
from rescore.decision.mixture import Mixture, applied
from rescore.errors import UserError
from rescore.files import resolved, shown
from rescore.formats.text import utterance_of
from rescore.metrics.normalise import EXACT, Normaliser
from rescore.nbest import Header, Hypothesis, NbestList
from rescore.pace import paced


def combined(
    systems: Mapping[str, Sequence[NbestList]], same: Normaliser = EXACT
) -> Iterator[NbestList]:
    """One list per utterance, in the order of the systems; a text that several systems
    wrote is one hypothesis.

    Each system has a column of its name at the texts that it wrote: its score, natural
    log. The first pass is the mixture of the posteriors of all systems, with equal
    votes.

    Args:
        systems: the lists of each system. same: says which texts are the same.

    Raises:
        UserError: the utterances of two systems do not match, or lists have scores of
        models.
    """
    aligned = align_systems(systems)
    names = columns_of(aligned)
    every: dict[str, dict[str, NbestList]] = {}
    for name, lists in aligned.items():
        for nbest in lists:
            every.setdefault(nbest.id, {})[names[name]] = nbest
    header = header_of(names.values())
    for own in paced(list(every.values()), "combined %d of %d utterances"):
        yield one_list(own, same, header)


def columns_of(systems: Iterable[str]) -> dict[str, str]:
    """The name of the column of each system, which no other column has."""
    columns: dict[str, str] = {}
    for name in systems:
        columns[name] = free_name(name, columns.values())
    return columns


def header_of(columns: Iterable[str]) -> Header:
    """Return the header of lists whose columns are systems."""
    system = Column("combine", "", SUM, "", Role.SYSTEM)
    return Header(columns=dict.fromkeys(columns, system))


def one_list(
    systems: Mapping[str, NbestList], same: Normaliser, header: Header
) -> NbestList:
    """The list of one utterance, in which each text stands once, as the first system
    that has it writes it.

    Of equal texts of one system the best score counts. Texts of the first system come
    first; the others have the origin `MERGED`. A text has the times of the first system
    that has times for it.

    Args:
        systems: the list of each column.
        same: says which texts are the same.
        header: the header of all lists, with the columns of all systems.
    """
    texts: dict[str, Hypothesis] = {}
    for rank, (name, nbest) in enumerate(systems.items()):
        refuse_scored(nbest, "combine")
        for one in nbest.hypotheses:
            new = Hypothesis(
                " ".join(one.text.split()),
                {FIRST_PASS: 0.0},
                MERGED if rank else one.origin,
            )
            known = texts.setdefault(" ".join(same(one.text)), new)
            score = one.scores[FIRST_PASS] + 0.0  # never minus nothing
            known.scores[name] = max(score, known.scores.get(name, score))
            if not known.times and known.text == new.text:
                known.times = one.times
    first = next(iter(systems.values()))
    references = next(
        (nbest.references for nbest in systems.values() if nbest.references), ()
    )
    voted = replace(
        first, hypotheses=list(texts.values()), references=references, header=header
    )
    return applied(Mixture(dict.fromkeys(header.columns, 1.0)), voted)


def refuse_scored(nbest: NbestList, verb: str) -> None:
    """
    Raises:
        UserError: the list has scores of models; `verb` names the refused operation.
    """
    if columns := [*nbest.columns(Role.LM), *nbest.columns(Role.SYSTEM)]:
        raise UserError(
            f"utterance {nbest.id}: has scores {columns[0]} already; {verb} lists"
            " before they are scored"
        )


_ENDING = re.compile(r"\.(?:csv|tsv|trn|ctm|stm|text|log)(?=\.|$)", re.IGNORECASE)


def system_names(paths: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """The names of systems: the last part of all paths in which they differ; of a file
    its name without the ending.

    Args:
        given: the names that the user gives.

    Raises:
        UserError: there is one system only, names are missing, or two systems have the
        same name.
    """
    if len(paths) < 2:
        raise UserError(
            "give the outputs of two systems or more; for a table with a column per"
            " system: --field system=COLUMN"
        )
    if given and len(given) != len(paths):
        raise UserError(
            f"there are {len(paths)} systems, but {len(given)} --name; give one each"
        )
    places = [resolved(Path(path)) for path in paths]
    parts = [
        (
            _ENDING.sub("", shown(utterance_of(place.name))),
            *map(shown, reversed(place.parent.parts)),
        )
        for place in places
    ]
    apart = (
        same_depth
        for same_depth in zip(*parts, strict=False)
        if len(set(same_depth)) == len(places)
    )
    names = tuple(given or next(apart, [part[0] for part in parts]))
    if len(set(names)) < len(names):
        raise UserError(
            f"two systems would be called {max(names, key=names.count)}; rename a file,"
            " or give `rescore combine` a --name for each"
        )
    return names
