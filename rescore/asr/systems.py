"""Lists of several systems for the same utterances as one."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rescore.asr.features import MERGED
from rescore.asr.mixture import Mixture, applied
from rescore.asr.outputs import align_systems
from rescore.columns import FIRST_PASS, NORM_SUM, Column, Role, free_name
from rescore.dataset import Dataset
from rescore.errors import UserError, listed
from rescore.files import distinct, resolved, shown
from rescore.formats.text import utterance_of
from rescore.metrics.normalise import EXACT
from rescore.nbest import Header, Hypothesis, NbestList
from rescore.pace import paced
from rescore.readings import Cut

log = logging.getLogger(__name__)


def combined(
    systems: Mapping[str, Sequence[NbestList]], same: Cut = EXACT
) -> Iterator[NbestList]:
    """Yield one list per utterance, in the order of the systems; a text that several
    systems wrote is one hypothesis.

    Each system has a column of its name at the texts that it wrote: its score, natural
    log. The first pass is the mixture of the posteriors of all systems, with equal
    votes.

    Args:
        systems: The lists of each system.
        same: Says which texts are the same, as a metric's `units`.

    Raises:
        UserError: The utterances of two systems do not match, or lists have scores of
            models.
    """
    aligned = {name: Dataset(lists) for name, lists in align_systems(systems).items()}
    names = columns_of(aligned)
    every = _by_utterance(aligned, names)
    _tell_not_kept(aligned)
    translates = any(lists.header.translates for lists in aligned.values())
    header = replace(header_of(names.values()), translates=translates)
    # Outputs are large: the lists of an utterance are freed when they are combined.
    del systems, aligned
    for name in paced(list(every), "combined %d of %d utterances"):
        yield one_list(every.pop(name), same, header)


def _by_utterance(
    systems: Mapping[str, Sequence[NbestList]], names: Mapping[str, str]
) -> dict[str, dict[str, NbestList]]:
    """Return the lists of each utterance, by the column of their system.

    Args:
        systems: The lists of each system, with the same ids.
        names: The column of each system.
    """
    every: dict[str, dict[str, NbestList]] = {}
    for system, lists in systems.items():
        for nbest in lists:
            every.setdefault(nbest.id, {})[names[system]] = nbest
    return every


def columns_of(systems: Iterable[str]) -> dict[str, str]:
    """Return the name of the column of each system, which no other column has."""
    columns: dict[str, str] = {}
    for name in systems:
        columns[name] = free_name(name, columns.values())
    return columns


def header_of(columns: Iterable[str]) -> Header:
    """Return the header of lists whose columns are systems."""
    system = Column("combine", "", NORM_SUM, "", Role.SYSTEM)
    return Header(records=dict.fromkeys(columns, system))


def one_list(systems: Mapping[str, NbestList], same: Cut, header: Header) -> NbestList:
    """Return the list of one utterance, in which each text stands once, as the first
    system that has it writes it.

    Of equal texts of one system the best score counts. Texts of the first system come
    first; the others have the origin `MERGED`. A text has the times of the first system
    that has times for it.

    Args:
        systems: The list of each column.
        same: Says which texts are the same.
        header: The header of all lists, with the columns of all systems.

    Raises:
        UserError: A list has scores of models.
    """
    texts: dict[tuple[str, ...], Hypothesis] = {}
    references: tuple[str, ...] = ()
    for rank, (name, nbest) in enumerate(systems.items()):
        refuse_scored(nbest, "combine", leaves_own=True)
        references = references or nbest.references
        for hypothesis in nbest.hypotheses:
            text = " ".join(hypothesis.text.split())
            origin = MERGED if rank else hypothesis.origin
            new = Hypothesis(text, {FIRST_PASS: 0.0}, origin)
            known = texts.setdefault(tuple(same(hypothesis.text)), new)
            score = hypothesis.scores[FIRST_PASS] + 0.0  # never minus nothing
            known.scores[name] = max(score, known.scores.get(name, score))
            if not known.times and known.text == text:
                known.times = hypothesis.times
    first = next(iter(systems.values()))
    voted = replace(
        first, hypotheses=list(texts.values()), references=references, header=header
    )
    return applied(Mixture(dict.fromkeys(header.records, 1.0)), voted)


def _tell_not_kept(systems: Mapping[str, Dataset]) -> None:
    """Warn of the files' own columns, which combined lists do not have.

    Args:
        systems: The lists of each system.
    """
    for name, lists in systems.items():
        own = lists.own_columns
        if own:
            log.warning(
                "%s: not kept: %s (combined lists have a column for each system)",
                name,
                listed(own),
            )


def refuse_scored(nbest: NbestList, verb: str, leaves_own: bool = False) -> None:
    """Raise an error if a list has scores of models.

    Args:
        nbest: The list.
        verb: The name of the operation that is refused.
        leaves_own: Whether the operation leaves out the columns of the file itself.

    Raises:
        UserError: The list has scores of models.
    """
    columns = [*nbest.columns(Role.LM), *nbest.columns(Role.SYSTEM)]
    if columns and leaves_own:
        own = Dataset.of([nbest]).own_columns
        columns = [name for name in columns if name not in own]
    if columns:
        raise UserError(
            f"utterance {nbest.id}: has scores {columns[0]} already; {verb} lists"
            " before they are scored"
        )


_ENDING = re.compile(r"\.(?:csv|tsv|trn|ctm|stm|text|log|kaldi)(?=\.|$)", re.IGNORECASE)


def system_names(paths: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """Return the names of systems: the last part of all paths in which they differ; of
    a file its name without the ending.

    Args:
        paths: The output of each system.
        given: The names that the user gives, or nothing.

    Raises:
        UserError: There is one system only, names are missing, or two systems have the
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
    names = tuple(given or _different_parts(paths))
    if len(set(names)) < len(names):
        raise UserError(
            f"two systems would be called {max(names, key=names.count)}; rename a file,"
            " or give `rescore combine` a --name for each"
        )
    return names


def _different_parts(paths: Sequence[str]) -> tuple[str, ...]:
    """Return the last parts of paths that all differ, or else the names of the files,
    without endings.
    """
    parts = []
    for path in paths:
        place = resolved(Path(path))
        name = _ENDING.sub("", shown(utterance_of(place.name)))
        parts.append([name, *map(shown, reversed(place.parent.parts))])
    return distinct(parts) or tuple(names[0] for names in parts)
