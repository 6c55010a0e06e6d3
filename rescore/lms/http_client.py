"""Requests to a server: JSON over HTTP, from several threads, again where an attempt fails for a while."""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import json
import logging
import os
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urlsplit

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
    """A server's address, and this process' connections to it: one a thread."""

    def __init__(self, url: str, key: str | None, timeout: float, parallel: int = 1) -> None:
        """
        Args:
            url: with or without /v1 at its end. timeout: seconds that an answer may take.
            parallel: requests under way at a time, in `in_parallel`.

        Raises:
            UserError: this is no address of a server, or has a password.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            host, parts, port = None, urlsplit(""), None
        if "@" in parts.netloc or parts.query:
            raise UserError(f"--lm server: the address must have no user, password or ?; set the key in {KEYS[0]}")
        if parts.scheme not in ("http", "https") or not host:
            raise UserError(
                f"--lm server: {url!r} is no address; give server:URL#MODEL, such as http://HOST:8000#MODEL"
            )
        base = parts.path.rstrip("/").removesuffix("/completions").removesuffix("/v1").rstrip("/")
        self.url = f"{parts.scheme}://{parts.netloc}{base}"
        self._host, self._port, self._base, self._secure = host, port, base, parts.scheme == "https"
        self._key, self._timeout, self._parallel = key, timeout, parallel
        self._local = threading.local()
        self._connections: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._reached = False
        if key and not self._secure and host not in ("localhost", "127.0.0.1", "::1"):
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
        with self._lock:
            connections, self._connections = self._connections, []
            self._local = threading.local()
        for connection in connections:
            with contextlib.suppress(OSError, AttributeError):
                connection.sock.shutdown(socket.SHUT_RDWR)  # wakes the thread that reads from it
            connection.close()

    def _answer(self, method: str, path: str, body: bytes | None, trying: bool) -> Mapping[str, Any]:
        wait, sent, late = FIRST_WAIT, 0, 0
        while True:
            sent, asked = sent + 1, 0.0
            try:
                status, headers, data = self._send(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                late += isinstance(error, TimeoutError)
                lost = self._lost(error, sent)
                if not self._reached or sent >= ATTEMPTS or late >= TIMEOUTS or isinstance(error, ssl.SSLError):
                    raise UserError(lost) from None
            else:
                if status == 200:
                    return self._parsed(data)
                lost = self._failure(status, data)
                if status not in AGAIN or (trying and status == 500):
                    raise RefusedError(lost)
                asked = _asked_wait(headers.get("Retry-After"))
                if asked > LONGEST_ASKED_WAIT:
                    raise UserError(f"{lost}, and asks to wait for {asked:.0f} s; then {HOW_TO_RESUME}")
                if sent >= ATTEMPTS:
                    raise UserError(f"{lost}, {sent} times; {HOW_TO_RESUME}")
            log.debug("%s; attempt %d", lost, sent)
            if self._stopped.wait(max(asked, wait * random.uniform(0.75, 1.0))):
                raise StoppedError
            wait = min(2 * wait, LONGEST_WAIT)

    def _send(self, method: str, path: str, body: bytes | None) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Status, headers and body of an answer, over this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is None:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            connection = self._local.connection = kind(self._host, self._port, timeout=self._timeout)
            with self._lock:
                self._connections.append(connection)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        try:
            connection.request(method, self._base + path, body, headers)
            response = connection.getresponse()
            data = response.read(LARGEST_ANSWER + 1)
            if len(data) > LARGEST_ANSWER:
                connection.close()
        except BaseException:
            connection.close()  # the next request opens it anew
            raise
        self._reached = True
        return response.status, response.headers, data

    def _parsed(self, data: bytes) -> Mapping[str, Any]:
        try:
            answer = json.loads(data) if len(data) <= LARGEST_ANSWER else None
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise RefusedError(f"{self.url}: answers {self._shown(data)!r}, which is no JSON object")
        return answer

    def _failure(self, status: int, data: bytes) -> str:
        """The server's error message, in a line."""
        try:
            told = json.loads(data)
            told = told.get("error", told) if isinstance(told, dict) else told
            told = told.get("message") or told.get("detail") or told if isinstance(told, dict) else told
        except (ValueError, RecursionError):
            told = data
        said = self._shown(told)
        reason = f"{status} {http.client.responses.get(status, '')}".strip()
        advice = f"; set the key in {KEYS[0]}" if status in (401, 403) else ""
        return f"{self.url}: answers {reason}{f' ({said})' if said else ''}{advice}"

    def _shown(self, told: object) -> str:
        """The beginning of a server's words, without the key."""
        text = told.decode("utf-8", errors="replace") if isinstance(told, bytes) else str(told)
        text = " ".join(text[:10_000].split())
        return (text.replace(self._key, "***") if self._key else text)[:200]

    def _lost(self, error: OSError | http.client.HTTPException, sent: int) -> str:
        times = f", {sent} times" if sent > 1 else ""
        if isinstance(error, TimeoutError):
            return (
                f"{self.url}: no answer within {self._timeout:g} s{times}; is it overloaded? Give parallel=N or "
                f"timeout=N before its URL, and {HOW_TO_RESUME}"
            )
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        if not self._reached:
            return f"{self.url}: cannot be reached ({reason}); is the server running, and at this address?"
        return f"{self.url}: the connection broke ({reason}){times}; start the server again, and {HOW_TO_RESUME}"


def _asked_wait(text: str | None) -> float:
    """The seconds that Retry-After asks for: a number or a date."""
    if not text:
        return 0.0
    try:
        return (
            max(0.0, float(text))
            if text.strip().isdecimal()
            else max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
        )
    except (TypeError, ValueError, OverflowError):
        return 0.0
