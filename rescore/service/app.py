"""The choice of `rescore rerank` over HTTP: an ASGI application, and the batcher that scores requests together.

    POST /rescore   a list as a line of native JSON Lines, or an array of them: the same with the choice
    GET /health     models, weights, version
    GET /metrics    figures in Prometheus' text form
    GET /           a page on which a person pastes a list

One thread owns the models. Requests wait for it in a queue; those that wait together are scored together.
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
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from importlib.resources import files
from typing import Any

import uvicorn
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from rescore import formats
from rescore.errors import UserError, counted
from rescore.files import loads
from rescore.formats.audio import confined
from rescore.formats.writing import as_json
from rescore.nbest import FIRST_PASS, NO_AUDIO, Hypothesis, NbestList
from rescore.rescorer import Choice, Rescorer
from rescore.service.limits import Limits
from rescore.version import VERSION

log = logging.getLogger(__name__)

BATCH = 512
"""A batch with this many hypotheses takes no further request."""
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Bounds of the histogram of latencies."""
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Bounds of the histograms of batch sizes."""
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
KEEP_ALIVE = 75
"""Seconds after which an idle connection is closed; longer than the 60 seconds of nginx, which then closes first."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'"


class Metrics:
    """Counters since the start, and the length of the queue, in the registry `all`."""

    def __init__(self, waiting: Callable[[], int]) -> None:
        """
        Args:
            waiting: the number of requests in the queue.
        """
        self.all = registry = CollectorRegistry()
        self.requests = Counter("rescore_requests", "Answers of POST /rescore.", ["status"], registry=registry)
        self.seconds = Histogram(
            "rescore_request_seconds", "From the first byte to the answer.", registry=registry, buckets=SECONDS
        )
        queued = Gauge("rescore_queue_length", "Requests that wait.", registry=registry)
        queued.set_function(waiting)
        self.batch_requests = Histogram(
            "rescore_batch_requests", "Requests of a batch.", registry=registry, buckets=SIZES
        )
        self.batch_hypotheses = Histogram(
            "rescore_batch_hypotheses", "Hypotheses of a batch.", registry=registry, buckets=SIZES
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

    def __init__(self, rescorer: Rescorer, limits: Limits) -> None:
        self._rescorer, self._wait = rescorer, limits.wait / 1000
        self.metrics = Metrics(lambda: self.waiting)
        self._queue: queue.Queue[Job | None] = queue.Queue()
        self._most = limits.queue
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
            until = job.arrived + self._wait
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
            self._answer([waiting for waiting in batch if waiting.answer.set_running_or_notify_cancel()])
            del batch
            job = self._queue.get()

    def _answer(self, batch: list[Job]) -> None:
        """Score a batch together. If that fails, each request is scored alone, so that it harms no other one."""
        if not batch:
            return
        try:
            scored = self._rescorer.score([job.lists for job in batch])
        except Exception as error:
            if len(batch) == 1:
                batch[0].answer.set_exception(error)
            else:
                for job in batch:
                    self._answer([job])
            return
        self.metrics.batch_requests.observe(len(batch))
        self.metrics.batch_hypotheses.observe(sum(job.size for job in batch))
        for job, lists in zip(batch, scored, strict=True):
            try:
                choices = self._rescorer.decide(lists)
                job.answer.set_result([answer_of(self._rescorer, choice) for choice in choices])
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
            entry["scores"] = {name: _finite(score) for name, score in entry["scores"].items()}
    key = "confidence" if rescorer.calibrated else "uncalibrated_confidence"
    answer["words"] = [{"word": word.text, key: round(word.confidence, 4)} for word in rescorer.confidences(choice)]
    return answer


def _finite(score: float) -> float | None:
    return score if math.isfinite(score) else None


def lists_of(body: bytes, limits: Limits) -> tuple[list[NbestList], bool]:
    """The lists of a request, and whether they came as an array. A list without an id is called after its place.

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
            nbest.audio = confined(nbest.audio, limits.audio)
        lists.append(nbest)
    total = sum(len(nbest.hypotheses) for nbest in lists)
    if total > limits.hypotheses:
        raise UserError(f"request: {total:,} hypotheses; at most {limits.hypotheses:,} are taken; send fewer lists")
    return lists, isinstance(value, list)


class Service:
    """The handlers, and their shared state."""

    def __init__(self, rescorer: Rescorer, limits: Limits) -> None:
        self._rescorer, self._limits = rescorer, limits
        self.batcher = Batcher(rescorer, limits)
        self._metrics = self.batcher.metrics

    async def page(self, request: Request) -> Response:
        text = (files("rescore") / "service.html").read_text(encoding="utf-8")
        return HTMLResponse(text, headers={"Content-Security-Policy": POLICY})

    async def health(self, request: Request) -> Response:
        weights = self._rescorer.weights
        models = [
            {"column": lm.name, "model": lm.model, "fingerprint": lm.fingerprint, "precision": lm.precision}
            for lm in self._rescorer.lms
        ]
        about: dict[str, Any] = {"status": "ok", "version": VERSION, "models": models, "weights": weights.weights}
        about |= {"origin": weights.origin, "calibrated": self._rescorer.calibrated, "waiting": self.batcher.waiting}
        return _json(about)

    async def metrics(self, request: Request) -> Response:
        return PlainTextResponse(generate_latest(self._metrics.all), media_type=METRICS_TYPE)

    async def rescore(self, request: Request) -> Response:
        began = time.monotonic()
        try:
            response = _json(await self._answer(request))
        except HTTPException as error:
            response = _json({"error": error.detail}, error.status_code)
            response.headers.update(error.headers or {})
        except UserError as error:
            response = _json({"error": " ".join(str(error).split())}, 400)
        except ClientDisconnect:
            response = _json({"error": "the client went away"}, 400)  # counted; nobody reads it
        except Exception:
            log.exception("a request failed")
            response = _json({"error": "a defect of rescore; the log of the service has it"}, 500)
        self._metrics.requests.labels(str(response.status_code)).inc()
        self._metrics.seconds.observe(time.monotonic() - began)
        return response

    async def _answer(self, request: Request) -> Any:
        stage = 408, "the request did not arrive within"
        try:
            async with asyncio.timeout(self._limits.seconds):
                lists, several = lists_of(await self._body(request), self._limits)
                stage = 504, "no answer within"
                if not lists:
                    return []
                try:
                    waiting = self.batcher.submit(lists)
                except queue.Full:
                    full = f"{counted(self._limits.queue, 'request')} waiting; try again later"
                    raise HTTPException(503, full, {"Retry-After": "1"}) from None
                answers = await asyncio.wrap_future(waiting)
                return answers if several else answers[0]
        except TimeoutError:
            raise HTTPException(stage[0], f"{stage[1]} {self._limits.seconds:g} s") from None

    async def _body(self, request: Request) -> bytes:
        """The body. A body that is too large is read to its end, so that the client reads the answer, but not kept."""
        size, most = 0, self._limits.body
        parts: list[bytes] = []
        async for part in request.stream():
            size += len(part)
            if size <= most:
                parts.append(part)
        if size > most:
            raise HTTPException(413, f"request: more than {most:,} bytes; send fewer lists at once")
        return b"".join(parts)


def _json(value: Any, status: int = 200) -> Response:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return Response(text, status, media_type="application/json")


def application(rescorer: Rescorer, limits: Limits | None = None) -> Starlette:
    """The ASGI application, for any server; it ends with the server's lifespan."""
    service = Service(rescorer, limits or Limits())
    warm = NbestList("warm", [Hypothesis("warm", {FIRST_PASS: 0.0})], source="warm", audio=NO_AUDIO)
    rescorer.score([[warm]])  # modules that load on first use are loaded before the first request

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(service.batcher.close)

    routes = [
        Route("/", service.page, methods=["GET"]),
        Route("/health", service.health, methods=["GET"]),
        Route("/metrics", service.metrics, methods=["GET"]),
        Route("/rescore", service.rescore, methods=["POST"]),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


def server(rescorer: Rescorer, limits: Limits | None = None) -> uvicorn.Server:
    """A server of the application. SIGTERM stops it after it has answered the requests that were sent.

    It holds as many connections as clients make: limits for clients are the work of a proxy (docs/service.md).
    """
    limits = limits or Limits()
    config = uvicorn.Config(
        application(rescorer, limits),
        http="h11",
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=math.ceil(limits.seconds) + 1,
    )
    return uvicorn.Server(config)
