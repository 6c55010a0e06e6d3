"""Where the time of a training goes, and what to do where it is short."""

from __future__ import annotations

from dataclasses import dataclass

from rescore.errors import counted


@dataclass(frozen=True, slots=True)
class Spent:
    """The time of a training, in seconds, and the cores that computed it."""

    allowed: float
    """Seconds of --minutes."""
    reading: float
    """Seconds of reading the text."""
    validation: float
    updates: float
    threads: int
    """Threads of PyTorch."""
    cores: float | None = None
    """Number of cores that the training had on average; None on a GPU."""

    def __str__(self) -> str:
        return (
            f"time: reading the text {self.reading:,.0f} s, validation"
            f" {self.validation:,.0f} s, updates {self.updates:,.0f} s"
        )

    @property
    def threads_compete(self) -> bool:
        """Whether other programs use the cores: less than half of the threads compute.
        Threads that wait for each other then lose most of the time.
        """
        if self.cores is None or self.threads == 1:
            return False
        return self.cores < self.threads / 2

    def advice(self, usual: str) -> str:
        """Return what makes more updates of the minutes.

        Args:
            usual: The advice where the updates took the time, and computed as fast as
                the cores can.
        """
        if self.threads_compete:
            assert self.cores is not None
            return (
                f"set OMP_NUM_THREADS={max(1, int(self.cores))} (other programs use the"
                f" cores: {counted(self.threads, 'thread')} had {self.cores:.1f}"
                f" cores), or {usual}"
            )
        if self.reading > self.allowed / 2:
            return "give more --minutes (reading the text took most of them)"
        return usual
