"""Scoring on many processes or machines, by Ray: workers hold the language models, this
process reads and writes.

A worker scores the same batches as the local engine: results agree within 1e-4 for any
number of workers, and bit by bit with the same number of threads on the same processor.
Workers that die are replaced, and their batches are scored again.

`ray.util.ActorPool` replaces no dead actor, loses its task, and reads all batches
before it gives the first result; `ray.data` takes a list, tables or files, no stream of
batches whose results are read while further batches are made, and needs pandas.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rescore.errors import UserError, counted, installed_by
from rescore.lms import load_all, parse
from rescore.lms.base import (
    Capabilities,
    ComputeOptions,
    LanguageModel,
    Question,
    TokenScores,
    capabilities_of,
)

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""Number of times that texts are tried whose worker died."""
AHEAD = 2
"""Batches under way for each worker: one in work, one to go on with."""
CONNECTING = 30.0
"""Seconds to wait for a running cluster to answer."""
STARTING = 600.0
"""Seconds to wait for a worker, where none is left."""
ANSWERING = 3600.0
"""Seconds to wait for the scores of a batch."""
NOTICE = 60.0
"""Seconds between two lines that say what is waited for."""
OBJECT_STORE = 256 << 20
"""Bytes of shared memory of a cluster that is started here: only texts and scores go
through it.
"""


About = tuple[str, str, str, str, Capabilities]
"""A model's name, back-end, precision, fingerprint and capabilities."""
Task = tuple[Any, Any]
"""The worker that a batch of questions was given to, and Ray's reference to the
result.
"""


class RemoteModel:
    """A language model that the workers hold."""

    def __init__(self, cluster: Cluster, rank: int, about: About) -> None:
        """Make the model.

        Args:
            cluster: The workers.
            rank: The number of the model in each worker.
            about: Facts about the model.
        """
        self._cluster = cluster
        self._rank = rank
        self.name, self.model, self.precision, self.fingerprint, capabilities = about
        self.capabilities = replace(capabilities, vectors=False, streams=True)

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """Return the scores of each question, in their order.

        Args:
            questions: The questions.
        """
        return next(self.stream([questions]))

    def stream(
        self, batches: Iterable[Sequence[Question]]
    ) -> Iterator[list[TokenScores]]:
        """Return an iterator over the scores of each batch, in their order.

        Args:
            batches: Batches of questions, which are taken ahead.
        """
        return self._cluster.stream(self._rank, batches)


class Cluster:
    """Workers, each with all models. A worker that dies is replaced wherever there is
    room.
    """

    def __init__(
        self,
        specs: Sequence[str],
        computing: ComputeOptions,
        cache: str | Path | None,
        address: str | None = None,
        workers: int | None = None,
    ) -> None:
        """Join or start a cluster, and load the models in every worker.

        Args:
            specs: Values of --lm.
            computing: Where and how the models compute.
            cache: The folder in which scores are kept; None to keep no scores.
            address: The address of a running cluster; None starts a cluster here and
                ends it afterwards.
            workers: Number of workers; None for one per GPU, or one per core.

        Raises:
            UserError: Ray is not installed, no cluster answers, or a model cannot be
                loaded.
        """
        self._ray = _import_ray()
        self._loading: dict[Any, Any] = {}
        """Workers by Ray's reference to the facts about their models."""
        self._ready: deque[Any] = deque()
        """Workers that have loaded their models; they are given questions in turn."""
        self._all_ready = False
        """Whether a line has said that all workers are ready."""
        self._started_here = self._connect(address)
        try:
            self._size, needs = self._plan(computing, workers)
            # A worker computes with as many threads as it has cores: Ray sets
            # OMP_NUM_THREADS. Ray would restart a worker where it was; here it is
            # replaced wherever there is room.
            self._actor = self._ray.remote(**needs, max_restarts=0)(_Holder)
            folder = None if cache is None else str(Path(cache).absolute())
            self._arguments = ([_absolute(spec) for spec in specs], computing, folder)
            log.info("starting %s with Ray", counted(self._size, "worker"))
            for _ in range(self._size):
                self._start()
            self.models = [
                RemoteModel(self, rank, about)
                for rank, about in enumerate(self._loaded(STARTING))
            ]
        except BaseException:
            self.close()
            raise

    def _connect(self, address: str | None) -> bool:
        """Join or start a cluster; return whether it was started or joined here."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # By default Ray's workers get the lowest priority but four (nice 15): on a busy
        # machine they hardly compute.
        os.environ.setdefault("RAY_worker_niceness", "0")
        if self._ray.is_initialized():
            return False
        settings: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
        if address:
            _check_address(address)
            settings["address"] = address
        else:
            settings["address"] = "local"
            settings["include_dashboard"] = False
            settings["object_store_memory"] = OBJECT_STORE
        try:
            with kept_signals():
                self._ray.init(**settings)
        # also plain Exception, as where a node starts slowly
        except Exception as error:
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise UserError(f"--engine ray: {reason}") from None
        return True

    def _plan(
        self, computing: ComputeOptions, workers: int | None
    ) -> tuple[int, dict[str, float]]:
        """Return the number of workers, and the resources that each needs."""
        resources = self._ray.cluster_resources()
        cores = max(1, int(resources.get("CPU", 1)))
        gpus = int(resources.get("GPU", 0))
        use_gpus = gpus > 0 and (computing.device or "cuda").startswith("cuda")
        size = workers or (gpus if use_gpus else cores)
        cores_of_nodes = []
        for node in self._ray.nodes():
            if node["Alive"]:
                cores_of_nodes.append(int(node["Resources"].get("CPU", 0)))
        # a worker must fit into one node
        threads = max(1, min(cores // size, max(cores_of_nodes)))
        gpus_a_worker = min(1.0, gpus / size) if use_gpus else 0
        return size, {"num_cpus": threads, "num_gpus": gpus_a_worker}

    def _start(self) -> None:
        """Start a worker, which loads its models."""
        worker = self._actor.remote(*self._arguments)
        self._loading[worker.load.remote()] = worker

    def _loaded(self, seconds: float) -> list[About]:
        """Note the workers that have loaded their models, after at most some seconds;
        return the facts about the models.
        """
        references: list[Any] = []
        if self._loading:
            references = self._wait(list(self._loading), seconds, "the first worker")
        facts: list[About] = []
        for reference in references:
            worker = self._loading.pop(reference)
            try:
                facts = self._ray.get(reference)
            except self._ray.exceptions.RayActorError as error:
                raise UserError(
                    "--engine ray: a worker died while it loaded its models"
                    f" ({_last_line(error)}); if it had too little memory, give fewer"
                    " --workers"
                ) from None
            except self._ray.exceptions.RayTaskError as error:
                raise _user_error(error) from None
            self._ready.append(worker)
            self._report_ready()
        if not self._ready:
            raise UserError(
                f"--engine ray: no worker could be started within {seconds:.0f} s; give"
                " fewer --workers"
            )
        return facts

    def _wait(self, references: list[Any], seconds: float, what: str) -> list[Any]:
        """Return the references with a result, after at most some seconds; say from
        time to time what is waited for.
        """
        began = time.monotonic()
        waited = 0.0
        while True:
            left = max(0.0, seconds - waited)
            ready, _ = self._ray.wait(references, timeout=min(NOTICE, left))
            waited = time.monotonic() - began
            if ready or waited >= seconds:
                return list(ready)
            log.info("--engine ray: waiting for %s, %.0f s", what, waited)

    def _report_ready(self) -> None:
        """Say that the first worker is ready, and once that all workers are ready."""
        if self._all_ready:
            return
        ready = len(self._ready)
        self._all_ready = ready == self._size
        if ready == 1 or self._all_ready:
            log.info("%d of %s ready", ready, counted(self._size, "worker"))

    def stream(
        self, rank: int, batches: Iterable[Sequence[Question]]
    ) -> Iterator[list[TokenScores]]:
        """Yield the scores of each batch, in their order; at most `AHEAD` batches a
        worker are under way.

        Args:
            rank: The number of the model.
            batches: Batches of questions.

        Raises:
            UserError: Questions cannot be scored.
        """
        under_way: deque[tuple[Sequence[Question], Task]] = deque()
        for questions in batches:
            under_way.append((questions, self._sent(rank, questions)))
            if len(under_way) > AHEAD * self._size:
                yield self._finished(rank, *under_way.popleft())
        while under_way:
            yield self._finished(rank, *under_way.popleft())

    def _sent(self, rank: int, questions: Sequence[Question]) -> Task:
        """Give questions to the next worker."""
        self._loaded(0.0 if self._ready else STARTING)
        self._ready.rotate(-1)
        worker = self._ready[-1]
        return worker, worker.score.remote(rank, list(questions))

    def _finished(
        self, rank: int, questions: Sequence[Question], task: Task
    ) -> list[TokenScores]:
        """Return the scores of questions, which are sent again if their worker died.

        Results are taken in order, so a text that kills its worker is sent again before
        the texts behind it.
        """
        if not questions:
            return []
        where = (
            f"cannot score {counted(len(questions), 'text')}, the first is"
            f" {questions[0].text[:60]!r}"
        )
        for _ in range(ATTEMPTS):
            worker, reference = task
            texts = counted(len(questions), "text")
            if not self._wait([reference], ANSWERING, f"the scores of {texts}"):
                raise UserError(
                    f"--engine ray: {where}: no worker answered within"
                    f" {ANSWERING:.0f} s; give a smaller --batch-tokens or more"
                    " --workers"
                )
            try:
                scores: list[TokenScores] = self._ray.get(reference)
                return scores
            except self._ray.exceptions.RayTaskError as error:
                raise UserError(f"{where}: {_user_error(error)}") from None
            except self._ray.exceptions.RayActorError:
                log.warning(
                    "a worker died; a new worker is started, and the lists of the dead"
                    " worker are scored again"
                )
                if worker in self._ready:
                    self._ready.remove(worker)
                    self._start()
                task = self._sent(rank, questions)
        raise UserError(f"{where}: killed its worker {ATTEMPTS} times")

    def close(self) -> None:
        """End the workers, and the cluster if it was started here."""
        for worker in [*self._ready, *self._loading.values()]:
            self._ray.kill(worker)
        if self._started_here:
            self._ray.shutdown()


class _Holder:
    """The actor of a worker: it holds the models, loaded once."""

    def __init__(
        self, specs: list[str], computing: ComputeOptions, cache: str | None
    ) -> None:
        """Keep the arguments of `load_all`; `load` loads the models."""
        self._arguments = (specs, computing, cache)
        self._models: list[LanguageModel] = []

    def load(self) -> list[About]:
        """Load the models, and return the facts about them."""
        self._models = load_all(*self._arguments)
        facts = []
        for model in self._models:
            capabilities = capabilities_of(model)
            facts.append(
                (
                    model.name,
                    model.model,
                    model.precision,
                    model.fingerprint,
                    capabilities,
                )
            )
        return facts

    def score(self, rank: int, questions: list[Question]) -> list[TokenScores]:
        """Return the scores of questions by the model of this number."""
        return self._models[rank].score(questions)


@contextmanager
def kept_signals() -> Iterator[None]:
    """Give SIGINT and SIGTERM back to their handlers at the end of the context.

    Ray replaces the handlers, and at SIGTERM it would print the stack of the process.
    """
    handlers = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            handlers[number] = signal.getsignal(number)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _check_address(address: str) -> None:
    """Raise an error if no server listens at HOST:PORT: Ray itself would wait for
    minutes, deaf to signals.
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdecimal():  # other values, such as auto, are no address
        return
    try:
        connection = socket.create_connection(
            (host.strip("[]"), int(port)), timeout=CONNECTING
        )
        connection.close()
    except (OSError, OverflowError) as error:
        raise UserError(
            f"--engine ray:{address}: no cluster answers ({error}); is its head running"
            " there?"
        ) from None


def _user_error(error: Any) -> UserError:
    """Return the error of a worker as an error of one line."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, UserError):
        return cause
    return UserError(f"--engine ray: {_last_line(cause or error)}")


def _last_line(error: object) -> str:
    """Return what an error says at its end: messages of Ray hold the whole traceback
    of a worker.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "".join(lines[-1:]) or type(error).__name__


def _absolute(spec: str) -> str:
    """Return the value of --lm with an absolute path, so that workers in other folders
    find it.
    """
    parsed = parse(spec)
    if str(parsed.path) not in spec or not parsed.path.exists():
        return spec
    return ":".join([parsed.kind, *parsed.options, str(parsed.path.absolute())])


def _import_ray() -> Any:
    """Return the module of Ray."""
    try:
        import ray
        import ray._private.worker as driver
    except ImportError:
        raise UserError(
            f"--engine ray needs Ray; install it with: {installed_by('ray')}"
        ) from None
    # Ray prints about dead workers to standard output, where lists may go; the engine
    # reports them instead.
    if hasattr(driver, "print_to_stdstream"):
        driver.print_to_stdstream = lambda *arguments, **options: None
    return ray
