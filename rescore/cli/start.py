"""Where the program begins."""

from __future__ import annotations

import signal


def main() -> None:
    """Import the command line, which takes a moment in which Ctrl-C ends the program
    without a message, and run it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from rescore.cli.main import main as run

    run()
