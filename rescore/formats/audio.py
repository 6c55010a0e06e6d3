"""Recordings of utterances: where they are, and their samples. The only border between audio files and the package.

recordings(["data/test/wav.scp"])["utt-1"]      an `Audio`, from wav.scp with segments, a folder, or a manifest
samples(audio, 16_000)                          its samples, mono, at this rate
"""

from __future__ import annotations

import base64
import hashlib
import io
import logging
import math
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
from rescore.formats.text import add_once, identity_of, json_number, split_id, table
from rescore.nbest import NO_AUDIO, Audio, NbestList

log = logging.getLogger(__name__)

Samples = npt.NDArray[np.float32]

ENDINGS = (".wav", ".flac", ".ogg", ".mp3")
LONGEST, SHORTEST = 600.0, 0.025
"""Seconds of an utterance."""


def recordings(paths: Sequence[str]) -> Mapping[str, Audio]:
    """The recordings of utterances by id.

    Args:
        paths: each is Kaldi's wav.scp (with `segments` in its folder, the utterances are these), a folder with such a
            file, a folder of audio files called after their utterances, or a NeMo manifest (JSON Lines with
            audio_filepath, and perhaps offset and duration in seconds).
    """
    every: dict[str, Audio] = {}
    for path in map(Path, paths):
        scp = path / "wav.scp"
        if path.is_dir() and not scp.is_file():
            entries: Iterable[tuple[str, Audio]] = _folder(path)
        else:
            source = Source(scp if path.is_dir() else path)
            entries = _manifest(source) if source.head.lstrip().startswith("{") else _scp(source)
        for name, audio in entries:
            if every.setdefault(name, audio) != audio:
                raise UserError(f"{path}: utterance {name} has another recording, {every[name].path}; give only one")
    return every


@dataclass(frozen=True, slots=True)
class RecordingSegment:
    """Where in a recording an utterance is, as a line of Kaldi's `segments` says it."""

    recording: str
    start: float
    end: float


def read_segments(path: str | Path) -> dict[str, RecordingSegment]:
    """Kaldi's `segments`: `utterance recording start end`, in seconds."""
    segments: dict[str, RecordingSegment] = {}
    for name, value in table(Path(path)).items():
        try:
            recording, start, end = value.split()[:3]
            segments[name] = RecordingSegment(recording, float(start), float(end))
        except ValueError:
            raise UserError(f"{path}: utterance {name}: expected `utterance recording start end`") from None
    return segments


def with_recordings(lists: Iterable[NbestList], path: Path) -> Iterator[NbestList]:
    """The lists with their recordings: of each line of a file, the first field is an utterance, and the second its
    recording.
    """
    recordings = table(path)
    for nbest in lists:
        if not recordings.get(nbest.id):
            raise UserError(f"{path}: utterance {nbest.id} is not in it, or has no recording behind it")
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
                f"{place}: {name} is a command, which is not run; run it, write its output to a .wav or .flac file, "
                "and name this file"
            )
        if not path:
            raise UserError(f"{place}: expected `utterance path`")
        add_once(files, name, Audio(_located(path, source.path.parent), name=name), place)
    segments = source.path.parent / "segments"
    if not segments.is_file():
        yield from files.items()
        return
    for name, segment in read_segments(segments).items():
        place = f"{segments}: utterance {name}"
        if segment.recording not in files:
            raise UserError(f"{place}: recording {segment.recording} is not in {source.name}")
        end = None if segment.end == -1 else segment.end
        yield name, audio_part(replace(files[segment.recording], start=segment.start, end=end, name=name), place)


def _manifest(source: Source) -> Iterator[tuple[str, Audio]]:
    """The recordings of NeMo's manifest; `offset` and `duration` beside a path say the part."""
    for place, line in source.filled():
        value = loads(line, place, line=True)
        if not isinstance(value, dict) or not isinstance(value.get("audio_filepath"), str):
            raise UserError(f"{place}: expected an object with audio_filepath")
        name = identity_of(value["id"] if "id" in value else value["audio_filepath"])
        yield name, manifest_audio(value, name, source.path.parent, place)


def manifest_audio(value: Mapping[str, Any], name: str, folder: Path, place: str) -> Audio:
    """The recording that a line of a manifest names."""
    start, end = 0.0, None
    if value.get("offset") is not None:  # without an offset, the duration describes the whole file
        start = json_number(value["offset"], place, "offset")
        if value.get("duration") is not None:
            end = start + json_number(value["duration"], place, "duration")
    return audio_part(Audio(_located(value["audio_filepath"], folder), start, end, name=name), place)


def _located(path: str, folder: Path) -> str:
    """A path as it is; a relative path that is not there, from the folder of the file that names it."""
    return path if Path(path).is_absolute() or Path(path).exists() else str(folder / path)


def audio_part(audio: Audio, place: str) -> Audio:
    """The same, if its start and end are a part of a recording."""
    end = math.inf if audio.end is None else audio.end
    if not (0 <= audio.start < end and math.isfinite(audio.start)):
        raise UserError(f"{place}: the part from {audio.start:g} s to {end:g} s is empty; give a start before its end")
    return audio


class _Audio(msgspec.Struct, forbid_unknown_fields=True):
    path: str = ""
    start: float = 0.0
    end: float | None = None
    base64: str | None = None


def native_audio(value: str | dict[str, Any], name: str, place: str) -> Audio:
    """The recording that a native list names: a path, a part of one, or the file itself as base64."""
    entry = parsed({"path": value} if isinstance(value, str) else value, _Audio, f"{place}: audio")
    try:
        content = None if entry.base64 is None else base64.b64decode(entry.base64, validate=True)
    except ValueError as error:
        raise UserError(f"{place}: audio: not base64 ({error})") from None
    if bool(entry.path) == bool(content):
        raise UserError(
            f'{place}: audio: expected a path, {{"path": ..., "start": ..., "end": ...}} or {{"base64": ...}}'
        )
    return audio_part(Audio(entry.path, entry.start, entry.end, content, name), place)


def native_entry(audio: Audio) -> str | dict[str, Any]:
    """The recording as native lists hold it."""
    if audio.content is None and not audio.start and audio.end is None:
        return audio.path
    if audio.content is not None:
        return {"base64": base64.b64encode(audio.content).decode()}
    return {"path": audio.path, "start": audio.start, "end": audio.end}


def with_audio(lists: Iterable[NbestList], paths: Sequence[str], allow_missing: bool) -> Iterator[NbestList]:
    """The lists with their recordings, each of which is read and checked; a stream.

    Args:
        paths: see `recordings`. allow_missing: whether a list without a usable recording gets `NO_AUDIO` and a warning;
            else it is an error.
    """
    known = recordings(paths)
    for nbest in lists:
        audio = known.get(nbest.id, nbest.audio)
        try:
            if audio is None:
                raise UserError(f"utterance {nbest.id}: no recording in {', '.join(paths)}")
            audio = replace(audio, name=nbest.id)
            digest(audio)
        except UserError as error:
            if not allow_missing:
                raise UserError(f"{error}; --allow-missing goes on without it") from None
            log.warning("%s", error)
            audio = NO_AUDIO
        yield replace(nbest, audio=audio)


def confined(audio: Audio, folder: Path | None) -> Audio:
    """A recording that a request names, if it may be read: its content, or a path within a folder."""
    if audio.content is not None:
        return audio
    if folder is None:
        raise UserError(f"utterance {audio.name}: paths of recordings are not allowed; send the file as base64")
    path = (folder / audio.path).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise UserError(f"utterance {audio.name}: {audio.path} is outside the folder of recordings")
    return replace(audio, path=str(path))


def samples(audio: Audio, rate: int) -> Samples:
    """The samples of a recording, in [-1, 1], (samples,), at `rate` a second; several channels are averaged."""
    heard, own_rate = _read(audio)
    if own_rate == rate:
        return heard
    import soxr

    return np.asarray(soxr.resample(heard, own_rate, rate), dtype=np.float32)


def digest(audio: Audio) -> str:
    """The hash of a recording's samples and their rate, in hexadecimal; the file's name does not count. Empty for
    `NO_AUDIO`.
    """
    if audio == NO_AUDIO:
        return ""
    path = Path(audio.path)
    state = path.stat() if audio.content is None and path.is_file() else None
    return _digest(audio, state and (state.st_mtime_ns, state.st_size))


@lru_cache(maxsize=1 << 16)
def _digest(audio: Audio, state: tuple[int, int] | None) -> str:
    """`state` of the file: a file that changes is read again."""
    heard, rate = _read(audio)
    return hashlib.blake2b(heard.tobytes() + str(rate).encode(), digest_size=16).hexdigest()


def _read(audio: Audio) -> tuple[Samples, int]:
    """The samples at the file's own rate, and this rate."""
    place = f"utterance {audio.name}: {'its audio' if audio.content is not None else audio.path}"
    with _opened(audio, place) as file:
        rate = file.samplerate
        first = round(audio.start * rate)
        last = file.frames if audio.end is None else min(file.frames, round(audio.end * rate))
        seconds = (last - first) / rate
        if seconds < SHORTEST:
            raise UserError(
                f"{place}: {max(0, last - first)} samples from {audio.start:g} s on ({file.frames / rate:.2f} s in the "
                "file), too short for speech"
            )
        if seconds > LONGEST:
            raise UserError(
                f"{place}: {seconds:,.0f} s, more than {LONGEST:g} s; cut it into utterances with `segments` beside "
                "wav.scp"
            )
        file.seek(first)
        heard = file.read(last - first, dtype="float32", always_2d=True)
    if len(heard) < last - first - rate * SHORTEST:
        raise UserError(f"{place}: damaged: {len(heard) / rate:.2f} s of {seconds:.2f} s can be read")
    return heard[:, 0] if heard.shape[1] == 1 else heard.mean(axis=1), rate


@contextmanager
def _opened(audio: Audio, place: str) -> Iterator[Any]:
    """The file as soundfile opens it; its errors become `UserError`."""
    try:
        import soundfile
        import soxr  # noqa: F401 (missing packages are told together)
    except (ImportError, OSError):
        raise UserError("recordings need soundfile and soxr; install them with: pip install 'rescore[audio]'") from None
    try:
        if audio.content is None and not Path(audio.path).is_file():
            raise UserError(f"{place}: no such file")
        with soundfile.SoundFile(audio.path if audio.content is None else io.BytesIO(audio.content)) as file:
            yield file
    except (soundfile.SoundFileError, OSError, TypeError, ValueError, MemoryError) as error:
        reason = " ".join(str(error).rpartition(": ")[2].split())[:100]
        raise UserError(f"{place}: cannot be read as audio ({reason}); convert it to WAV or FLAC") from None
