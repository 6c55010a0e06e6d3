"""How long `rescore serve` takes to answer, against calling `rescore.Rescorer`
directly, and whether its memory grows.

python benchmarks/serve.py LISTS --lm tta [--requests 10000] [--clients 100]

The service runs as a process of its own on this machine. Each answer is compared with
the direct one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rescore
from rescore.formats.writing import as_json

HYPOTHESES = 10
ROUNDS = 5
CONNECTIONS = 10
REPORTS = 10
"""How often memory is looked at."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lists")
    parser.add_argument("--lm", default="tta")
    parser.add_argument("--weight", type=float, default=0.3)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument(
        "--clients", type=int, default=100, help="at once; also the number of lists"
    )
    options = parser.parse_args()
    lists = [
        nbest
        for nbest in rescore.read(options.lists)
        if len(nbest.hypotheses) >= HYPOTHESES
    ][: options.clients]
    for nbest in lists:
        del nbest.hypotheses[HYPOTHESES:]
    began = time.perf_counter()
    rescorer = rescore.Rescorer(options.lm, options.weight)
    rescorer.choose(lists[0])
    print(
        f"cold start, imports and model: {time.perf_counter() - began:.1f} s;"
        f" {len(lists)} lists of {HYPOTHESES}"
    )
    texts = [choice.text for choice in rescorer.choose_all(lists)]
    weights = Path(f"/tmp/serve-{os.getpid()}.json")
    rescore.save_weights(rescorer.weights, weights)
    command = [
        sys.executable,
        "-m",
        "rescore",
        "serve",
        "--lm",
        options.lm,
        "--weights",
        str(weights),
        "--port",
        "0",
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            process.stderr.readline()  # it loads the models
            port = int(process.stderr.readline().rpartition(":")[2])
            bodies = [json.dumps(as_json(nbest)).encode() for nbest in lists]
            asyncio.run(
                measure(
                    rescorer,
                    lists,
                    Service(port, process.pid, bodies, texts),
                    options.clients,
                    options.requests,
                )
            )
        finally:
            process.terminate()
            weights.unlink()


class Service:
    """The running service, what it is asked, and what it has to answer."""

    def __init__(
        self, port: int, pid: int, bodies: Sequence[bytes], texts: Sequence[str]
    ) -> None:
        self.port, self.pid, self.bodies, self.texts = port, pid, bodies, texts

    async def connect(self) -> Connection:
        return Connection(*await asyncio.open_connection("127.0.0.1", self.port))

    @property
    def resident(self) -> float:
        """MB of memory."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    async def ask(self, connection: Connection, place: int) -> float:
        """Seconds until the answer to a list."""
        place %= len(self.bodies)
        began = time.perf_counter()
        answer = await connection.ask(self.bodies[place])
        taken = time.perf_counter() - began
        assert answer["text"] == self.texts[place], (answer["text"], self.texts[place])
        return taken


class Connection:
    """One connection that is kept."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, body: bytes) -> Any:
        head = "POST /rescore HTTP/1.1\r\nHost: a\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        head = await self._reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().partition(b"content-length:")[2].split()[0])
        return json.loads(await self._reader.readexactly(length))


async def measure(
    rescorer: rescore.Rescorer,
    lists: Sequence[rescore.NbestList],
    service: Service,
    clients: int,
    requests: int,
) -> None:
    connections = [await service.connect() for _ in range(clients)]
    for place in range(len(lists)):
        await service.ask(connections[0], place)
    alone: list[float] = []
    direct: list[float] = []
    with_words: list[float] = []
    # in turns, so that the load of the machine is the same
    for place, nbest in enumerate(lists):
        direct.append(seconds(lambda nbest=nbest: rescorer.choose(nbest)))  # type: ignore[misc]
        with_words.append(
            seconds(lambda nbest=nbest: rescorer.confidences(rescorer.choose(nbest)))
        )  # type: ignore[misc]
        alone.append(await service.ask(connections[0], place))
    together: list[float] = []
    rounds: list[float] = []
    in_turn: list[float] = []
    at_once: list[float] = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        together += await asyncio.gather(
            *(service.ask(one, place) for place, one in enumerate(connections))
        )
        rounds.append(time.perf_counter() - began)
        many = [lists[place % len(lists)] for place in range(clients)]
        in_turn.append(seconds(lambda: [rescorer.choose(nbest) for nbest in many]))  # noqa: B023
        at_once.append(seconds(lambda: rescorer.choose_all(many)))  # noqa: B023
    rows = [
        ("Rescorer.choose", direct),
        ("Rescorer.choose and confidences", with_words),
        ("service, one client", alone),
    ]
    rows += [(f"service, {clients} clients at once", together)]
    for name, values in rows:
        p50, p99 = np.percentile(values, [50, 99]) * 1000
        print(
            f"{name:35} p50 {p50:8.1f} ms  p99 {p99:8.1f} ms "
            f" ({p50 / np.median(direct) / 1000:5.2f} of direct)"
        )
    for name, values in (
        ("service, all at once", rounds),
        ("Rescorer, one by one", in_turn),
        ("Rescorer.choose_all", at_once),
    ):
        print(f"{clients} lists, {name:25} {np.median(values):6.2f} s")
    await memory(service, requests)


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


async def memory(service: Service, requests: int) -> None:
    """Megabytes after each tenth of the requests."""
    connections = [await service.connect() for _ in range(CONNECTIONS)]
    began = time.perf_counter()
    print(f"{0:9,} requests {service.resident:7.1f} MB")
    for report in range(REPORTS):
        each = requests // REPORTS // CONNECTIONS

        async def client(number: int, each: int = each) -> None:
            for place in range(each):
                await service.ask(connections[number], number + place)

        await asyncio.gather(*map(client, range(CONNECTIONS)))
        done = (report + 1) * each * CONNECTIONS
        print(
            f"{done:9,} requests {service.resident:7.1f} MB "
            f" {time.perf_counter() - began:6.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
