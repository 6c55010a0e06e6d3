"""1-best texts: read with their references, and written as Kaldi text, sclite trn, stm or plain lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

from rescore.errors import UserError
from rescore.formats.oddities import Oddities
from rescore.formats.recordings import Segment
from rescore.formats.references import (
    ReferenceFile,
    References,
    all_lines,
    first_words,
    is_stm,
    kaldi_texts,
    text_source,
    trn_texts,
)
from rescore.formats.source import Source
from rescore.formats.text import undo_marks
from rescore.formats.writing import checked_id
from rescore.nbest import FIRST_PASS, Hypothesis, NbestList


def read_best(
    path: str | Path | Source, references: str | Path | References, oddities: Oddities | None = None
) -> list[NbestList]:
    """A 1-best text with its references, as lists of one hypothesis.

    Both are trn, or Kaldi text with the same ids, or plain with the same number of lines.

    Raises:
        UserError: the two do not fit together, or one has an utterance that the other lacks.
    """
    if not isinstance(references, References):
        references = References((str(references),))
    source = text_source(path, oddities)
    files = [ReferenceFile(text_source(name, oddities), references.format) for name in references.paths]
    given, name_of = files[0], references.paths[0]
    lines, others, ids = all_lines(source), given.lines, given.ids
    hypotheses = trn_texts(lines, source.name)
    with_ids = references.format == "kaldi" or _begin_with(lines, ids or first_words(others))
    if hypotheses is None and references.format != "plain" and with_ids:
        hypotheses = kaldi_texts(lines, source.name)
    if hypotheses is None:
        if (ids and references.format != "stm") or (others and not is_stm(others) and len(lines) != len(others)):
            raise UserError(
                f"{source.name}: {len(lines)} lines do not fit the {len(ids or others)} of {name_of}; "
                "the ids must be the same, or the number of lines"
            )
        hypotheses = {str(number): line for number, line in enumerate(lines, 1)}
    elif not ids and not is_stm(others):
        ids = first_words(others)
    absent = sorted(ids - hypotheses.keys())
    if absent:
        raise UserError(
            f"{source.name}: no text for utterance {absent[0]} of {name_of} ({len(absent)} of {len(ids)} missing); "
            "give an output of the whole set"
        )
    found = [one.of(list(hypotheses)) for one in files]
    return [
        NbestList(name, [Hypothesis(undo_marks(text), {FIRST_PASS: 0.0})], tuple(r for one in found for r in one[name]))
        for name, text in hypotheses.items()
    ]


def _begin_with(lines: Sequence[str], ids: set[str]) -> bool:
    """Whether lines begin with ids: most of their first words are known, and all differ or look like ids."""
    first = first_words(lines)
    differ = len(first) == sum(bool(line.strip()) for line in lines)
    return 2 * len(first & ids) > len(first) and (differ or all(set(word) & set("0123456789-_") for word in first))


def write_best(
    path_name: str,
    best: Iterable[tuple[NbestList, str]],
    file: IO[str],
    segments: Mapping[str, Segment] | None = None,
) -> None:
    """One text an utterance: trn where the name ends in .trn, stm in .stm, plain in .txt, else Kaldi text.

    A text is one line: whatever is white space in it is written as blanks.

    Args:
        segments: times, for stm.

    Raises:
        UserError: an id has white space (or in trn a bracket), so that nobody could read it back; or has no times.
    """
    if path_name.endswith(".stm"):
        if segments is None:
            raise UserError(
                f"{path_name}: stm has times; give --segments FILE, Kaldi's `utterance recording start end`"
            )
        for nbest, text in best:
            if nbest.id not in segments:
                raise UserError(f"{path_name}: no segment for utterance {nbest.id}")
            at = segments[nbest.id]
            speaker = nbest.id.partition("-")[0]
            text = " ".join(text.split())
            file.write(f"{at.recording} 1 {speaker} {at.start:.2f} {at.end:.2f} {text}".rstrip() + "\n")
        return
    trn, plain = path_name.endswith(".trn"), path_name.endswith(".txt")
    for nbest, text in best:
        text = " ".join(text.split())
        if not plain:
            checked_id(nbest, path_name, "()" if trn else "")
        if trn:
            file.write(f"{text} ({nbest.id})\n".lstrip())
        elif plain:
            file.write(f"{text}\n")
        else:
            file.write(f"{nbest.id} {text}".rstrip() + "\n")
