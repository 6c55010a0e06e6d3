"""Files: JSON that is read whole, digests, and outputs that are written beside and
renamed.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from rescore.errors import UserError, did_you_mean

T = TypeVar("T")
LARGEST_JSON = 1 << 26
"""Bytes of a JSON document of the project's own: weights, results, a configuration."""


def absent(path: Path) -> str:
    """The message about a path that leads nowhere, with the file or folder beside it
    whose name is most like its.
    """
    beside = (
        [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
    )
    meant = did_you_mean(path.name, beside)
    return f"{path}: no such file or folder{meant}"


def sha256(path: Path) -> bytes:
    """The digest of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def read_json(path: Path) -> Any:
    """One JSON document."""
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
    """One JSON document; `place` is named in errors; with `line` it is the place of a
    single line.
    """
    try:
        text = text.decode() if isinstance(text, bytes) else text
        value = json.loads(text, object_pairs_hook=_object)
        if "\\ud" in text or "\\uD" in text:
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
        where = (
            f"{place}, column {error.colno}"
            if line
            else f"{place}: line {error.lineno}, column {error.colno}"
        )
        cut = (
            error.msg.startswith("Unterminated") or error.pos >= len(text.rstrip()) - 1
        )
        hint = "; is it truncated?" if cut else ""
        raise UserError(f"{where}: not valid JSON ({error.msg}){hint}") from None
    except ValueError as error:
        raise UserError(f"{place}: {error}") from None
    except RecursionError:
        raise UserError(f"{place}: JSON is nested too deeply") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for index, key in enumerate(keys) if key in keys[:index])
        twice = twice.encode(errors="backslashreplace").decode()
        raise ValueError(
            f"{twice} is duplicated; give each key, utterance and hypothesis once"
        )
    return entries


def parsed(value: Any, kind: type[T], place: str) -> T:
    """A JSON value as a type; `place` is named in errors."""
    import msgspec

    try:
        return msgspec.convert(value, kind, strict=True)
    except UserError as error:
        raise UserError(f"{place}: {error}") from None
    except (msgspec.ValidationError, OverflowError) as error:
        what, _, where = str(error).replace("`", "").partition(" - at $")
        raise UserError(
            f"{place}:"
            f" {where.lstrip('.')}{': ' if where else ''}{what[:1].lower()}{what[1:]}"
        ) from None


def shown(name: str) -> str:
    """The name of a file as it stands in records and tables: bytes that are not UTF-8
    as `\\xff`.
    """
    return name.encode(errors="surrogateescape").decode(errors="backslashreplace")


def temporary_path(path: Path) -> Path:
    """Where a file or folder is written before it takes the place of `path`:
    `.NAME.PID-NUMBER.tmp`, beside it.

    Each call gives another path, so that threads can write the same file.
    """
    return path.with_name(f".{path.name}.{os.getpid()}-{next(_NUMBERS)}.tmp")


_NUMBERS = itertools.count()


def resolved(path: Path) -> Path:
    """Where a path leads.

    Raises:
        OSError: links lead in a circle.
    """
    try:
        return path.resolve()
    except RuntimeError:  # of Python 3.12 and older
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; when the block ends well it takes the place
    of `path`, else it is removed.

    What is no regular file (`/dev/null`, a pipe) is yielded as it is.

    Raises:
        OSError: the path cannot be written, as a loop of links.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    path = resolved(path)  # what a link leads to is written, the link stays
    temporary = temporary_path(path)
    try:
        # A new file shows the user's umask; libraries that write beside and rename
        # would forget it.
        os.close(os.open(temporary, os.O_CREAT | os.O_WRONLY, 0o666))
        mode = (path if path.exists() else temporary).stat().st_mode & 0o7777
        yield temporary
        temporary.chmod(mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a small file beside and rename it. Bytes of file names that are not UTF-8
    are written as question marks.
    """
    try:
        with replacing(path) as temporary:
            temporary.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({error.strerror or error})"
        ) from None
