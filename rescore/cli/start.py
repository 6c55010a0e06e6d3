"""Where the program begins: what is interrupted before anything happened says so in one line, too."""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Import the command line, which takes a moment, and run it."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    from rescore.cli.main import main as run

    run()


def _interrupted(number: int, frame: object) -> None:
    """Nothing is open yet, and an exception in the middle of an import may become another one."""
    os.write(2, b"rescore: interrupted\n")
    os._exit(128 + number)
