"""What an input of up to 64 KiB may take: 5 s of processor time, and 500 MB more than
there was before.
"""

from __future__ import annotations

import time
from pathlib import Path

INPUT, SECONDS, BYTES = 64 << 10, 5.0, 500 << 20


class Spent:
    """Processor time and memory since this was made."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        self._before, self._began = memory("VmRSS"), time.process_time()

    def too_much(self) -> str:
        """What is over its limit; empty where nothing is."""
        seconds, more = (
            time.process_time() - self._began,
            memory("VmHWM") - self._before,
        )
        if seconds > SECONDS:
            return f"{seconds:.1f} s"
        return f"{more >> 20} MiB" if more > BYTES else ""


def memory(which: str) -> int:
    """Bytes of memory of this process: `VmRSS` now, `VmHWM` the peak, `VmSize` what is
    mapped.
    """
    status = Path("/proc/self/status").read_text()
    return next(
        int(line.split()[1]) << 10
        for line in status.splitlines()
        if line.startswith(which)
    )
