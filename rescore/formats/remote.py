"""Files that are elsewhere: s3://, gs://, hdfs://, file://, by pyarrow's file systems."""

from __future__ import annotations

from typing import IO

from rescore.errors import UserError


def open_remote(address: str) -> IO[bytes]:
    """A file to read once.

    Raises:
        UserError: pyarrow is not installed, does not know such addresses, or there is no such file.
    """
    try:
        from pyarrow import ArrowException, fs
    except ImportError:
        raise UserError(f"{address}: reading it needs pyarrow; install it with: pip install 'rescore[ray]'") from None
    try:
        system, path = fs.FileSystem.from_uri(address)
        stream: IO[bytes] = system.open_input_stream(path, compression=None)
        return stream
    except (ArrowException, OSError) as error:
        raise UserError(f"{address}: cannot be read ({str(error).splitlines()[0]})") from None
