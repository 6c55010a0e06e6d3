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
from rescore.errors import UserError, counted
from rescore.files import loads
from rescore.formats.audio import confined
from rescore.formats.writing import as_json
from rescore.nbest import FIRST_PASS, NO_AUDIO, Hypothesis, NbestList
from rescore.rescorer import Choice, Rescorer
from rescore.version import VERSION

log = logging.getLogger(__name__)

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
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline';"
    " connect-src 'self'"
)


@dataclass(frozen=True, slots=True)
class Job:
    """One request in the queue."""

    lists: list[NbestList]
    arrived: float = field(default_factory=time.monotonic)
    answer: Future[list[dict[str, Any]]] = field(default_factory=Future)

    @property
    def size(self) -> int:
        """Number of hypotheses."""
        return sum(len(nbest.hypotheses) for nbest in self.lists)


class Batcher:
    """A queue of requests, and the thread that owns the models."""

    def __init__(self, rescorer: Rescorer, most: int) -> None:
        """
        Args:
            most: the largest number of waiting requests.
        """
        self._rescorer, self._most = rescorer, most
        self._queue: queue.Queue[Job | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="rescore", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of requests in the queue."""
        return self._queue.qsize()

    def submit(self, lists: list[NbestList]) -> Future[list[dict[str, Any]]]:
        """Queue a request.

        Raises:
            queue.Full: too many requests wait.
        """
        if self.waiting >= self._most:
            raise queue.Full
        job = Job(lists)
        self._queue.put(job)
        return job.answer

    def close(self) -> None:
        """End the thread after it has answered the requests in the queue."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        job = self._queue.get()
        while job is not None:
            batch, size = [job], job.size
            until = job.arrived + WAIT
            job = None
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
            wanted = [
                waiting
                for waiting in batch
                if waiting.answer.set_running_or_notify_cancel()
            ]
            if wanted:
                self._answer(wanted)
            del batch, wanted
            job = self._queue.get()

    def _answer(self, batch: list[Job]) -> None:
        """Score a batch together. If that fails, each request is scored alone, so that
        it harms no other one.
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
                choices = self._rescorer.decide(lists)
                job.answer.set_result(
                    [answer_of(self._rescorer, choice) for choice in choices]
                )
            except Exception as error:
                job.answer.set_exception(error)


def answer_of(rescorer: Rescorer, choice: Choice) -> dict[str, Any]:
    """A list as the service gives it back: a line of native JSON Lines with the choice.

    JSON has no infinity: a score of minus infinity is null.
    """
    answer = {"text": choice.text, **as_json(replace(choice.nbest, audio=None))}
    for entry, total in zip(answer["hyps"], choice.totals, strict=True):
        entry["total"] = _finite(total)
        if "score" in entry:
            entry["score"] = _finite(entry["score"])
        if "scores" in entry:
            entry["scores"] = {
                name: _finite(score) for name, score in entry["scores"].items()
            }
    key = "confidence" if rescorer.calibrated else "uncalibrated_confidence"
    answer["words"] = [
        {"word": word.text, key: round(word.confidence, 4)}
        for word in rescorer.confidences(choice)
    ]
    return answer


def _finite(score: float) -> float | None:
    return score if math.isfinite(score) else None


def lists_of(body: bytes, audio: Path | None) -> tuple[list[NbestList], bool]:
    """The lists of a request, and whether they came as an array. A list without an id
    is called after its place.

    Args:
        audio: the folder of recordings that requests may name.

    Raises:
        UserError: the body is not JSON, or a list is damaged.
    """
    value = loads(body, "request")
    entries = value if isinstance(value, list) else [value]
    lists = []
    for number, entry in enumerate(entries, 1):
        place = f"request: list {number}" if isinstance(value, list) else "request"
        if not isinstance(entry, dict):
            raise UserError(f'{place}: expected an object with "hyps"')
        nbest = formats.from_json({"id": str(number), **entry}, place)
        if nbest.audio is not None:
            nbest.audio = confined(nbest.audio, audio)
        lists.append(nbest)
    return lists, isinstance(value, list)


class Service:
    """The handlers, and their shared state."""

    def __init__(
        self, rescorer: Rescorer, body: int, waiting: int, audio: Path | None
    ) -> None:
        """
        Args:
            body: the largest size of a request, in bytes. waiting: the largest number
                of waiting requests.
            audio: the folder of recordings that requests may name.
        """
        self._rescorer, self._body, self._waiting, self._audio = (
            rescorer,
            body,
            waiting,
            audio,
        )
        self.batcher = Batcher(rescorer, waiting)

    async def page(self, request: Request) -> Response:
        text = (files("rescore") / "service.html").read_text(encoding="utf-8")
        return HTMLResponse(text, headers={"Content-Security-Policy": POLICY})

    async def health(self, request: Request) -> Response:
        weights = self._rescorer.weights
        models = [
            {
                "column": lm.name,
                "model": lm.model,
                "fingerprint": lm.fingerprint,
                "precision": lm.precision,
            }
            for lm in self._rescorer.lms
        ]
        about: dict[str, Any] = {
            "status": "ok",
            "version": VERSION,
            "models": models,
            "weights": weights.weights,
        }
        about |= {
            "origin": str(weights.tuned),
            "calibrated": self._rescorer.calibrated,
            "waiting": self.batcher.waiting,
        }
        return _json(about)

    async def rescore(self, request: Request) -> Response:
        try:
            lists, several = lists_of(await self._read(request), self._audio)
            answers = (
                await asyncio.wrap_future(self.batcher.submit(lists)) if lists else []
            )
            return _json(answers if several else answers[0])
        except queue.Full:
            full = f"{counted(self._waiting, 'request')} waiting; try again later"
            return _json({"error": full}, 503, {"Retry-After": "1"})
        except HTTPException as error:
            return _json({"error": error.detail}, error.status_code)
        except UserError as error:
            return _json({"error": " ".join(str(error).split())}, 400)
        except ClientDisconnect:
            return _json({"error": "the client went away"}, 400)  # nobody reads it
        except Exception:
            log.exception("a request failed")
            return _json(
                {"error": "a defect of rescore; the log of the service has it"}, 500
            )

    async def _read(self, request: Request) -> bytes:
        """The body. A body that is too large is read to its end, so that the client
        reads the answer, but not kept.
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
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return Response(text, status, headers, media_type="application/json")


def application(
    rescorer: Rescorer,
    body: int = 1 << 20,
    waiting: int = 256,
    audio: Path | None = None,
) -> Starlette:
    """The ASGI application, for any server; it ends with the server's lifespan.
    Arguments as in `Service`.
    """
    service = Service(rescorer, body, waiting, audio)
    warm = NbestList(
        "warm", [Hypothesis("warm", {FIRST_PASS: 0.0})], source="warm", audio=NO_AUDIO
    )
    # modules that load on first use are loaded before the first request
    rescorer.score([[warm]])

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
        wanted = "the service answers POST /rescore, GET /health and GET /"
        return _json(
            {"error": f"{request.method} {request.url.path}: {wanted}"},
            getattr(error, "status_code", 500),
        )

    return Starlette(
        routes=routes, lifespan=lifespan, exception_handlers={404: wrong, 405: wrong}
    )


def server(app: Starlette) -> uvicorn.Server:
    """A server of the application. SIGTERM stops it after it has answered the requests
    that were sent.

    It holds as many connections as clients make, and waits for slow ones: limits for
    clients are the work of a proxy (docs/service.md).
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
