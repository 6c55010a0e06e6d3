"""Where the program begins."""

from __future__ import annotations

import gc
import signal

OBJECTS = 50_000
"""The collector looks for cycles after this many more objects were made than freed.
Lists of words are many objects without cycles, and looking at them takes time.
"""


def main() -> None:
    """Import the command line, which takes a moment in which Ctrl-C ends the program
    without a message, and run it.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    gc.set_threshold(OBJECTS)
    from rescore.cli.main import main as run

    run()
