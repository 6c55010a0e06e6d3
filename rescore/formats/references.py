"""Texts of utterances: references, source texts, and 1-best outputs.

A file of texts is Kaldi text, sclite trn or plain lines; N-best lists and manifests
give references and source texts, too. Which text is of which utterance, and whether the
first words of a text are ids, is the answer of `rescore.formats.ids`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from rescore.errors import UserError, counted
from rescore.formats.alternatives import readings
from rescore.formats.fields import Fields, with_fields
from rescore.formats.ids import (
    Pairing,
    Side,
    Words,
    are_ids,
    are_numbers,
    check_ids,
    paired,
    some,
)
from rescore.formats.objects import first_record
from rescore.formats.roles import FIELDS, NO_FIELDS, KeysOfRoles, fields_of_texts
from rescore.formats.segments import (
    Segment,
    as_kaldi,
    check_of_utterances,
    text_lines,
    trn_lines,
)
from rescore.formats.source import NATIVE, TAGS, InputWarnings, Source
from rescore.formats.text import (
    Marks,
    add_once,
    marks_in,
    spelled_out,
    strip_markup,
    without_marks,
    without_tags,
)
from rescore.formats.texts import is_called_table, kind_of_texts, texts_by_id
from rescore.formats.understood import Understood, tell_fields, tell_files
from rescore.formats.wordlists import without_lists
from rescore.ids import is_path
from rescore.nbest import NbestList, with_left_out
from rescore.option_readers import reads
from rescore.parts import FORMATS
from rescore.readings import together

log = logging.getLogger(__name__)

Texts = dict[str, tuple[str, ...]]
"""The texts of each utterance by its id, in the order of a file or of lists."""

# --- references and sources of lists -------------------------------------------------


@dataclass(frozen=True, slots=True)
class References:
    """Files of references. An utterance has a reference from each of several files."""

    paths: tuple[str, ...]
    format: str | None = None
    """`kaldi`, `trn`, `plain`; None detects the format from the contents."""

    @classmethod
    def of(cls, files: str | Path | References) -> References:
        """Return files as a user names them: a path is a file whose format is detected.

        Args:
            files: The files, or the path of one.
        """
        return files if isinstance(files, References) else cls((str(files),))


def read_references(
    references: str | Path | References | Sequence[TextFile],
    ids: Sequence[str],
    escaped: bool = True,
) -> Texts:
    """Return the references of each utterance, from all files.

    N-best lists (and NeMo manifests) give their own references. A text file whose lines
    all end in `(id)` is trn; one whose lines begin with ids is Kaldi text; else it is
    plain, one line an utterance, in the order of `ids`, which are then numbers.

    Args:
        references: The files.
        ids: The utterances.
        escaped: Whether XML entities of the Moses tokeniser are undone, as in
            hypotheses.

    Returns:
        The references by id, in the order of `ids`.

    Raises:
        UserError: A file is damaged, or an utterance has no reference in it.
    """
    files = [file.beside(Side(ids)) for file in open_references(references)]
    for file in files:
        file.tell()
    return together_of(files, Marks.NONE if escaped else Marks.ENTITIES)


def together_of(files: Sequence[PairedTexts], kept: Marks = Marks.NONE) -> Texts:
    """Return the references of each utterance that has one in each file.

    Args:
        files: The files beside the same utterances.
        kept: The kinds of marks that stay in the texts.
    """
    per_file = [file.texts(kept) for file in files]
    texts = {}
    for name in per_file[0]:
        if all(name in by_id for by_id in per_file):
            texts[name] = together([by_id[name] for by_id in per_file])
    return texts


def open_references(
    references: str | Path | References | Sequence[TextFile],
    warnings: InputWarnings | None = None,
    fields: KeysOfRoles = NO_FIELDS,
) -> list[TextFile]:
    """Return the files of references, each read once: a pipe cannot be read again.

    Args:
        references: The files; open files are returned as they are.
        warnings: Collects repairs; with None, each file reports them itself.
        fields: The values of --field.
    """
    if isinstance(references, Sequence) and not isinstance(references, str):
        return list(references)
    named = References.of(references)
    files = []
    for path in named.paths:
        source = Source(path, warnings)
        files.append(TextFile(source, named.format, fields=fields))
    return files


def open_sources(
    sources: str | Path | References | TextFile,
    warnings: InputWarnings | None = None,
    fields: KeysOfRoles = NO_FIELDS,
) -> TextFile:
    """Return the file of source texts.

    Args:
        sources: The file: plain lines in the order of the lists, Kaldi text, a table
            with a column src, or lists in JSON. An open file is returned as it is.
        warnings: Collects repairs; with None, the file reports them itself.
        fields: The values of --field.

    Raises:
        UserError: The file has no source texts.
    """
    if isinstance(sources, TextFile):
        return sources
    named = References.of(sources)
    (path,) = named.paths
    form = named.format if named.format == "trn" else None
    source = Source(path, warnings)
    file = TextFile(source, form, sources=True, lines_as=named.format, fields=fields)
    if not file.of_lists and is_called_table(path):
        raise UserError(
            f"{path}: which columns have the ids and the sources? Say it with --field"
            " id=NAME --field src=NAME"
        )
    return file


def known_ids(files: Iterable[TextFile]) -> set[str]:
    """Return the ids of files, and the first words of lines that may be ids.

    Args:
        files: Files of references.
    """
    ids = set[str]()
    for file in files:
        ids.update(file.by_id or file.words.first)
    return ids


def with_references(
    lists: list[NbestList],
    references: str | Path | References | Sequence[TextFile],
    warnings: InputWarnings,
    allow_missing: bool,
) -> list[NbestList]:
    """Return the lists with references from files, whose utterances they must be.

    Args:
        lists: The lists.
        references: The files.
        warnings: Collects repairs.
        allow_missing: Whether references of utterances without a list, and lists
            without a reference, are left out and reported; otherwise they are an error.
            No list is left out for want of a source text.

    Raises:
        UserError: A list has no reference, or a file is damaged.
    """
    ours = Side([nbest.id for nbest in lists])
    files = []
    for file in open_references(references, warnings):
        files.append(file.beside(ours, allow_missing and file.is_of_references))
    texts = together_of(files, marks_left(lists))
    absent = check_left_out(files, "list", "lists", allow_missing)
    place = ", ".join(file.file.path for file in files)
    lists = with_known_references(lists, texts, place)
    every = [replace(nbest, references=texts[nbest.id]) for nbest in lists]
    every = with_fields(every, [file.fields for file in files])
    return with_left_out(every, absent)


def with_known_references(
    lists: list[NbestList], known: Collection[str], place: str
) -> list[NbestList]:
    """Return the lists of utterances that have references. The others are left out: a
    line says how many, and signatures have the number of all (`Header.left_out`).

    Args:
        lists: The lists.
        known: The utterances with references.
        place: The files of the references, for the line.
    """
    missing = [nbest.id for nbest in lists if nbest.id not in known]
    if not missing:
        return lists
    log.warning(
        "%s: no reference for %s of %s, which are left out (first: %s)",
        place,
        f"{len(missing):,}",
        counted(len(lists), "utterance"),
        missing[0],
    )
    kept = [nbest for nbest in lists if nbest.id in known]
    return with_left_out(kept, len(missing))


def marks_left(lists: Iterable[NbestList]) -> Marks:
    """Return the kinds of marks that hypotheses still have: readers of native lists
    leave texts as they are. Then references stay as they are, too.

    Args:
        lists: The lists.
    """
    left = Marks.NONE
    for nbest in lists:
        for hypothesis in nbest.hypotheses:
            left |= marks_in(hypothesis.text)
    return left


def with_sources(
    lists: list[NbestList],
    file: TextFile,
    warnings: InputWarnings,
    allow_missing: bool,
    understood: Understood | None = None,
) -> list[NbestList]:
    """Return the lists with the source texts of a file.

    Args:
        lists: The lists.
        file: The file of `open_sources`.
        warnings: Collects repairs.
        allow_missing: Whether source texts of utterances without a list are only
            reported; otherwise they are an error.
        understood: Is told the form of the file; else it is logged.

    Raises:
        UserError: A list has no source text, or the file has source texts of other
            lists.
    """
    texts = with_references(lists, [file], warnings, allow_missing)
    if understood is None:
        tell_files("src", [(file.path, file.form)])
    else:
        understood.add_files("src", [(file.path, file.form)])
    return [
        replace(nbest, source=text.references[0])
        for nbest, text in zip(lists, texts, strict=True)
    ]


def check_left_out(
    files: Sequence[PairedTexts], what: str, wanted: str, allowed: bool
) -> int:
    """Return the number of utterances of the files that ours lack, and report them: an
    error if that is not allowed. Also tell how the pairs were found.
    """
    lacking: set[str] = set()
    for file in files:
        absent = file.pairing.left_out
        if allowed or not absent:
            file.tell()
        if not absent:
            continue
        lacking.update(absent)
        place = file.pairing.theirs.place
        count = counted(len(file.pairing.theirs), "utterance")
        message = f"{place}: no {what} for {len(absent):,} of its {count}"
        if not allowed:
            raise UserError(
                f"{message}, first {some(absent)}; give {wanted} of the whole set, or"
                " --allow-missing"
            )
        log.warning(
            "%s (first: %s); these utterances are not measured", message, absent[0]
        )
    return len(lacking)


# --- files of texts ------------------------------------------------------------------


class TextFile:
    """A file of texts that is read once: references, source texts, or a 1-best output.

    Args:
        source: The file.
        format_name: `kaldi`, `trn`, `plain`; None detects the format.
        output: Whether the file has 1-best texts: each line is a text, even if it looks
            like JSON.
        sources: Whether the file has source texts: of lists these are read, not the
            references.
        lines_as: What the user says of lines that are neither lists nor trn: `kaldi`
            if their first words are ids, `plain` if they are in the order of the other
            side.
        fields: The values of --field, of which the file takes those that it has.

    Raises:
        UserError: The file is empty, or does not have this format.
    """

    def __init__(
        self,
        source: Source,
        format_name: str | None = None,
        output: bool = False,
        sources: bool = False,
        lines_as: str | None = None,
        fields: KeysOfRoles = NO_FIELDS,
    ) -> None:
        _check_kind(source, as_lines=bool(format_name) and not (output or sources))
        self.path = source.name
        self.roles = source.roles
        """Where ids and texts come from, for the line that says what was read."""
        self.format = format_name
        self._lines_as = lines_as or format_name
        self.is_of_references = not sources
        self._noun = "source text" if sources else "reference"
        is_detected = format_name is None and not output
        role = "src" if sources else "ref"
        self.named: dict[str, str] = {}
        """What --field says of the file."""
        kind = None
        if is_detected:
            self.named = fields_of_texts(fields, first_record(source), role)
            kind = kind_of_texts(source, role, self.named)
        if kind is None and self._lines_as is None:
            check_of_utterances(source, "outputs" if output else f"{self._noun}s")
        # a log of a toolkit such as fairseq has lists without being JSON
        translates = _translates(kind)
        self.of_lists = is_detected and (
            bool(source.peek.root) or translates or _has_references(kind)
        )
        self.of_translations = self.of_lists and (
            translates or "src" in source.peek.keys
        )
        self.form = tell_fields(self.named) if self.of_lists else "trn"
        """The form of a file of texts, for messages; certain after `beside`."""
        self.lines: list[str] = []
        self.fields: Mapping[str, Fields] = {}
        """The fields of the utterances of a file of lists."""
        self.by_id: Texts | None = None
        """The texts of a file that surely has ids: of lists and of trn."""
        self._has_marks = not self.of_lists
        """Whether the texts are as the file has them, with marks of toolkits."""
        if self.of_lists:
            self.by_id = self._texts_of_lists(source, kind or NATIVE, sources)
        else:
            self.lines = without_lists(list(source.lines()), self.path)
            self.lines = _lines_without_tags(source, self.lines)
            if format_name in (None, "trn"):
                self.by_id = _trn_texts(self._segments)
            self._check_lines(output)

    def _texts_of_lists(self, source: Source, kind: str, sources: bool) -> Texts:
        """Return the references or source texts of lists."""
        texts, self.fields = texts_by_id(source, kind, sources, self.named)
        if not texts:
            raise UserError(f"{self.path}: no {self._noun}s in it")
        # other readers make lists, whose texts have no marks
        self._has_marks = kind == NATIVE or reads(FORMATS[kind], FIELDS)
        for name, own in texts.items():
            texts[name] = tuple(map(without_tags, own))
            if texts[name] != own:
                source.warnings.add("text", TAGS, f"{self.path}: utterance {name}")
        return texts

    def _check_lines(self, output: bool) -> None:
        """Check that lines of text have the format they should have."""
        if not self.lines or not (output or any(map(str.strip, self.lines))):
            raise UserError(f"{self.path}: is empty")
        if self.format == "trn" and not self.by_id:
            raise UserError(f"{self.path}: not trn: a line does not end in (id)")
        if self._lines_as is None and self.by_id is None:
            check_ids([(line.place, line.text) for line in self._segments])

    @cached_property
    def _segments(self) -> list[Segment]:
        """The lines that are not empty."""
        places = text_lines(self.lines, self.path)
        return [place for place in places if isinstance(place, Segment)]

    @cached_property
    def words(self) -> Words:
        """The lines as a text whose first words may be ids."""
        return Words(self.lines, self.path, self._lines_as)

    @property
    def known(self) -> Side | Words:
        """What the file says of its ids: certain ids, or words that may be ids."""
        return self.words if self.by_id is None else self.side

    @property
    def side(self) -> Side:
        """The certain ids of lists or of trn; lines have none."""
        if self.by_id is None:
            return self.words.side
        return self.side_of(self.by_id)

    def side_of(self, ids: Iterable[str]) -> Side:
        """Return utterances of the file as a side; in trn, case does not count.

        Args:
            ids: Their ids.
        """
        is_trn = self.by_id is not None and not self.of_lists
        return Side(list(ids), self.path, ignores_case=is_trn)

    @cached_property
    def _kaldi_texts(self) -> Texts:
        """The texts of lines that begin with ids.

        Raises:
            UserError: Two lines have the same id.
        """
        return _by_id(map(as_kaldi, self._segments))

    def texts_beside(self, other: Side | TextFile | None = None) -> Texts | None:
        """Return the texts by their ids; None for lines without ids.

        Args:
            other: The other side, which tells whether the first words of lines are ids;
                None where nothing is known of it.

        Raises:
            UserError: Two lines have the same id, or ids cannot be told from words.
        """
        if self.by_id is not None:
            return self.by_id
        if other is None:
            other = Side(None, number=len(self.lines))
        if isinstance(other, TextFile):
            has_ids = are_ids(self.words, other.known)
        else:
            has_ids = are_ids(self.words, other)
        return self._kaldi_texts if has_ids else None

    def numbered_texts(self) -> Texts:
        """Return the lines as texts whose ids are their numbers, from 1."""
        return {str(number): (line,) for number, line in enumerate(self.lines, 1)}

    def texts_of_output(self, references: TextFile) -> Texts:
        """Return the 1-best texts by their ids; lines without ids get the ids of
        references, if these are numbered, or the numbers of the lines.

        Args:
            references: The references of the texts.

        Raises:
            UserError: The references have ids, and the lines have none.
        """
        texts = self.texts_beside(references)
        if texts is not None:
            return texts
        known = references.texts_beside(self)
        numbered = self.numbered_texts()
        if known is None or references.names_files(len(self.lines)):
            return numbered
        if known.keys() < numbered.keys():  # the first lines, or others by their number
            return numbered
        paired(self.words.side, Side(list(known), references.path))
        self.roles["id"] = f"the order of {references.path}"
        return {name: (line,) for name, line in zip(known, self.lines, strict=True)}

    def beside(self, ours: Side, may_lack: bool = False) -> PairedTexts:
        """Return the texts of some utterances.

        Args:
            ours: The utterances.
            may_lack: Whether some of them may have no text.

        Raises:
            UserError: An utterance has no text, or the ids of only one side are known.
        """
        by_id = self.texts_beside(ours)
        if by_id is None:
            self.form = IN_ORDER
            if self._has_first_lines(ours):
                pairing = self._first_lines(ours, may_lack)
            else:
                pairing = paired(ours, self.words.side)
            return PairedTexts(self, pairing, [(line,) for line in self.lines])
        theirs = self.side
        if self.by_id is None:
            self.form = "Kaldi text"
            theirs = self.side_of(by_id)
        pairing = paired(ours, theirs)
        if self._is_in_order(pairing):
            pairing = paired(ours, Side(None, self.path, len(by_id)))
        is_any_known = bool(pairing.found)
        kind = "ids are" if self.by_id is not None else "lines begin with ids"
        if not is_any_known:
            advice = OR_WORDS if self.by_id is None else ""
            if _have_numbers(pairing):
                advice = OR_SAMPLES
            pairing.check(self._noun, kind, advice)
        elif not may_lack:
            pairing.check(
                self._noun, kind, OR_LEAVE_OUT if self.is_of_references else OR_REMOVE
            )
        return PairedTexts(self, pairing, list(by_id.values()))

    def _has_first_lines(self, ours: Side) -> bool:
        """Return whether the lines may be references of the first utterances: they are
        fewer, and the utterances have the order of lines.
        """
        theirs = self.words.side
        has_order = ours.ids is None or ours.is_numbered or theirs.is_ordered
        return self.is_of_references and has_order and len(theirs) < len(ours)

    def _first_lines(self, ours: Side, may_lack: bool) -> Pairing:
        """Return the pairs of the first utterances and all lines.

        Raises:
            UserError: Each utterance has to have a line.
        """
        theirs = self.words.side
        number = len(theirs)
        count = counted(number, "line")
        utterances = counted(len(ours), "utterance")
        if not may_lack:
            raise UserError(
                f"{self.path}: {count} for {utterances} of {ours.place}; give one line"
                " an utterance, or leave out the utterances behind these lines:"
                " --allow-missing"
            )
        log.warning(
            "%s: its %s are taken for the first of %s: the lines have no ids",
            self.path,
            count,
            utterances,
        )
        places = (*range(number), *[None] * (len(ours) - number))
        return Pairing(ours, theirs, places)

    def _is_in_order(self, pairing: Pairing) -> bool:
        """Return whether the file is a manifest without ids beside lists that are
        numbered.
        """
        ids = pairing.ours.ids or ()
        if len(pairing.missing) < len(ids) or not are_numbers(ids):
            return False
        return self.names_files(len(ids))

    def names_files(self, number: int) -> bool:
        """Return whether the file is a manifest without ids: all names are those of
        audio files.

        Args:
            number: The number of names that the file has to have.
        """
        if not self.of_lists or self.by_id is None or len(self.by_id) != number:
            return False
        return all(map(is_path, self.by_id))

    def readings(
        self, name: str, texts: tuple[str, ...], kept: Marks
    ) -> tuple[str, ...]:
        """Return the texts that texts of the file stand for, without marks of toolkits.

        Args:
            name: The id of the utterance, for messages.
            texts: The texts; in trn, the only one may have alternatives.
            kept: The kinds of marks that stay.
        """
        if not self._has_marks:
            return texts
        if self.of_lists:
            return tuple(without_marks(text, kept) for text in texts)
        (text,) = texts
        if self.by_id is None:
            return (strip_markup(text, kept),)
        text = strip_markup(text, kept | Marks.ENTITIES)
        escaped = Marks.ENTITIES not in kept
        return readings(text, f"{self.path}: utterance {name}", escaped)


IN_ORDER = "lines in order"
"""The form of lines without ids, in the line about each set (`Understood`)."""
OR_WORDS = "; give both the same ids, or --ref-format plain if these are words"
"""What to do if the first words of lines look like ids that nobody knows."""
OR_SAMPLES = "; unite the samples of each: rescore convert --group-ids '(.*)[-_][0-9]+'"
"""What to do if ids have the number of a sample behind the id of a reference."""
OR_REMOVE = "; add them, or give lists of the other utterances alone"
"""What to do if some utterances have a source text, and others have none."""
OR_LEAVE_OUT = "; add them, or leave these utterances out: --allow-missing"
"""What to do if some utterances have a reference, and others have none."""


def _have_numbers(pairing: Pairing) -> bool:
    """Return whether each of our ids is an id of the other side and a number."""
    known = set(pairing.theirs.ids or ())
    parts = [_NUMBERED.fullmatch(name) for name in pairing.ours.ids or ()]
    return bool(parts) and all(part and part[1] in known for part in parts)


_NUMBERED = re.compile(r"(.+)[-_][0-9]+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class PairedTexts:
    """The texts of a file beside the utterances that they belong to."""

    file: TextFile
    pairing: Pairing
    values: Sequence[tuple[str, ...]]
    """The texts in the order of the file."""

    def texts(self, kept: Marks = Marks.NONE) -> Texts:
        """Return the texts by the ids of the utterances that have one, in their order;
        alternatives of trn are several texts.

        Args:
            kept: The kinds of marks that stay.
        """
        values = self.pairing.of(self.values)
        texts = {}
        for name, own in zip(self.pairing.found, values, strict=True):
            texts[name] = self.file.readings(name, own, kept)
        return texts

    def tell(self) -> None:
        """Tell how ids were matched, unless the line about the set does."""
        is_in_order = self.pairing.theirs.ids is None
        if self.file.is_of_references and is_in_order:
            return
        self.pairing.tell()

    @property
    def fields(self) -> dict[str, Fields]:
        """The fields of the utterances by their ids."""
        every = list(self.file.fields.values())
        if not every:
            return {}
        return dict(zip(self.pairing.found, self.pairing.of(every), strict=True))


def _check_kind(source: Source, as_lines: bool) -> None:
    """Check that a source is a file, and has lines of text if it is read as lines."""
    if source.is_folder:
        advice = "add --whole if each of its files is a recording, or give the file"
        if (source.path / "text").exists():
            advice = f"give {source.path / 'text'}, or another file"
        raise UserError(
            f"{source.name}: is a folder; {advice} with the texts of utterances"
        )
    if as_lines and source.peek.first:
        raise UserError(
            f"{source.name}: is JSON, not lines of text; leave out --ref-format"
        )


def _translates(kind: str | None) -> bool:
    """Return whether a toolkit of translation writes lists of a format."""
    return kind is not None and getattr(FORMATS[kind], "translates", False)


def _has_references(kind: str | None) -> bool:
    """Return whether a format has references or source texts of its own, so that its
    files are no lines of text.
    """
    if kind is None:
        return False
    reader = FORMATS[kind]
    return hasattr(reader, "texts") or getattr(reader, "has_references", False)


def _lines_without_tags(source: Source, lines: Sequence[str]) -> list[str]:
    """Return the lines of an output without tags such as `<|en|>`, which are told."""
    texts = []
    for number, line in enumerate(lines, 1):
        text = without_tags(line)
        if text != line:
            source.warnings.add("line", TAGS, f"{source.name}: line {number}")
        texts.append(text)
    return texts


def _trn_texts(lines: Iterable[Segment]) -> Texts | None:
    """Return the texts of a trn by their ids; None if a line has no id, or without
    texts.
    """
    segments = trn_lines(lines)
    if not segments:
        return None
    spelled = spelled_out([segment.text for segment in segments])
    return _by_id(
        segment._replace(text=text)
        for segment, text in zip(segments, spelled, strict=True)
    )


def _by_id(lines: Iterable[Segment]) -> Texts:
    """Return the texts of lines by their ids.

    Raises:
        UserError: Two lines have the same id.
    """
    texts: Texts = {}
    for line in lines:
        add_once(texts, line.id or "", (line.text,), line.place)
    return texts
