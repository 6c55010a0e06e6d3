"""Outputs of several systems for the same utterances: lists of each system, and the
match of their utterances.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rescore import formats
from rescore.columns import FIRST_PASS
from rescore.errors import UserError, counted
from rescore.formats.matching import matched
from rescore.formats.outputs import is_text
from rescore.formats.reading import check_options
from rescore.formats.records import options_by_system
from rescore.formats.references import TextFile, best_lists, first_reading
from rescore.formats.roles import SYSTEM, KeysOfRoles, keys_of
from rescore.formats.source import InputWarnings, ReadOptions, Source
from rescore.formats.text import are_numbers, are_rows, check_ids
from rescore.formats.understood import Understood
from rescore.ids import short
from rescore.nbest import NbestList, as_first_pass

log = logging.getLogger(__name__)


# --- reading -------------------------------------------------------------------------


def read_system(
    path: str,
    *,
    format_name: str | None = None,
    s2s: str = FIRST_PASS,
    strict: bool = False,
    options: ReadOptions | None = None,
) -> list[NbestList]:
    """Return the output of one system: N-best lists of any format, or a 1-best text as
    lists of one hypothesis.

    A text without ids gets the numbers of its lines as ids.

    Args:
        path: The file or folder of the output.
        format_name: As in `rescore.formats.read`, like all further arguments.
        s2s: The score that becomes the first pass.
        strict: Whether warnings about the input are errors.
        options: Options of the format.

    Raises:
        UserError: The output is damaged, or its column of texts is unknown.
    """
    warnings = InputWarnings(strict)
    source = Source(path, warnings)  # one for both ways: a pipe cannot be opened again
    if is_text(source, format_name, options):
        check_options([source], format_name, s2s, options)
        lists = _texts(source)
        Understood.of_texts(source, lists).tell()
    else:
        sources = [path] if source.is_folder else [source]
        lists = formats.read(
            sources, format_name=format_name, s2s=s2s, strict=strict, options=options
        )
        if s2s == FIRST_PASS:
            lists = [as_first_pass(nbest) for nbest in lists]
        if all(len(nbest.hypotheses) == 1 for nbest in lists):
            lists = [_without_more(nbest) for nbest in lists]
    warnings.report()
    return lists


def _without_more(nbest: NbestList) -> NbestList:
    """Return a list of one hypothesis without numbers beside its score, such as a
    duration in a table.
    """
    (hypothesis,) = nbest.hypotheses
    scores = {}
    for name, score in hypothesis.scores.items():
        if name == FIRST_PASS or name in nbest.header.records:
            scores[name] = score
    return replace(nbest, hypotheses=[replace(hypothesis, scores=scores)])


def _texts(source: Source) -> list[NbestList]:
    """Return the lists of a 1-best text: trn, Kaldi text, or plain lines."""
    file = TextFile(source, output=True)
    if file.by_id is not None:
        texts = {}
        for name, (text,) in file.by_id.items():
            texts[name] = (first_reading(text),)
        return best_lists(texts)
    if file.has_ids:
        return best_lists(file.kaldi_texts())
    if are_rows(file.lines):
        raise UserError(
            f"{source.name}: which column has the texts? Say it with --field text=NAME"
            f" ({file.lines[0][:80]})"
        )
    placed = []
    for number, line in enumerate(file.lines, 1):
        if line.strip():
            placed.append((f"{source.name}: line {number}", line))
    check_ids(placed)
    return best_lists(file.numbered_texts())


def read_table_of_systems(
    path: str,
    fields: KeysOfRoles,
    *,
    format_name: str | None = None,
    strict: bool = False,
    more: ReadOptions | None = None,
) -> dict[str, list[NbestList]]:
    """Return the lists of each system from one file that has a column, or a key, of
    texts per system, or a column that names the system of each row.

    Args:
        path: The file, which is read once for each system.
        fields: As --field gives them: `system=NAME` for each system, and perhaps id,
            ref and src. A single `system=NAME` is the column that names the systems.
        format_name: The format of the file; None to detect it.
        strict: Whether warnings about the input are errors.
        more: Options of formats beside the fields.

    Raises:
        UserError: The fields have other roles, no column names several systems, or the
            file is damaged.
    """
    names: list[str] = []
    for role in fields:
        if role.startswith(SYSTEM):
            names += keys_of(fields, role)
    if len(names) == 1:
        return _systems_of_rows(path, fields, format_name, strict, more)
    for role in fields:
        if not role.startswith(SYSTEM) and role not in ("id", "ref", "src"):
            raise UserError(
                f"--field {role}=... cannot stand beside --field system=NAME; give id,"
                " ref and src only"
            )
    if not Source(path).is_regular:
        raise UserError(f"{path}: is read once for each system; give a file")
    systems: dict[str, list[NbestList]] = {}
    for name in names:
        values = more.values if more else {}
        options = ReadOptions(**{**values, "fields": {**fields, "text": name}})
        try:
            lists = formats.read(
                [path], format_name=format_name, strict=strict, options=options
            )
        except UserError as error:
            raise UserError(f"--field system={name}: {error}") from None
        for nbest in lists:
            _rank_by_order(nbest)
        systems[name] = lists
    return systems


def _systems_of_rows(
    path: str,
    fields: KeysOfRoles,
    format_name: str | None,
    strict: bool,
    more: ReadOptions | None,
) -> dict[str, list[NbestList]]:
    """Return the lists of each system from a file in which a column names the system of
    each row; the arguments are those of `read_table_of_systems`.
    """
    values = more.values if more else {}
    options = ReadOptions(**{**values, "fields": fields})
    systems = {}
    for name, of_system in options_by_system(path, options).items():
        try:
            systems[name] = read_system(
                path, format_name=format_name, strict=strict, options=of_system
            )
        except UserError as error:
            raise UserError(f"system {name}: {error}") from None
    return systems


def _rank_by_order(nbest: NbestList) -> None:
    """Make the order the first pass: numbers of a row belong to no single system."""
    hypotheses = []
    for rank, hypothesis in enumerate(nbest.hypotheses, 1):
        hypotheses.append(replace(hypothesis, scores={FIRST_PASS: -math.log(rank)}))
    nbest.hypotheses = hypotheses


# --- match ---------------------------------------------------------------------------


def align_systems(
    systems: Mapping[str, Sequence[NbestList]],
) -> dict[str, list[NbestList]]:
    """Return the lists of each system with the ids of the first system, in its order; a
    system may lack utterances.

    Utterances are matched by id, else by audio file, else by order where the references
    of both systems are equal. Lists that are only numbered are matched by number, with
    a warning where no references confirm the match.

    Args:
        systems: The lists of each system.

    Raises:
        UserError: A system and the first system have different utterances.
    """
    (name, first), *others = systems.items()
    aligned = {name: list(first)}
    every = list(first)
    ids = {nbest.id for nbest in first}
    for other, lists in others:
        aligned[other] = _matched(first, lists, f"{name} and {other}", every)
        # what the first system lacks is matched between the others
        new = [nbest for nbest in aligned[other] if nbest.id not in ids]
        every += new
        ids.update(nbest.id for nbest in new)
    for other, lists in aligned.items():
        absent = len(ids) - len(lists)
        if absent:
            log.warning(
                "%s: %d of %d utterances are missing; the other systems decide",
                other,
                absent,
                len(ids),
            )
    return aligned


def _matched(
    first: Sequence[NbestList],
    lists: Sequence[NbestList],
    both: str,
    every: Sequence[NbestList],
) -> list[NbestList]:
    """Return the lists of another system with the ids of the first, in its order; then
    the lists that the first lacks.

    Args:
        first: The lists of the first system.
        lists: The lists of the other system.
        both: The names of both systems, for errors.
        every: The lists of the first system, and those of others that it lacks.
    """
    ours = [nbest.id for nbest in first]
    theirs = [nbest.id for nbest in lists]
    if are_numbers(ours) and are_numbers(theirs):
        if ours == theirs and not all(nbest.references for nbest in (*first, *lists)):
            log.warning(
                "%s: their utterances have no ids; those with the same number were"
                " matched",
                both,
            )
            return list(lists)
    else:
        same = _matched_by_names(every, lists, both)
        if same is not None:
            return same
    references = [nbest.references for nbest in first]
    if all(references) and references == [nbest.references for nbest in lists]:
        pairs = zip(ours, lists, strict=True)
        return [replace(nbest, id=name) for name, nbest in pairs]
    raise UserError(
        f"{both}: their utterances do not match ({counted(len(ours), 'utterance')} such"
        f" as {ours[0]}, and {len(theirs):,} such as {theirs[0]}): no common ids or"
        " audio files, and not the same references in the same order; give them the"
        " same ids (plain lines have none: rescore --best FILE writes ids, FILE.txt"
        " does not)"
    )


def _matched_by_names(
    every: Sequence[NbestList], lists: Sequence[NbestList], both: str
) -> list[NbestList] | None:
    """Return the lists of another system with our ids, matched by id or path, and the
    rest by audio file; None if no list has a match.

    Args:
        every: The lists of the systems before it, with our ids.
        lists: The lists of the other system.
        both: The names of both systems, for errors.
    """
    ours = {nbest.id: nbest for nbest in every}
    names = matched(ours, [nbest.id for nbest in lists])
    taken = set(names.values())
    by_audio = _by_audio([nbest for nbest in every if nbest.id not in taken])
    known_audio = _by_audio([nbest for nbest in lists if nbest.id not in names])
    for audio, nbest in known_audio.items():
        if audio in by_audio:
            names[nbest.id] = by_audio[audio].id
    if not names:
        return None
    place = {name: number for number, name in enumerate(ours)}
    theirs = {names.get(nbest.id, nbest.id): nbest for nbest in lists}
    both_have = sorted(theirs.keys() & ours, key=place.__getitem__)
    pairs = [(ours[name], theirs[name]) for name in both_have]
    _check_references(pairs, both)
    known = [replace(their, id=our.id) for our, their in pairs]
    return known + [nbest for name, nbest in theirs.items() if name not in ours]


def _by_audio(lists: Iterable[NbestList]) -> dict[tuple[str, float], NbestList]:
    """Return lists by the name of their audio file and the start; a list without a
    recording is called after its audio file. Names of several lists are left out.
    """
    every: dict[tuple[str, float], list[NbestList]] = {}
    for nbest in lists:
        audio = (short(nbest.id), 0.0)
        if nbest.audio:
            audio = (short(nbest.audio.path), nbest.audio.start)
        every.setdefault(audio, []).append(nbest)
    return {audio: own[0] for audio, own in every.items() if len(own) == 1}


def _check_references(pairs: Sequence[tuple[NbestList, NbestList]], both: str) -> None:
    """Check that most utterances with one name have the same reference, apart from case
    and punctuation.
    """
    compared = 0
    different = []
    for first, second in pairs:
        if first.references and second.references:
            compared += 1
            if _letters(first.references[0]) != _letters(second.references[0]):
                different.append(first.id)
    if not different:
        return
    message = (
        f"{both}: {len(different):,} of {counted(compared, 'reference')} differ (first:"
        f" {different[0]})"
    )
    if 2 * len(different) > compared:
        raise UserError(
            f"{message}: the same id names different utterances; give outputs for the"
            " same set"
        )
    log.warning("%s; the references of the first system count", message)


def _letters(text: str) -> str:
    """Return the letters and digits of a text, without case."""
    return "".join(filter(str.isalnum, text.casefold()))
