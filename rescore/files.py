"""Files: small JSON documents, digests, and outputs that replace a file when complete.

An output is written to a temporary file in the same folder, which is renamed at the
end: a run that is cut off leaves no half file.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from rescore.errors import UserError, did_you_mean

T = TypeVar("T")

LARGEST_JSON = 1 << 26
"""Bytes of a document at most: decision weights, results, configurations."""


AUDIO_PATH = re.compile(
    r"\.(?:wav|flac|mp3|ogg|m4a|opus|sph|mfc|plp|fbk)(?:@\d+(?:\.\d+)?)?$",
    re.IGNORECASE,
)
"""The ending of an id that is the path of an audio file, or of a part of the file that
starts at a second.
"""


def without_blanks(path: str) -> str:
    """Return a path of an audio file as an id: blanks and round brackets, which no file
    of texts with ids can hold, are written as in URLs (`%20`).
    """
    if AUDIO_PATH.search(path) is None:
        return path
    return re.sub(r"[\s()]", lambda match: f"%{ord(match[0]):02X}", path)


def short(name: str) -> str:
    """Return an id; of a path of an audio file, its name without folder and ending.

    Args:
        name: The id.

    Example:
        >>> short("calls/talk.2024-01-01.wav")
        'talk.2024-01-01'
    """
    return tail(name, 1)


def tail(name: str, depth: int) -> str:
    """Return an id; of a path of an audio file, its last parts without the ending.

    Args:
        name: The id.
        depth: The number of parts.
    """
    if AUDIO_PATH.search(name) is None:
        return name
    parts = re.split(r"[/\\]+", AUDIO_PATH.sub("", without_blanks(name)))
    return "/".join(parts[-depth:])


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
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_JSON + 1)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    if len(data) > LARGEST_JSON:
        raise UserError(
            f"{path}: more than {LARGEST_JSON:,} bytes; expected one JSON document"
        )
    return loads(data, str(path))


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
        value = json.loads(text, object_pairs_hook=_object)
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


def parsed(value: Any, kind: type[T], place: str) -> T:
    """Return a JSON value as an object of a type.

    Args:
        value: The value, as of `loads`.
        kind: A type that msgspec knows, such as a `msgspec.Struct`.
        place: The file and the place in it, for messages.

    Raises:
        UserError: The value does not have this type.
    """
    try:
        return msgspec.convert(value, kind, strict=True)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None
    except (msgspec.ValidationError, OverflowError) as error:
        # msgspec writes: Expected `str`, got `int` - at `$.name`
        what, _, where = str(error).replace("`", "").partition(" - at $")
        what = what[:1].lower() + what[1:]
        field = where.lstrip(".")
        if field:
            what = f"{field}: {what}"
        raise UserError(f"{place}: {what}") from None


def shown(name: str) -> str:
    """Return the name of a file as it stands in records and tables.

    Bytes that are not UTF-8 are written as `\\xff`.
    """
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


_NUMBERS = itertools.count()
"""Numbers of temporary paths, so that threads can write the same file."""


def temporary_path(path: Path) -> Path:
    """Return a new path beside another, to write to before it takes its place.

    Args:
        path: The file or folder to be written.

    Returns:
        The path `.NAME.PID-NUMBER.tmp`, with another number in each call.
    """
    return path.with_name(f".{path.name}.{os.getpid()}-{next(_NUMBERS)}.tmp")


def resolved(path: Path) -> Path:
    """Return the absolute path without links.

    Args:
        path: The path.

    Raises:
        OSError: Links lead in a circle.
    """
    try:
        return path.resolve()
    except RuntimeError:  # of Python 3.12 and older
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from None


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
        if error.filename is None:
            error.filename = str(path)
        raise


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which takes the place of `path` at the end.

    If the block raises an error, the temporary file is removed. A path that exists and
    is no regular file (`/dev/null`, a pipe) is yielded as it is.

    Args:
        path: The file to be written.

    Raises:
        OSError: The path cannot be written, for example because of a loop of links.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    path = resolved(path)  # the file behind a link is written, and the link stays
    temporary = temporary_path(path)
    try:
        # A new file has the permissions of the user's umask; libraries that write
        # beside and rename would forget it.
        os.close(os.open(temporary, os.O_CREAT | os.O_WRONLY, 0o666))
        model = path if path.exists() else temporary
        mode = model.stat().st_mode & 0o7777
        with naming(path):
            yield temporary
        temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a small file beside its place, and rename it.

    Args:
        path: The file.
        text: The contents. Bytes of file names that are not UTF-8 are written as
            question marks.

    Raises:
        UserError: The file cannot be written.
    """
    try:
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({error.strerror or error})"
        ) from None
