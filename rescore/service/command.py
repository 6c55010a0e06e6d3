"""`rescore serve`: the choice of `rerank` over HTTP."""

from __future__ import annotations

import contextlib
import logging
import socket
from dataclasses import dataclass
from pathlib import Path

from rescore.asked import check_unmeasured
from rescore.cli import options
from rescore.config import RunConfig
from rescore.dataset import NO_LISTS
from rescore.errors import UserError, installed_by
from rescore.options import Declared, option
from rescore.service.health import HOST, PORT


@dataclass(frozen=True, kw_only=True)
class ServiceOptions(Declared):
    """Where the service listens, and the load that it accepts."""

    common = True

    host: str = option(HOST, "Address to listen on.", metavar="ADDRESS")
    port: int = option(PORT, "Port; 0 chooses a free port.", low=0, high=65535)
    body: int = option(
        1 << 20, "Largest size of a request.", "--max-body", metavar="BYTES", low=1
    )
    queue: int = option(
        256,
        "Largest number of waiting requests. Further requests are refused with status"
        " 503.",
        low=1,
    )
    audio: Path | None = option(
        None,
        "Folder of recordings that requests may name. Without it, requests send"
        " recordings as base64.",
        metavar="DIR",
    )


@options.command("serve", config=options.config("serve"))
def command(
    own: ServiceOptions,
    weights: options.TunedWeights,
    lms: options.LanguageModelOptions,
    config: RunConfig,
    dev: options.DevLists,
) -> None:
    """Run an HTTP service that chooses a text for each list, with the weights and
    decisions of `rescore rerank`.

    \b
    rescore serve --weights weights.json --lm tta
    curl -d '{"hyps": [{"text": "a", "score": -1}, {"text": "b", "score": -2}]}' \\
        http://127.0.0.1:8000/rescore

    Without --lm, the scores in the requests decide: by minimum Bayes risk or a vote,
    for example. There is no authentication: everyone who can reach the port can use the
    service. On SIGTERM the service answers the requests that were sent, then stops.
    """
    try:
        from rescore.service import app as service
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        raise UserError(
            f"serve needs {error.name}; install it with: {installed_by('serve')}"
        ) from None
    from rescore.lms.devices import bound_kernels
    from rescore.rescorer import Rescorer

    if own.audio is not None and not own.audio.is_dir():
        raise UserError(f"--audio {own.audio}: no such folder; give a folder")
    bound_kernels()
    loaded = weights.load()
    with _bound(own.host, own.port) as listening:
        instead = "give --decide mbr, or the option to rescore rerank --report"
        check_unmeasured(config, loaded, instead, compares_words=True)
        dev_lists = NO_LISTS
        if dev.dev:
            inputs = options.InputOptions()
            dev_lists = inputs.read_dev(dev)
        service.log.info("loading the models ...")
        rescorer = Rescorer(lms.load(), loaded, config, dev_lists)
        app = service.application(rescorer, own.body, own.queue, own.audio)
        server = service.server(app)
        listening.listen()  # connections that are made from here on wait for the server
        host, port = listening.getsockname()[:2]
        if ":" in host:  # IPv6
            host = f"[{host}]"
        service.log.info("listening on http://%s:%d", host, port)
        # Notes about single lists would fill the log; errors and refusals stay.
        level = logging.getLogger("rescore").level
        logging.getLogger("rescore").setLevel(logging.ERROR)
        service.log.setLevel(level)
        # The server raises the signal that stopped it once more when it has ended.
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            server.run([listening])
        logging.getLogger("rescore").setLevel(level)
        service.log.info("stopped")


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket at an address; clients are refused until it listens."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, kind, protocol, _, address = addresses[0]
        # asyncio sends without delay (TCP_NODELAY) only on sockets that name TCP; a
        # delay adds 40 ms to each answer.
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except (OSError, UnicodeError) as error:
        # The name a..b, for example, is a UnicodeError.
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"--host {host} --port {port}: cannot listen there ({reason})"
        ) from None
    return listening
