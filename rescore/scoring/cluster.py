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
import socket
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rescore.errors import UserError, counted
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
"""How often texts are tried whose worker died."""
AHEAD = 2
"""Batches under way for each worker: one in work, one to go on with."""
CONNECTING = 30.0
"""Seconds to wait for a running cluster to answer."""
STARTING = 600.0
"""Seconds to wait for a worker, where none is left."""
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
        self._cluster, self._rank = cluster, rank
        self.name, self.model, self.precision, self.fingerprint, capabilities = about
        self.capabilities = replace(capabilities, vectors=False, streams=True)

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        """One result per question, in their order."""
        return next(self.stream([questions]))

    def stream(
        self, batches: Iterable[Sequence[Question]]
    ) -> Iterator[list[TokenScores]]:
        """Results of batches in their order."""
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
            address: of a running cluster; None starts a cluster here and ends it
                afterwards.
            workers: their number; None for one per GPU, or one per core.
        """
        self._ray = _import_ray()
        self._loading: dict[Any, Any] = {}
        """Workers by Ray's reference to the facts about their models."""
        self._ready: deque[Any] = deque()
        """Workers that have loaded their models; they are given questions in turn."""
        self._started_here = self._connect(address)
        try:
            resources = self._ray.cluster_resources()
            cores, gpus = (
                max(1, int(resources.get("CPU", 1))),
                int(resources.get("GPU", 0)),
            )
            use_gpus = bool(gpus) and (computing.device or "cuda").startswith("cuda")
            self._size = workers or (gpus if use_gpus else cores)
            largest = max(
                int(node["Resources"].get("CPU", 0))
                for node in self._ray.nodes()
                if node["Alive"]
            )
            # a worker must fit into one node
            threads = max(1, min(cores // self._size, largest))
            needs = {
                "num_cpus": threads,
                "num_gpus": min(1.0, gpus / self._size) if use_gpus else 0,
            }
            # A worker computes with as many threads as it has cores: Ray sets
            # OMP_NUM_THREADS. Ray would restart a worker where it was; here it is
            # replaced wherever there is room.
            self._actor = self._ray.remote(**needs, max_restarts=0)(_Holder)
            folder = None if cache is None else str(Path(cache).absolute())
            self._arguments = [_absolute(spec) for spec in specs], computing, folder
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
        """True where a cluster was started here."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        if self._ray.is_initialized():
            return False
        if address:
            _check_address(address)
        more = (
            {}
            if address
            else {"include_dashboard": False, "object_store_memory": OBJECT_STORE}
        )
        try:
            self._ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level="error",
                **more,
            )
        except (
            Exception
        ) as error:  # also plain Exception, as where a node starts slowly
            raise UserError(
                f"--engine ray: {(str(error) or type(error).__name__).splitlines()[0]}"
            ) from None
        return True

    def _start(self) -> None:
        worker = self._actor.remote(*self._arguments)
        self._loading[worker.load.remote()] = worker

    def _loaded(self, seconds: float) -> list[About]:
        """Note the workers that have loaded their models, after at most some seconds;
        returns the models' facts.
        """
        facts: list[About] = []
        for reference in (
            self._ray.wait(list(self._loading), timeout=seconds)[0]
            if self._loading
            else []
        ):
            worker = self._loading.pop(reference)
            try:
                facts = self._ray.get(reference)
            except self._ray.exceptions.RayActorError:
                raise UserError(
                    "--engine ray: a worker died while it loaded its models; give fewer"
                    " --workers"
                ) from None
            except self._ray.exceptions.RayTaskError as error:
                raise _told(error) from None
            self._ready.append(worker)
        if not self._ready:
            raise UserError(
                f"--engine ray: no worker could be started within {seconds:.0f} s; give"
                " fewer --workers"
            )
        return facts

    def stream(
        self, rank: int, batches: Iterable[Sequence[Question]]
    ) -> Iterator[list[TokenScores]]:
        """Scores by the model of that rank, in the order of the batches; at most
        `AHEAD` a worker are under way.
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
        """The scores of questions, which are sent again if their worker died.

        Results are taken in order, so a text that kills its worker is sent again before
        the texts behind it.
        """
        where = (
            f"cannot score {counted(len(questions), 'text')}, the first is"
            f" {questions[0].text[:60]!r}"
        )
        for _ in range(ATTEMPTS):
            worker, reference = task
            try:
                scores: list[TokenScores] = self._ray.get(reference)
                return scores
            except self._ray.exceptions.RayTaskError as error:
                raise UserError(f"{where}: {_told(error)}") from None
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
        self._arguments = specs, computing, cache
        self._models: list[LanguageModel] = []

    def load(self) -> list[About]:
        """The facts of the models."""
        from rescore.lms import load_all

        self._models = load_all(*self._arguments)
        return [
            (
                model.name,
                model.model,
                model.precision,
                model.fingerprint,
                capabilities_of(model),
            )
            for model in self._models
        ]

    def score(self, rank: int, questions: list[Question]) -> list[TokenScores]:
        return self._models[rank].score(questions)


def _check_address(address: str) -> None:
    """See that a server listens at HOST:PORT: Ray itself would wait for minutes, deaf
    to signals.
    """
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        if port.isdecimal():  # other values, such as auto, are no address
            socket.create_connection(
                (host.strip("[]"), int(port)), timeout=CONNECTING
            ).close()
    except (OSError, OverflowError) as error:
        raise UserError(
            f"--engine ray:{address}: no cluster answers ({error}); is its head running"
            " there?"
        ) from None


def _told(error: Any) -> UserError:
    """What an error in a worker says, in one line."""
    cause = getattr(error, "cause", None)
    return (
        cause
        if isinstance(cause, UserError)
        else UserError(f"--engine ray: {cause or error}")
    )


def _absolute(spec: str) -> str:
    """The value of --lm with an absolute path, so that workers in other folders find
    it.
    """
    from rescore.lms import parse

    parsed = parse(spec)
    if str(parsed.path) not in spec or not parsed.path.exists():
        return spec
    return ":".join([parsed.kind, *parsed.options, str(parsed.path.absolute())])


def _import_ray() -> Any:
    try:
        import ray
        import ray._private.worker as driver

        # Ray prints about dead workers to standard output, where lists may go; the
        # engine reports them instead.
        if hasattr(driver, "print_to_stdstream"):
            driver.print_to_stdstream = lambda *arguments, **options: None
    except ImportError:
        raise UserError(
            "--engine ray needs Ray; install it with: pip install 'rescore[ray]'"
        ) from None
    return ray
