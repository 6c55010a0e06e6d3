"""Requests to a server: JSON over HTTP, from several threads. urllib3 repeats requests that fail for a while.

The border of servers: an answer is a JSON object, or a `UserError` whose message does not show the key.
"""

from __future__ import annotations

import http
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.pool import ThreadPool
from typing import Any, TypeVar

import urllib3
from urllib3.exceptions import HTTPError, LocationParseError, MaxRetryError, ReadTimeoutError
from urllib3.util import Retry, Url, parse_url

from rescore.errors import UserError

log = logging.getLogger(__name__)
logging.getLogger("urllib3").setLevel(logging.ERROR)  # it warns of each request that it repeats

Item = TypeVar("Item")
Result = TypeVar("Result")

KEYS = ("RESCORE_API_KEY", "OPENAI_API_KEY")
"""The environment variables that a key is taken from; the first that is there."""
ATTEMPTS = 7
"""How often a request is sent."""
BACKOFF, LONGEST_BACKOFF = 0.5, 30.0
"""Seconds between attempts: each time twice as many."""
LONGEST_ASKED_WAIT = 300.0
"""Seconds that a server may ask to wait (Retry-After)."""
AGAIN = {429, 500, 502, 503, 504}
"""Answers after which the same request may succeed."""
HOW_TO_RESUME = "run the same command again: with --cache, what was scored is kept"


class RefusedError(UserError):
    """The server answered that it does not do this."""


class Patience(Retry):
    """urllib3's rule, which gives up sooner where an answer is late twice, or the server asks for a long wait."""

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: Any = None,
        error: Any = None,
        *rest: Any,
        **more: Any,
    ) -> Patience:
        late = isinstance(error, ReadTimeoutError) and any(isinstance(e.error, ReadTimeoutError) for e in self.history)
        if late or asked_wait(response) > LONGEST_ASKED_WAIT:
            raise MaxRetryError(more["_pool"], url or "", error)
        return super().increment(method, url, response, error, *rest, **more)


def asked_wait(response: urllib3.BaseHTTPResponse | None) -> float:
    """The seconds that a response asks to wait before the next request."""
    return 0.0 if response is None else Retry().get_retry_after(response) or 0.0


def api_key() -> str | None:
    """The key in the environment."""
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
        """
        parts = parsed_address(url)
        self._base = (parts.path or "").rstrip("/").removesuffix("/completions").removesuffix("/v1").rstrip("/")
        self.url = f"{parts.scheme}://{parts.netloc}{self._base}"
        self._key, self._timeout, self._parallel = key, timeout, parallel
        self._pool = urllib3.connection_from_url(self.url, maxsize=parallel, timeout=timeout)
        if key and parts.scheme != "https" and parts.host not in ("localhost", "127.0.0.1", "[::1]"):
            log.warning("%s: the key is sent unencrypted; use https or a tunnel", self.url)

    def get(self, path: str) -> Mapping[str, Any]:
        """The object at a path, as the first request to the server, which is not repeated if the connection fails."""
        rule = Patience(ATTEMPTS - 1, connect=0, read=0, other=0)
        try:
            return self._answer("GET", path, None, rule, AGAIN)
        except HTTPError as error:
            reason = self._reason(error)
            raise UserError(
                f"{self.url}: cannot be reached ({reason}); is the server running, and at this address?"
            ) from None

    def post(self, path: str, body: Mapping[str, Any], trying: bool = False) -> Mapping[str, Any]:
        """Send a request; returns the answer.

        Args:
            trying: the server may not support the request, so a server error (500) counts as a refusal.

        Raises:
            RefusedError: the server refuses the request.
        """
        try:
            return self._answer(
                "POST", path, json.dumps(body), Patience(ATTEMPTS - 1), AGAIN - {500} if trying else AGAIN
            )
        except MaxRetryError as error:
            if isinstance(error.reason, ReadTimeoutError):
                raise UserError(
                    f"{self.url}: no answer within {self._timeout:g} s, 2 times; is it overloaded? Give parallel=N or "
                    f"timeout=N before its URL, and {HOW_TO_RESUME}"
                ) from None
            reason = self._reason(error)
            raise UserError(
                f"{self.url}: the connection broke ({reason}), {ATTEMPTS} times; start the server again, and "
                f"{HOW_TO_RESUME}"
            ) from None

    def in_parallel(self, items: Sequence[Item], do: Callable[[Item], Result]) -> Iterator[tuple[int, Result]]:
        """Ranks of items with their results, as they come; no item is begun after an error or an interrupt."""
        with ThreadPool(self._parallel) as threads:  # of daemons: an interrupt does not wait for their answers
            yield from threads.imap_unordered(lambda ranked: (ranked[0], do(ranked[1])), enumerate(items))

    def _answer(self, method: str, path: str, body: str | None, rule: Patience, again: set[int]) -> Mapping[str, Any]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        patience = rule.new(
            allowed_methods=None,
            status_forcelist=again,
            raise_on_status=False,
            backoff_factor=BACKOFF,
            backoff_max=LONGEST_BACKOFF,
        )
        response = self._pool.urlopen(method, self._base + path, body, headers, patience, redirect=False)
        if response.status == 200:
            answer = _json(response.data)
            if not isinstance(answer, dict):
                raise RefusedError(f"{self.url}: answers {self._shown(response.data)!r}, which is no JSON object")
            return answer
        failure = self._failure(response.status, response.data)
        if response.status not in again:
            raise RefusedError(failure)
        if (wait := asked_wait(response)) > LONGEST_ASKED_WAIT:
            raise UserError(f"{failure}, and asks to wait for {wait:.0f} s; then {HOW_TO_RESUME}")
        raise UserError(f"{failure}, {ATTEMPTS} times; {HOW_TO_RESUME}")

    def _failure(self, status: int, data: bytes) -> str:
        """The server's error message, in a line."""
        answer = _json(data)
        answer = answer.get("error", answer) if isinstance(answer, dict) else answer
        answer = answer.get("message") or answer.get("detail") or answer if isinstance(answer, dict) else answer
        message = self._shown(data if answer is None else answer)
        known = next((each.phrase for each in http.HTTPStatus if each == status), "")
        advice = f"; set the key in {KEYS[0]}" if status in (401, 403) else ""
        return f"{self.url}: answers {f'{status} {known}'.strip()}{f' ({message})' if message else ''}{advice}"

    def _reason(self, error: HTTPError) -> str:
        """Why a request failed, in a few words of the operating system where it has some."""
        reason = error.reason if isinstance(error, MaxRetryError) and error.reason else error
        causes = (reason.__cause__, reason.__context__, *reason.args)
        known = next((cause.strerror for cause in causes if isinstance(cause, OSError) and cause.strerror), None)
        return self._shown(known or str(reason))

    def _shown(self, told: object) -> str:
        """The beginning of a server's words, without the key."""
        text = told.decode("utf-8", errors="replace") if isinstance(told, bytes) else str(told)
        return self.masked(" ".join(text[:10_000].split()))[:200]

    def masked(self, text: str) -> str:
        """A message without the key, which a server may repeat anywhere."""
        return text.replace(self._key, "***") if self._key else text


def parsed_address(url: str) -> Url:
    """The parts of a server's address."""
    try:
        parts = parse_url(url)
    except LocationParseError:
        parts = Url()
    if parts.auth is not None or parts.query is not None:
        raise UserError(f"--lm server: the address must have no user, password or ?; set the key in {KEYS[0]}")
    if parts.scheme not in ("http", "https") or not parts.host:
        raise UserError(f"--lm server: {url!r} is no address; give server:URL#MODEL, such as http://HOST:8000#MODEL")
    return parts


def _json(data: bytes) -> Any:
    """What a server sent; None where it is not JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
