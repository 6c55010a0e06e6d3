"""Messages about paths of no known format: what the path may hold, and what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rescore.errors import listed
from rescore.formats.ids import begin_with_ids
from rescore.formats.objects import first_record
from rescore.formats.segments import OF_RECORDINGS, form_of_recordings
from rescore.formats.source import Source, sniff
from rescore.formats.tables import NUMBER
from rescore.formats.text import split_trn
from rescore.formats.texts import if_lists, is_called_table, is_table
from rescore.formats.wide import numbered
from rescore.parts import FORMATS

LISTS = (
    "write N-best lists (Kaldi: lattice-to-nbest and nbest-to-linear), or lattices of"
    " HTK or SRILM"
)
_BINARY_LATTICE = re.compile(r"~.\0\0\0\w+.\0\0\0\w", re.DOTALL)
"""The head of an OpenFst file: a magic number, then the type with its length."""


def is_lattice(source: Source) -> bool:
    """Return whether a file is a lattice of OpenFst or Kaldi.

    Args:
        source: A lattice as text (arcs between states) or binary, also in an archive;
            or any other file.
    """
    if _BINARY_LATTICE.search(source.head):
        return True
    lines = source.head.partition("\n\n")[0].strip().split("\n")
    if len(lines[0].split()) == 1:  # the id of an archive
        lines = lines[1:]
    states = set()
    targets = set()
    for line in lines:
        cells = line.split()
        if cells:
            states.add(cells[0])
        if len(cells) > 2:
            targets.add(cells[1])
    linked = len(targets) > 1 and 2 * len(targets & states) > len(targets | states)
    return linked and all(map(str.isdecimal, states))


def unknown(source: Source) -> str:
    """Return the message about a path of no known format.

    Args:
        source: The path.

    Returns:
        The nearest format and what the path lacks, without the name of the path.
    """
    if source.is_folder:
        return _unknown_folder(source)
    if not source.head.strip():
        return "is empty"
    if is_lattice(source):
        return f"a lattice of OpenFst or Kaldi, which is not read; {LISTS}"
    form = form_of_recordings(source)
    if form is not None and not is_called_table(source.path):
        return (
            f"is {OF_RECORDINGS[form]}, for whole recordings, and no N-best list; to"
            f" measure it: rescore eval {source.name} --whole --ref FILE"
            f"{if_lists(source)}"
        )
    if re.search(r"\|\s*fairseq", source.head):
        return (
            "a fairseq log that ends before its first S- or H- line; let"
            " fairseq-generate run to its end"
        )
    first, *others = source.head.split("\n")
    whole_lines = [first, *others[:-1]]  # the head may end within the last line
    cells = re.split(r"\t" if "\t" in first else "[,;]", first.rstrip("\r"))
    if len(cells) > 2 and any(map(NUMBER.fullmatch, cells)):
        return (
            "the first line of a table names the columns; add a line such as"
            f" id,text,score before {first[:60]!r}"
        )
    columns = list(first_record(source))
    if is_table(source):
        return _which_column(columns)
    if begin_with_ids(whole_lines) or split_trn(first):
        return (
            "a 1-best text, with one text for each utterance; to measure it: rescore"
            f" eval {source.name} --ref FILE (its errors: rescore analyse)"
            f"{if_lists(source)}"
        )
    first = first.rstrip("\r")
    if "\t" in first or first.count(",") > 1:
        return _which_column(first.split("\t" if "\t" in first else ","))
    return (
        "not an N-best list of a known format; lines of plain text are OpenNMT's where"
        " each sentence has N of them (--format opennmt --nbest-size N); formats are"
        f" {', '.join(FORMATS.names)}"
    )


def _which_column(names: Sequence[str]) -> str:
    """Return the question about a table without a known column of hypotheses."""
    return (
        "which column has the hypotheses? Say it with --field text=NAME"
        f" ({listed(names, room=80)}){numbered(names)}"
    )


def _unknown_folder(source: Source) -> str:
    """Return the message about a folder of no known format."""
    sets = []
    for path in sorted(source.path.iterdir()):
        if path.is_dir() and sniff(Source(path)):
            sets.append(path.name)
    if sets:
        return (
            f"a folder of several sets; it holds {listed(sets)}: give"
            f" {source.path / sets[0]}"
        )
    files = source.files()
    if not files:
        return (
            "a folder without N-best lists: no logdir/output.*/1best_recog (ESPnet2),"
            " no data.json (ESPnet1), no words_text (Kaldi), no files of SRILM, no"
            " fairseq log"
        )
    file = files[0]
    format_name = sniff(file)
    if format_name is not None:
        return (
            f"a folder of files with N-best lists ({format_name}); give the files:"
            f" {source.path / f'*{file.path.suffix}'}"
        )
    if file.path.suffix == ".fst" or is_lattice(file):
        return (
            f"a folder of OpenFst lattices ({file.path.name}), which are not read;"
            f" {LISTS}"
        )
    return (
        f"a folder without N-best lists; its first file is {file.path.name}. If each"
        f" file is the text of a whole recording: rescore eval {source.name}"
        " --whole --ref REF; for 1-best texts of utterances give the file"
    )
