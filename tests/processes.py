"""Commands as processes of their own that start at once: for tests that kill them, send
signals to them, or run several beside each other.

Python's server of forks imports the package once; each process is a fork of it. What is
about the start of a program itself starts the interpreter.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import IO, Any

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.conftest", "tests.warm"])
RESCORE = "from rescore.cli.start import main\nmain()\n"
"""The program `rescore`."""


def start(
    arguments: Sequence[str | Path],
    folder: Path,
    output: Path,
    program: str = RESCORE,
) -> ForkServerProcess:
    """Start a program; its `exitcode` is minus the number of a signal that ended it.

    Args:
        arguments: Its arguments.
        folder: The folder in which it runs.
        output: A file or a terminal for its stdout and stderr.
        program: Its Python code.

    Returns:
        The process.
    """
    words = [str(argument) for argument in arguments]
    process = FORKS.Process(
        target=_run, args=(program, words, folder, output, dict(os.environ))
    )
    process.start()
    return process


def _run(
    program: str,
    arguments: list[str],
    folder: Path,
    output: Path,
    environment: Mapping[str, str],
) -> None:
    # a shell's background jobs inherit that SIGINT is ignored
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.environ.update(environment)
    os.chdir(folder)
    streams = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(streams, number)
    # streams know from the start whether they are terminals
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.argv = ["rescore", *arguments]
    exec(program, {"__name__": "__main__"})


def until(
    condition: Callable[[], object],
    process: ForkServerProcess | subprocess.Popen[str],
    pause: float = 0.01,
) -> None:
    """Wait until a condition holds or the process has ended."""
    deadline = time.monotonic() + 300
    while _is_alive(process) and not condition():
        assert time.monotonic() < deadline, "nothing happens"
        time.sleep(pause)


def _is_alive(process: ForkServerProcess | subprocess.Popen[str]) -> bool:
    if isinstance(process, subprocess.Popen):
        return process.poll() is None
    return process.is_alive()


@contextmanager
def running(command: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """Start a program that ends with the context at the latest.

    Args:
        command: The program and its arguments.
        options: Further arguments of `subprocess.Popen`.

    Yields:
        The process, whose streams are texts.
    """
    with subprocess.Popen(command, text=True, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def lines_until(
    wanted: str,
    process: subprocess.Popen[str],
    stream: IO[str] | None,
    seconds: float = 300,
) -> list[str]:
    """Read the lines of a process up to the first that contains a text.

    Args:
        wanted: The text.
        process: The process. It is killed if the line does not come.
        stream: Its stdout or stderr.
        seconds: How long the line may take.

    Returns:
        The lines.
    """
    assert stream is not None
    lines = []
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        for line in iter(stream.readline, ""):
            lines.append(line)
            if wanted in line:
                return lines
    finally:
        timer.cancel()
    said = "".join(lines)
    raise AssertionError(f"no line with {wanted!r} within {seconds} s:\n{said}")


def send(number: int, process: ForkServerProcess) -> None:
    """Send a signal to a process, which may have ended."""
    assert process.pid is not None
    with suppress(ProcessLookupError):
        os.kill(process.pid, number)


def ended(process: ForkServerProcess, seconds: float = 300) -> int:
    """Return the exit status of a process when it has ended.

    Args:
        process: The process.
        seconds: How long it may run on.

    Returns:
        The status; minus the number of a signal that ended it.
    """
    process.join(seconds)
    assert process.exitcode is not None, "the process runs on"
    return process.exitcode
