"""Reading N-best lists: from paths, or JSON in memory, to checked lists.

The format of a path is detected by looking inside. Every list that leaves this module
has hypotheses, a first-pass score for each, and a header with the name of its file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

from rescore.columns import FIRST_PASS, FROM_FILE, SUM
from rescore.dataset import Dataset
from rescore.errors import OptionError, UserError, listed
from rescore.files import shown
from rescore.formats.fields import Fields, or_field, other_system, systems_in
from rescore.formats.first_pass import is_mean, make_sound
from rescore.formats.folders import with_files_of_folders
from rescore.formats.merging import grouped, merged
from rescore.formats.objects import COMMAS, TABS, first_record
from rescore.formats.references import (
    References,
    TextFile,
    known_ids,
    open_references,
    open_sources,
    with_known_references,
    with_references,
    with_sources,
)
from rescore.formats.roles import (
    FIELDS,
    fields_of_lists,
    given_fields,
    keys_of,
)
from rescore.formats.scores import ScoreFile, with_scores
from rescore.formats.shaped import Shaped, ShapeOptions
from rescore.formats.shapes import OTHER_PLACES
from rescore.formats.source import (
    NATIVE,
    TWICE,
    UNREAD,
    InputWarnings,
    ReadOptions,
    Source,
    read_once,
    sniff,
)
from rescore.formats.text import duplicated
from rescore.formats.texts import RECORDS, format_beside
from rescore.formats.understood import TEXT, Understood
from rescore.formats.unknown import unknown
from rescore.ids import without_blanks
from rescore.nbest import Header, NbestList, are_means
from rescore.option_readers import check_read, options_of
from rescore.parts import FORMATS

log = logging.getLogger(__name__)

SHAPED = "speech"
"""A format that takes the options of a shape that the user describes."""


class Format(Protocol):
    """A module (or object) that reads N-best lists of one toolkit.

    A reader of lines is a subclass of `rescore.formats.rows.RowFormat`, which has
    `read`. A format may have more:

    - `Options`: a dataclass with the options of its reader.
    - `place`: where it stands in the order of detection
      (`rescore.formats.source.Place`).
    - `write(lists, path)`: writes lists; with a true `holds_choice`, it gets the
      combined scores of reranked lists.
    - `parts`: patterns of files that stand in a folder as the parts of one set.
    - `has_references`, `translates`: whether `--ref` and `--src` read such files.
    - `texts(source, role)`: yields these texts, if the lists do not hold them.
    - `are_samples`: whether hypotheses without scores are samples, which have no
      order.
    - `has_means`: whether lists may have the column `sum` beside means.
    - `are_lists_of(source, ids)`: whether a file that `sniff` does not take for lists
      has lists of the utterances with references (True), or a text of each (False);
      None if this is not certain. With `may_be_lists(source)`, messages about such a
      file name the format.
    """

    def sniff(self, source: Source) -> bool:
        """Return whether the source has this format, judged by its head or its files.

        Args:
            source: A file, a folder or a stream.
        """
        ...

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Yield the lists, one after another.

        Args:
            source: A file, a folder or a stream of this format.
            options: The options of all formats that are set.
        """
        ...


# --- reading -------------------------------------------------------------------------


def iterate(
    paths: Sequence[str | Path | Source],
    format_name: str | None = None,
    s2s: str = FIRST_PASS,
    strict: bool = False,
    options: ReadOptions | None = None,
    told: bool = False,
    merge: bool = False,
    understood: Understood | None = None,
) -> Iterator[NbestList]:
    """Return the N-best lists of one or several paths, checked: code behind it checks
    no list again.

    Args:
        paths: Files, folders (also of JSON Lines), or `-`, which are read one after
            another.
        format_name: A key of `FORMATS`; None detects the format.
        s2s: The column to use as first-pass score, which becomes `s2s`; `rank` for the
            order of the file.
        strict: Whether oddities that can be repaired
            (`rescore.formats.source.InputProblem`) are errors instead of warnings.
        options: Settings of single formats.
        told: Whether the progress of a long reading is logged.
        merge: Whether lists of several files with one id are one list; all lists are
            then held in memory.
        understood: Is told what is read.

    Returns:
        A stream of lists.

    Raises:
        UserError: A path has no known format or is damaged, a list lacks scores or has
            the id of another, or there is no list.
    """
    seen = _Ids(merge)
    understood = understood or Understood(paths)
    lists = _each(paths, format_name, s2s, strict, options, told, seen, understood)
    if options and options.group_ids:
        lists = grouped(lists, options.group_ids)
    if merge:
        return merged(lists)
    return lists


def _each(
    paths: Sequence[str | Path | Source],
    format_name: str | None,
    s2s: str,
    strict: bool,
    options: ReadOptions | None,
    told: bool,
    seen: _Ids,
    understood: Understood,
) -> Iterator[NbestList]:
    """Yield each list of each file, checked.

    Args:
        paths: As of `iterate`, as the next arguments.
        format_name: As of `iterate`.
        s2s: As of `iterate`.
        strict: As of `iterate`.
        options: As of `iterate`.
        told: As of `iterate`.
        seen: Checks the ids.
        understood: Is told what is read.
    """
    warnings = InputWarnings(strict)
    options = _for_readers(options or ReadOptions(), s2s, len(paths) > 1)
    advice = ""
    with warnings.reported():
        for source in opened_all(paths, warnings, format_name, s2s, options):
            for nbest in lists_in(
                source, options, warnings, format_name, s2s, strict, told, understood
            ):
                seen.add(nbest, source, options.in_python)
                yield nbest
            if source.peek.root:
                advice = f"; {OTHER_PLACES}"
    if not seen:
        raise UserError(f"{_names(paths)}: no N-best list in it{advice}")


def lists_in(
    source: Source,
    options: ReadOptions,
    warnings: InputWarnings,
    format_name: str | None = None,
    s2s: str = FIRST_PASS,
    strict: bool = False,
    told: bool = False,
    understood: Understood | None = None,
) -> Iterator[NbestList]:
    """Yield the N-best lists of one input whose options are checked (`check_options`).

    Args:
        source: The input.
        options: The options of formats.
        warnings: Collects problems of the lists.
        format_name: As of `iterate`.
        s2s: The column to use as first-pass score.
        strict: Whether oddities are errors.
        told: Whether the progress of a long reading is logged.
        understood: Is told what is read.

    Raises:
        UserError: The input has no known format, or is damaged.
    """
    name = reader_name(source, format_name, options)
    reader = _format(source, name, options)
    understood = understood or Understood([source])
    understood.system = options.system
    lists = reader.read(source, options)
    if name and name not in FORMATS.shipped:
        lists = _with_places(lists, source, name)
    if told:
        lists = source.timed(lists)
    headers = _Headers(source, reader, s2s)
    are_samples = getattr(reader, "are_samples", False)
    for nbest in lists:
        nbest.id = without_blanks(nbest.id)
        place = f"{source.name}: utterance {nbest.id}"
        scores = options.scores_beside
        make_sound(nbest, place, s2s, warnings, are_samples, scores)
        nbest.header = headers.of(nbest)
        # the command that added columns of scores has reported copies already
        if (strict or not _is_scored(nbest)) and _has_copies(nbest):
            warnings.add("list", TWICE, place)
        understood.add(nbest)
        yield nbest
    understood.end(source, name or SHAPED, s2s)
    if source.has_rest:
        warnings.add("file", UNREAD, source.name)


def _with_places(
    lists: Iterable[NbestList], source: Source, name: str
) -> Iterator[NbestList]:
    """Yield the lists that the format of another package reads; an error that it does
    not expect names the place in the file.

    Args:
        lists: The lists.
        source: The file.
        name: The name of the format.

    Raises:
        UserError: The format raised an error.
    """
    try:
        yield from lists
    except UserError:
        raise
    except Exception as error:
        place = f"{source.name}: line {source.line}" if source.line else source.name
        raise UserError(
            f"{place}: format {name} of another package cannot read this"
            f" ({type(error).__name__}: {' '.join(str(error).split())}); is it"
            f" a file of this format?"
        ) from error


def _for_readers(options: ReadOptions, s2s: str, several: bool) -> ReadOptions:
    """Return the options, which tell readers the column of the first pass, and whether
    several inputs are read.
    """
    if s2s == options.first_pass and several == options.several:
        return options
    options = copy(options)
    options.first_pass = s2s
    options.several = several
    return options


class _Ids:
    """The ids of the lists that were read, and where each was: no two utterances share
    an id.

    Args:
        merge: Whether lists of several files may share an id.
    """

    def __init__(self, merge: bool) -> None:
        self._merge = merge
        self._places: dict[str, str] = {}
        self._sources: dict[str, Source] = {}
        """The last file with each id."""
        self._systems: dict[str, Fields] = {}
        """The systems that the first list of an id names."""

    def __len__(self) -> int:
        return len(self._places)

    def add(self, nbest: NbestList, source: Source, in_python: bool) -> None:
        """Add a list.

        Args:
            nbest: The list.
            source: Its file.
            in_python: Whether messages name options as Python does.

        Raises:
            UserError: Another list has its id.
        """
        place = nbest.place or f"{source.name}: list {len(self) + 1}"
        first = self._places.setdefault(nbest.id, place)
        before = self._sources.get(nbest.id, source)
        self._sources[nbest.id] = source
        systems = systems_in(nbest.fields)
        if systems:
            self._systems.setdefault(nbest.id, systems)
        if first is place or (self._merge and before is not source):
            return
        known = self._systems.get(nbest.id, {})
        system = other_system(systems, known)
        if before is source and system:
            names = f"{known[system]}, {systems[system]}"
            advice = (
                f": keep the lines of one {system} ({names}), or eval or combine with"
                f" --field system={system} if the lines of each {system} are an output"
            )
        elif before is source:
            advice = ", and all its lines together (sort them by id)"
        else:
            option = "merge=True" if in_python else "--merge"
            advice = f", or {option} to unite the lists of several files"
        raise duplicated(nbest.id, place, first, advice)


def read(
    paths: Sequence[str | Path | Source],
    *,
    references: str | Path | References | Sequence[TextFile] | None = None,
    format_name: str | None = None,
    s2s: str = FIRST_PASS,
    need_references: bool = False,
    ref_option: str = "--ref",
    strict: bool = False,
    options: ReadOptions | None = None,
    allow_missing: bool = False,
    sources: str | Path | References | TextFile | None = None,
    merge: bool = False,
    scores: Sequence[str | Path] = (),
) -> Dataset:
    """Return all lists of `iterate`, with references, source texts and further columns
    from other files.

    Args:
        paths: As of `iterate`.
        references: Files of references (Kaldi text, trn or plain lines, lists), which
            replace the references in the lists.
        format_name: As of `iterate`.
        s2s: As of `iterate`.
        need_references: Whether lists without references are an error.
        ref_option: The option that messages about missing references name.
        strict: As of `iterate`.
        options: As of `iterate`.
        allow_missing: Whether references of utterances without a list, and lists
            without a reference, are left out and reported; otherwise they are an error.
        sources: A file of source texts (Kaldi text, plain lines, a table with a column
            src, or lists), which replace the source texts in the lists.
        merge: As of `iterate`.
        scores: Files with columns of scores, one of which `s2s` may name.

    Raises:
        UserError: As of `iterate`; or references, or scores, are missing.
    """
    warnings = InputWarnings(strict)
    files: list[TextFile] = []
    if references is not None or sources is not None or scores:
        paths = [read_once(path, warnings) for path in paths]
    options = options or ReadOptions()
    fields = given_fields(options)
    if references is not None:
        files = open_references(references, warnings, fields)
        format_name = format_name or format_beside(paths, known_ids(files))
    source_file = None
    if sources is not None:
        source_file = open_sources(sources, warnings, fields)
    understood = Understood(paths)
    score_files = [ScoreFile(Source(path), fields) for path in scores]
    beside = [*files, source_file, *score_files]
    options = copy(options_of_lists(paths, options, beside))
    first_pass, of_file = s2s, FIRST_PASS
    for file in score_files:
        options.scores_beside = (*options.scores_beside, *file.columns)
        if s2s in file.columns:
            first_pass, of_file = FIRST_PASS, s2s
            understood.roles["score"] = f"{s2s} of {file.path}"
    lists = list(
        iterate(
            paths,
            format_name,
            first_pass,
            strict,
            options,
            told=True,
            merge=merge,
            understood=understood,
        )
    )
    if references is not None:
        lists = with_references(lists, files, warnings, allow_missing)
        named = [(file.path, file.form) for file in files]
        understood.add_files("ref", named, replace=understood.references > 0)
    if source_file is not None:
        lists = with_sources(lists, source_file, warnings, allow_missing, understood)
    warnings.report()
    understood.tell()
    known = {nbest.id for nbest in lists if nbest.references}
    missing = [nbest.id for nbest in lists if nbest.id not in known]
    if known and allow_missing:
        lists = with_known_references(lists, known, _names(paths))
    elif missing and (need_references or known):
        option = "allow_missing=True" if options.in_python else "--allow-missing"
        instead = or_field(lists, "ref", options.in_python)
        if known:
            instead = f", or {option} to leave them out"
        raise UserError(
            f"{_names(paths)}: utterance {missing[0]}: no reference ({len(missing)} of"
            f" {len(lists)} missing); give {ref_option} FILE{instead}"
        )
    if score_files:
        are_united = merge or options.group_ids is not None
        return with_scores(lists, score_files, allow_missing, of_file, are_united)
    return Dataset.of(lists)


def from_json(value: Any, place: str) -> NbestList:
    """Return a list from JSON that is in memory, with the checks of files: the border
    of requests and of Python.

    Args:
        value: The list, as a line of native JSON Lines has it.
        place: Where the value comes from, for messages.

    Raises:
        UserError: The value is no list, or a score is no number.
    """
    nbest = FORMATS["native"].from_json(value, place)
    make_sound(nbest, place, FIRST_PASS, InputWarnings())
    return nbest


# --- paths and their formats ---------------------------------------------------------


def opened_all(
    paths: Sequence[str | Path | Source],
    warnings: InputWarnings,
    format_name: str | None,
    s2s: str,
    options: ReadOptions | None,
) -> Iterator[Source]:
    """Yield the inputs, after it is seen that one of their readers, or of the readers
    of `ReadOptions.beside`, takes each option.

    Args:
        paths: Files, folders and streams.
        warnings: Collects repairs.
        format_name: As of `iterate`.
        s2s: As of `iterate`.
        options: The options of formats.

    Raises:
        OptionError: No reader takes an option.
    """
    sources = (
        path if isinstance(path, Source) else Source(path, warnings)
        for path in with_files_of_folders(paths, told=True)
    )
    if not _has_options(s2s, options):
        return sources
    known = list(sources)
    check_options(known, format_name, s2s, options)
    return iter(known)


def _has_options(s2s: str, options: ReadOptions | None) -> bool:
    """Return whether an option says how lists are read."""
    return s2s != FIRST_PASS or bool(options and options.values)


def check_named(format_name: str | None, options: ReadOptions, has_texts: bool) -> None:
    """See, before anything is read, that the format which the user names takes each
    option of formats. (Where the input says the format, `check_options` asks.)

    Args:
        format_name: The format; None if the user names none.
        options: The options of formats.
        has_texts: Whether references, sources or scores are read beside the lists:
            they read --field, too.

    Raises:
        OptionError: It does not take an option.
    """
    if format_name is None:
        return
    chooser = "format" if options.in_python else "--format"
    beside = [FIELDS] if has_texts else []
    python = options.in_python
    check_read(chooser, FORMATS, [format_name], options, beside, python=python)


def check_options(
    sources: Sequence[Source],
    format_name: str | None,
    s2s: str,
    options: ReadOptions | None,
) -> None:
    """See that the reader of some input, or of `ReadOptions.beside`, takes each option.

    Args:
        sources: The inputs.
        format_name: As of `iterate`.
        s2s: As of `iterate`.
        options: The options of formats.

    Raises:
        OptionError: No reader takes an option.
    """
    if not _has_options(s2s, options):
        return
    options = options or ReadOptions()
    names = {}
    for source in sources:
        names[source.name] = reader_name(source, format_name, options)
    for path in options.beside:
        if path == "-" or not Path(path).exists():
            return  # its reader is not known: it cannot be read twice
        for one in with_files_of_folders([path]):
            source = one if isinstance(one, Source) else Source(one)
            if not source.is_folder and not source.is_regular:
                return
            names[source.name] = reader_name(source, format_name, options)
    known = [name for name in names.values() if name and name != TEXT]
    (place, name), *_ = names.items()
    found = f"; {place[-100:]} is {name or TEXT}"
    if name in (None, TEXT) and given_fields(options):
        first_line = sources[0].head.partition("\n")[0].rstrip("\r")
        found += f", and its first line is {first_line[:80]!r}"
    if name == NATIVE and given_fields(options):
        found += f" without {listed(sorted(_keys(options)), room=60, between=' and ')}"
    if s2s != FIRST_PASS and not known:
        raise OptionError(f"--s2s needs N-best lists{found}")
    check_read(
        "format" if options.in_python else "--format",
        FORMATS,
        known,
        options,
        python=options.in_python,
        why=found,
    )


def reader_name(
    source: Source, format_name: str | None, options: ReadOptions | None
) -> str | None:
    """Return the name of the format with which an input is read; None if no format
    fits.

    --field chooses a reader of tables or records where the input has their shape;
    --shape describes the input itself.

    Args:
        source: Any input.
        format_name: The format that the user names; None detects the format.
        options: The options of formats.
    """
    if format_name:
        return format_name
    if options and options.of(ShapeOptions).shape is not None:
        return SHAPED
    name = sniff(source)
    if not given_fields(options) or (name and _takes_fields(name)):
        return name
    if name == NATIVE and not FORMATS[name].has_keys(source, _keys(options)):
        return name
    if source.peek.root:
        return RECORDS
    return named_table(source, options) or name


def _takes_fields(name: str) -> bool:
    """Return whether the reader of a format takes --field."""
    return any(option.name == FIELDS for option in options_of(FORMATS[name]))


def _keys(options: ReadOptions | None) -> set[str]:
    """Return the keys that --field names."""
    fields = given_fields(options)
    keys: set[str] = set()
    for role in fields:
        keys.update(key.removeprefix("-") for key in keys_of(fields, role))
    return keys


def options_of_lists(
    paths: Sequence[str | Path | Source],
    options: ReadOptions,
    beside: Iterable[TextFile | ScoreFile | None],
) -> ReadOptions:
    """Return the options with which lists are read: without the keys of --field that
    files beside the lists have, and the lists lack.

    Args:
        paths: The lists.
        options: The options of all files.
        beside: The files of references, source texts or scores.
    """
    elsewhere = set[str]()
    for file in beside:
        if file is not None:
            elsewhere.update(file.named.values())
    if not elsewhere:
        return options
    firsts = []
    take_fields = False
    for path in with_files_of_folders(paths):
        source = path if isinstance(path, Source) else Source(path)
        firsts.append(first_record(source))
        kind = sniff(source)
        take_fields = take_fields or kind is None or _takes_fields(kind)
    own = copy(options)
    own.values = dict(options.values)
    fields = given_fields(options)
    own.values[FIELDS] = fields_of_lists(fields, firsts, elsewhere, take_fields)
    if not own.values[FIELDS]:
        del own.values[FIELDS]
    return own


def named_table(source: Source, options: ReadOptions | None) -> str | None:
    """Return the kind of table whose first line has a name that --field gives.

    Args:
        source: Any file.
        options: The options of formats.

    Returns:
        `tsv`, `csv`, or None if the first line does not have such a name.
    """
    keys = _keys(options)
    for name, form in (("tsv", TABS), ("csv", COMMAS)):
        columns = form.names(source)
        if len(columns) < 2:
            continue
        for column in columns:
            if any(fnmatchcase(column.lower(), key.lower()) for key in keys):
                return name
    return None


def _format(source: Source, name: str | None, options: ReadOptions) -> Format:
    """Return the format with this name, or the reader of the user's shape.

    Raises:
        UserError: There is neither a name nor a shape: no format fits.
    """
    shape = options.of(ShapeOptions).shape
    if shape is not None:
        return Shaped("", [shape])
    if name is None:
        raise UserError(f"{source.name}: {unknown(source)}")
    return FORMATS[name]


def _names(paths: Sequence[str | Path | Source]) -> str:
    """Return the names of the paths for a message."""
    return ", ".join(
        path.name if isinstance(path, Source) else str(path) for path in paths
    )


class _Headers:
    """The headers of the lists of one file: one object for lists with equal headers."""

    def __init__(self, source: Source, reader: Format, s2s: str) -> None:
        self._name = shown(source.name)
        self._source = source
        self._s2s = s2s
        self._has_means = getattr(reader, "has_means", False)
        self._translates = getattr(reader, "translates", False)
        self._read: Header | None = None
        """The header of the list before, as the reader made it."""
        self._complete = Header()

    def of(self, nbest: NbestList) -> Header:
        """Return the reader's header of a list, with what is known of the file."""
        header = nbest.header
        if header != self._read:
            self._read = header
            has_means = header.scores_are_means or self._has_means
            self._complete = replace(
                header,
                name=self._name,
                translates=header.translates or self._translates,
                scores_are_means=self._are_means(nbest),
            )
            if not has_means and SUM in nbest.column_names:
                # A name alone says nothing of the other scores.
                self._complete = self._complete.with_records({SUM: FROM_FILE})
        return self._complete

    def _are_means(self, nbest: NbestList) -> bool:
        """Return whether first-pass scores are means: the name of their key or column
        says so, or native lists, or a column `sum` beside them.
        """
        is_own = self._s2s == FIRST_PASS
        if is_mean(self._source.score if is_own else self._s2s):
            return True
        says_means = nbest.header.scores_are_means
        if says_means and SUM not in nbest.column_names:
            return is_own
        return (says_means or self._has_means) and are_means(nbest)


def _is_scored(nbest: NbestList) -> bool:
    """Return whether a command of this package has added columns of scores."""
    columns = nbest.header.records.values()
    return any(not column.is_component for column in columns)


def _has_copies(nbest: NbestList) -> bool:
    """Return whether two hypotheses have the same text."""
    texts = {hypothesis.text for hypothesis in nbest.hypotheses}
    return len(texts) < len(nbest.hypotheses)
