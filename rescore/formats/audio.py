"""Recordings of utterances: where they are, and their samples. No other module opens
audio files.

`recordings(["data/test/wav.scp"])["utt-1"]` is an `Audio`, from wav.scp with segments,
a folder, or a manifest; `samples(audio, 16_000)` are its samples, mono, at this rate.
"""

from __future__ import annotations

import base64
import hashlib
import io
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from rescore.errors import UserError, installed_by
from rescore.files import loads, note_read, parsed
from rescore.formats.ids import ByName
from rescore.formats.source import Source
from rescore.formats.text import add_once, field_of, split_id, table
from rescore.formats.times import LATEST, Span
from rescore.ids import part_of
from rescore.nbest import NO_AUDIO, Audio, NbestList

log = logging.getLogger(__name__)

Samples = npt.NDArray[np.float32]

READABLE = (".wav", ".flac", ".ogg", ".mp3")
"""Endings of the files that a folder of recordings may have: the ones of
`rescore.ids.SOUNDS` that soundfile reads.
"""
LONGEST = 600.0
"""Seconds of an utterance, at most."""
SHORTEST = 0.025
"""Seconds of an utterance, at least."""
MOST_SAMPLES = 1 << 28
"""Samples of all channels of an utterance, at most."""
RECENT = 16
"""Recordings of requests that are kept in memory, at most."""
BLOCK = 1 << 20
"""Samples of all channels that are in memory at once."""
UNKNOWN_SIZE = 0x7FFFF000
"""From this size on, the header of a WAV means that its writer did not know the
size.
"""

# --- where recordings are ------------------------------------------------------------


def recordings(paths: Sequence[str]) -> Mapping[str, Audio]:
    """Return the recordings of utterances by id.

    Args:
        paths: Each is Kaldi's wav.scp (with a file `segments` in its folder, the
            utterances are the segments), a folder with such a file, a folder of audio
            files called after their utterances, or a NeMo manifest (JSON Lines with
            audio_filepath, and perhaps offset and duration in seconds).

    Raises:
        UserError: A file is damaged, or an utterance has two recordings.
    """
    every: dict[str, Audio] = {}
    for path in map(Path, paths):
        for name, audio in _entries(path):
            if every.setdefault(name, audio) != audio:
                raise UserError(
                    f"{path}: utterance {name} has another recording,"
                    f" {every[name].path}; give only one"
                )
    return every


def _entries(path: Path) -> Iterator[tuple[str, Audio]]:
    """Return the utterances of a path with their recordings."""
    scp = path / "wav.scp"
    if path.is_dir() and not scp.is_file():
        return _folder(path)
    source = Source(scp if path.is_dir() else path)
    if source.head.lstrip().startswith("{"):
        return _manifest(source)
    return _scp(source)


@dataclass(frozen=True, slots=True)
class RecordingSegment:
    """The part of a recording that an utterance is: a line of Kaldi's `segments`."""

    recording: str
    start: float
    end: float | None
    """None for the end of the recording."""


def read_segments(path: str | Path) -> dict[str, RecordingSegment]:
    """Return the segments of utterances by id.

    Args:
        path: Kaldi's `segments`, with lines `utterance recording start end` in seconds.

    Raises:
        UserError: A line has too few cells, or wrong times.
    """
    segments: dict[str, RecordingSegment] = {}
    for name, value in table(Path(path)).items():
        place = f"{path}: utterance {name}"
        cells = value.split()
        if len(cells) < 3:
            raise UserError(f"{place}: expected `utterance recording start end`")
        is_open = cells[2] in ("-1", "-1.0")  # Kaldi's mark
        span = Span.read(cells[1], LATEST if is_open else cells[2], place)
        end = None if is_open else span.end
        segments[name] = RecordingSegment(cells[0], span.start, end)
    return segments


class Segments(ByName[RecordingSegment]):
    """The segments of utterances, which are asked for one after another.

    Args:
        path: Kaldi's `segments`, as `read_segments` reads it.
    """

    def __init__(self, path: str | Path) -> None:
        super().__init__(read_segments(path), str(path))

    def of(self, utterance: str) -> RecordingSegment:
        """Return the segment of an utterance.

        Raises:
            UserError: The utterance has none.
        """
        segment = self.get(utterance)
        if segment is None:
            raise UserError(
                f"{self.place}: no segment for utterance {utterance}; each needs a line"
            )
        return segment


def with_recordings(lists: Iterable[NbestList], path: Path) -> Iterator[NbestList]:
    """Yield the lists with the names of their recordings.

    Args:
        lists: The lists.
        path: A file in whose lines the first field is an utterance, and the second its
            recording.

    Raises:
        UserError: An utterance is not in the file, or has no recording.
    """
    recordings = ByName(table(path), str(path))
    for nbest in lists:
        of_list = recordings.get(nbest.id)
        if not of_list:
            raise UserError(
                f"{path}: utterance {nbest.id} is not in it, or has no recording"
                " behind it"
            )
        yield replace(nbest, recording=of_list.split()[0])


def _folder(folder: Path) -> Iterator[tuple[str, Audio]]:
    """Yield files called ID.wav, in the folder or in folders within it. Files of one
    name are called after their paths in the folder.
    """
    files = []
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in READABLE and path.is_file():
            files.append(path)
    numbers = Counter(path.stem for path in files)
    for path in files:
        name = path.stem
        if numbers[name] > 1:
            name = str(path.relative_to(folder))
        yield name, Audio(str(path), name=name)


def _scp(source: Source) -> Iterator[tuple[str, Audio]]:
    """Yield the recordings of a wav.scp, or the segments beside it."""
    files: dict[str, Audio] = {}
    for place, line in source.filled():
        name, path = split_id(line)
        if "|" in (path[:1], path[-1:]):
            raise UserError(
                f"{place}: {name} is a command, which is not run; run it, write its"
                " output to a .wav or .flac file, and name this file"
            )
        if not path:
            raise UserError(f"{place}: expected `utterance path`")
        audio = Audio(_located(path, source.path.parent), name=name)
        add_once(files, name, audio, place)
    segments = source.path.parent / "segments"
    if not segments.is_file():
        yield from files.items()
        return
    for name, segment in read_segments(segments).items():
        place = f"{segments}: utterance {name}"
        if segment.recording not in files:
            raise UserError(
                f"{place}: recording {segment.recording} is not in {source.name}"
            )
        audio = replace(
            files[segment.recording], start=segment.start, end=segment.end, name=name
        )
        yield name, audio_part(audio, place)


def _manifest(source: Source) -> Iterator[tuple[str, Audio]]:
    """Yield the recordings of a NeMo manifest; `offset` and `duration` beside a path
    are the part of the file.
    """
    for place, line in source.filled():
        value = loads(line, place, line=True)
        path = field_of(value, "audio_filepath")
        if not isinstance(path, str):
            raise UserError(f"{place}: expected an object with audio_filepath")
        name = str(value.get("id", path))
        if "id" not in value:
            name = part_of(path, value.get("offset"))
        yield name, manifest_audio(value, name, source.path.parent, place)


def manifest_audio(
    value: Mapping[str, Any], name: str, folder: Path, place: str
) -> Audio:
    """Return the recording that a line of a manifest names.

    Args:
        value: The line, with a text `audio_filepath`.
        name: The id of the utterance.
        folder: The folder of the manifest, from which relative paths count.
        place: The file and line, for messages.

    Raises:
        UserError: The times are no part of a recording.
    """
    duration = value.get("duration")
    span = Span(0.0, LATEST)
    # without an offset, the duration describes the whole file
    if value.get("offset") is not None:
        if duration is None:
            span = Span.read(value["offset"], LATEST, place)
        else:
            span = Span.read(value["offset"], duration, place, duration=True)
    end = None if span.end == LATEST else span.end
    path = _located(value["audio_filepath"], folder)
    return audio_part(Audio(path, span.start, end, name=name), place)


def _located(path: str, folder: Path) -> str:
    """Return a path as it is, if it exists or is absolute; else from the folder of the
    file that names it.
    """
    return path if Path(path).is_absolute() or _is_file(path) else str(folder / path)


def audio_part(audio: Audio, place: str) -> Audio:
    """Return the recording, if its path can be a path, and its start and end are a part
    of a recording.

    Args:
        audio: The recording.
        place: Where it is named, for messages.

    Raises:
        UserError: The path has a NUL character, or the part is empty.
    """
    span = Span.read(audio.start, LATEST if audio.end is None else audio.end, place)
    if span.start == span.end:
        raise UserError(
            f"{place}: the part from {span.start:g} s to {span.end:g} s is empty"
        )
    if "\0" in audio.path:
        raise UserError(f"{place}: the path of a recording has a NUL character")
    return audio


# --- recordings of lists -------------------------------------------------------------


class _Audio(msgspec.Struct, forbid_unknown_fields=True):
    """The recording of a native list, as a file has it."""

    path: str = ""
    start: float = 0.0
    end: float | None = None
    base64: str | None = None


def native_audio(value: str | dict[str, Any], name: str, place: str) -> Audio:
    """Return the recording that a native list names.

    Args:
        value: A path, a part of a file, or the file itself as base64.
        name: The id of the utterance.
        place: The file and line, for messages.

    Raises:
        UserError: The value is none of these.
    """
    if isinstance(value, str):
        value = {"path": value}
    entry = parsed(value, _Audio, f"{place}: audio")
    content = None
    if entry.base64 is not None:
        try:
            content = base64.b64decode(entry.base64, validate=True)
        except ValueError as error:
            raise UserError(f"{place}: audio: not base64 ({error})") from None
    if bool(entry.path) == bool(content):
        raise UserError(
            f'{place}: audio: expected a path, {{"path": ..., "start": ..., "end":'
            ' ...} or {"base64": ...}'
        )
    return audio_part(Audio(entry.path, entry.start, entry.end, content, name), place)


def native_entry(audio: Audio) -> str | dict[str, Any]:
    """Return the recording as native lists hold it: a path, a part of a file, or the
    file itself as base64.
    """
    if audio.content is not None:
        return {"base64": base64.b64encode(audio.content).decode()}
    if not audio.start and audio.end is None:
        return audio.path
    return {"path": audio.path, "start": audio.start, "end": audio.end}


def with_audio(
    lists: Iterable[NbestList], paths: Sequence[str], allow_missing: bool
) -> Iterator[NbestList]:
    """Yield the lists with their recordings, each of which is read and checked.

    Args:
        lists: The lists.
        paths: As of `recordings`.
        allow_missing: Whether a list without a usable recording gets `NO_AUDIO` and a
            warning; otherwise it is an error.

    Raises:
        UserError: A recording is missing or cannot be used.
    """
    known = ByName(recordings(paths), ", ".join(paths))
    absent = f"no recording in {', '.join(paths)}"
    for nbest in lists:
        audio = known.get(nbest.id) or nbest.audio or NO_AUDIO
        audio = replace(audio, name=nbest.id, optional=allow_missing)
        yield replace(nbest, audio=_usable(audio, absent))


def heard(lists: Iterable[NbestList], longest: float, name: str) -> list[NbestList]:
    """Return the lists for models that listen. All recordings are checked before
    anything is scored.

    Args:
        lists: The lists.
        longest: Seconds of a recording that all models hear.
        name: The model that hears no longer recordings, for messages.

    Raises:
        UserError: A recording that is not optional is missing, damaged or too long.
    """
    checked = []
    for nbest in lists:
        if nbest.audio is None:
            raise UserError(
                f"utterance {nbest.id}: no recording, which {name} listens to; give"
                " --audio"
            )
        audio = replace(nbest.audio, name=nbest.id)
        if audio != NO_AUDIO:
            audio = _usable(audio, "", name, longest)
        checked.append(replace(nbest, audio=audio))
    return checked


def _usable(
    audio: Audio, absent: str, name: str = "", longest: float = LONGEST
) -> Audio:
    """Return the recording; `NO_AUDIO`, with a warning, for an optional recording that
    cannot be used.
    """
    try:
        if audio == NO_AUDIO:
            raise UserError(f"utterance {audio.name}: {absent}")
        check_length(audio, name, longest)
        return audio
    except UserError as error:
        if not audio.optional:
            raise UserError(f"{error}; --allow-missing goes on without it") from None
        log.warning("%s", error)
        return NO_AUDIO


def check_length(audio: Audio, name: str, longest: float) -> None:
    """Read a recording, and check that a model can hear it whole.

    Args:
        audio: The recording.
        name: The model.
        longest: Seconds of a recording that the model hears.

    Raises:
        UserError: The recording is too long, or cannot be read.
    """
    _, seconds = _measured(audio)
    if seconds > longest:
        raise UserError(
            f"utterance {audio.name}: {audio.path}: {seconds:.1f} s, but {name} hears"
            f" {longest:g} s; cut it into shorter utterances with `segments` beside"
            " wav.scp"
        )


def confined(audio: Audio, folder: Path | None) -> Audio:
    """Return the recording that a request names, if it may be read.

    Args:
        audio: The recording: its content, or a path.
        folder: The folder that the path must be in; None if paths are not allowed.

    Raises:
        UserError: The path is not allowed.
    """
    if audio.content is not None:
        return audio
    if folder is None:
        raise UserError(
            f"utterance {audio.name}: paths of recordings are not allowed; send the"
            " file as base64"
        )
    path = (folder / audio.path).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise UserError(
            f"utterance {audio.name}: {audio.path} is outside the folder of recordings"
        )
    return replace(audio, path=str(path))


# --- samples -------------------------------------------------------------------------


def samples(audio: Audio, rate: int) -> Samples:
    """Return the samples of a recording; several channels are averaged.

    Args:
        audio: The recording.
        rate: Samples a second.

    Returns:
        Samples of shape (samples,), in [-1, 1].

    Raises:
        UserError: The recording cannot be read.
    """
    with _opened(audio) as (own_rate, _, blocks):
        if own_rate == rate:
            return np.concatenate(list(blocks))
        import soxr

        stream = soxr.ResampleStream(own_rate, rate, 1, dtype="float32")
        parts = [stream.resample_chunk(block) for block in blocks]
        parts.append(stream.resample_chunk(np.zeros(0, np.float32), last=True))
        return np.concatenate(parts)


def digest(audio: Audio) -> str:
    """Return the hash of a recording's samples and their rate, in hexadecimal; empty
    for `NO_AUDIO`. The file's name does not count.
    """
    if audio == NO_AUDIO:
        return ""
    return _measured(audio)[0]


def _measured(audio: Audio) -> tuple[str, float]:
    """Return the hash and the length of a recording, in seconds."""
    if audio.content is not None:
        return _read_content(audio)
    if not _is_file(audio.path):
        return _read_through(audio, None)
    file = Path(audio.path).stat()
    return _read_through(audio, (file.st_mtime_ns, file.st_size))


@lru_cache(maxsize=RECENT)
def _read_content(audio: Audio) -> tuple[str, float]:
    """Return the hash and the length of a recording that a request brings. The cache
    holds the recording itself, so that it must be small.
    """
    return _read_through.__wrapped__(audio, None)


@lru_cache(maxsize=1 << 16)
def _read_through(audio: Audio, state: tuple[int, int] | None) -> tuple[str, float]:
    """Return the hash and the length of a recording. `state` is the time and size of
    its file: a file that changes is read again.
    """
    sums = hashlib.blake2b(digest_size=16)
    with _opened(audio) as (rate, number, blocks):
        for block in blocks:
            sums.update(block.tobytes())
    sums.update(str(rate).encode())
    return sums.hexdigest(), number / rate


@contextmanager
def _opened(audio: Audio) -> Iterator[tuple[int, int, Iterator[Samples]]]:
    """Yield the rate of a recording, the number of its samples, and the samples in
    blocks, the channels averaged.

    Errors of soundfile become `UserError`.
    """
    what = audio.path if audio.content is None else "its audio"
    place = f"utterance {audio.name}: {what}"
    try:
        import soundfile
        import soxr  # noqa: F401 (missing packages are told together)
    except (ImportError, OSError):
        raise UserError(
            "recordings need soundfile and soxr; install them with:"
            f" {installed_by('audio')}"
        ) from None
    audio_part(audio, place)
    try:
        if audio.content is None and not _is_file(audio.path):
            raise UserError(f"{place}: no such file")
        content = audio.path if audio.content is None else io.BytesIO(audio.content)
        with soundfile.SoundFile(content) as file:
            first, last = _part(audio, file, _frames(audio, file.frames), place)
            yield file.samplerate, last - first, _blocks(file, first, last, place)
    except (
        soundfile.SoundFileError,
        OSError,
        TypeError,
        ValueError,
        MemoryError,
    ) as error:
        reason = " ".join(str(error).rpartition(": ")[2].split())[:100]
        raise UserError(
            f"{place}: cannot be read as audio ({reason}); convert it to WAV or FLAC"
        ) from None


def _is_file(path: str) -> bool:
    """Return whether a path is a file; False for a text that can be no path."""
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # a name that is too long, or has a NUL
        return False


def _frames(audio: Audio, present: int) -> int:
    """Return the number of samples of a channel. `present` can be read; a WAV that is
    cut has more, by the size in its header.
    """
    if audio.content is None:
        note_read(Path(audio.path))
        with open(audio.path, "rb") as file:
            head = file.read(8)
        size = Path(audio.path).stat().st_size
    else:
        head = audio.content[:8]
        size = len(audio.content)
    if head[:4] != b"RIFF":
        return present
    whole = int.from_bytes(head[4:], "little") + 8
    if size < whole < UNKNOWN_SIZE:
        return present * whole // size
    return present


def _part(audio: Audio, file: Any, frames: int, place: str) -> tuple[int, int]:
    """Return the first and the last sample (exclusive) of the recording in its file."""
    rate = file.samplerate
    first = round(audio.start * rate)
    last = frames if audio.end is None else min(frames, round(audio.end * rate))
    seconds = (last - first) / rate
    if seconds < SHORTEST:
        raise UserError(
            f"{place}: {max(0, last - first)} samples from {audio.start:g} s on"
            f" ({frames / rate:.2f} s in the file), too short for speech"
        )
    if seconds > LONGEST:
        raise UserError(
            f"{place}: {seconds:,.0f} s, more than {LONGEST:g} s; cut it into"
            " utterances with `segments` beside wav.scp"
        )
    if (last - first) * file.channels > MOST_SAMPLES:
        raise UserError(
            f"{place}: {last - first:,} samples in each of {file.channels} channels,"
            f" more than {MOST_SAMPLES:,} in all; give a single channel, or a lower"
            " rate"
        )
    return first, last


def _blocks(file: Any, first: int, last: int, place: str) -> Iterator[Samples]:
    """Yield the samples from `first` to `last` (exclusive), the channels averaged."""
    rate = file.samplerate
    read = 0
    file.seek(min(first, file.frames))
    while read < last - first:
        size = min(last - first - read, max(1, BLOCK // file.channels))
        block = file.read(size, dtype="float32", always_2d=True)
        if not len(block):
            break
        read += len(block)
        yield block[:, 0] if block.shape[1] == 1 else block.mean(axis=1)
    if read < last - first - rate * SHORTEST:
        raise UserError(
            f"{place}: damaged: {read / rate:.2f} s of {(last - first) / rate:.2f} s"
            " can be read"
        )
