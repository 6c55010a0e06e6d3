"""`rescore serve`: the choice of `rerank` over HTTP."""

from __future__ import annotations

import contextlib
import logging
import socket

import click

from rescore.cli import options
from rescore.cli.options.base import GroupedCommand, Number
from rescore.cli.options.inputs import InputOptions
from rescore.errors import UserError


@click.command("serve", cls=GroupedCommand)
@options.tuned_weights_options
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8000, show_default=True, help="Port; 0 chooses a free port."
)
@click.option(
    "--max-body",
    type=click.IntRange(1),
    default=1 << 20,
    show_default=True,
    metavar="BYTES",
    help="Largest size of a request.",
)
@click.option(
    "--max-hypotheses",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Largest number of hypotheses in a request.",
)
@click.option(
    "--queue",
    type=click.IntRange(1),
    default=256,
    show_default=True,
    metavar="N",
    help="Largest number of waiting requests.",
)
@click.option(
    "--timeout",
    type=Number(0, 3600, open_low=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="Time limit from the first byte of a request to its answer.",
)
@click.option(
    "--batch-wait",
    type=Number(0, 1000),
    default=2.0,
    show_default=True,
    metavar="MILLISECONDS",
    help="Time that the first request of a batch waits for other requests.",
)
@click.option(
    "--recombine",
    type=click.IntRange(min=0),
    default=0,
    metavar="K",
    help="Add up to K hypotheses to each list, combined from parts of its hypotheses.",
)
@click.option(
    "--dev",
    multiple=True,
    metavar="NBEST",
    help="Scored lists with references for the calibration of confidences. May be repeated.",
)
@click.option("--dev-ref", multiple=True, metavar="FILE", help="References of the dev lists.")
@options.lm_options
@options.decision_options
@options.metric_options
def command(
    weights: options.TunedWeights,
    host: str,
    port: int,
    max_body: int,
    max_hypotheses: int,
    queue: int,
    timeout: float,
    batch_wait: float,
    recombine: int,
    dev: tuple[str, ...],
    dev_ref: tuple[str, ...],
    lms: options.LanguageModelOptions,
    decide: options.DecisionOptions,
    measure: options.MeasureOptions,
) -> None:
    """Run an HTTP service that chooses a text for each list, with the weights and decisions of `rescore rerank`.

    \b
    rescore serve --weights weights.json --lm tta
    curl -d '{"hyps": [{"text": "a", "score": -1}, {"text": "b", "score": -2}]}' \\
        http://127.0.0.1:8000/rescore

    There is no authentication: everyone who can reach the port can use the service. On SIGTERM the service answers the
    accepted requests, then stops.
    """
    try:
        from rescore import service
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        raise UserError(f"serve needs {error.name}; install it with: pip install 'rescore[serve]'") from None
    from rescore.lms.base import bound_kernels
    from rescore.rescorer import Rescorer

    bound_kernels()
    loaded = weights.load()
    with _bound(host, port) as listening:
        config = options.run_config(decide, measure, weights, recombine=recombine)
        dev_lists = InputOptions().read_dev(dev, dev_ref) if dev else ()
        rescorer = Rescorer(lms.load(), loaded, config, dev_lists)
        limits = service.Limits(max_body, max_hypotheses, queue, timeout, batch_wait / 1000)
        server = service.server(service.application(rescorer, limits))
        # Notes about single lists would fill the log; errors stay, and what the service says itself.
        service.log.setLevel(service.log.getEffectiveLevel())
        logging.getLogger("rescore").setLevel(logging.ERROR)
        # The server raises the signal that stopped it once more when it has ended.
        with contextlib.suppress(SystemExit, KeyboardInterrupt):
            server.run([listening])


def _bound(host: str, port: int) -> socket.socket:
    """A socket at an address; clients are refused until the server listens.

    Raises:
        UserError: there is no such address, or another program has the port.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # asyncio sends without delay (TCP_NODELAY) only on sockets that name TCP; a delay adds 40 ms to each answer.
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise UserError(f"--host {host} --port {port}: cannot listen there ({error.strerror or error})") from None
    return listening
