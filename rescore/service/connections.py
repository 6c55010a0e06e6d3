"""The connections of `rescore serve`: what clients may hold, and how long; how the server stops.

uvicorn speaks HTTP. Added here are a time limit for the head of a request, a limit on open connections, answers for
clients that have closed their half of a connection, a stop that resets no request, and a limit on the lines of the log.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import math
import resource
import select
import socket
import struct
import sys
import time
import traceback
from collections import deque
from pathlib import Path
from typing import Any

import h11
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.flow_control import CLOSE_HEADER
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

log = logging.getLogger(__name__)

KEEP_ALIVE = 75
"""Seconds after which an idle connection is closed."""
GRACE = 5.0
"""Seconds for which a server that stops waits for the request of a connection that has had none."""
HANDSHAKE = 0.2
"""Seconds for which a server that stops waits for connections that are being made."""
ACCEPTED, WAITING = 16, 2048
"""Number of connections that are accepted at once, and that wait for it in the operating system."""
SPARE = 64
"""Number of file descriptors that connections leave free."""
LINES = 100
"""Lines of the log in 60 seconds."""
LATE = (
    b"HTTP/1.1 408 Request Timeout\r\ncontent-type: application/json\r\nconnection: close\r\n"
    b'content-length: 63\r\n\r\n{"error": "the head of the request did not arrive in its time"}'
)
SO_ATTACH_FILTER = 26
NO_NEW = struct.pack("HBBI" * 4, 0x30, 0, 0, 13, 0x45, 0, 1, 2, 0x06, 0, 0, 0, 0x06, 0, 0, 0xFFFFFFFF)
"""A program of the Linux packet filter: the byte at 13 of a TCP header; a packet with the bit SYN is dropped."""


class State(ServerState):
    """What the connections of a server share."""

    stopping = False

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        """The time limit for the head of a request."""
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.most = max(1, limit - len(list(Path("/dev/fd").iterdir())) - SPARE)
        """The largest number of open connections."""


class Connection(H11Protocol):
    """A client's connection."""

    server_state: State
    _timer: asyncio.TimerHandle | None = None
    _ended = False
    """Whether the client has closed its half."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.since = time.monotonic()
        if len(self.connections) > self.server_state.most:
            waiting = (other for other in self.connections if isinstance(other, Connection) and other.waits)
            oldest = min(waiting, key=lambda other: other.since)
            self.connections.discard(oldest)
            oldest.transport.abort()
        self._await_head(GRACE if self.server_state.stopping else self.server_state.seconds)

    @property
    def waits(self) -> bool:
        """Whether the server waits for the client, not the client for the server."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    @property
    def _between(self) -> bool:
        """Whether no request is in progress."""
        return self.cycle is None or self.cycle.response_complete

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._between:
            self._forget_head()
        elif self._timer is None:
            self._await_head(self.server_state.seconds)

    def eof_received(self) -> bool:  # type: ignore[override]
        """A request that has arrived gets its answer, then the connection is closed."""
        self._ended = True
        return not self.waits

    def on_response_complete(self) -> None:
        self.since = time.monotonic()
        super().on_response_complete()  # goes on with the next request, if it has arrived
        if self._between and self._ended:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_head()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Close the connection after the request that is in progress, or that the client may just have sent."""
        if not self._between:
            self.cycle.keep_alive = False
        else:
            self._await_head(GRACE if self.cycle is None else HANDSHAKE)

    def _await_head(self, seconds: float) -> None:
        self._forget_head()
        self._timer = self.loop.call_later(seconds, self._give_up)

    def _forget_head(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0] and not self.transport.is_closing():
            self.transport.write(LATE)
        self.transport.close()


class Server(uvicorn.Server):
    """A server that says where it listens, as soon as it does, and that resets no request when it stops."""

    def __init__(self, config: uvicorn.Config, seconds: float) -> None:
        super().__init__(config)
        self.server_state: State = State(seconds)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(WAITING)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            log.info("listening on http://%s:%d", f"[{host}]" if ":" in host else host, port)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept what has been connected, answer it, and end."""
        state = self.server_state
        state.stopping, state.default_headers = True, [*state.default_headers, CLOSE_HEADER]
        for listening in sockets or ():
            _refuse_new(listening)
        await asyncio.sleep(HANDSHAKE)
        end = time.monotonic() + state.seconds
        while sockets and select.select(sockets, [], [], 0)[0] and time.monotonic() < end:
            await asyncio.sleep(0)  # the event loop accepts the connections that wait
        await asyncio.sleep(HANDSHAKE)  # asyncio drops an accepted connection if its server closes before it is made
        await super().shutdown(sockets)


def _refuse_new(listening: socket.socket) -> None:
    """Drop the packets by which clients start connections; connections that are made already can be accepted.

    Closing the socket alone would reset connections that nobody has accepted. Other systems than Linux have no such
    filter: a connection that is made in the moment before the socket is closed may be reset there.
    """
    if sys.platform == "linux":
        program = ctypes.create_string_buffer(NO_NEW)
        listening.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HP", 4, ctypes.addressof(program)))


class Throttle(logging.Filter):
    """Lets at most `LINES` lines pass in a minute, tracebacks included."""

    def __init__(self) -> None:
        super().__init__()
        self._passed: deque[tuple[float, int]] = deque()
        self._told = -math.inf

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        while self._passed and self._passed[0][0] < now - 60:
            self._passed.popleft()
        text = record.getMessage() + "".join(traceback.format_exception(*record.exc_info) if record.exc_info else ())
        lines = 1 + text.count("\n")
        if sum(number for _, number in self._passed) + lines >= LINES:
            if self._told > now - 60:
                return False
            self._told, lines = now, 1
            record.msg, record.args, record.exc_info = "too many messages; some are left out for a minute", (), None
        self._passed.append((now, lines))
        return True


THROTTLE = Throttle()


def server(app: Starlette, seconds: float, loggers: tuple[str, ...] = ()) -> Server:
    """A server that SIGTERM stops gracefully: requests that were sent are answered, new connections refused.

    Args:
        seconds: time limit for the head of a request. loggers: names of further loggers whose lines are limited.
    """
    options: dict[str, Any] = {"http": Connection, "loop": "asyncio", "ws": "none", "lifespan": "on"}
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_keep_alive=KEEP_ALIVE, backlog=ACCEPTED, **options
    )
    for name in ("uvicorn.error", "asyncio", __name__, *loggers):
        logging.getLogger(name).addFilter(THROTTLE)
    return Server(config, seconds)
