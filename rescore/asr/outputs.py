"""Outputs of several systems for the same utterances: lists of each system, and the
match of their utterances.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rapidfuzz.distance.Levenshtein import normalized_similarity as ratio

from rescore import formats
from rescore.columns import FIRST_PASS
from rescore.errors import UserError, counted
from rescore.formats.alternatives import first_reading
from rescore.formats.ids import Pairing, Side, paired, some
from rescore.formats.one_best import best_lists, open_output
from rescore.formats.outputs import is_text
from rescore.formats.pairs import paired_outputs, tell_numbered
from rescore.formats.reading import check_options
from rescore.formats.records import options_by_system
from rescore.formats.references import TextFile, known_ids, with_references
from rescore.formats.roles import SYSTEM, KeysOfRoles, keys_of
from rescore.formats.source import InputWarnings, ReadOptions, Source
from rescore.formats.text import are_rows
from rescore.formats.texts import format_beside, is_table
from rescore.formats.understood import Understood
from rescore.formats.unknown import unknown
from rescore.nbest import NbestList, as_first_pass
from rescore.pace import paced

log = logging.getLogger(__name__)

GLANCE = 20
"""Utterances, about, whose texts are compared between two systems at first."""
COMPARED = 500
"""Utterances, about, whose texts are compared if most of the first are not alike."""
BESIDE = 3
"""Utterances on each side with whose texts a text is compared."""
LEAST = 4
"""Compared utterances from which on a warning is possible."""


# --- reading -------------------------------------------------------------------------


def read_each(
    paths: Mapping[str, str],
    *,
    format_name: str | None = None,
    s2s: str = FIRST_PASS,
    strict: bool = False,
    options: ReadOptions | None = None,
    references: TextFile | None = None,
) -> dict[str, list[NbestList]]:
    """Return the output of each system: N-best lists of any format, or 1-best texts as
    lists of one hypothesis.

    Whether the first words of a text are ids, the references tell, or else the ids of
    the other systems. A text without ids gets the ids of the other side if these are
    numbers, or the numbers of its lines.

    Args:
        paths: The file or folder of each output, by the name of the system.
        format_name: As in `rescore.formats.read`, like all further arguments.
        s2s: The score that becomes the first pass.
        strict: Whether warnings about the input are errors.
        options: Options of the format.
        references: The references of the utterances, if they are known.

    Raises:
        UserError: An output is damaged, its column of texts is unknown, or it has no
            ids, and the references have ids.
    """
    ids = known_ids([references]) if references is not None else set()
    outputs: dict[str, list[NbestList] | TextFile] = {}
    for name in paced(list(paths), "read %d of %d outputs"):
        warnings = InputWarnings(strict)
        # one for both ways: a pipe cannot be opened again
        source = Source(paths[name], warnings)
        named = format_name
        if named is None and ids:
            named = format_beside([source], ids)
        if is_text(source, named, options):
            if is_table(source):
                raise UserError(f"{source.name}: {unknown(source)}")
            check_options([source], named, s2s, options)
            outputs[name] = open_output(source, references)
        else:
            outputs[name] = _lists(source, named, s2s, strict, options)
        warnings.report()
    known = _certain_ids(outputs)
    systems = {}
    for name, output in outputs.items():
        if isinstance(output, TextFile):
            path = output.path
            beside = references or known or _reordered(output, outputs.values())
            of_texts = output
            output = _texts(of_texts, beside)
            output = _with_case_of(references or known, of_texts, output)
            Understood.of_texts(path, output, of_texts.roles).tell()
        systems[name] = output
    return systems


def _lists(
    source: Source,
    format_name: str | None,
    s2s: str,
    strict: bool,
    options: ReadOptions | None,
) -> list[NbestList]:
    """Return the lists of an output, in the order that it decided."""
    sources = [source.path] if source.is_folder else [source]
    dataset = formats.read(
        sources, format_name=format_name, s2s=s2s, strict=strict, options=options
    )
    lists = list(dataset)
    if s2s == FIRST_PASS:
        lists = [as_first_pass(nbest) for nbest in lists]
    if all(len(nbest.hypotheses) == 1 for nbest in lists):
        lists = [_without_more(nbest) for nbest in lists]
    return lists


def _certain_ids(outputs: Mapping[str, list[NbestList] | TextFile]) -> Side | None:
    """Return the ids of the first lists, or else of the first trn; None if there are
    neither.
    """
    texts = None
    for name, output in outputs.items():
        if not isinstance(output, TextFile):
            return Side([nbest.id for nbest in output], name)
        if texts is None and output.by_id is not None:
            texts = output.side
    return texts


def _reordered(
    file: TextFile, outputs: Iterable[list[NbestList] | TextFile]
) -> TextFile | None:
    """Return the text that shows that the first words of a text are ids; None if none
    does.
    """
    for other in outputs:
        if isinstance(other, TextFile) and file.words.is_reordered(other.words):
            return other
    return None


def _without_more(nbest: NbestList) -> NbestList:
    """Return a list of one hypothesis without numbers beside its score, such as a
    duration in a table.
    """
    (hypothesis,) = nbest.hypotheses
    scores = {}
    for name, score in hypothesis.scores.items():
        if name == FIRST_PASS or name in nbest.header.records:
            scores[name] = score
    if len(scores) == len(hypothesis.scores):
        return nbest
    return replace(nbest, hypotheses=[replace(hypothesis, scores=scores)])


def _texts(file: TextFile, other: Side | TextFile | None) -> list[NbestList]:
    """Return the lists of a 1-best text: trn, Kaldi text, or plain lines.

    Args:
        file: The text.
        other: The references, or the ids of another system; None if nothing is known.
    """
    if file.by_id is not None:
        texts = {}
        for name, (text,) in file.by_id.items():
            texts[name] = (first_reading(text),)
        return best_lists(texts)
    if isinstance(other, TextFile):
        return best_lists(file.texts_of_output(other))
    with_ids = file.texts_beside(other)
    if with_ids is not None:
        return best_lists(with_ids)
    if are_rows(file.lines):
        raise UserError(
            f"{file.path}: which column has the texts? Say it with --field text=NAME"
            f" ({file.lines[0][:80]})"
        )
    if isinstance(other, Side) and other.is_numbered:
        lines = paired(other, file.words.side).of(file.lines)
        file.roles["id"] = f"the order of {other.place}"
        pairs = zip(other.ids or (), lines, strict=True)
        return best_lists({name: (line,) for name, line in pairs})
    return best_lists(file.numbered_texts())


def _with_case_of(
    other: Side | TextFile | None, file: TextFile, lists: list[NbestList]
) -> list[NbestList]:
    """Return the lists of a 1-best text with the ids of another side: case does not
    count in trn.

    Args:
        other: The references, or the ids of another system.
        file: The text.
        lists: Its lists.
    """
    ours = file.side_of([nbest.id for nbest in lists])
    theirs = other.side if isinstance(other, TextFile) else other
    if theirs is None or not (ours.ignores_case or theirs.ignores_case):
        return lists
    if isinstance(other, TextFile):
        theirs = other.side_of(other.texts_beside(file) or ())
    names = paired(theirs, ours).renamed
    return [replace(nbest, id=names.get(nbest.id, nbest.id)) for nbest in lists]


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
        systems[name] = list(lists)
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
    systems: dict[str, list[NbestList]] = {}
    for name, of_system in options_by_system(path, options).items():
        try:
            systems |= read_each(
                {name: path}, format_name=format_name, strict=strict, options=of_system
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


def with_references_in_order(
    systems: dict[str, list[NbestList]], references: Sequence[TextFile]
) -> dict[str, list[NbestList]]:
    """Return the lists of each system with references whose lines have the order of all
    systems, if the ids of the systems differ: the references then tell the pairs.

    Args:
        systems: The lists of each system.
        references: The references.

    Raises:
        UserError: The references have another number of lines.
    """
    is_ordered = all(file.format == "plain" for file in references)
    if not references or not is_ordered:
        return systems
    (name, first), *others = systems.items()
    ids = {nbest.id for nbest in first}
    for other, lists in others:
        has_own = any(nbest.id in ids for nbest in lists)
        if has_own or len(lists) != len(first):
            return systems
        if paired_outputs(first, lists, (name, other)) is not None:
            return systems
    warnings = InputWarnings()
    return {
        name: with_references(lists, references, warnings, allow_missing=False)
        for name, lists in systems.items()
    }


# --- match ---------------------------------------------------------------------------


def align_systems(
    systems: Mapping[str, Sequence[NbestList]],
) -> dict[str, list[NbestList]]:
    """Return the lists of each system with the ids of the first system, in its order; a
    system may lack utterances.

    Utterances are matched as in `rescore.formats.pairs`: by id, else by audio file,
    else by order where the references of both systems are equal.

    Args:
        systems: The lists of each system.

    Raises:
        UserError: A system and the first system have different utterances.
    """
    (name, first), *others = systems.items()
    aligned = {name: list(first)}
    every = list(first)
    ids = {nbest.id for nbest in first}
    by_number = [name]
    for other, lists in others:
        pairing = _pairing(every, lists, (name, other), len(first))
        if pairing.is_by_number:
            by_number.append(other)
        aligned[other] = _matched(every, lists, pairing)
        # what the first system lacks is matched between the others
        new = [nbest for nbest in aligned[other] if nbest.id not in ids]
        every += new
        ids.update(nbest.id for nbest in new)
    tell_numbered(by_number)
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


def _pairing(
    every: Sequence[NbestList],
    lists: Sequence[NbestList],
    names: tuple[str, str],
    first: int,
) -> Pairing:
    """Return which list of another system is which of ours.

    Args:
        every: The lists of the first system, and those of others that it lacks.
        lists: The lists of the other system.
        names: The names of the first and of the other system.
        first: The number of lists of the first system.

    Raises:
        UserError: The systems have different utterances.
    """
    both = " and ".join(names)
    pairing = paired_outputs(every, lists, names, first)
    if pairing is None:
        ours = [nbest.id for nbest in every[:first]]
        theirs = [nbest.id for nbest in lists]
        raise UserError(
            f"{both}: their utterances do not match ({counted(first, 'utterance')} such"
            f" as {some(ours)}, and {len(theirs):,} such as {some(theirs)}): no common"
            " ids or audio files, and not the same references in the same order; give"
            " them the same ids, such as Kaldi text (rescore rerank --best NAME writes"
            " ids, --best NAME.txt writes plain lines), or plain references of both"
            " (--ref FILE --ref-format plain)"
        )
    return pairing


def _matched(
    every: Sequence[NbestList], lists: Sequence[NbestList], pairing: Pairing
) -> list[NbestList]:
    """Return the lists of another system with our ids, in our order; then the lists
    that we lack.

    Args:
        every: The lists of the first system, and those of others that it lacks.
        lists: The lists of the other system.
        pairing: Which list of the other system is which of ours.
    """
    pairing.tell()
    both = f"{pairing.ours.place} and {pairing.theirs.place}"
    pairs = []
    for own, place in zip(every, pairing.places, strict=False):
        if place is not None:
            pairs.append((own, lists[place]))
    _check_references(pairs, both)
    _check_texts(pairs, both)
    known = []
    for own, their in pairs:
        known.append(their if own.id == their.id else replace(their, id=own.id))
    return known + [lists[place] for place in pairing.left]


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


def _check_texts(pairs: Sequence[tuple[NbestList, NbestList]], both: str) -> None:
    """Warn if most utterances with one name have texts that are less alike than those
    of utterances beside them: the same id may name different utterances.
    """
    texts = []
    for pair in pairs:
        if all(nbest.hypotheses for nbest in pair):
            first, second = (nbest.hypotheses[0].text for nbest in pair)
            texts.append((pair[0].id, first, second))
    for most in (GLANCE, COMPARED):
        told, less = _less_alike(texts, most)
        if told < LEAST or 2 * len(less) <= told:
            return
    name, first, second = less[0]
    log.warning(
        "%s: the texts of %d of %s are less alike than those of utterances beside them"
        " (first: %s: %r and %r); if the same id names different utterances, give both"
        " outputs the same ids",
        both,
        len(less),
        counted(told, "utterance"),
        name,
        first[:40],
        second[:40],
    )


def _less_alike(
    texts: Sequence[tuple[str, str, str]], most: int
) -> tuple[int, list[tuple[str, str, str]]]:
    """Return how many utterances are more or less alike than those beside them, and
    those that are less alike.

    Args:
        texts: The id and both texts of each utterance.
        most: The number of utterances that are looked at, about.
    """
    told = 0
    less = []
    for place in range(0, len(texts), 1 + len(texts) // most):
        _, first, second = texts[place]
        ahead = texts[max(place - BESIDE, 0) : place]
        beside = [*ahead, *texts[place + 1 : place + 1 + BESIDE]]
        own = ratio(first, second)
        others = [ratio(first, other) for _, _, other in beside]
        highest = max(others, default=own)
        if own != highest:
            told += 1
        if own < highest:
            less.append(texts[place])
    return told, less


def _letters(text: str) -> str:
    """Return the letters and digits of a text, without case."""
    return "".join(filter(str.isalnum, text.casefold()))
