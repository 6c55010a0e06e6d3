"""Requests to a server: JSON over HTTP, from several threads, again where an attempt fails for a while.

The border of servers: an answer is a JSON object, or a `UserError` whose message does not show the key.
"""

from __future__ import annotations

import contextlib
import http
import json
import logging
import os
import random
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, TypeVar

import urllib3
from urllib3.exceptions import HTTPError, InvalidHeader, LocationParseError, SSLError
from urllib3.util import Retry, parse_url

from rescore.errors import UserError

log = logging.getLogger(__name__)

Item = TypeVar("Item")
Result = TypeVar("Result")

KEYS = ("RESCORE_API_KEY", "OPENAI_API_KEY")
"""The environment variables that a key is taken from; the first that is there."""
ATTEMPTS = 7
"""How often a request is sent."""
TIMEOUTS = 2
"""How often a request is sent that gets no answer in time."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds between attempts: each time twice as many."""
LONGEST_ASKED_WAIT = 300.0
"""Seconds that a server may ask to wait (Retry-After)."""
AGAIN = (429, 500, 502, 503, 504)
"""Answers after which the same request may succeed."""
LARGEST_ANSWER = 64 << 20
HOW_TO_RESUME = "run the same command again: with --cache, what was scored is kept"


class RefusedError(UserError):
    """The server answered that it does not do this."""


class StoppedError(Exception):
    """Another request failed for good, so that this one is given up."""


def api_key() -> str | None:
    """The key in the environment.

    Raises:
        UserError: it has characters that no key has.
    """
    name = next((name for name in KEYS if os.environ.get(name, "").strip()), None)
    if name is None:
        return None
    key = os.environ[name].strip()
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise UserError(f"{name}: contains characters that keys cannot have, such as blanks; set it again")
    return key


class Client:
    """A server's address, and this process' connections to it."""

    def __init__(self, url: str, key: str | None, timeout: float, parallel: int = 1) -> None:
        """
        Args:
            url: with or without /v1 at its end. timeout: seconds that an answer may take.
            parallel: requests under way at a time, in `in_parallel`.

        Raises:
            UserError: this is no address of a server, or has a password.
        """
        with contextlib.suppress(LocationParseError):
            parts = parse_url(url)
            if parts.auth is not None or parts.query is not None:
                raise UserError(f"--lm server: the address must have no user, password or ?; set the key in {KEYS[0]}")
            if parts.scheme in ("http", "https") and parts.host:
                base = (parts.path or "").rstrip("/").removesuffix("/completions").removesuffix("/v1").rstrip("/")
                self.url = f"{parts.scheme}://{parts.netloc}{base}"
        if not hasattr(self, "url"):
            raise UserError(
                f"--lm server: {url!r} is no address; give server:URL#MODEL, such as http://HOST:8000#MODEL"
            )
        self._base, secure = base, parts.scheme == "https"
        self._key, self._timeout, self._parallel = key, timeout, parallel
        self._pool = self._new_pool()
        self._sending: set[_Waiting] = set()
        self._stopped = threading.Event()
        self._reached = False
        if key and not secure and parts.host not in ("localhost", "127.0.0.1", "[::1]"):
            log.warning("%s: the key is sent unencrypted; use https or a tunnel", self.url)

    def get(self, path: str) -> Mapping[str, Any]:
        """The object at a path.

        Raises:
            UserError: as `post`.
        """
        return self._answer("GET", path, None, False)

    def post(self, path: str, body: Mapping[str, Any], trying: bool = False) -> Mapping[str, Any]:
        """Send a request; returns the answer.

        Args:
            trying: the server may not support the request, so a server error (500) counts as a refusal.

        Raises:
            RefusedError: the server refuses the request.
            UserError: the server cannot be reached, fails repeatedly, or answers without a JSON object.
        """
        return self._answer("POST", path, json.dumps(body).encode(), trying)

    @contextmanager
    def working(self) -> Iterator[None]:
        """Several threads use the client inside; their connections are closed behind it."""
        self._stopped.clear()
        try:
            yield
        finally:
            self.close()
            self._stopped.clear()

    def in_parallel(self, items: Sequence[Item], do: Callable[[Item], Result]) -> Iterator[tuple[int, Result]]:
        """Ranks of items with their results, as they come.

        Where one fails, no other one is begun, and those under way are given before its error is raised.
        """
        failure: BaseException | None = None
        with self.working(), ThreadPoolExecutor(self._parallel) as pool:
            futures = {pool.submit(do, item): rank for rank, item in enumerate(items)}
            try:
                for future in as_completed(futures):
                    if future.cancelled():
                        continue
                    if future.exception() is None:
                        yield futures[future], future.result()
                    elif failure is None:
                        failure = future.exception()
                        self.stop_waiting()
                        for waiting in futures:
                            waiting.cancel()
            except BaseException:  # an interrupt, or the caller stopped reading
                for waiting in futures:
                    waiting.cancel()
                self.close()
                raise
        if failure is not None:
            raise failure

    def stop_waiting(self) -> None:
        """Requests that failed are not sent again."""
        self._stopped.set()

    def close(self) -> None:
        """Close all connections; requests under way fail."""
        self._stopped.set()
        for waiting in list(self._sending):
            waiting.end()
        pool, self._pool = self._pool, self._new_pool()
        pool.close()

    def _new_pool(self) -> urllib3.HTTPConnectionPool:
        pool = urllib3.connection_from_url(self.url, maxsize=self._parallel, timeout=self._timeout)
        pool.ConnectionCls = _Secure if self.url.startswith("https:") else _Plain
        return pool

    def _answer(self, method: str, path: str, body: bytes | None, trying: bool) -> Mapping[str, Any]:
        wait, sent, late = FIRST_WAIT, 0, 0
        while True:
            sent, retry_after = sent + 1, 0.0
            try:
                status, headers, data = self._send(method, path, body)
            except HTTPError as error:
                late += isinstance(error, urllib3.exceptions.TimeoutError)
                lost = self._lost(error, sent)
                if not self._reached or sent >= ATTEMPTS or late >= TIMEOUTS or isinstance(error, SSLError):
                    raise UserError(lost) from None
            else:
                if status == 200:
                    return self._parsed(data)
                lost = self._failure(status, data)
                if status not in AGAIN or (trying and status == 500):
                    raise RefusedError(lost)
                retry_after = _retry_after(headers.get("Retry-After"))
                if retry_after > LONGEST_ASKED_WAIT:
                    raise UserError(f"{lost}, and asks to wait for {retry_after:.0f} s; then {HOW_TO_RESUME}")
                if sent >= ATTEMPTS:
                    raise UserError(f"{lost}, {sent} times; {HOW_TO_RESUME}")
            log.debug("%s; attempt %d", lost, sent)
            if self._stopped.wait(max(retry_after, wait * random.uniform(0.75, 1.0))):
                raise StoppedError
            wait = min(2 * wait, LONGEST_WAIT)

    def _send(self, method: str, path: str, body: bytes | None) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of an answer, which all come within the timeout."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        waiting = _LOCAL.waiting = _Waiting()
        watch = threading.Timer(self._timeout, waiting.end)
        watch.daemon = True
        self._sending.add(waiting)
        watch.start()
        try:
            response = self._pool.urlopen(
                method, self._base + path, body, headers, retries=False, redirect=False, preload_content=False
            )
            data = response.read(LARGEST_ANSWER + 1)
            if len(data) > LARGEST_ANSWER:
                response.close()
            response.release_conn()
        except HTTPError:
            if not waiting.ended:
                raise
        finally:
            watch.cancel()
            self._sending.discard(waiting)
        if waiting.ended:  # what was read may be cut
            raise urllib3.exceptions.TimeoutError
        self._reached = True
        return response.status, response.headers, data

    def _parsed(self, data: bytes) -> Mapping[str, Any]:
        answer = _json(data) if len(data) <= LARGEST_ANSWER else None
        if not isinstance(answer, dict):
            raise RefusedError(f"{self.url}: answers {self._shown(data)!r}, which is no JSON object")
        return answer

    def _failure(self, status: int, data: bytes) -> str:
        """The server's error message, in a line."""
        answer = _json(data)
        answer = answer.get("error", answer) if isinstance(answer, dict) else answer
        answer = answer.get("message") or answer.get("detail") or answer if isinstance(answer, dict) else answer
        message = self._shown(data if answer is None else answer)
        known = next((each.phrase for each in http.HTTPStatus if each == status), "")
        reason = f"{status} {known}".strip()
        advice = f"; set the key in {KEYS[0]}" if status in (401, 403) else ""
        return f"{self.url}: answers {reason}{f' ({message})' if message else ''}{advice}"

    def _shown(self, told: object) -> str:
        """The beginning of a server's words, without the key."""
        text = told.decode("utf-8", errors="replace") if isinstance(told, bytes) else str(told)
        return self.masked(" ".join(text[:10_000].split()))[:200]

    def masked(self, text: str) -> str:
        """A message without the key, which a server may repeat anywhere."""
        return text.replace(self._key, "***") if self._key else text

    def _lost(self, error: HTTPError, sent: int) -> str:
        times = f", {sent} times" if sent > 1 else ""
        if self._reached and isinstance(error, urllib3.exceptions.TimeoutError):
            return (
                f"{self.url}: no answer within {self._timeout:g} s{times}; is it overloaded? Give parallel=N or "
                f"timeout=N before its URL, and {HOW_TO_RESUME}"
            )
        causes = (error.__cause__, error.__context__, *error.args)
        known = next((cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror), None)
        reason = self._shown(known or str(error) or f"no answer within {self._timeout:g} s")
        if not self._reached:
            return f"{self.url}: cannot be reached ({reason}); is the server running, and at this address?"
        return f"{self.url}: the connection broke ({reason}){times}; start the server again, and {HOW_TO_RESUME}"


def _retry_after(text: str | None) -> float:
    """The seconds that Retry-After asks for: a number or a date."""
    with contextlib.suppress(InvalidHeader, OverflowError):
        return max(0.0, Retry().parse_retry_after(text)) if text else 0.0
    return 0.0


class _Waiting:
    """A request under way, which another thread can end."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self.ended = False

    def began(self, connected: socket.socket | None) -> None:
        self._socket = connected
        if self.ended:
            self.end()

    def end(self) -> None:
        """Wake the thread that waits for the answer, which then fails."""
        self.ended = True
        if self._socket:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


_LOCAL = threading.local()
"""Of each thread, what it waits for."""


class _Plain(urllib3.connection.HTTPConnection):
    def request(self, *arguments: Any, **options: Any) -> None:
        super().request(*arguments, **options)
        _LOCAL.waiting.began(self.sock)


class _Secure(_Plain, urllib3.connection.HTTPSConnection):
    pass


def _json(data: bytes) -> Any:
    """What a server sent; None where it is not JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
