"""Recordings of utterances: where they are, and their samples. The only border between
audio files and the package.

`recordings(["data/test/wav.scp"])["utt-1"]` is an `Audio`, from wav.scp with segments,
a folder, or a manifest; `samples(audio, 16_000)` are its samples, mono, at this rate.
"""

from __future__ import annotations

import base64
import hashlib
import io
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.files import loads, parsed
from rescore.formats.source import Source
from rescore.formats.text import add_once, identity_of, split_id, table
from rescore.formats.times import LATEST, Span
from rescore.nbest import NO_AUDIO, Audio, NbestList

log = logging.getLogger(__name__)

Samples = npt.NDArray[np.float32]

ENDINGS = (".wav", ".flac", ".ogg", ".mp3")
LONGEST, SHORTEST = 600.0, 0.025
"""Seconds of an utterance."""
MOST_SAMPLES, BLOCK = 1 << 28, 1 << 20
"""Samples of all channels of an utterance, at most; and of those that are in memory."""
UNKNOWN_SIZE = 0x7FFFF000
"""From this size on, the header of a WAV means that its writer did not know the
size.
"""


def recordings(paths: Sequence[str]) -> Mapping[str, Audio]:
    """The recordings of utterances by id.

    Args:
        paths: each is Kaldi's wav.scp (with `segments` in its folder, the utterances
            are these), a folder with such a file, a folder of audio files called after
            their utterances, or a NeMo manifest (JSON Lines with audio_filepath, and
            perhaps offset and duration in seconds).
    """
    every: dict[str, Audio] = {}
    for path in map(Path, paths):
        scp = path / "wav.scp"
        if path.is_dir() and not scp.is_file():
            entries: Iterable[tuple[str, Audio]] = _folder(path)
        else:
            source = Source(scp if path.is_dir() else path)
            entries = (
                _manifest(source)
                if source.head.lstrip().startswith("{")
                else _scp(source)
            )
        for name, audio in entries:
            if every.setdefault(name, audio) != audio:
                raise UserError(
                    f"{path}: utterance {name} has another recording,"
                    f" {every[name].path}; give only one"
                )
    return every


@dataclass(frozen=True, slots=True)
class RecordingSegment:
    """Where in a recording an utterance is, as a line of Kaldi's `segments` says it."""

    recording: str
    start: float
    end: float | None
    """None for the end of the recording."""


def read_segments(path: str | Path) -> dict[str, RecordingSegment]:
    """Kaldi's `segments`: `utterance recording start end`, in seconds."""
    segments: dict[str, RecordingSegment] = {}
    for name, value in table(Path(path)).items():
        place, cells = f"{path}: utterance {name}", value.split()
        if len(cells) < 3:
            raise UserError(f"{place}: expected `utterance recording start end`")
        is_open = cells[2] in ("-1", "-1.0")  # Kaldi's mark
        span = Span.read(cells[1], LATEST if is_open else cells[2], place)
        segments[name] = RecordingSegment(
            cells[0], span.start, None if is_open else span.end
        )
    return segments


def with_recordings(lists: Iterable[NbestList], path: Path) -> Iterator[NbestList]:
    """The lists with their recordings: of each line of a file, the first field is an
    utterance, and the second its recording.
    """
    recordings = table(path)
    for nbest in lists:
        if not recordings.get(nbest.id):
            raise UserError(
                f"{path}: utterance {nbest.id} is not in it, or has no recording"
                " behind it"
            )
        yield replace(nbest, recording=recordings[nbest.id].split()[0])


def _folder(folder: Path) -> Iterator[tuple[str, Audio]]:
    """Files called ID.wav, in the folder or in folders within it."""
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in ENDINGS and path.is_file():
            yield path.stem, Audio(str(path), name=path.stem)


def _scp(source: Source) -> Iterator[tuple[str, Audio]]:
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
        add_once(
            files, name, Audio(_located(path, source.path.parent), name=name), place
        )
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
    """The recordings of NeMo's manifest; `offset` and `duration` beside a path say the
    part.
    """
    for place, line in source.filled():
        value = loads(line, place, line=True)
        if not isinstance(value, dict) or not isinstance(
            value.get("audio_filepath"), str
        ):
            raise UserError(f"{place}: expected an object with audio_filepath")
        name = identity_of(value["id"] if "id" in value else value["audio_filepath"])
        yield name, manifest_audio(value, name, source.path.parent, place)


def manifest_audio(
    value: Mapping[str, Any], name: str, folder: Path, place: str
) -> Audio:
    """The recording that a line of a manifest names."""
    span, duration = Span(0.0, LATEST), value.get("duration")
    # without an offset, the duration describes the whole file
    if value.get("offset") is not None:
        span = Span.read(
            value["offset"],
            LATEST if duration is None else duration,
            place,
            duration is not None,
        )
    end = None if span.end == LATEST else span.end
    return audio_part(
        Audio(_located(value["audio_filepath"], folder), span.start, end, name=name),
        place,
    )


def _located(path: str, folder: Path) -> str:
    """A path as it is; a relative path that is not there, from the folder of the file
    that names it.
    """
    return path if Path(path).is_absolute() or _is_file(path) else str(folder / path)


def audio_part(audio: Audio, place: str) -> Audio:
    """The same, if its path can be a path, and its start and end are a part of a
    recording.
    """
    span = Span.read(audio.start, LATEST if audio.end is None else audio.end, place)
    if span.start == span.end:
        raise UserError(
            f"{place}: the part from {span.start:g} s to {span.end:g} s is empty"
        )
    if "\0" in audio.path:
        raise UserError(f"{place}: the path of a recording has a NUL character")
    return audio


class _Audio(msgspec.Struct, forbid_unknown_fields=True):
    path: str = ""
    start: float = 0.0
    end: float | None = None
    base64: str | None = None


def native_audio(value: str | dict[str, Any], name: str, place: str) -> Audio:
    """The recording that a native list names: a path, a part of one, or the file itself
    as base64.
    """
    entry = parsed(
        {"path": value} if isinstance(value, str) else value, _Audio, f"{place}: audio"
    )
    try:
        content = (
            None
            if entry.base64 is None
            else base64.b64decode(entry.base64, validate=True)
        )
    except ValueError as error:
        raise UserError(f"{place}: audio: not base64 ({error})") from None
    if bool(entry.path) == bool(content):
        raise UserError(
            f'{place}: audio: expected a path, {{"path": ..., "start": ..., "end":'
            ' ...} or {"base64": ...}'
        )
    return audio_part(Audio(entry.path, entry.start, entry.end, content, name), place)


def native_entry(audio: Audio) -> str | dict[str, Any]:
    """The recording as native lists hold it."""
    if audio.content is None and not audio.start and audio.end is None:
        return audio.path
    if audio.content is not None:
        return {"base64": base64.b64encode(audio.content).decode()}
    return {"path": audio.path, "start": audio.start, "end": audio.end}


def with_audio(
    lists: Iterable[NbestList], paths: Sequence[str], allow_missing: bool
) -> Iterator[NbestList]:
    """The lists with their recordings, each of which is read and checked; a stream.

    Args:
        paths: see `recordings`. allow_missing: whether a list without a usable
            recording gets `NO_AUDIO` and a warning; else it is an error.
    """
    known = recordings(paths)
    for nbest in lists:
        audio = known.get(nbest.id, nbest.audio)
        audio = replace(audio or NO_AUDIO, name=nbest.id, optional=allow_missing)
        yield replace(
            nbest, audio=_usable(audio, f"no recording in {', '.join(paths)}")
        )


def heard(lists: Iterable[NbestList], longest: float, name: str) -> list[NbestList]:
    """The lists for models that listen. All recordings are checked before anything is
    scored.

    Args:
        longest: seconds of a recording that all models hear. name: of the model that
            hears no longer recordings.

    Raises:
        UserError: a recording that is not optional is missing, damaged or too long.
    """
    checked = []
    for nbest in lists:
        if nbest.audio is None:
            raise UserError(
                f"utterance {nbest.id}: no recording, which {name} listens to; give"
                " --audio"
            )
        audio = replace(nbest.audio, name=nbest.id)
        checked.append(
            replace(
                nbest,
                audio=audio if audio == NO_AUDIO else _usable(audio, "", name, longest),
            )
        )
    return checked


def _usable(
    audio: Audio, absent: str, name: str = "", longest: float = LONGEST
) -> Audio:
    """The recording; `NO_AUDIO`, with a warning, for an optional recording that cannot
    be used.
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
    """Read a recording, and check that the model of this name can hear it whole."""
    _, seconds = _measured(audio)
    if seconds > longest:
        raise UserError(
            f"utterance {audio.name}: {audio.path}: {seconds:.1f} s, but {name} hears"
            f" {longest:g} s; cut it into shorter utterances with `segments` beside"
            " wav.scp"
        )


def confined(audio: Audio, folder: Path | None) -> Audio:
    """A recording that a request names, if it may be read: its content, or a path
    within a folder.
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


def samples(audio: Audio, rate: int) -> Samples:
    """The samples of a recording, in [-1, 1], (samples,), at `rate` a second; several
    channels are averaged.
    """
    with _opened(audio) as (own_rate, _, blocks):
        import soxr

        stream = (
            None
            if own_rate == rate
            else soxr.ResampleStream(own_rate, rate, 1, dtype="float32")
        )
        parts = [stream.resample_chunk(block) if stream else block for block in blocks]
        if stream:
            parts.append(stream.resample_chunk(np.zeros(0, np.float32), last=True))
        return np.concatenate(parts)


def digest(audio: Audio) -> str:
    """The hash of a recording's samples and their rate, in hexadecimal; the file's name
    does not count. Empty for `NO_AUDIO`.
    """
    return "" if audio == NO_AUDIO else _measured(audio)[0]


def _measured(audio: Audio) -> tuple[str, float]:
    """The hash and the length of a recording, in seconds."""
    state = (
        Path(audio.path).stat()
        if audio.content is None and _is_file(audio.path)
        else None
    )
    return _read_through(audio, state and (state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=1 << 16)
def _read_through(audio: Audio, state: tuple[int, int] | None) -> tuple[str, float]:
    """`state` of the file: a file that changes is read again."""
    sums = hashlib.blake2b(digest_size=16)
    with _opened(audio) as (rate, number, blocks):
        for block in blocks:
            sums.update(block.tobytes())
    sums.update(str(rate).encode())
    return sums.hexdigest(), number / rate


@contextmanager
def _opened(audio: Audio) -> Iterator[tuple[int, int, Iterator[Samples]]]:
    """The rate of a recording, the number of its samples, and the samples in blocks,
    the channels averaged.

    Errors of soundfile become `UserError`.
    """
    place = (
        f"utterance {audio.name}:"
        f" {'its audio' if audio.content is not None else audio.path}"
    )
    try:
        import soundfile
        import soxr  # noqa: F401 (missing packages are told together)
    except (ImportError, OSError):
        raise UserError(
            "recordings need soundfile and soxr; install them with: pip install"
            " 'rescore[audio]'"
        ) from None
    audio_part(audio, place)
    try:
        if audio.content is None and not _is_file(audio.path):
            raise UserError(f"{place}: no such file")
        with soundfile.SoundFile(
            audio.path if audio.content is None else io.BytesIO(audio.content)
        ) as file:
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
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # a name that is too long, or has a NUL
        return False


def _frames(audio: Audio, present: int) -> int:
    """The samples of a channel. `present` can be read; a WAV that is cut has more, by
    the size in its header.
    """
    if audio.content is None:
        with open(audio.path, "rb") as file:
            head, size = file.read(8), Path(audio.path).stat().st_size
    else:
        head, size = audio.content[:8], len(audio.content)
    whole = int.from_bytes(head[4:], "little") + 8 if head[:4] == b"RIFF" else 0
    return present * whole // size if size < whole < UNKNOWN_SIZE else present


def _part(audio: Audio, file: Any, frames: int, place: str) -> tuple[int, int]:
    """The first and the last sample (exclusive) of the recording in its file."""
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
    rate, read = file.samplerate, 0
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
