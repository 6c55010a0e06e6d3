"""Which list of an output is which list of another: the one rule for `combine`, and for
`eval` of several outputs.

Lists are paired by their ids (`rescore.formats.ids`); the rest by the name and the
start of their audio files. Lists that are numbered, since they have no ids, are paired
by their numbers, if these begin with the same; without references to show it, a warning
says so (`tell_numbered`). Lists without such pairs are paired by order, if the
references of both are the same. Wherever ids are not equal, a line says how the lists
were paired.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from rescore.formats.ids import SHOWN, Pairing, Side, are_numbers, paired
from rescore.ids import short
from rescore.nbest import NbestList

log = logging.getLogger(__name__)


def paired_outputs(
    ours: Sequence[NbestList],
    theirs: Sequence[NbestList],
    names: tuple[str, str],
    first: int | None = None,
) -> Pairing | None:
    """Return which list of another output is which of ours; None if nothing tells.

    Args:
        ours: Our lists.
        theirs: The lists of the other output.
        names: The names of both outputs.
        first: The number of our lists that are of one output, which may be paired by
            order; None for all.

    Raises:
        UserError: An id fits several others.
    """
    ids = [nbest.id for nbest in ours]
    other_ids = [nbest.id for nbest in theirs]
    # outputs do not say which ids are of trn, in which case does not count
    sides = (
        Side(ids, names[0], ignores_case=True),
        Side(other_ids, names[1], ignores_case=True),
    )
    if are_numbers(ids) and are_numbers(other_ids):
        pairing = _by_numbers(ours, theirs, sides)
    else:
        pairing = _by_names(ours, theirs, sides)
    return pairing or _by_references(ours[:first], theirs, sides)


def _by_numbers(
    ours: Sequence[NbestList], theirs: Sequence[NbestList], sides: tuple[Side, Side]
) -> Pairing | None:
    """Return the pairs of lists with the same number; None if they begin with different
    numbers, if references show that the same number is another utterance, or if one
    output lacks lists and no references show which.
    """
    if ours[0].id != theirs[0].id:
        return None
    pairs = list(zip(ours, theirs, strict=False))
    if not all(own.references and other.references for own, other in pairs):
        if len(ours) != len(theirs):
            return None
        return replace(paired(*sides), is_by_number=True)
    if any(own.references != other.references for own, other in pairs):
        return None
    return paired(*sides)


def tell_numbered(names: Sequence[str]) -> None:
    """Warn of outputs whose lists were paired by their numbers alone.

    Args:
        names: The first output, and each that was paired with it in this way.
    """
    *others, last = names
    if others:
        log.warning(
            "%s and %s have no ids: utterances with the same number were matched",
            ", ".join(others),
            last,
        )


def _by_names(
    ours: Sequence[NbestList], theirs: Sequence[NbestList], sides: tuple[Side, Side]
) -> Pairing | None:
    """Return the pairs of lists with the same id, and of the rest with the same audio
    file; None if there is no pair.
    """
    pairing = paired(*sides)
    places = list(pairing.places)
    without = [at for at, place in enumerate(places) if place is None]
    by_audio = _by_audio(ours, without)
    note = pairing.note or _note_of_case(pairing)
    for audio, place in _by_audio(theirs, pairing.left).items():
        at = by_audio.get(audio)
        if at is None:
            continue
        places[at] = place
        note = note or (
            f"{sides[1].place}: {theirs[place].id[-SHOWN:]} is taken for"
            f" {ours[at].id[-SHOWN:]}: their audio files have the same name"
        )
    left = tuple(place for place in pairing.left if place not in places)
    if len(left) == len(theirs):
        return None
    return replace(pairing, places=tuple(places), left=left, note=note)


def _note_of_case(pairing: Pairing) -> str:
    """Return what users are told of pairs whose ids differ; empty if all are equal."""
    for their_id, name in pairing.renamed.items():
        if their_id != name:
            return (
                f"{pairing.theirs.place}: {their_id[-SHOWN:]} is taken for"
                f" {name[-SHOWN:]}: they differ in case alone"
            )
    return ""


def _by_audio(
    lists: Sequence[NbestList], places: Iterable[int]
) -> dict[tuple[str, float], int]:
    """Return the places of lists by the name of their audio file and the start; a list
    without a recording is called after its audio file. Names of several lists are left
    out.

    Args:
        lists: The lists.
        places: The places of the lists that are looked at.
    """
    every: dict[tuple[str, float], list[int]] = {}
    for place in places:
        nbest = lists[place]
        audio = (short(nbest.id), 0.0)
        if nbest.audio:
            audio = (short(nbest.audio.path), nbest.audio.start)
        every.setdefault(audio, []).append(place)
    return {audio: own[0] for audio, own in every.items() if len(own) == 1}


def _by_references(
    ours: Sequence[NbestList], theirs: Sequence[NbestList], sides: tuple[Side, Side]
) -> Pairing | None:
    """Return the pairs of lists in their order; None if their references are not the
    same.
    """
    references = [nbest.references for nbest in ours]
    if not all(references) or references != [nbest.references for nbest in theirs]:
        return None
    note = (
        f"{sides[1].place}: its utterances are taken in the order of {sides[0].place}:"
        f" their ids differ ({theirs[0].id[-SHOWN:]} and {ours[0].id[-SHOWN:]}), and"
        " their references are the same"
    )
    return Pairing(*sides, tuple(range(len(ours))), note=note)
