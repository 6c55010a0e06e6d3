"""Outputs are written beside and renamed, so that an interrupted run leaves no half file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
