"""Files: small JSON documents, digests, and outputs that replace a file when complete.

All outputs are written here: this module alone knows which endings are packed, that `-`
is stdout, and how a file takes its place. An output is written to a temporary file in
the same folder, which is renamed at the end: a run that is cut off leaves no half file.
The outputs of a command are renamed together, when all are complete (`together`).
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import itertools
import json
import lzma
import os
import re
import shutil
import socket
import stat
import sys
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import msgspec

from rescore.errors import UserError, did_you_mean
from rescore.values import with_kinds_in_words

T = TypeVar("T")

LARGEST_JSON = 1 << 26
"""Bytes of a document at most: decision weights, results, configurations."""

PACKED = (".gz", ".xz")
"""Endings of packed files, behind the ending of their format."""
GZIP = b"\x1f\x8b"
"""The first bytes of a gzip file."""
XZ = b"\xfd7zXZ\x00"
"""The first bytes of an xz file."""


def unpacked_name(path: str) -> str:
    """Return a path without .gz or .xz, in any case, at its end."""
    for packing in PACKED:
        if path.lower().endswith(packing):
            path = path[: -len(packing)]
    return path


def ending_of(path: str) -> str:
    """Return the ending of a file, by which writers choose its format: with its dot, in
    small letters, without .gz or .xz; empty for a name without an ending.

    Args:
        path: The path; `-`, for stdout, has no ending.

    Example:
        >>> ending_of("out/test.best.trn.gz")
        '.trn'
    """
    return Path(unpacked_name(path)).suffix.lower()


def absent(path: Path) -> str:
    """Return the message about a path that does not exist.

    Args:
        path: The path.

    Returns:
        The message, with the name in the same folder that is most like it.
    """
    beside = []
    if path.parent.is_dir():
        beside = [other.name for other in path.parent.iterdir()]
    return f"{path}: no such file or folder{did_you_mean(path.name, beside)}"


def make_folder(folder: Path, shown: str) -> None:
    """Make a folder, and the folders that it is in; it may exist.

    Args:
        folder: The folder.
        shown: The folder as the message names it, such as `--out DIR`.

    Raises:
        UserError: It cannot be made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{shown}: cannot be made ({reason})") from None


def sha256(path: Path) -> bytes:
    """Return the SHA-256 digest of a file, 32 bytes."""
    note_read(path)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def read_json(path: Path) -> Any:
    """Return the value of a file that holds one JSON document.

    Args:
        path: The file.

    Returns:
        Dictionaries, lists, texts, numbers, bool or None, as of `json.loads`.

    Raises:
        UserError: The file cannot be read, has more than `LARGEST_JSON` bytes, or is
            not valid JSON.
    """
    note_read(path)
    with as_user_errors(str(path)), open(path, "rb") as file:
        data = file.read(LARGEST_JSON + 1)
        data = unpacked(data, io.BytesIO(data)).read(LARGEST_JSON + 1)
    if len(data) > LARGEST_JSON:
        raise UserError(
            f"{path}: more than {LARGEST_JSON:,} bytes; expected one JSON document"
        )
    return loads(data, str(path))


@contextmanager
def as_user_errors(name: str) -> Iterator[None]:
    """Turn errors of the file system and of packed data into user errors.

    Args:
        name: The file, for the message.

    Raises:
        UserError: The block raised such an error.
    """
    try:
        yield
    except (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError) as error:
        raise UserError(f"{name}: damaged gzip or xz file ({error})") from None
    except OSError as error:
        raise UserError(f"{name}: cannot be read ({error.strerror or error})") from None


def unpacked(start: bytes, stream: IO[bytes]) -> IO[bytes]:
    """Return a stream that begins with `start`, unpacked if it is gzip or xz.

    Args:
        start: The first bytes.
        stream: The stream, at its beginning.
    """
    if start.startswith(GZIP):
        return cast(IO[bytes], gzip.GzipFile(fileobj=stream))
    if start.startswith(XZ):
        return lzma.LZMAFile(stream)
    return stream


def loads(text: str | bytes, place: str, line: bool = False) -> Any:
    """Return the value of one JSON document.

    Args:
        text: The document; bytes are UTF-8.
        place: The file, and with `line` also the line, for messages.
        line: Whether the document is a single line, which `place` already names.

    Returns:
        Dictionaries, lists, texts, numbers, bool or None, as of `json.loads`.

    Raises:
        UserError: The text is not UTF-8 or not valid JSON, or an object has a key
            twice.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode()
        value = _decoded(text)
        if "\\ud" in text or "\\uD" in text:
            # json reads half a surrogate pair, which no file can hold: encoding fails
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeDecodeError as error:
        raise UserError(
            f"{place}: not UTF-8 ({error.reason} at byte {error.start})"
        ) from None
    except UnicodeEncodeError:
        raise UserError(
            f"{place}: half of a surrogate pair (\\ud800 to \\udfff), which is no"
            " character"
        ) from None
    except json.JSONDecodeError as error:
        raise UserError(_syntax_message(error, place, line)) from None
    except ValueError as error:
        raise UserError(f"{place}: {error}") from None
    except RecursionError:
        raise UserError(f"{place}: JSON is nested too deeply") from None


def _syntax_message(error: json.JSONDecodeError, place: str, line: bool) -> str:
    """Return the message about invalid JSON, with its line and column."""
    column = f"column {error.colno}"
    where = f"{place}, {column}" if line else f"{place}: line {error.lineno}, {column}"
    at_end = error.pos >= len(error.doc.rstrip()) - 1
    is_cut = at_end or error.msg.startswith("Unterminated")
    hint = "; is it truncated?" if is_cut else ""
    return f"{where}: not valid JSON ({error.msg}){hint}"


def _decoded(text: str) -> Any:
    """Return what `json.loads` does, with one decoder for all documents: it would make
    a decoder for each, which takes longer than to read a line of a list.
    """
    if text.startswith("\ufeff"):
        return json.loads(text, object_pairs_hook=_object)  # raises
    return DECODER.decode(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object; a key that it has twice is an error."""
    entries = dict(pairs)
    if len(entries) == len(pairs):
        return entries
    seen = set()
    for key, _ in pairs:
        if key in seen:
            break
        seen.add(key)
    duplicate = key.encode(errors="backslashreplace").decode()
    raise ValueError(
        f"{duplicate} is duplicated; give each key, utterance and hypothesis once"
    )


DECODER = json.JSONDecoder(object_pairs_hook=_object)


def parsed(
    value: Any, kind: type[T], place: str, key_of: Callable[[str], str] = str
) -> T:
    """Return a JSON value as an object of a type.

    Args:
        value: The value, as of `loads`.
        kind: A type that msgspec knows, such as a `msgspec.Struct`.
        place: The file and the place in it, for messages.
        key_of: Returns the key of the file for a field of the type, for messages; the
            default is for files that have these fields.

    Raises:
        UserError: The value does not have this type.
    """
    try:
        return msgspec.convert(value, kind, strict=True, dec_hook=_of_json)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None
    except (msgspec.ValidationError, OverflowError, SystemError) as error:
        said: BaseException = error
        if isinstance(error, SystemError):  # msgspec before 0.22: a number is too large
            said = error.__cause__ or error
        # msgspec writes: Expected `str`, got `int` - at `$.name`
        message = with_kinds_in_words(str(said)).replace("`", "")
        what, *places = message.split(" - at $")
        what = what[:1].lower() + what[1:]
        field = "".join(reversed(places)).lstrip(".")
        if field:
            what = f"{key_of(field)}: {what}"
        raise UserError(f"{place}: {what}") from None


def _of_json(kind: type[Any], value: Any) -> Any:
    """Return an object of a class that msgspec does not know: the class makes it of
    JSON (`of_json`).

    Raises:
        ValueError: The value is no such object; msgspec adds the place.
    """
    try:
        return kind.of_json(value)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def shown(name: str) -> str:
    """Return the name of a file as it stands in records and tables.

    Bytes that are not UTF-8 are written as `\\xff`.
    """
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def distinct(parts: Sequence[Sequence[str]]) -> tuple[str, ...] | None:
    """Return the first of the parts of several paths that differs in each two of them;
    None if there is none.

    Args:
        parts: The parts of each path, in the order in which they are looked at.
    """
    names = distinct_in_each([parts])
    return names[0] if names else None


def distinct_in_each(
    sets: Sequence[Sequence[Sequence[str]]],
) -> list[tuple[str, ...]] | None:
    """Return for each set of paths the first of the parts that differs in each two
    paths of a set, in every set at the same place; None if there is none.

    Args:
        sets: The parts of each path of each set, in the order in which they are looked
            at.
    """
    places = [zip(*parts, strict=False) for parts in sets]
    for names in zip(*places, strict=False):
        if all(len(set(of_set)) == len(of_set) for of_set in names):
            return list(names)
    return None


_HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:6]
"""Names this machine in temporary paths: others may write to the same folder."""
_LEFT = re.compile(rf"\..+\.{_HOST}-(\d+)-\d+\.tmp")
"""Temporary paths of this machine, with the number of the process."""
_NUMBERS = itertools.count()
"""Numbers of temporary paths, so that threads can write the same file."""


def temporary_path(path: Path) -> Path:
    """Return a new path beside another, to write to before it takes its place.

    Args:
        path: The file or folder to be written.

    Returns:
        The path `.NAME.HOST-PID-NUMBER.tmp`, with another number in each call.
    """
    made_here = f"{_HOST}-{os.getpid()}-{next(_NUMBERS)}"
    return path.with_name(f".{path.name}.{made_here}.tmp")


def remove_left(folder: Path) -> None:
    """Remove the temporary files in a folder that killed processes of this machine
    left there.

    Args:
        folder: The folder; it may be absent.
    """
    with suppress(OSError):
        for path in list(folder.iterdir()):
            match = _LEFT.fullmatch(path.name)
            if match is None or _runs(int(match[1])):
                continue
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def locked(folder: Path) -> int | None:
    """Return a number that stands for a folder that this process alone may use, until
    `os.close` of the number or the end of the process; None if another process has the
    folder. Nothing is locked on Windows.

    Args:
        folder: The folder.
    """
    if os.name == "nt":
        return os.open(os.devnull, os.O_RDONLY)
    import fcntl  # absent on Windows

    try:
        number = os.open(folder, os.O_RDONLY)
    except OSError:  # the other process has just removed it
        return None
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(number)
        return None
    if not folder.exists():  # it was removed meanwhile
        os.close(number)
        return None
    return number


def _runs(process: int) -> bool:
    """Return whether a process of this number may run; always true on Windows, where
    asking would end it.
    """
    if os.name == "nt":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def is_replaced(path: str) -> bool:
    """Return whether an output is a file that is written beside its place and renamed:
    not stdout, a device or a pipe.

    Args:
        path: The output; `-` is stdout.
    """
    place = Path(path)
    try:
        return path != "-" and (place.is_file() or not place.exists())
    except OSError:  # the writer says what is wrong with it
        return True


def resolved(path: Path) -> Path:
    """Return the absolute path without links.

    Args:
        path: The path.

    Raises:
        OSError: Links lead in a circle.
    """
    # Path.resolve() of Python 3.13 and later says nothing of a circle, either
    found = Path(os.path.realpath(path))
    if any(map(Path.is_symlink, (found, *found.parents))):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return found


Identity = tuple[int, int]
"""The device and the inode of a file, which are equal for all paths and links to it."""


def identity(path: str | Path) -> Identity | None:
    """Return what names a regular file; None for a path that leads to no such file.

    Args:
        path: A path, of which links are followed.
    """
    try:
        status = Path(path).stat()
    except (OSError, ValueError):  # a text that can be no path
        return None
    if not stat.S_ISREG(status.st_mode):
        return None
    return status.st_dev, status.st_ino


# --- outputs -------------------------------------------------------------------------


@dataclass(slots=True)
class _Waiting:
    """The outputs of a command that are complete, and wait for the others."""

    outputs: frozenset[Path]
    """The outputs of the command: files, and folders of files."""
    ready: dict[Path, Path] = field(default_factory=dict)
    """The temporary path of each complete output."""
    read: dict[Identity, Path] = field(default_factory=dict)
    """The files that the command has read."""
    written: dict[Identity, Path] = field(default_factory=dict)
    """The files whose places outputs will take."""

    def holds(self, path: Path) -> bool:
        """Return whether a path is an output, or in a folder that is an output."""
        return not self.outputs.isdisjoint((path, *path.parents))

    def note(
        self, path: Path, own: dict[Identity, Path], others: Mapping[Identity, Path]
    ) -> None:
        """Add a file to the files that are read or to the files that are written.

        A system gives the identity of a removed file to a new one: another process may
        have replaced the file that was noted, so its path is asked once more.

        Raises:
            UserError: The file is among the others, too.
        """
        file = identity(path)
        if file is None:
            return
        if file in others and identity(others[file]) == file:
            raise UserError(
                f"{path}: is read, and an output would write over it; give another file"
            )
        own[file] = path

    def place(self) -> None:
        """Let each output take its place."""
        for path, temporary in self.ready.items():
            try:
                temporary.replace(path)
            except OSError as error:
                raise unwritable(str(path), error) from None

    def remove(self) -> None:
        """Remove all temporary files and folders that are left."""
        for temporary in self.ready.values():
            if temporary.is_dir():
                shutil.rmtree(temporary, ignore_errors=True)
            else:
                temporary.unlink(missing_ok=True)


_WAITING: ContextVar[_Waiting | None] = ContextVar("waiting", default=None)


def note_read(path: Path) -> None:
    """See that no output of the running command takes the place of a file that is read.

    A folder, a pattern or a file of paths may lead to a file: each reader calls this
    with the file that it opens.

    Args:
        path: The file.

    Raises:
        UserError: An output would take its place.
    """
    waiting = _WAITING.get()
    if waiting is not None:
        waiting.note(path, waiting.read, waiting.written)


def _note_written(path: Path, output: Path | None) -> None:
    """See that an output of the running command takes the place of no file that was
    read.

    Args:
        path: The file to be written.
        output: The output that it is a part of; None for itself.

    Raises:
        UserError: The file was read.
    """
    waiting = _WAITING.get()
    if waiting is not None and waiting.holds(output or path):
        waiting.note(path, waiting.written, waiting.read)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Return a context in which errors of the system name a file: a full disk names
    none.

    Args:
        path: The file or folder that is written.

    Raises:
        OSError: The error of the block, with the name.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None:  # NumPy's, where a part of an array was written
            full = errno.ENOSPC
            raise OSError(full, os.strerror(full), str(path)) from None
        if error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def together(paths: Collection[str]) -> Iterator[None]:
    """Let the outputs of a command take their places when the block ends. If the block
    raises an error, no output is written; it is an error to read a file whose place an
    output takes.

    The reader of stdout may go away before the end (`| head`): this is no error of the
    outputs.

    Args:
        paths: The outputs: files and folders.

    Raises:
        UserError: An output cannot be written.
    """
    places = set[Path]()
    for path in paths:
        try:
            places.add(resolved(Path(path)))
        except OSError as error:
            raise unwritable(path, error) from None
    for folder in {place.parent for place in places}:
        remove_left(folder)
    waiting = _Waiting(frozenset(places))
    for path in paths:
        waiting.note(Path(path), waiting.written, {})
    token = _WAITING.set(waiting)
    try:
        try:
            yield
        except BrokenPipeError:
            waiting.place()
            raise
        waiting.place()
    finally:
        _WAITING.reset(token)
        waiting.remove()


def unwritable(path: str, error: OSError) -> UserError:
    """Return the error about an output that cannot be written.

    Args:
        path: The output.
        error: The error of the system.
    """
    return UserError(f"{path}: cannot be written ({error.strerror or error})")


def put(temporary: Path, path: Path, output: Path | None = None) -> bool:
    """Let a complete temporary file or folder take the place of a path, or wait for the
    other outputs of the command.

    Args:
        temporary: The temporary path.
        path: The path, absolute and without links.
        output: The output that this is a part of; None for the path itself.

    Returns:
        Whether it took its place.
    """
    waiting = _WAITING.get()
    if waiting is not None and waiting.holds(output or path):
        waiting.ready[path] = temporary
        return False
    temporary.replace(path)
    return True


@contextmanager
def replacing(path: Path, output: Path | None = None) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which takes the place of `path` at the end.

    If the block raises an error, the temporary file is removed. A path that exists and
    is no regular file (`/dev/null`, a pipe) is yielded as it is.

    Args:
        path: The file to be written.
        output: The output of a command that the file is a part of; None for itself.

    Raises:
        OSError: The path cannot be written, for example because of a loop of links.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    path = resolved(path)  # the file behind a link is written, and the link stays
    if output is not None:
        output = resolved(output)
    _note_written(path, output)
    temporary = temporary_path(path)
    waits = False
    try:
        # A new file has the permissions of the user's umask; libraries that write
        # beside and rename would forget it.
        os.close(os.open(temporary, os.O_CREAT | os.O_WRONLY, 0o666))
        model = path if path.exists() else temporary
        mode = model.stat().st_mode & 0o7777
        with naming(path):
            yield temporary
        temporary.chmod(mode)
        waits = not put(temporary, path, output)
    finally:
        if not waits:
            temporary.unlink(missing_ok=True)


@contextmanager
def opened(path: str, output: str = "") -> Iterator[IO[str]]:
    """Yield a text file to write, which is renamed into place when the block ends.

    Args:
        path: The file, packed if the name ends in .gz or .xz; `-` is stdout.
        output: The output of a command that the file is a part of; empty for itself.

    Raises:
        UserError: The file cannot be written.
    """
    if path == "-":
        yield sys.stdout
        return
    whole = Path(output) if output else None
    try:
        # bytes of file names that are not UTF-8 are written as question marks
        with (
            replacing(Path(path), whole) as temporary,
            open(temporary, "wb") as raw,
            _packing(raw, path) as stream,
            io.TextIOWrapper(stream, "utf-8", errors="replace") as file,
        ):
            yield file
    except BrokenPipeError:  # the reader of a pipe went away
        raise
    except OSError as error:
        raise unwritable(path, error) from None


def _packing(raw: IO[bytes], path: str) -> IO[bytes]:
    """Return a stream that packs what is written to it, by the ending of a path."""
    if path.lower().endswith(".gz"):
        return cast(IO[bytes], gzip.GzipFile("", "wb", fileobj=raw, mtime=0))
    if path.lower().endswith(".xz"):
        return lzma.LZMAFile(raw, "wb")
    return raw


def write_text(path: Path, text: str) -> None:
    """Write a small file beside its place, and rename it.

    Args:
        path: The file; `-` is stdout.
        text: The contents. Bytes of file names that are not UTF-8 are written as
            question marks.

    Raises:
        UserError: The file cannot be written.
    """
    with opened(str(path)) as file:
        file.write(text)
