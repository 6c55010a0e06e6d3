"""An output of a system: N-best lists, or 1-best texts as lists of one hypothesis."""

from __future__ import annotations

from typing import Any

from rescore.columns import FIRST_PASS
from rescore.dataset import Dataset
from rescore.errors import UserError
from rescore.formats.one_best import read_best
from rescore.formats.reading import (
    check_options,
    options_of_lists,
    read,
    reader_name,
)
from rescore.formats.references import (
    References,
    known_ids,
    open_references,
    open_sources,
    with_sources,
)
from rescore.formats.roles import given_fields
from rescore.formats.source import InputWarnings, ReadOptions, Source
from rescore.formats.texts import format_beside, if_lists, is_table
from rescore.formats.understood import TEXT, Understood
from rescore.formats.unknown import is_lattice, unknown
from rescore.nbest import NbestList, as_first_pass


def is_text(
    source: Source, format_name: str | None = None, options: ReadOptions | None = None
) -> bool:
    """Return whether a path holds 1-best texts: no format of N-best lists fits.

    Args:
        source: The path.
        format_name: The format that the user named; None detects the format.
        options: The options of formats.
    """
    if source.is_folder:
        return False
    return reader_name(source, format_name, options) in (None, TEXT)


def read_output(
    path: str, references: str | References | None = None, **options: Any
) -> Dataset:
    """Return N-best lists, or 1-best texts as lists of one hypothesis. The output of
    reranked lists is what reranking chose (`rescore.nbest.as_first_pass`).

    Args:
        path: As of `read_lists_or_texts`, as the next arguments.
        references: As of `read_lists_or_texts`.
        **options: As of `read_lists_or_texts`.

    Raises:
        UserError: As of `read_lists_or_texts`.
    """
    lists = read_lists_or_texts(path, references, **options)
    if options.get("s2s", FIRST_PASS) != FIRST_PASS:
        return lists
    return Dataset(map(as_first_pass, lists))


def read_lists_or_texts(
    path: str, references: str | References | None = None, **options: Any
) -> Dataset:
    """Return N-best lists as they stand, or 1-best texts as lists of one hypothesis.

    Args:
        path: A file, a folder or `-`.
        references: Files of references. Without them, the path must hold lists.
        **options: Further arguments of `rescore.formats.read`.

    Raises:
        UserError: The path can be read as neither, or references are missing.
    """
    warnings = InputWarnings(bool(options.get("strict")))
    with warnings.reported():
        return Dataset(_lists_or_texts(path, references, warnings, options))


def _lists_or_texts(
    path: str,
    references: str | References | None,
    warnings: InputWarnings,
    options: dict[str, Any],
) -> list[NbestList]:
    """Return the lists of `read_lists_or_texts`, whose arguments these are.

    Args:
        path: A file, a folder or `-`.
        references: Files of references.
        warnings: Collects repairs.
        options: Further arguments of `rescore.formats.read`.
    """
    allow_missing = bool(options.get("allow_missing"))
    # one source for texts and for lists: a pipe cannot be opened again
    source = Source(path, warnings)
    read_options = options.get("options") or ReadOptions()
    fields = given_fields(read_options)
    files = None
    if references is not None:
        files = open_references(references, warnings, fields)
    sources = options.get("sources")
    if sources is not None:
        sources = open_sources(sources, warnings, fields)
        options["sources"] = sources
    beside = [*(files or ()), sources]
    options["options"] = options_of_lists([source], read_options, beside)
    if files is not None and options.get("format_name") is None:
        options["format_name"] = format_beside([source], known_ids(files))
    if files is not None and is_text(
        source, options.get("format_name"), options.get("options")
    ):
        if is_lattice(source) or is_table(source):
            raise UserError(f"{path}: {unknown(source)}")
        s2s = options.get("s2s", FIRST_PASS)
        named = options.get("format_name")
        check_options([source], named, s2s, options.get("options"))
        try:
            lists = read_best(source, files, allow_missing)
        except UserError as error:
            if not source.head.strip():
                raise UserError(f"{source.name}: is empty") from None
            raise UserError(f"{error}{if_lists(source)}") from None
        understood = Understood.of_texts(source, lists, source.roles)
        understood.add_files("ref", [(file.path, file.form) for file in files])
        if sources is not None:
            lists = with_sources(lists, sources, warnings, allow_missing, understood)
        understood.tell()
    else:
        dataset = read(
            [path] if source.is_folder else [source],
            references=files,
            need_references=True,
            **options,
        )
        lists = list(dataset)
    return lists
