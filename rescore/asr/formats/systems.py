"""Outputs of several systems for the same utterances: lists of each system, and the
match of their utterances.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from rescore import formats
from rescore.errors import UserError, counted
from rescore.formats.outputs import is_text
from rescore.formats.records import SYSTEM
from rescore.formats.references import TextFile, best_lists, first_reading
from rescore.formats.source import InputWarnings, ReadOptions, Source
from rescore.formats.text import are_numbers, identity_of
from rescore.nbest import FIRST_PASS, NbestList

log = logging.getLogger(__name__)


def read_system(
    path: str,
    *,
    format_name: str | None = None,
    s2s: str = FIRST_PASS,
    strict: bool = False,
    options: ReadOptions | None = None,
) -> list[NbestList]:
    """The output of one system: N-best lists of any format, or a 1-best text as lists
    of one hypothesis.

    The arguments are those of `rescore.formats.read`. A text without ids gets the
    numbers of its lines as ids.
    """
    warnings = InputWarnings(strict)
    source = Source(path, warnings)  # one for both ways: a pipe cannot be opened again
    if is_text(source, format_name, options):
        lists = _texts(source)
    else:
        sources = [path] if source.is_folder else [source]
        lists = formats.read(
            sources, format_name=format_name, s2s=s2s, strict=strict, options=options
        )
        if all(len(nbest.hypotheses) == 1 for nbest in lists):
            lists = [_without_more(nbest) for nbest in lists]
    warnings.report()
    return lists


def _without_more(nbest: NbestList) -> NbestList:
    """A list of one hypothesis without numbers beside its score, such as a duration in
    a table.
    """
    (text,) = nbest.hypotheses
    kept = {
        name: score
        for name, score in text.scores.items()
        if name == FIRST_PASS or name in nbest.header.columns
    }
    return replace(nbest, hypotheses=[replace(text, scores=kept)])


def _texts(source: Source) -> list[NbestList]:
    """The lists of a 1-best text: trn, Kaldi text, or plain lines."""
    file = TextFile(source, output=True)
    if file.by_id is not None:
        return best_lists(
            {name: (first_reading(text),) for name, (text,) in file.by_id.items()}
        )
    if file.has_ids:
        return best_lists(file.kaldi_texts())
    commas = {line.count(",") for line in file.lines}
    if "\t" in file.lines[0] or (len(commas) == 1 and commas.pop() > 1):
        raise UserError(
            f"{source.name}: which column has the texts? Say it with --field text=NAME"
            f" ({file.lines[0][:80]})"
        )
    return best_lists(file.numbered_texts())


def read_table_of_systems(
    path: str,
    fields: Mapping[str, str],
    *,
    format_name: str | None = None,
    strict: bool = False,
) -> dict[str, list[NbestList]]:
    """The lists of each system from one file that has a column, or a key, of texts per
    system.

    Args:
        fields: as --field gives them: `system=NAME` for each system, and perhaps id,
            ref and src.
    """
    names = [key for role, key in fields.items() if role.startswith(SYSTEM)]
    if other := [
        role
        for role in fields
        if not role.startswith(SYSTEM) and role not in ("id", "ref", "src")
    ]:
        raise UserError(
            f"--field {other[0]}=... cannot stand beside --field system=NAME; give id,"
            " ref and src only"
        )
    if len(names) < 2:
        raise UserError(
            f"{path}: one system; repeat --field system=NAME for each column of texts"
        )
    if not Source(path).is_regular:
        raise UserError(f"{path}: is read once for each system; give a file")
    systems: dict[str, list[NbestList]] = {}
    for name in names:
        options = ReadOptions(fields={**fields, "text": name})
        try:
            lists = formats.read(
                [path], format_name=format_name, strict=strict, options=options
            )
        except UserError as error:
            raise UserError(f"--field system={name}: {error}") from None
        # the row's numbers belong to no single system: the order is the first pass
        for nbest in lists:
            nbest.hypotheses = [
                replace(text, scores={FIRST_PASS: -math.log(rank)})
                for rank, text in enumerate(nbest.hypotheses, 1)
            ]
        systems[name] = lists
    return systems


def align_systems(
    systems: Mapping[str, Sequence[NbestList]],
) -> dict[str, list[NbestList]]:
    """The lists of each system with the ids of the first system, in its order; a system
    may lack utterances.

    Utterances are matched by id, else by audio file, else by order where the references
    of both systems are equal. Lists that are only numbered are matched by number, with
    a warning where no references confirm the match.

    Raises:
        UserError: a system and the first system have different utterances.
    """
    (name, first), *others = systems.items()
    aligned = {name: list(first)} | {
        other: _matched(name, first, other, lists) for other, lists in others
    }
    ids = dict.fromkeys(nbest.id for lists in aligned.values() for nbest in lists)
    for other, lists in aligned.items():
        if absent := len(ids) - len(lists):
            log.warning(
                "%s: %d of %d utterances are missing; the other systems decide",
                other,
                absent,
                len(ids),
            )
    return aligned


def _matched(
    name: str, first: Sequence[NbestList], other: str, lists: Sequence[NbestList]
) -> list[NbestList]:
    """The lists of another system with the ids of the first, in its order; then those
    that the first lacks.
    """
    both = f"{name} and {other}"
    mine, theirs = [nbest.id for nbest in first], [nbest.id for nbest in lists]
    if are_numbers(mine) and are_numbers(theirs):
        if mine == theirs and not all(nbest.references for nbest in (*first, *lists)):
            log.warning(
                "%s: their utterances have no ids; those with the same number were"
                " matched",
                both,
            )
            return list(lists)
    else:
        for key in (attrgetter("id"), _audio):
            known = {key(nbest): nbest for nbest in first}
            found = {key(nbest): nbest for nbest in lists}
            shared = [place for place in known if place in found]
            if shared and len(known) == len(first) and len(found) == len(lists):
                _check_references(
                    [(known[place], found[place]) for place in shared], both
                )
                left = [nbest for place, nbest in found.items() if place not in known]
                return [
                    *(replace(found[place], id=known[place].id) for place in shared),
                    *left,
                ]
    references = [nbest.references for nbest in first]
    if all(references) and references == [nbest.references for nbest in lists]:
        return [
            replace(nbest, id=name) for name, nbest in zip(mine, lists, strict=True)
        ]
    raise UserError(
        f"{both}: their utterances do not match ({counted(len(mine), 'utterance')} such"
        f" as {mine[0]}, and {len(theirs):,} such as {theirs[0]}): no common ids or"
        " audio files, and not the same references in the same order; give them the"
        " same ids (plain lines have none: rescore --best FILE writes ids, FILE.txt"
        " does not)"
    )


def _audio(nbest: NbestList) -> object:
    """The name of the audio file and the start; a list without a recording is called
    after its audio file.
    """
    return (
        (identity_of(nbest.audio.path), nbest.audio.start)
        if nbest.audio
        else (nbest.id, 0.0)
    )


def _check_references(pairs: Sequence[tuple[NbestList, NbestList]], both: str) -> None:
    """Check that most utterances with one name have the same reference, apart from case
    and punctuation.
    """
    known = [(one, two) for one, two in pairs if one.references and two.references]
    differ = [
        one.id
        for one, two in known
        if _letters(one.references[0]) != _letters(two.references[0])
    ]
    message = (
        f"{both}: {len(differ):,} of {counted(len(known), 'reference')} differ (first:"
        f" {', '.join(differ[:1])})"
    )
    if 2 * len(differ) > len(known):
        raise UserError(
            f"{message}: the same id names different utterances; give outputs for the"
            " same set"
        )
    if differ:
        log.warning("%s; the references of the first system count", message)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))
