"""The choice of `rescore rerank` over HTTP: an ASGI application, and the batcher that
scores requests together.

    POST /rescore   a list as a line of native JSON Lines, or an array of them: the
                    same with the choice
    GET /health     models, weights, version, number of waiting requests
    GET /           a page on which a person pastes a list

One thread owns the models. Requests wait for it in a queue; those that wait together
are scored together.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import math
import queue
import re
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from rescore import formats
from rescore.columns import FIRST_PASS
from rescore.dataset import Dataset
from rescore.errors import ServerError, UserError, counted
from rescore.files import loads
from rescore.formats.audio import confined
from rescore.formats.writing import as_json
from rescore.nbest import NO_AUDIO, Hypothesis, NbestList
from rescore.rescorer import Answer, Rescorer
from rescore.version import VERSION

log = logging.getLogger(__name__)
LOGGED = 300
"""Letters of a message that the log shows."""

BATCH = 512
"""A batch with this many hypotheses takes no further request."""
WAIT = 0.002
"""Seconds that the first request of a batch waits for other requests."""
KEEP_ALIVE = 75
"""Seconds after which an idle connection is closed; longer than the 60 seconds of
nginx, which then closes first.
"""
GRACE = 30
"""Seconds in which the requests that were sent are answered after SIGTERM."""
END = 5.0
"""Seconds in which the thread of the models ends, at most."""
OPTION = re.compile(r"(?<!\S)[`'(]*--[a-z]|`rescore ")
"""An option or a command of the command line, in a message."""
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline';"
    " connect-src 'self'"
)


@dataclass(frozen=True, slots=True)
class Job:
    """One request in the queue."""

    lists: Dataset
    arrived: float = field(default_factory=time.monotonic)
    answer: Future[list[dict[str, Any]]] = field(default_factory=Future)

    @property
    def size(self) -> int:
        """Number of hypotheses."""
        return sum(len(nbest.hypotheses) for nbest in self.lists)


class Batcher:
    """A queue of requests, and the thread that owns the models."""

    def __init__(self, rescorer: Rescorer, most: int) -> None:
        """Start the thread.

        Args:
            rescorer: Chooses the texts.
            most: The largest number of waiting requests.
        """
        self._rescorer = rescorer
        self._most = most
        self._queue: queue.Queue[Job | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="rescore", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of requests in the queue."""
        return self._queue.qsize()

    def submit(self, lists: Dataset) -> Future[list[dict[str, Any]]]:
        """Queue a request, and return its future answer.

        Args:
            lists: The lists of the request.

        Raises:
            queue.Full: Too many requests wait.
        """
        if self.waiting >= self._most:
            raise queue.Full
        job = Job(lists)
        self._queue.put(job)
        return job.answer

    def close(self) -> None:
        """End the thread after it has answered the requests in the queue.

        When the server calls this, each request has its answer, or was given up: the
        work on it is not waited for.
        """
        self._queue.put(None)
        self._thread.join(END)

    def _run(self) -> None:
        """Answer requests until the queue ends."""
        running = True
        while running:
            running = self._answer_next()

    def _answer_next(self) -> bool:
        """Answer the requests that wait, or the next one. Return whether the queue goes
        on.
        """
        first = self._queue.get()
        if first is None:
            return False
        wanted = []
        for job in self._batch(first):
            if job.answer.set_running_or_notify_cancel():
                wanted.append(job)
        if wanted:
            self._answer(wanted)
        return True

    def _batch(self, first: Job) -> list[Job]:
        """Return the first request and those that arrive soon after it."""
        batch = [first]
        size = first.size
        until = first.arrived + WAIT
        while size < BATCH:
            try:
                job = self._queue.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if job is None:
                self._queue.put(None)  # the end is taken after the batch
                break
            batch.append(job)
            size += job.size
        return batch

    def _answer(self, batch: list[Job]) -> None:
        """Score a batch together. If that fails, score each request alone, so that a
        bad request fails alone.
        """
        try:
            scored = self._rescorer.score([job.lists for job in batch])
        except Exception as error:
            if len(batch) == 1:
                batch[0].answer.set_exception(error)
            else:
                for job in batch:
                    self._answer([job])
            return
        for job, lists in zip(batch, scored, strict=True):
            try:
                answers = self._rescorer.decide(lists)
                answered = [as_native(self._rescorer, answer) for answer in answers]
                job.answer.set_result(answered)
            except Exception as error:
                job.answer.set_exception(error)


def as_native(rescorer: Rescorer, answer: Answer) -> dict[str, Any]:
    """Return the answer about a list as a line of native JSON Lines.

    JSON has no infinity: a score of minus infinity is null.

    Args:
        rescorer: The rescorer that chose.
        answer: The answer about the list.
    """
    hypotheses = [replace(one, combined=None) for one in answer.nbest.hypotheses]
    nbest = replace(answer.nbest, hypotheses=hypotheses, audio=None)
    values = {"text": answer.text, **as_json(nbest)}
    for entry, total in zip(values["hyps"], answer.totals, strict=True):
        entry["total"] = _finite(total)
        if "score" in entry:
            entry["score"] = _finite(entry["score"])
        if "scores" in entry:
            scores = entry["scores"]
            entry["scores"] = {name: _finite(score) for name, score in scores.items()}
    key = "confidence" if rescorer.calibrated else "uncalibrated_confidence"
    words = []
    for word in rescorer.confidences(answer):
        words.append({"word": word.text, key: round(word.confidence, 4)})
    values["words"] = words
    return values


def _finite(score: float) -> float | None:
    """Return a score, or None for infinity."""
    return score if math.isfinite(score) else None


FIELDS = {
    "--s2s": "score",
    "--field": "score",
    "rescore score": "scores",
    "--src": "src",
    "--audio": "audio",
}
"""The fields of a list in a request that stand for options and commands."""


def in_request(message: str) -> str:
    """Return a message about a request in one line: advice to use options of the
    command line becomes advice about fields of the request.

    Args:
        message: The message of a `UserError`.
    """
    line = " ".join(message.split())
    said = line.partition("; ")[0]
    if not OPTION.search(line):
        return line
    fields = [f'"{field}"' for name, field in FIELDS.items() if name in line]
    if OPTION.search(said):
        said = OPTION.split(said)[0].rstrip(" ,;:(")
    if not fields:
        return f"{said}; the weights and options of the service do not suit it"
    return f"{said}; give {' or '.join(dict.fromkeys(fields))} in the request"


def lists_of(body: bytes, audio: Path | None) -> tuple[Dataset, bool]:
    """Return the lists of a request, and whether they came as an array.

    A list without an id is called after its place in the array, from 1.

    Args:
        body: The body of the request.
        audio: The folder of recordings that requests may name; None for no folder.

    Raises:
        UserError: The body is not JSON, or a list is damaged.
    """
    value = loads(body, "request")
    if not isinstance(value, list):
        return Dataset([_list_of(value, "1", "request", audio)]), False
    lists = []
    for number, entry in enumerate(value, 1):
        place = f"request: list {number}"
        lists.append(_list_of(entry, str(number), place, audio))
    return Dataset(lists), True


def _list_of(entry: Any, name: str, place: str, audio: Path | None) -> NbestList:
    """Return a list of a request.

    Args:
        entry: The list as JSON has it.
        name: The id of a list without an id.
        place: The place of the list, for messages.
        audio: The folder of recordings that requests may name; None for no folder.
    """
    if not isinstance(entry, dict):
        raise UserError(f'{place}: expected an object with "hyps"')
    if "hyps" not in entry:
        raise UserError(
            f'{place}: no "hyps"; expected one list as a line of native JSON Lines,'
            ' {"hyps": [{"text": "a b", "score": -1.5}]}, or an array of such lists'
        )
    nbest = formats.from_json({"id": name, **entry}, place)
    if nbest.audio is not None:
        nbest.audio = confined(nbest.audio, audio)
    return nbest


class Service:
    """The handlers, and their shared state."""

    def __init__(
        self, rescorer: Rescorer, body: int, waiting: int, audio: Path | None
    ) -> None:
        """Start the thread that owns the models.

        Args:
            rescorer: Chooses the texts.
            body: The largest size of a request, in bytes.
            waiting: The largest number of waiting requests.
            audio: The folder of recordings that requests may name; None for no folder.
        """
        self._rescorer = rescorer
        self._body = body
        self._waiting = waiting
        self._audio = audio
        self.batcher = Batcher(rescorer, waiting)

    async def page(self, request: Request) -> Response:
        """Return the page on which a person pastes a list."""
        text = (files("rescore") / "service.html").read_text(encoding="utf-8")
        return HTMLResponse(text, headers={"Content-Security-Policy": POLICY})

    async def health(self, request: Request) -> Response:
        """Return the models, what decides, version and number of waiting requests."""
        models = []
        for lm in self._rescorer.lms:
            model = {
                "column": lm.name,
                "model": lm.model,
                "fingerprint": lm.fingerprint,
                "precision": lm.precision,
            }
            models.append(model)
        about = {
            "status": "ok",
            "version": VERSION,
            "models": models,
            "choice": self._rescorer.weights.as_record,
            "calibrated": self._rescorer.calibrated,
            "waiting": self.batcher.waiting,
        }
        return _json(about)

    async def rescore(self, request: Request) -> Response:
        """Return the choice from each list of a request, or what is wrong with it."""
        try:
            lists, is_array = lists_of(await self._read(request), self._audio)
            answers: list[dict[str, Any]] = []
            if lists:
                answers = await asyncio.wrap_future(self.batcher.submit(lists))
            return _json(answers if is_array else answers[0])
        except queue.Full:
            full = f"{counted(self._waiting, 'request')} waiting; try again later"
            return _refusal(full, 503, {"Retry-After": "1"})
        except asyncio.CancelledError:
            # the service stops, and the time for answers is over
            stops = "the service stops; send the request again later"
            return _refusal(stops, 503, {"Retry-After": "5"})
        except HTTPException as error:
            return _refusal(error.detail, error.status_code)
        except ServerError as error:  # of a language model behind another server
            again = f"{error.found}; send the request again later"
            return _refusal(again, 503, {"Retry-After": "5"})
        except UserError as error:
            return _refusal(in_request(str(error)), 400)
        except ClientDisconnect:
            return _refusal("the client went away", 400)  # nobody reads it
        except Exception:
            log.exception("a request failed")
            defect = "a defect of rescore; the log of the service has it"
            return _json({"error": defect}, 500)

    async def _read(self, request: Request) -> bytes:
        """Return the body of a request.

        A body that is too large is read to its end, so that the client reads the
        answer, but it is not kept.
        """
        size = 0
        parts: list[bytes] = []
        async for part in request.stream():
            size += len(part)
            if size <= self._body:
                parts.append(part)
        if size > self._body:
            raise HTTPException(
                413,
                f"request: more than {self._body:,} bytes; send fewer lists at once",
            )
        return b"".join(parts)


def _json(
    value: Any, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """Return a response with a value as JSON."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return Response(text, status, headers, media_type="application/json")


def _refusal(
    message: str, status: int, headers: dict[str, str] | None = None
) -> Response:
    """Return the response to a request that gets no answer; the log has a line."""
    log.warning("answered %d: %s", status, message[:LOGGED])
    return _json({"error": message}, status, headers)


def application(
    rescorer: Rescorer,
    body: int = 1 << 20,
    waiting: int = 256,
    audio: Path | None = None,
) -> Starlette:
    """Return the ASGI application, for any server; it ends with the server's lifespan.

    Args:
        rescorer: Chooses the texts.
        body: The largest size of a request, in bytes.
        waiting: The largest number of waiting requests.
        audio: The folder of recordings that requests may name; None for no folder.
    """
    service = Service(rescorer, body, waiting, audio)
    # Modules that load on first use are loaded before the first request.
    hypothesis = Hypothesis("warm", {FIRST_PASS: 0.0})
    warm = NbestList("warm", [hypothesis], source="warm", audio=NO_AUDIO)
    rescorer.score([Dataset([warm])])

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.batcher.close)

    routes = [
        Route("/", service.page, methods=["GET"]),
        Route("/health", service.health, methods=["GET"]),
        Route("/rescore", service.rescore, methods=["POST"]),
    ]

    async def wrong(request: Request, error: Exception) -> Response:
        request_line = f"{request.method} {request.url.path}"
        wanted = "the service answers POST /rescore, GET /health and GET /"
        status = getattr(error, "status_code", 500)
        return _json({"error": f"{request_line}: {wanted}"}, status)

    return Starlette(
        routes=routes, lifespan=lifespan, exception_handlers={404: wrong, 405: wrong}
    )


def server(app: Starlette) -> uvicorn.Server:
    """Return a server of the application.

    SIGTERM stops it after it has answered the requests that were sent. It holds as many
    connections as clients make, and waits for slow clients: a proxy can limit them
    (docs/service.md).
    """
    config = uvicorn.Config(
        app,
        http="h11",
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
    )
    return uvicorn.Server(config)
