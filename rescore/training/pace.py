"""How fast a training is now, and how long it goes on."""

from __future__ import annotations

import time

EVERY_STEPS = 200
EVERY_SECONDS = 30.0


class Pace:
    """Speed and time left, by what was done since the line before: what a machine did hours ago says little."""

    def __init__(self, tokens: int, seconds: float, done: float) -> None:
        """
        Args:
            tokens, seconds, done: where training stands; `done` is a share of the whole.
        """
        self._before = tokens, seconds, done
        self._told = time.monotonic()

    def due(self, step: int) -> bool:
        """Whether it is time for a line: after so many steps, or so many seconds."""
        return step % EVERY_STEPS == 0 or time.monotonic() - self._told >= EVERY_SECONDS

    def line(self, tokens: int, seconds: float, done: float) -> str:
        """Tokens a second of the last interval, and the minutes to go at this pace."""
        more = [now - before for now, before in zip((tokens, seconds, done), self._before, strict=True)]
        self._before, self._told = (tokens, seconds, done), time.monotonic()
        speed = more[0] / max(more[1], 1e-9)
        left = (1 - done) * more[1] / max(more[2], 1e-9) / 60
        return f"{speed:,.0f} tokens/s  {done:.1%} done, {max(left, 0):,.0f} minutes to go"
