"""Scoring on many processes or machines, by Ray: workers hold the language models, this process reads and writes.

A worker scores the same batches as the local engine: results agree within 1e-4 for any number of workers, and bit by
bit with the same number of threads on the same processor. Workers that die are replaced, and their batches are scored
again.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from rescore.errors import UserError, counted
from rescore.lms.base import Capabilities, ComputeOptions, LanguageModel, Question, TokenScores, capabilities_of

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""How often texts are tried whose worker died."""
AHEAD = 2
"""Tasks a worker has at a time: one in work, one to go on with."""
CONNECTING = 30.0
"""Seconds to wait for a running cluster to answer."""
PATIENCE = 60.0
"""Seconds to wait for a worker if none is left."""
OBJECT_STORE = 256 << 20
"""Bytes of shared memory of a cluster that is started here: only texts and scores go through it."""


About = tuple[str, str, str, Capabilities]
"""A model's back-end, precision and fingerprint, whether it reads the source, and how many neighbours."""


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The cluster, and how it is used."""

    address: str | None = None
    """Address of a running cluster; None starts a cluster here and ends it afterwards."""
    workers: int | None = None
    """Number of workers; None for one per GPU, or one per core."""
    skip: bool = False
    """Go on without texts that cannot be scored."""


@dataclass(slots=True, eq=False)
class _Task:
    number: int
    questions: Sequence[Question]
    rank: int
    attempts: int = 0


@dataclass(slots=True, eq=False)
class _Worker:
    handle: Any
    loading: Any
    """Ray's reference to the worker's report that its models are loaded; None when the worker is ready."""
    tasks: list[_Task] = field(default_factory=list)
    """The tasks of the worker, in its order of work."""
    killer: _Task | None = None
    """The task that the worker was doing when it died."""


class RemoteModel:
    """A language model that the workers hold."""

    def __init__(self, cluster: Cluster, rank: int, name: str, about: About) -> None:
        self._cluster, self._rank, self.name = cluster, rank, name
        self.model, self.precision, self.fingerprint, capabilities = about
        self.capabilities = replace(capabilities, vectors=False, predicts_tokens=False)

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question, in their order."""
        scores = next(self._cluster.stream(self._rank, [questions]))
        assert scores is not None
        return scores

    def stream(self, batches: Iterable[Sequence[Question]]) -> Iterator[list[TokenScores] | None]:
        """Results of batches in their order; None for a batch that cannot be scored and is skipped."""
        return self._cluster.stream(self._rank, batches)


class Cluster:
    """Workers, each with all models."""

    def __init__(
        self, specs: Sequence[str], computing: ComputeOptions, cache: str | Path | None, options: ClusterOptions
    ) -> None:
        """Join or start a cluster, and load the models in every worker.

        Raises:
            UserError: Ray is not installed, the cluster cannot be reached, or a model cannot be loaded.
        """
        self._ray = _import_ray()
        self._options = options
        self._started_here = self._connect()
        try:
            resources = self._ray.cluster_resources()
            cores, gpus = max(1, int(resources.get("CPU", 1))), int(resources.get("GPU", 0))
            use_gpus = bool(gpus) and (computing.device or "cuda").startswith(("cuda", "auto"))
            number = options.workers or (gpus if use_gpus else cores)
            largest = max(int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"])
            self._threads = max(1, min(cores // number, largest))  # a worker must fit into one node
            needs = {"num_cpus": self._threads, "num_gpus": min(1.0, gpus / number) if use_gpus else 0}
            # Ray would restart a worker where it was; here it is replaced wherever there is room.
            self._actor = self._ray.remote(**needs, max_restarts=0)(_Holder)
            folder = None if cache is None else str(Path(cache).absolute())
            self._arguments = ([_absolute(spec) for spec in specs], computing, folder, self._threads)
            self._workers = [self._start() for _ in range(number)]
            self.models = [RemoteModel(self, rank, name, about) for rank, (name, about) in enumerate(self._described())]
        except BaseException:
            self.close()
            raise

    def _connect(self) -> bool:
        """True where a cluster was started here."""
        quiet = {"include_dashboard": False, "object_store_memory": OBJECT_STORE}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        if self._ray.is_initialized():
            return False
        address = self._options.address
        begin = partial(
            self._ray.init,
            address=address or "local",
            log_to_driver=False,
            logging_level="error",
            **({} if address else quiet),
        )
        try:
            if address:
                _wait_for(address, CONNECTING)
                _within(CONNECTING, begin)
            else:
                begin()
        except TimeoutError:
            raise UserError(
                f"--engine ray:{address}: no cluster answers within {CONNECTING:.0f} s; is its head running, and at "
                "this address?"
            ) from None
        except Exception as error:  # also plain Exception, as where a node starts slowly
            raise UserError(f"--engine ray: {(str(error) or type(error).__name__).splitlines()[0]}") from None
        return True

    def _start(self) -> _Worker:
        handle = self._actor.remote(*self._arguments)
        return _Worker(handle, handle.load.remote())

    def _described(self) -> list[tuple[str, About]]:
        """Names and facts of the models, from the first worker that is ready; those that died are replaced."""
        until = time.monotonic() + 10 * PATIENCE
        while (left := until - time.monotonic()) > 0:
            loading = {worker.loading: worker for worker in self._workers}
            ready, _ = self._ray.wait(list(loading), timeout=left)
            if ready:
                try:
                    facts: list[tuple[str, About]] = self._result(ready[0])
                    return facts
                except self._ray.exceptions.RayActorError:
                    self._lost(loading[ready[0]])
        raise UserError(f"--engine ray: no worker could be started within {10 * PATIENCE:.0f} s; give fewer --workers")

    def _result(self, reference: Any) -> Any:
        """The result of a task; a `UserError` of the task is raised here."""
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            cause = getattr(error, "cause", None)
            raise (cause if isinstance(cause, UserError) else UserError(f"--engine ray: {cause or error}")) from None

    def stream(self, rank: int, batches: Iterable[Sequence[Question]]) -> Iterator[list[TokenScores] | None]:
        """Scores by the model of that rank, in the order of the batches; at most `AHEAD` a worker are under way."""
        source = iter(batches)
        waiting: deque[_Task] = deque()
        running: dict[Any, tuple[_Task, _Worker]] = {}
        done: dict[int, list[TokenScores] | None] = {}
        taken = yielded = 0
        exhausted = False
        alone_since = time.monotonic()
        while True:
            while not exhausted and taken - yielded < AHEAD * max(1, len(self._workers)) + 1:
                questions = next(source, None)
                if questions is None:
                    exhausted = True
                else:
                    waiting.append(_Task(taken, questions, rank))
                    taken += 1
            if yielded in done:
                yield done.pop(yielded)
                yielded += 1
                continue
            if exhausted and yielded == taken:
                return
            alone_since = self._look_after(alone_since)
            while waiting and (worker := self._free(waiting[0])) is not None:
                task = waiting.popleft()
                reference = worker.handle.score.remote(task.rank, list(task.questions))
                worker.tasks.append(task)
                running[reference] = task, worker
            if not running:
                time.sleep(0.1)
                continue
            ready, _ = self._ray.wait(list(running), timeout=1.0)
            for reference in ready:
                task, worker = running.pop(reference)
                try:
                    done[task.number] = self._result(reference)
                    worker.tasks.remove(task)
                except self._ray.exceptions.RayActorError:
                    self._lost(worker)
                    task.attempts += task is worker.killer  # tasks that only waited are not to blame
                    if task.attempts < ATTEMPTS:
                        waiting.appendleft(task)
                    else:
                        self._give_up(task, f"killed its worker {ATTEMPTS} times")
                        done[task.number] = None
                except UserError as error:
                    worker.tasks.remove(task)
                    self._give_up(task, str(error))
                    done[task.number] = None

    def _give_up(self, task: _Task, why: str) -> None:
        """Report a batch that cannot be scored.

        Raises:
            UserError: scoring is not to continue without the batch.
        """
        number, first = len(task.questions), task.questions[0].text[:60]
        if not self._options.skip:
            raise UserError(f"cannot score {counted(number, 'text')}, the first is {first!r}: {why}")
        log.warning("cannot score %s, the first is %r: %s", counted(number, "text"), first, why)

    def _free(self, task: _Task) -> _Worker | None:
        """The worker with the fewest tasks; None if all workers have enough tasks.

        A suspicious task has a worker for itself. A dying worker loses the result of its previous task, too, so several
        tasks on a worker would leave the cause open.
        """
        able = [worker for worker in self._workers if worker.loading is None and _has_room(worker, task)]
        return min(able, key=lambda worker: len(worker.tasks), default=None)

    def _look_after(self, alone_since: float) -> float:
        """Update which workers are ready; returns the time since when no worker is left."""
        for worker in [worker for worker in self._workers if worker.loading is not None]:
            ready, _ = self._ray.wait([worker.loading], timeout=0)
            if ready:
                try:
                    self._result(worker.loading)
                    worker.loading = None
                except self._ray.exceptions.RayActorError:
                    self._lost(worker)
        if any(worker.loading is None for worker in self._workers):
            return time.monotonic()
        if time.monotonic() - alone_since > PATIENCE:
            raise UserError(f"--engine ray: all workers died, and no new worker started within {PATIENCE:.0f} s")
        return alone_since

    def _lost(self, worker: _Worker) -> None:
        if worker in self._workers:
            worker.killer = next(iter(worker.tasks), None)
            log.warning("a worker died; a new worker is started, and the lists of the dead worker are scored again")
            self._workers[self._workers.index(worker)] = self._start()

    def close(self) -> None:
        """End the workers, and the cluster if it was started here."""
        for worker in getattr(self, "_workers", []):
            self._ray.kill(worker.handle)
        if self._started_here:
            self._ray.shutdown()


class _Holder:
    """The actor of a worker: it holds the models, loaded once."""

    def __init__(self, specs: list[str], computing: ComputeOptions, cache: str | None, threads: int) -> None:
        self._arguments, self._threads = (specs, computing, cache), threads
        self._models: list[LanguageModel] = []

    def load(self) -> list[tuple[str, About]]:
        """Names and facts of the models."""
        from rescore.lms import KINDS, load_all, parse

        if any(KINDS[parse(spec).kind].uses_torch for spec in self._arguments[0]):
            import torch

            torch.set_num_threads(self._threads)
        self._models = load_all(*self._arguments)
        return [
            (
                model.name,
                (
                    model.model,
                    model.precision,
                    model.fingerprint,
                    capabilities_of(model),
                ),
            )
            for model in self._models
        ]

    def score(self, rank: int, questions: list[Question]) -> list[TokenScores]:
        # Lazy values would take the model along: plain values are sent.
        return [
            TokenScores(list(scores.tokens), scores.log_probs, scores.unknown, scores.sum)
            for scores in self._models[rank].score(questions)
        ]


def _has_room(worker: _Worker, task: _Task) -> bool:
    alone = any(queued.attempts for queued in (task, *worker.tasks))
    return len(worker.tasks) < (1 if alone else AHEAD)


def _wait_for(address: str, seconds: float) -> None:
    """Wait until a server listens at HOST:PORT; Ray itself would print a line for each attempt.

    Raises:
        TimeoutError: no server listens in time.
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    until = time.monotonic() + seconds
    while port.isdecimal():  # other values, such as auto, are no address
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=seconds).close()
            return
        except (OSError, OverflowError):
            if time.monotonic() > until:
                raise TimeoutError from None
            time.sleep(min(0.5, seconds))


def _within(seconds: float, call: Callable[[], object]) -> None:
    """Call a function in its own thread: Ray's C++ code waits without a timeout and ignores signals.

    Raises:
        TimeoutError: the call has not ended. Errors of the function are raised here.
    """
    ended: list[Exception | None] = []

    def run() -> None:
        try:
            call()
            ended.append(None)
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not ended:
        raise TimeoutError
    if ended[0] is not None:
        raise ended[0]


def _absolute(spec: str) -> str:
    """The value of --lm with an absolute path, so that workers in other folders find it."""
    from rescore.lms import parse

    parsed = parse(spec)
    if parsed.address or str(parsed.path) not in spec or not parsed.path.exists():
        return spec
    return ":".join([parsed.kind, *parsed.options, str(parsed.path.absolute())])


def _import_ray() -> Any:
    try:
        import ray
        import ray._private.worker as driver

        # Ray prints about dead workers to standard output, where lists may go; the engine reports them instead.
        if hasattr(driver, "print_to_stdstream"):
            driver.print_to_stdstream = lambda *arguments, **options: None
    except ImportError:
        raise UserError("--engine ray needs Ray; install it with: pip install 'rescore[ray]'") from None
    return ray
