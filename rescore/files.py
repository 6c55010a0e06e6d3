"""Text in, plain or packed; outputs written beside and renamed, so that an interrupted run leaves no half file."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

from rescore.errors import UserError


def read_lines(path: Path) -> Iterator[str]:
    """The non-empty lines of a UTF-8 text file, plain, gzip or xz by its ending; `-` is standard input."""
    openers: dict[str, Callable[..., IO[str]]] = {".gz": gzip.open, ".xz": lzma.open}
    opener = openers.get(path.suffix, open)
    number = 0
    try:
        with nullcontext(sys.stdin) if str(path) == "-" else opener(path, "rt", encoding="utf-8") as file:
            for line in file:
                number += 1
                if line := line.strip():
                    yield line
    except FileNotFoundError:
        raise UserError(f"{path}: no such file") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: not UTF-8 somewhere after line {number}; convert the file with iconv") from None
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise UserError(f"{path}: cannot be read after line {number} ({error})") from None


def read_json(path: Path) -> Any:
    """One JSON document.

    Raises:
        UserError: the file is absent or not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    except ValueError as error:
        raise UserError(f"{path}: not valid JSON ({error})") from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; when the block ends well it takes the place of `path`, else it is removed.

    What is no regular file (`/dev/null`, a pipe) is yielded as it is.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
