"""Ctrl-C and SIGTERM during a training: noted while an update runs, obeyed after it, so that a whole state is saved."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType

NUMBERS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Within it the first signal is noted in `number`; `obey`, or a second signal, does what it usually does."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._usual: dict[int, signal._HANDLER] = {}

    def __enter__(self) -> Interrupts:
        if threading.current_thread() is threading.main_thread():  # no other thread may set handlers
            self._usual = {
                number: signal.getsignal(number) for number in NUMBERS if signal.getsignal(number) != signal.SIG_IGN
            }
            for number in self._usual:
                signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._usual.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.number = number
        for one, handler in self._usual.items():
            signal.signal(one, handler)

    def obey(self) -> None:
        """Do now what the noted signal usually does: raise KeyboardInterrupt or SystemExit, or end the process."""
        if self.number is not None:
            signal.raise_signal(self.number)
