"""Scoring on many processes or machines, by Ray: workers hold the language models, this process reads and writes.

A worker scores the same batches as the local engine: results agree within 1e-4 for any number of workers, and bit by
bit with the same number of threads on the same processor. Workers that die are replaced, and their batches are scored
again.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from rescore.errors import UserError, counted
from rescore.lms.base import Capabilities, ComputeOptions, LanguageModel, Question, TokenScores, capabilities_of

log = logging.getLogger(__name__)

ATTEMPTS = 3
"""How often texts are tried whose worker died."""
AHEAD = 2
"""Batches under way for each worker: one in work, one to go on with."""
CONNECTING = 30.0
"""Seconds to wait for a running cluster to answer."""
STARTING, RESTARTING = 600.0, 60.0
"""Seconds to wait for the first worker, and for a new worker if all died."""
OBJECT_STORE = 256 << 20
"""Bytes of shared memory of a cluster that is started here: only texts and scores go through it."""


About = tuple[str, str, str, Capabilities]
"""A model's back-end, precision, fingerprint and capabilities."""


@dataclass(slots=True, eq=False)
class _Task:
    """A batch of questions to the model of a rank."""

    rank: int
    questions: Sequence[Question]
    attempts: int = 0
    done: bool = False
    scores: list[TokenScores] | None = None
    """None while the task is not done, and if the batch cannot be scored."""


class RemoteModel:
    """A language model that the workers hold."""

    def __init__(self, cluster: Cluster, rank: int, name: str, about: About) -> None:
        self._cluster, self._rank, self.name = cluster, rank, name
        self.model, self.precision, self.fingerprint, capabilities = about
        self.capabilities = replace(capabilities, vectors=False, streams=True)

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question, in their order."""
        scores = next(self._cluster.stream(self._rank, [questions]))
        assert scores is not None
        return scores

    def stream(self, batches: Iterable[Sequence[Question]]) -> Iterator[list[TokenScores] | None]:
        """Results of batches in their order; None for a batch that cannot be scored and is skipped."""
        return self._cluster.stream(self._rank, batches)


class Cluster:
    """Workers, each with all models.

    A worker does one task at a time, so the task of a worker that dies is the suspect. All streams share the queue of
    tasks: waiting for one result brings the tasks of other streams on, too.
    """

    def __init__(
        self,
        specs: Sequence[str],
        computing: ComputeOptions,
        cache: str | Path | None,
        address: str | None = None,
        workers: int | None = None,
        skip: bool = False,
    ) -> None:
        """Join or start a cluster, and load the models in every worker.

        Args:
            address: of a running cluster; None starts a cluster here and ends it afterwards.
            workers: their number; None for one per GPU, or one per core. skip: go on without texts that cannot be
                scored.
        """
        self._ray = _import_ray()
        self._skip = skip
        self._waiting: deque[_Task] = deque()
        self._idle: list[Any] = []
        """Workers that are ready for a task."""
        self._busy: dict[Any, tuple[Any, _Task | None]] = {}
        """By Ray's reference to the result: the worker, and its task; None for a worker that loads its models."""
        self._facts: list[tuple[str, About]] | None = None
        self._last_alive = time.monotonic()
        self._started_here = self._connect(address)
        try:
            resources = self._ray.cluster_resources()
            cores, gpus = max(1, int(resources.get("CPU", 1))), int(resources.get("GPU", 0))
            use_gpus = bool(gpus) and (computing.device or "cuda").startswith("cuda")
            self._size = workers or (gpus if use_gpus else cores)
            largest = max(int(node["Resources"].get("CPU", 0)) for node in self._ray.nodes() if node["Alive"])
            threads = max(1, min(cores // self._size, largest))  # a worker must fit into one node
            needs = {"num_cpus": threads, "num_gpus": min(1.0, gpus / self._size) if use_gpus else 0}
            # Ray would restart a worker where it was; here it is replaced wherever there is room.
            self._actor = self._ray.remote(**needs, max_restarts=0)(_Holder)
            folder = None if cache is None else str(Path(cache).absolute())
            self._arguments = ([_absolute(spec) for spec in specs], computing, folder, threads)
            for _ in range(self._size):
                self._start()
            while self._facts is None:
                self._step(STARTING)
            self.models: list[RemoteModel] = [
                RemoteModel(self, rank, name, about) for rank, (name, about) in enumerate(self._facts)
            ]
        except BaseException:
            self.close()
            raise

    def _connect(self, address: str | None) -> bool:
        """True where a cluster was started here."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        if self._ray.is_initialized():
            return False
        begin = partial(self._ray.init, address=address or "local", log_to_driver=False, logging_level="error")
        try:
            if address:
                _wait_for(address, CONNECTING)
                _within(CONNECTING, begin)
            else:
                begin(include_dashboard=False, object_store_memory=OBJECT_STORE)
        except TimeoutError:
            raise UserError(
                f"--engine ray:{address}: no cluster answers within {CONNECTING:.0f} s; is its head running, and at "
                "this address?"
            ) from None
        except Exception as error:  # also plain Exception, as where a node starts slowly
            raise UserError(f"--engine ray: {(str(error) or type(error).__name__).splitlines()[0]}") from None
        return True

    def stream(self, rank: int, batches: Iterable[Sequence[Question]]) -> Iterator[list[TokenScores] | None]:
        """Scores by the model of that rank, in the order of the batches; at most `AHEAD` a worker are under way."""
        under_way: deque[_Task] = deque()
        for questions in batches:
            under_way.append(_Task(rank, questions))
            self._waiting.append(under_way[-1])
            if len(under_way) > AHEAD * self._size:
                yield self._finished(under_way.popleft())
        while under_way:
            yield self._finished(under_way.popleft())

    def _finished(self, task: _Task) -> list[TokenScores] | None:
        while not task.done:
            self._step(RESTARTING)
        return task.scores

    def _start(self) -> None:
        worker = self._actor.remote(*self._arguments)
        self._busy[worker.load.remote()] = worker, None

    def _step(self, patience: float) -> None:
        """Give tasks to idle workers, and wait for results a second at most.

        Args:
            patience: seconds without a worker that has loaded its models.
        """
        while self._waiting and self._idle:
            task, worker = self._waiting.popleft(), self._idle.pop()
            self._busy[worker.score.remote(task.rank, list(task.questions))] = worker, task
        if self._idle or any(task for _, task in self._busy.values()):
            self._last_alive = time.monotonic()
        elif time.monotonic() - self._last_alive > patience:
            raise UserError(f"--engine ray: no worker could be started within {patience:.0f} s; give fewer --workers")
        ready, _ = self._ray.wait(list(self._busy), timeout=1.0)
        for reference in ready:
            worker, doing = self._busy.pop(reference)
            try:
                result = self._ray.get(reference)
            except self._ray.exceptions.RayActorError:
                log.warning("a worker died; a new worker is started, and the lists of the dead worker are scored again")
                self._start()
                if doing is not None:
                    self._try_again(doing)
                continue
            except self._ray.exceptions.RayTaskError as error:
                cause = getattr(error, "cause", None)
                told = cause if isinstance(cause, UserError) else UserError(f"--engine ray: {cause or error}")
                if doing is None:
                    raise told from None
                self._give_up(doing, str(told))
            else:
                if doing is None:
                    self._facts = result
                else:
                    doing.scores, doing.done = result, True
            self._idle.append(worker)

    def _try_again(self, task: _Task) -> None:
        task.attempts += 1
        if task.attempts < ATTEMPTS:
            self._waiting.appendleft(task)
        else:
            self._give_up(task, f"killed its worker {ATTEMPTS} times")

    def _give_up(self, task: _Task, why: str) -> None:
        number, first = len(task.questions), task.questions[0].text[:60]
        if not self._skip:
            raise UserError(f"cannot score {counted(number, 'text')}, the first is {first!r}: {why}")
        log.warning("cannot score %s, the first is %r: %s", counted(number, "text"), first, why)
        task.done = True

    def close(self) -> None:
        """End the workers, and the cluster if it was started here."""
        for worker in [*self._idle, *(worker for worker, _ in self._busy.values())]:
            self._ray.kill(worker)
        if self._started_here:
            self._ray.shutdown()


class _Holder:
    """The actor of a worker: it holds the models, loaded once."""

    def __init__(self, specs: list[str], computing: ComputeOptions, cache: str | None, threads: int) -> None:
        self._arguments, self._threads = (specs, computing, cache), threads
        self._models: list[LanguageModel] = []

    def load(self) -> list[tuple[str, About]]:
        """Names and facts of the models."""
        from rescore.lms import load_all

        self._models = load_all(*self._arguments)
        if torch := sys.modules.get("torch"):  # of a model that uses it
            torch.set_num_threads(self._threads)
        return [
            (model.name, (model.model, model.precision, model.fingerprint, capabilities_of(model)))
            for model in self._models
        ]

    def score(self, rank: int, questions: list[Question]) -> list[TokenScores]:
        # Lazy values would take the model along: plain values are sent.
        return [
            TokenScores(list(scores.tokens), scores.log_probs, scores.unknown, scores.sum)
            for scores in self._models[rank].score(questions)
        ]


def _wait_for(address: str, seconds: float) -> None:
    """Wait until a server listens at HOST:PORT; Ray itself would print a line for each attempt."""
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
    """Call a function in its own thread: Ray's C++ code waits without a timeout and ignores signals."""
    ended: Future[object] = Future()

    def run() -> None:
        try:
            ended.set_result(call())
        except Exception as error:
            ended.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    ended.result(seconds)


def _absolute(spec: str) -> str:
    """The value of --lm with an absolute path, so that workers in other folders find it."""
    from rescore.lms import parse

    parsed = parse(spec)
    if str(parsed.path) not in spec or not parsed.path.exists():
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
