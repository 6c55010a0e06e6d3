"""Whole recordings as recognisers write them: CTM, STM, subtitles, trn, Kaldi text,
plain text, or N-best lists.

A recording is made of pieces: segments, cues, lines, lists, or stretches of a CTM
without a long silence. A piece names its recording, or has the id of an utterance; the
names of the recordings in the other systems then tell the recording.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path

from rescore.asr.pieces import File, Look, Piece, is_json, read_file
from rescore.columns import FIRST_PASS
from rescore.errors import UserError
from rescore.formats.alternatives import FROM_LETTERS
from rescore.formats.folders import files_of_folder
from rescore.formats.ids import with_names_of
from rescore.formats.reading import check_options, named_table
from rescore.formats.segments import JSON, OF_RECORDINGS, kind_of
from rescore.formats.shaped import ShapeOptions
from rescore.formats.source import (
    UNORDERED,
    UNTIMED,
    InputWarnings,
    ReadOptions,
    Source,
    sniff,
)
from rescore.formats.text import are_rows
from rescore.formats.texts import is_table
from rescore.formats.times import (
    Span,
    TimedWord,
    Times,
    filled,
    time_order,
    timed_pieces,
)
from rescore.formats.understood import tell_recordings
from rescore.ids import plain_id

log = logging.getLogger(__name__)


# --- recordings ----------------------------------------------------------------------


@dataclass(slots=True)
class Recording:
    """The words of one recording."""

    words: list[str] = field(default_factory=list)
    times: list[Times] = field(default_factory=list)
    """Start and end of each word, in seconds; empty if the file has none."""
    ends: list[int] = field(default_factory=list)
    """Number of words up to the end of each piece."""
    unscored: list[Times] = field(default_factory=list)
    """Segments of a reference that are not measured."""
    segments: list[tuple[str, Span, str]] = field(default_factory=list)
    """Speaker, time and text of each segment of an STM."""
    spoken: list[tuple[str, float]] = field(default_factory=list)
    """The words of a CTM, or alternatives, with the middle of their time."""
    markup: list[str] = field(default_factory=list)
    """The words as `readings` takes them: brackets, slashes and @ that are no marks of
    alternatives are letters (`AS_LETTERS`).
    """
    letters: dict[int, Sequence[Times]] = field(default_factory=dict)
    """The times of the `timed_pieces` of a word that has several, by its place."""

    @property
    def pieces(self) -> list[tuple[int, int]]:
        """The first and the last word (exclusive) of each piece."""
        limits = pairwise([0, *self.ends, len(self.words)])
        return [(first, last) for first, last in limits if first < last]

    @property
    def text(self) -> str:
        """The words; each piece is a line."""
        lines = [" ".join(self.words[first:last]) for first, last in self.pieces]
        # With a blank before the line end, sacreBLEU does not join a hyphen there with
        # the next line.
        return " \n".join(lines)

    def timed(self, place: int) -> list[tuple[str, Times]]:
        """Return the `timed_pieces` of a word with their times, or the word with its
        time.

        Args:
            place: The place of the word, in a recording with times.
        """
        word = self.words[place]
        spans = self.letters.get(place, ())
        pieces = timed_pieces(word) if spans else [word]
        if len(pieces) != len(spans):
            return [(word, self.times[place])]
        return list(zip(pieces, spans, strict=True))

    def add(
        self,
        words: Sequence[str],
        times: Sequence[Times],
        letters: Mapping[int, Sequence[Times]] | None = None,
    ) -> None:
        """Append a piece.

        From the first words without times on, the recording has no times.

        Args:
            words: The words of the piece, as `markup` has them.
            times: Start and end of each word, in seconds, or nothing.
            letters: As `Piece.letters`.
        """
        for place, spans in (letters or {}).items():
            self.letters[len(self.words) + place] = spans
        if len(self.times) == len(self.words) and len(times) == len(words):
            self.times += times
        else:
            self.times.clear()
        self.markup += words
        self.words += [word.translate(FROM_LETTERS) for word in words]
        self.ends.append(len(self.words))

    def marked(self) -> Recording:
        """Return a CTM with its alternatives (`{ a / b }`) in place of the first;
        other recordings as they are.
        """
        if not any("{" in text for text, _ in self.spoken):
            return self
        result = Recording()
        for text, _ in self.spoken:
            result.add(text.split(), [])
        return result

    def without(self, spans: Sequence[Times]) -> Recording:
        """Return the recording without the words in some stretches of time.

        Args:
            spans: Start and end of each stretch, in seconds.
        """
        rest = Recording()
        for first, last in self.pieces:
            words = []
            times = []
            for place in range(first, last):
                if not _is_within(self.times[place], spans):
                    words.append(self.markup[place])
                    times.append(self.times[place])
            rest.add(words, times)
        return rest


def _is_within(time: Times, spans: Sequence[Times]) -> bool:
    """Return whether the middle of a word is in one of the stretches of time."""
    middle = (time[0] + time[1]) / 2
    return any(first <= middle < last for first, last in spans)


# --- systems -------------------------------------------------------------------------


def read_systems(
    paths: Sequence[str | Path],
    strict: bool = False,
    references: Sequence[str | Path] = (),
    options: ReadOptions | None = None,
    *,
    detected: bool = False,
) -> list[dict[str, Recording]]:
    """Return the recordings of each system by name.

    A folder has one file per recording. CTM, STM and N-best lists name the recording of
    a line; trn and Kaldi text have ids; any other file is one recording, called after
    the file without its ending. If any system has two channels of a recording, each
    channel is a recording in all systems.

    Args:
        paths: The output of each system.
        strict: Whether warnings about the input are errors.
        references: Further files or folders, which follow in the result.
        options: The options of formats, for the JSON of systems; None for the defaults.
        detected: Whether nobody but `are_whole` says that these are recordings.

    Raises:
        UserError: A file is damaged, or a system has no recording, or has a recording
            in two files, or a text that was detected as a recording looks like lines of
            utterances.
    """
    options = options or ReadOptions()
    warnings = InputWarnings(strict)
    paths = [*paths, *references]
    inputs = [Source(path, warnings) for path in paths]
    files_of = [source.files() for source in inputs]
    outputs = files_of[: len(paths) - len(references)]
    _check_options(outputs, options)
    systems: list[list[File]] = []
    for source, sources in zip(inputs, files_of, strict=True):
        own = options if len(systems) < len(outputs) else ReadOptions()
        files = [read_file(file, own, strict) for file in sources]
        if source.is_folder:
            files = [file._replace(in_folder=True) for file in files]
        systems.append(files)
    systems = _identified(systems)
    if detected:
        _tell_lines(paths[: len(outputs)], systems)
    names: set[str] = set()
    for files in systems:
        names |= {piece.name for piece in _pieces_of(files) if not piece.is_id}
    known = _Names(names)
    split = _with_channels(systems)
    every = [_joined(files, known, split, warnings) for files in systems]
    every = _with_same_names(every, paths, len(outputs))
    unnamed = [all(file.is_unnamed for file in files) for files in systems]
    every = _with_one_name(every, paths, len(outputs), unnamed)
    for path, recordings in zip(paths, every, strict=True):
        words = sum(len(recording.words) for recording in recordings.values())
        tell_recordings(path, len(recordings), words)
    warnings.report()
    for path, files, recordings in zip(paths, systems, every, strict=True):
        if files and not recordings and any(every):
            log.warning("%s: no words in it", path)  # a CTM of a silent recording
        elif not recordings:
            raise UserError(
                f"{path}: no recording in it; give a file or a folder with CTM, STM,"
                " SRT, VTT, JSON, trn or text"
            )
    return every


def _tell_lines(paths: Sequence[str | Path], systems: Sequence[Sequence[File]]) -> None:
    """Log that texts are whole recordings because their numbers of lines differ, if
    all systems are such texts, in files that can be read twice.

    Args:
        paths: The output of each system.
        systems: The files of each system.

    Raises:
        UserError: Most texts have the same number of lines, several each: these are
            probably utterances, and another text lacks lines or has too many.
    """
    numbers: dict[str, int] = {}
    for path, files in zip(paths, systems, strict=False):
        source = Source(path)
        if not source.is_regular or not all(file.is_plain for file in files):
            return
        numbers[source.name] = sum(1 for _ in source.lines())
    ((common, texts),) = Counter(numbers.values()).most_common(1)
    if 2 * texts > len(numbers) and min(numbers.values()) > 1:
        place = next(place for place in numbers if numbers[place] != common)
        raise UserError(
            f"{place}: {numbers[place]:,} lines, where {texts} of {len(numbers)}"
            f" outputs have {common:,}; give a line for each utterance, also an empty"
            " line, or ids; if the outputs are whole recordings, give --whole"
        )
    log.info(
        "the outputs have different numbers of lines (%s to %s): they are read as whole"
        " recordings; utterances need the same lines in all outputs, or ids",
        f"{min(numbers.values()):,}",
        f"{max(numbers.values()):,}",
    )


def _check_options(outputs: Iterable[Sequence[Source]], options: ReadOptions) -> None:
    """See once, for all files, that a reader of lists takes each option.

    Args:
        outputs: The files of each system.
        options: The options of formats.

    Raises:
        OptionError: No reader takes an option.
    """
    if not options.values:
        return
    lists: list[Source] = []
    for sources in outputs:
        lists += filter(is_json, sources)
    if lists:
        check_options(lists, None, FIRST_PASS, options)
    elif options.of(ShapeOptions).shape is not None:
        raise UserError("--shape describes JSON, and no output is JSON; leave it out")


def _pieces_of(files: Iterable[File]) -> Iterator[Piece]:
    """Yield the pieces of all files of a system."""
    for file in files:
        yield from file.pieces


def _with_same_names(
    systems: Sequence[dict[str, Recording]], paths: Sequence[str | Path], outputs: int
) -> list[dict[str, Recording]]:
    """Return the recordings of systems, in which a recording has one name: that of the
    references, or else of the first system that has it.

    Args:
        systems: The recordings of each system, and those of references behind them.
        paths: The file or folder of each.
        outputs: The number of systems that are no references.
    """
    renamed = list(systems)
    names: dict[str, None] = {}
    for place in _references_first(len(systems), outputs):
        renamed[place] = with_names_of(names, systems[place], str(paths[place]))
        names |= dict.fromkeys(renamed[place])
    return renamed


def _references_first(systems: int, outputs: int) -> list[int]:
    """Return the places of systems, of which those behind the outputs are references:
    these come first.
    """
    return [*range(outputs, systems), *range(outputs)]


def _with_one_name(
    systems: Sequence[dict[str, Recording]],
    paths: Sequence[str | Path],
    outputs: int,
    unnamed: Sequence[bool],
) -> list[dict[str, Recording]]:
    """Return systems of one recording each, in which a file that names no recording has
    the recording of the others, and a line says so; other systems as they are.

    Args:
        systems: The recordings of each system, and those of references behind them.
        paths: The file or folder of each.
        outputs: The number of systems that are no references.
        unnamed: Whether nothing but the name of the file names the recording of each.
    """
    if any(len(recordings) != 1 for recordings in systems):
        return list(systems)
    names = [next(iter(recordings)) for recordings in systems]
    order = _references_first(len(systems), outputs)
    named = [place for place in order if not unnamed[place]]
    if len({names[place] for place in named}) > 1:
        return list(systems)
    first = [*named, *order][0]
    renamed = []
    for path, name, recordings in zip(paths, names, systems, strict=True):
        if name != names[first]:
            log.info(
                "%s: is one recording without a name, and is taken for the recording"
                " %s of %s",
                path,
                names[first],
                paths[first],
            )
        renamed.append({names[first]: recordings[name]})
    return renamed


class _Names:
    """The recordings that systems name. An id is one of them as in
    `rescore.formats.ids`, apart from leading zeros, folder and ending.
    """

    def __init__(self, names: Set[str]) -> None:
        self._names = names
        self._keys = frozenset(map(plain_id, names))
        self._lengths = sorted(set(map(len, names)), reverse=True)

    def __contains__(self, name: str) -> bool:
        return name in self._names or plain_id(name) in self._keys

    def named_by(self, utterance: str) -> str:
        """Return the recording of an utterance: the longest known beginning of its id,
        up to a hyphen or underscore; or the whole id.

        An utterance is a part of its recording, not its partner. So no pairing of ids
        tells the recording.
        """
        for length in self._lengths:
            mark = utterance[length : length + 1]  # behind the whole id stands nothing
            if mark in ("-", "_", "") and utterance[:length] in self._names:
                return utterance[:length]
        return utterance


def _identified(systems: Sequence[Sequence[File]]) -> list[list[File]]:
    """Return the systems, in which the pieces of a text have ids if the other systems
    know the first words of its lines as ids.
    """
    _check_repeated(systems)
    systems = [[file.with_ids_once() for file in files] for files in systems]
    systems = _with_shared_ids(systems)
    names = []
    for files in systems:
        own = {piece.name for piece in _pieces_of(files)}
        for file in files:
            if file.look is Look.IDS:
                own |= {piece.name for piece in file.by_id}
            if file.is_numbered or not file.pieces:
                own.add(file.stem)
        names.append(own)
    identified = []
    for rank, files in enumerate(systems):
        others = _Names(set().union(*names[:rank], *names[rank + 1 :]))
        identified.append(
            [file._replace(pieces=_pieces(file, others)) for file in files]
        )
    return identified


def _with_shared_ids(systems: Sequence[Sequence[File]]) -> list[list[File]]:
    """Return the systems, in which first words are ids if a text of another system has
    the same ids (`File.shares_ids`).
    """
    result = []
    for rank, files in enumerate(systems):
        others = [
            file for own in (*systems[:rank], *systems[rank + 1 :]) for file in own
        ]
        own = []
        for file in files:
            if file.look is Look.WORDS and any(map(file.shares_ids, others)):
                file = file._replace(look=Look.IDS)
            own.append(file)
        result.append(own)
    return result


def _check_repeated(systems: Sequence[Sequence[File]]) -> None:
    """Check that no line of a text has the id of another line, if other systems name
    most of its ids.

    A word may begin several lines of a recording, so only the names of the other
    systems tell ids from words.

    Raises:
        UserError: An id is repeated.
    """
    named: list[set[str]] = []
    for files in systems:
        named.append({piece.name for piece in _pieces_of(files)})
    for rank, files in enumerate(systems):
        others = _Names(set().union(*named[:rank], *named[rank + 1 :]))
        for file in files:
            if file.look is Look.NUMBERS:
                continue
            numbers = Counter(piece.name for piece in file.by_id)
            known = sum(name in others for name in numbers)
            name, number = max(
                numbers.items(), key=lambda item: item[1], default=("", 0)
            )
            if number > 1 and 2 * known > len(numbers):
                raise UserError(
                    f"{file.place}: {number} lines have the id {name}, which other"
                    " outputs name, too; give each utterance once"
                )


def _pieces(file: File, others: _Names) -> list[Piece]:
    """Return the pieces of a file: of the recording that it is called after, by their
    ids, or as the file names them.
    """
    if _is_one_recording(file, others):
        return file.as_recording()
    if _has_known_ids(file, others):
        return list(file.by_id)
    if _was_combined(file):
        names = [piece.name.rpartition("-")[0] for piece in file.by_id]
        pairs = zip(names, file.by_id, strict=True)
        return [piece._replace(name=name, is_id=False) for name, piece in pairs]
    return file.pieces


def _is_one_recording(file: File, others: _Names) -> bool:
    """Return whether a file without ids, or an empty file of a form that names its
    recordings, is the recording that it is called after: other systems have that
    recording, or none with the numbers of its lists.
    """
    if file.stem in others:
        return file.is_numbered or not file.pieces
    is_any_known = any(piece.name in others for piece in file.pieces)
    return file.is_numbered and not is_any_known


def _has_known_ids(file: File, others: _Names) -> bool:
    """Return whether other systems know most first words of a text as ids.

    `rescore.formats.ids.are_ids` has another rule, for texts of utterances: there a
    single id in common is certain. Here a sentence of a recording may begin with the
    name of a recording, and an id may name an utterance of a recording.
    """
    known = sum(others.named_by(piece.name) in others for piece in file.by_id)
    if 2 * known <= len(file.by_id):
        return False
    return file.look is not Look.WORDS or file.stem not in others


def _was_combined(file: File) -> bool:
    """Return whether `rescore combine` numbered the pieces of recordings: the ids are
    such as `talk-00001`.
    """
    numbers: Counter[str] = Counter()
    for piece in file.by_id:
        name, _, number = piece.name.rpartition("-")
        numbers[name] += 1
        if not name or number != f"{numbers[name]:05}":
            return False
    return len(file.by_id) > 1


def _with_channels(systems: Iterable[Sequence[File]]) -> set[str]:
    """Return the recordings of which a system has several channels."""
    split: set[str] = set()
    for files in systems:
        channels: defaultdict[str, set[str]] = defaultdict(set)
        for piece in _pieces_of(files):
            if piece.channel:
                channels[piece.name].add(piece.channel)
        split |= {name for name, own in channels.items() if len(own) > 1}
    return split


def _joined(
    files: Sequence[File], known: _Names, split: Set[str], warnings: InputWarnings
) -> dict[str, Recording]:
    """Return the recordings of a system.

    Args:
        files: The files of the system.
        known: The recordings of all systems.
        split: The recordings whose channels are recordings.
        warnings: Collects repairs.
    """
    where: dict[str, str] = {}
    pieces: dict[str, list[Piece]] = {}
    for file in files:
        for piece in file.pieces:
            name = known.named_by(piece.name) if piece.is_id else piece.name
            of_channel = f"{name}-{piece.channel}"
            if piece.channel and (name in split or of_channel in known):
                name = of_channel
            if where.setdefault(name, file.place) != file.place:
                raise UserError(
                    f"{file.place}: recording {name} is in another file, too; give each"
                    " recording once"
                )
            pieces.setdefault(name, []).append(piece)
    recordings = {}
    for name, own in pieces.items():
        place = f"{where[name]}: recording {name}"
        recordings[name] = _recording(_timed(own, place, warnings))
    return recordings


def _recording(pieces: Sequence[Piece]) -> Recording:
    """Return the pieces of a recording together."""
    recording = Recording()
    for piece in pieces:
        recording.segments += piece.segments
        recording.spoken += piece.spoken
        if is_unscored(" ".join(piece.words)):
            recording.unscored += piece.times
        else:
            recording.add(piece.words, piece.times, piece.letters)
    return recording


def _timed(
    pieces: Sequence[Piece], place: str, warnings: InputWarnings
) -> Sequence[Piece]:
    """Return the pieces of a recording in the order of their times; words without times
    share the time between their neighbours.

    Pieces with the id of an utterance stay as they are: their times may count from the
    start of the utterance.
    """
    if any(piece.is_id for piece in pieces):
        return pieces
    if not any(piece.times for piece in pieces):
        return pieces
    starts: list[float] = []
    for piece in pieces:
        last = starts[-1] if starts else 0.0
        starts.append(piece.times[0][0] if piece.times else last)
    order = time_order(starts)
    if order is not None:
        warnings.add("recording", UNORDERED, place)
        pieces = [pieces[number] for number in order]
    if all(len(piece.times) == len(piece.words) for piece in pieces):
        return pieces
    words: list[TimedWord] = []
    for piece in pieces:
        spans: Sequence[Times | None] = piece.times
        if len(piece.times) != len(piece.words):
            spans = [None] * len(piece.words)
            for word in piece.words:
                warnings.add("word", UNTIMED, f"{place}: {word[:40]}")
        words += zip(piece.words, spans, strict=True)
    times = iter(span for _, span in filled(words))
    return [
        piece._replace(times=list(islice(times, len(piece.words)))) for piece in pieces
    ]


_UNSCORED = ("ignore_time_segment_in_scoring", "ignoretimesegmentinscoring")
"""Marks of a segment of STM that sclite does not measure."""


def is_unscored(text: str) -> bool:
    """Return whether a text has the mark of a segment that is not measured, also beside
    words, as in sclite.

    Args:
        text: The text of a segment.
    """
    return any(mark in text.lower() for mark in _UNSCORED)


# --- whole recordings or utterances --------------------------------------------------

_FOLDER = "folder"
"""A folder with a file for each recording."""
_DOCUMENTS = ("whisper", "speech", "parakeet")
"""Formats whose files are each of one recording."""
_TABLE = "table"


def are_whole(
    paths: Sequence[str | Path],
    format_name: str | None = None,
    options: ReadOptions | None = None,
) -> bool:
    """Return whether outputs are of whole recordings.

    They are if one has times, or is a folder or document of recordings; or if all are
    plain texts with different numbers of lines. Texts with equally many lines are of
    utterances, also if some lines are empty: a system wrote nothing there. Tables are
    lists.

    Args:
        paths: The output of each system.
        format_name: The format of lists that the user names; None detects the format.
        options: The options of formats.
    """
    kinds = set()
    filled = set()
    lengths = set()
    for source in map(Source, paths):
        if not source.is_folder and not source.is_regular:
            continue  # it cannot be read twice
        kind = format_name or _form_of(source, options)
        if kind in (*OF_RECORDINGS, *_DOCUMENTS, _FOLDER):
            return True
        kinds.add(kind)
        if kind == "plain":
            lines = list(source.lines())
            lengths.add(len(lines))
            filled.add(sum(1 for line in lines if line.strip()))
    return kinds == {"plain"} and min(len(filled), len(lengths)) > 1


def _form_of(source: Source, options: ReadOptions | None) -> str:
    """Return the format of an output: of lists, else the form of a text, or `_FOLDER`.
    Of a folder whose files are read, it is the format of the first file.
    """
    if source.is_folder:
        first = files_of_folder(source.path)[0]
        if first == source.path:
            return sniff(source) or _FOLDER
        source = Source(first)
    kind = kind_of(source)
    if kind not in (JSON, "plain"):
        return kind
    lines = source.head.splitlines()[:-1]  # the last may be cut
    if are_rows(lines) or is_table(source):
        kind = _TABLE
    return named_table(source, options) or sniff(source) or kind
