"""Whole recordings as lists with references, and the alternatives of sclite that are
closest to each other.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

from rapidfuzz.distance import Levenshtein

from rescore.asr.whole import Recording, is_unscored, read_systems
from rescore.columns import FIRST_PASS
from rescore.formats.alternatives import best_of, readings
from rescore.formats.ids import Side, paired, some
from rescore.formats.source import ReadOptions
from rescore.formats.times import spread
from rescore.metrics.normalise import Normaliser
from rescore.nbest import Header, Hypothesis, NbestList

log = logging.getLogger(__name__)


def measured_recordings(
    outputs: Sequence[str],
    references: str,
    strict: bool = False,
    options: ReadOptions | None = None,
    words: Normaliser | None = None,
) -> list[list[NbestList]]:
    """Return the recordings of each output as lists with references.

    If all outputs are CTM and the references are STM, the lists are the segments of the
    references, as in sclite.

    Args:
        outputs: The files of the outputs, or folders.
        references: The file or folder of references.
        strict: Whether warnings about the input are errors.
        options: The options of formats, for outputs in JSON; None for the defaults.
        words: Says which words are equal, where there are alternatives; None for the
            default.

    Raises:
        UserError: A file is damaged, or a recording has no reference.
    """
    systems = []
    for path in outputs:
        heard, expected = read_systems([path], strict, [references], options)
        systems.append((expected, heard))
    timed = [_have_segments(expected, heard) for expected, heard in systems]
    if any(timed) and not all(timed):
        log.warning(
            "%s: is no CTM: recordings are aligned whole, not by segment",
            outputs[timed.index(False)],
        )
    measured: list[list[NbestList]] = []
    for path, (expected, heard) in zip(outputs, systems, strict=True):
        check_recordings(references, expected, path, heard)
        lists: list[NbestList] = []
        for name, reference in expected.items():
            output = heard.get(name, Recording())
            if all(timed):
                lists += _segments(name, reference, output)
            else:
                lists.append(_whole(path, name, reference, output, words))
        measured.append(lists)
    return measured


def _have_segments(
    references: Mapping[str, Recording], outputs: Mapping[str, Recording]
) -> bool:
    """Return whether all references are STM, and all outputs CTM; a recording without
    words may be either.
    """
    return all(reference.segments for reference in references.values()) and all(
        output.spoken or not output.words for output in outputs.values()
    )


def check_recordings(
    references: str, expected: Collection[str], path: str, heard: Collection[str]
) -> None:
    """Check that all recordings of an output have references; warn of recordings
    without output.

    Args:
        references: The file or folder of references.
        expected: The names of their recordings.
        path: The output.
        heard: The names of its recordings.

    Raises:
        UserError: A recording has no reference.
    """
    ours = Side(list(heard), path, unit="recording")
    pairing = paired(ours, Side(list(expected), references))
    advice = f"; give references of all recordings of {path} as --ref"
    pairing.check("reference", "recordings are", advice)
    absent = pairing.left_out
    if absent:
        log.warning(
            "%s: no output for recording %s (%d missing); its words are deletions",
            path,
            some(absent),
            len(absent),
        )


def _segments(name: str, reference: Recording, heard: Recording) -> Iterator[NbestList]:
    """Yield the segments of a recording, whose ids begin with their speakers.

    A segment has the words whose middle is before its end; the last has all others.
    """
    words: list[list[str]] = [[] for _ in reference.segments]
    place = 0
    for word, middle in heard.spoken:
        while place + 1 < len(words) and middle >= reference.segments[place][1].end:
            place += 1
        words[place].append(word)
    for place, (speaker, _, text) in enumerate(reference.segments):
        if is_unscored(text):
            continue
        segment = f"{re.sub('[-_]', '.', speaker)}-{name}-{place + 1:05}"
        texts = readings(text, segment)
        best = best_of(" ".join(words[place]), texts)
        fields = {"speaker": speaker}
        yield NbestList(segment, [best], texts, recording=name, fields=fields)


def _whole(
    path: str,
    name: str,
    reference: Recording,
    heard: Recording,
    words: Normaliser | None,
) -> NbestList:
    """Return a recording as a list of one hypothesis, with the readings of reference
    and output that are closest to each other.
    """
    if reference.unscored and heard.times:
        heard = heard.without(reference.unscored)
    elif reference.unscored and heard.words:
        log.warning(
            "%s: recording %s has no times; its words in segments that are not measured"
            " count",
            path,
            name,
        )
    with_readings = reference.marked()
    expected = closest_readings(with_readings, heard, words)
    marked = heard.marked()
    if _has_alternatives(marked):
        heard = closest_readings(marked, expected, words)
    best = Hypothesis(heard.text, {FIRST_PASS: 0.0})
    header = Header(are_references_chosen=_has_alternatives(with_readings))
    return NbestList(name, [best], (expected.text,), header=header, recording=name)


def _has_alternatives(marked: Recording) -> bool:
    """Return whether a recording with its marks has alternatives (`{ a / b }`)."""
    return any(word.startswith("{") for word in marked.markup)


def closest_readings(
    reference: Recording, heard: Recording, words: Normaliser | None = None
) -> Recording:
    """Return a reference with the alternatives (`{ a / b }`) that are closest to an
    output; the choice may differ in each piece.

    Args:
        reference: The reference.
        heard: The output.
        words: Says which words are equal; None for the default.
    """
    # the words of a CTM have no alternatives; `marked` gives these
    if reference.spoken:
        return reference
    choices = []
    longest = []
    for first, last in reference.pieces:
        texts = readings(" ".join(reference.markup[first:last]), "reference")
        choices.append(texts)
        longest.append(max(texts, key=lambda text: len(text.split())).lower().split())
    output = [word.lower() for word in heard.words]
    stretches = pairwise(_ends_in(output, longest))
    result = Recording(unscored=reference.unscored)
    for (first, last), texts, (begin, end) in zip(
        reference.pieces, choices, stretches, strict=True
    ):
        stretch = " ".join(heard.words[begin:end])
        chosen = (words or Normaliser()).closest(texts, stretch).split()
        times = reference.times[first:last]
        if times and len(texts) > 1:
            times = spread(chosen, (times[0][0], times[-1][1]))
        result.add(chosen, times)
    return result


def _ends_in(output: Sequence[str], pieces: Sequence[Sequence[str]]) -> list[int]:
    """Return the places of an output at which pieces of a reference begin and end, by
    the alignment of the words.

    Returns:
        The begin of the first piece, and the end of each piece.
    """
    reference: list[str] = []
    for words in pieces:
        reference += words
    where: list[int] = []
    for change in Levenshtein.opcodes(reference, output):
        if change.tag in ("equal", "replace"):
            where += range(change.dest_start, change.dest_end)
        elif change.tag == "delete":
            where += [change.dest_start] * (change.src_end - change.src_start)
    where.append(len(output))
    return [where[end] for end in accumulate(map(len, pieces), initial=0)]
