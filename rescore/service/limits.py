"""The limits of `rescore serve`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rescore.options import Declared, option


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(Declared):
    """The load that `rescore serve` accepts."""

    body: int = option(1 << 20, "Largest size of a request.", "--max-body", metavar="BYTES", low=1, common=True)
    hypotheses: int = option(1000, "Largest number of hypotheses in a request.", "--max-hypotheses", low=1, common=True)
    queue: int = option(
        256, "Largest number of waiting requests. Further requests are refused with status 503.", low=1, common=True
    )
    seconds: float = option(
        30.0,
        "Time limit from the first byte of a request to its answer.",
        "--timeout",
        metavar="SECONDS", low=0.001, high=3600, common=True,
    )  # fmt: skip
    wait: float = option(
        2.0,
        "Time that the first request of a batch waits for other requests.",
        "--batch-wait",
        metavar="MILLISECONDS", low=0, high=1000, common=True,
    )  # fmt: skip
    audio: Path | None = option(
        None,
        "Folder of recordings that requests may name. Without it, requests send recordings as base64.",
        metavar="DIR", common=True,
    )  # fmt: skip
