"""A program `rescore` that starts at once, for tests that run it many times.

A server imports the package once. The program passes its arguments, folder, environment
and streams to the server, which answers in a fork of itself: a process of its own that
has nothing to import.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]

PROGRAM = """#!{python} -SEI
import array, json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({place!r})
streams = array.array("i", [0, 1, 2])
asked = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, streams)]
server.sendmsg([len(asked).to_bytes(8, "big")], rights)
server.sendall(asked)
status = server.recv(1)
os._exit(status[0] if status else 1)
"""


@cache
def program() -> Path:
    """Return the folder, for PATH, of a program `rescore` of a server that runs as long
    as this process.
    """
    folder = Path(tempfile.mkdtemp())
    place = folder / "socket"
    command = [sys.executable, "-m", "tests.forking", str(place)]
    # its end tells the server that this process has ended
    server = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)
    text = PROGRAM.format(python=sys.executable, place=str(place))
    written = folder / "rescore"
    written.write_text(text, encoding="utf-8")
    written.chmod(0o755)
    end = time.monotonic() + 300
    while not place.exists():
        assert server.poll() is None and time.monotonic() < end, "no server listens"
        time.sleep(0.02)
    return folder


def serve(place: Path) -> None:
    """Answer programs until stdin ends, and delete the folder of the socket."""
    import tests.warm  # noqa: F401 (imported here once, for all forks)

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(socket.AF_UNIX)
    begun = place.with_name("begun")
    listener.bind(str(begun))
    listener.listen()
    begun.rename(place)  # who finds the socket is answered
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            shutil.rmtree(place.parent)
            return
        asking, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _answer(asking)
        asking.close()


def _answer(program: socket.socket) -> None:
    """Run the command line as a program asked, send its exit status, and end."""
    from rescore.cli.main import main

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    header, streams, _, _ = socket.recv_fds(program, 8, 3)
    size = int.from_bytes(header, "big")
    asked = b""
    while len(asked) < size:
        asked += program.recv(size - len(asked))
    arguments, folder, environment = json.loads(asked)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # streams know of what they were opened on whether it has places to go to
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["rescore", *arguments]
    status: object = 1
    try:
        main()
    except SystemExit as end:
        status = end.code
    sys.stdout.flush()
    sys.stderr.flush()
    program.sendall(bytes([status if isinstance(status, int) else 1]))
    os._exit(0)


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
