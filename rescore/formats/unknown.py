"""What a path of no known format may be, and what to do with it."""

from __future__ import annotations

import re

from rescore.formats.source import Source, sniff
from rescore.formats.text import begin_with_ids
from rescore.parts import FORMATS

LISTS = (
    "write N-best lists (Kaldi: lattice-to-nbest and nbest-to-linear), or lattices of"
    " HTK or SRILM"
)


def is_lattice(source: Source) -> bool:
    """Whether a file is a lattice of OpenFst or Kaldi, as text (arcs between states) or
    binary, also in an archive.
    """
    lines = source.head.partition("\n\n")[0].strip().split("\n")
    # an archive begins with an id
    rows = [line.split() for line in lines[len(lines[0].split()) == 1 :]]
    states, targets = (
        {row[0] for row in rows if row},
        {row[1] for row in rows if len(row) > 2},
    )
    linked = len(targets) > 1 and 2 * len(targets & states) > len(targets | states)
    return (linked and all(map(str.isdecimal, states))) or bool(
        re.search(r"~.\0\0\0\w+.\0\0\0\w", source.head, re.S)
    )


def unknown(source: Source) -> str:
    """The message about a path of no known format: the nearest format, and the missing
    parts.
    """
    if source.is_folder:
        folders = [
            Source(path) for path in sorted(source.path.iterdir()) if path.is_dir()
        ]
        if sets := [one.path.name for one in folders if sniff(one)]:
            return (
                f"a folder of several sets; it holds {', '.join(sets)[:200]}: give"
                f" {source.path / sets[0]}"
            )
        for file in source.files()[:1]:
            place, files = file.path.name, source.path / f"*{file.path.suffix}"
            if name := sniff(file):
                return (
                    f"a folder of files with N-best lists ({name}); give the files:"
                    f" {files}"
                )
            if file.path.suffix == ".fst" or is_lattice(file):
                return (
                    f"a folder of OpenFst lattices ({place}), which are not read;"
                    f" {LISTS}"
                )
            return (
                f"a folder without N-best lists; its first file is {place}. If each"
                f" file is the text of a whole recording: rescore eval {source.name}"
                " --whole --ref REF; for 1-best texts of utterances give the file"
            )
        return (
            "a folder without N-best lists: no logdir/output.*/1best_recog (ESPnet2),"
            " no data.json (ESPnet1), no words_text (Kaldi), no files of SRILM, no"
            " fairseq log"
        )
    if not source.head.strip():
        return "is empty"
    if is_lattice(source):
        return f"a lattice of OpenFst or Kaldi, which is not read; {LISTS}"
    first, *more = source.head.split("\n")
    if re.search(r"\|\s*fairseq", source.head):
        return (
            "a fairseq log that ends before its first S- or H- line; let"
            " fairseq-generate run to its end"
        )
    if begin_with_ids([first, *more[:-1]]) or re.search(r"\([^() \t]+\)\s*$", first):
        return (
            "a 1-best text, with one text for each utterance; to measure it: rescore"
            f" eval {source.name} --ref FILE"
        )
    first = first.rstrip("\r")
    if "\t" in first or first.count(",") > 1:
        names = first.split("\t" if "\t" in first else ",")
        return (
            "which column has the hypotheses? Say it with --field text=NAME"
            f" ({', '.join(names)[:80]})"
        )
    return (
        "not an N-best list of a known format; lines of plain text are OpenNMT's where"
        " each sentence has N of them (--format opennmt --nbest-size N); formats are"
        f" {', '.join(FORMATS.names)}"
    )
