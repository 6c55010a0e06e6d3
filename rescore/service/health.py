"""The health check of the container image: `python -m rescore.service.health` asks the
service that the first process runs, at the port where it listens.

A container whose first process runs another command is healthy.
"""

from __future__ import annotations

import argparse
import sys
import urllib.request
from collections.abc import Sequence
from pathlib import Path

HOST = "127.0.0.1"
"""The address where the service listens by default."""
PORT = 8000
"""The port where the service listens by default."""
FIRST_PROCESS = "/proc/1/cmdline"
"""The file with the words of the command of the first process."""
SECONDS = 5
"""Time in which the service must answer."""
_EVERYWHERE = {"0.0.0.0": HOST, "::": "::1", "": HOST}
"""Where to ask a service that listens at all addresses."""


def health_of(words: Sequence[str]) -> str | None:
    """Return the URL that tells the health of the service of a command; None for a
    command without a service, or with a port that the system chooses.

    Args:
        words: The words of the command line.

    Example:
        >>> health_of(["rescore", "serve", "--host", "0.0.0.0", "--port", "9000"])
        'http://127.0.0.1:9000/health'
    """
    if "serve" not in words:
        return None
    parser = argparse.ArgumentParser(allow_abbrev=False, add_help=False)
    parser.add_argument("--host", default=HOST)
    parser.add_argument("--port", type=int, default=PORT)
    given, _ = parser.parse_known_args(words)
    if given.port == 0:
        return None
    host = _EVERYWHERE.get(given.host, given.host)
    if ":" in host:  # IPv6
        host = f"[{host}]"
    return f"http://{host}:{given.port}/health"


def main(path: str = FIRST_PROCESS) -> None:
    """End with status 1 and a line that says why if the service does not answer.

    Args:
        path: A file with the words of a command, each with a zero byte behind it.
    """
    words = Path(path).read_bytes().decode(errors="replace").split("\0")
    url = health_of(words)
    if url is None:
        return
    # a proxy of the container's environment does not reach this container
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        direct.open(url, timeout=SECONDS)
    except OSError as error:
        sys.exit(f"{url}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
