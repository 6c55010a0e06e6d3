"""1-best texts: read with their references, and written as Kaldi text, sclite trn, stm or plain lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

from rescore.errors import UserError
from rescore.formats.input_warnings import InputWarnings
from rescore.formats.recordings import RecordingSegment
from rescore.formats.references import (
    ReferenceFile,
    References,
    all_lines,
    begin_with_ids,
    first_words,
    is_stm,
    kaldi_texts,
    open_references,
    text_source,
    trn_texts,
)
from rescore.formats.source import Source
from rescore.formats.text import undo_entities, undo_marks
from rescore.formats.writing import checked_id
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList


def read_best(
    path: str | Path | Source, references: str | Path | References, warnings: InputWarnings | None = None
) -> list[NbestList]:
    """A 1-best text with its references, as lists of one hypothesis.

    Both are trn, or Kaldi text with the same ids, or plain with the same number of lines.

    Raises:
        UserError: the two do not fit together, or one has an utterance that the other lacks.
    """
    source = text_source(path, warnings)
    files = open_references(references, warnings)
    lines, given = all_lines(source), files[0]
    hypotheses = _with_ids(lines, source.name, given) or {str(place): line for place, line in enumerate(lines, 1)}
    absent = [name for one in files for name in one.left_out(list(hypotheses))]
    if absent:
        raise UserError(
            f"{source.name}: no text for utterance {absent[0]} of {given.path} ({len(absent)} missing); "
            "give an output of the whole set"
        )
    found = [one.of(list(hypotheses)) for one in files]
    return [
        NbestList(
            name,
            [Hypothesis(undo_marks(undo_entities(text)), {FIRST_PASS: 0.0})],
            tuple(reference for one in found for reference in one[name]),
        )
        for name, text in hypotheses.items()
    ]


def _with_ids(lines: list[str], name: str, given: ReferenceFile) -> dict[str, str] | None:
    """The texts of an output by their ids; None where it has none, and the references have none.

    Raises:
        UserError: one has ids and the other has none.
    """
    if given.format == "plain":
        return None
    if (found := trn_texts(lines, name)) is not None:
        return found
    ids, first = given.ids, first_words(lines)
    known = ids or set(first_words(given.lines))
    differ = len(set(first)) == len(first)
    looks = differ or all(set(word) & set("0123456789-_") for word in first)
    if given.format == "kaldi" or (looks and 2 * len(set(first) & known) > len(set(first))):
        return kaldi_texts(lines, name)
    if ids and given.format != "stm":
        if begin_with_ids(lines):
            raise UserError(f"{given.path}: no reference for utterance {first[0]} of {name}; its first is {min(ids)}")
        raise UserError(
            f"{name}: its lines have no ids such as {min(ids)} of {given.path}; give an output with ids "
            "(rescore rerank --best NAME, not NAME.txt), or --ref-format plain if both have none"
        )
    if given.lines and not is_stm(given.lines):
        if begin_with_ids(lines) and not all(word.isdecimal() for word in first):
            raise UserError(
                f"{given.path}: no reference for utterance {first[0]} of {name}, whose lines begin with ids"
            )
        if len(lines) != len(given.lines):
            raise UserError(
                f"{name}: {len(lines)} lines do not fit the {len(given.lines)} of {given.path}; "
                "the ids must be the same, or the number of lines"
            )
    return None


def check(path: str, segments: Mapping[str, RecordingSegment] | None = None, lists: Iterable[NbestList] = ()) -> None:
    """See that the texts of lists can be written, before anything is computed.

    Raises:
        UserError: stm has no times, or none of an utterance; an id has white space (or in trn a bracket), so that it
            could not be read back.
    """
    if path.endswith(".stm"):
        if segments is None:
            raise UserError(f"{path}: stm has times; give --segments FILE, Kaldi's `utterance recording start end`")
        for nbest in lists:
            if nbest.id not in segments:
                raise UserError(f"{path}: no segment for utterance {nbest.id}")
    elif not path.endswith(".txt"):
        for nbest in lists:
            checked_id(nbest, path, "()" if path.endswith(".trn") else "")


def write_best(
    path_name: str,
    best: Iterable[tuple[NbestList, str]],
    file: IO[str],
    segments: Mapping[str, RecordingSegment] | None = None,
) -> None:
    """One text per utterance: trn where the name ends in .trn, stm in .stm, plain in .txt, else Kaldi text.

    A text is one line: whatever is white space in it is written as blanks.

    Args:
        segments: times, for stm.

    Raises:
        UserError: see `check`.
    """
    if path_name.endswith(".stm"):
        check(path_name, segments)
        for nbest, text in best:
            check(path_name, segments, [nbest])
            assert segments is not None
            at = segments[nbest.id]
            speaker = nbest.id.partition("-")[0]
            text = " ".join(text.split())
            file.write(f"{at.recording} 1 {speaker} {at.start:.2f} {at.end:.2f} {text}".rstrip() + "\n")
        return
    trn, plain = path_name.endswith(".trn"), path_name.endswith(".txt")
    for nbest, text in best:
        text = " ".join(text.split())
        check(path_name, None, [nbest])
        if trn:
            file.write(f"{text} ({nbest.id})\n".lstrip())
        elif plain:
            file.write(f"{text}\n")
        else:
            file.write(f"{nbest.id} {text}".rstrip() + "\n")
