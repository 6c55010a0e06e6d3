"""Where a model of transformers computes: on one device, or spread over all devices and the disk (accelerate).

Weights have 4 or 8 bits if the folder's configuration says so (bitsandbytes).
"""

from __future__ import annotations

import logging
import re
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from rescore.errors import UserError
from rescore.files import read_json
from rescore.lms.base import ComputeOptions
from rescore.lms.devices import AUTO, DTYPES, choose_device, choose_precision

LOGITS = 2**25
"""The most logits of one batch: 128 MiB in float32."""
LIMIT = re.compile(r"(cpu|\d{1,3})=(\d{1,6}[KMGT]i?B)", re.ASCII)
"""Memory that a device may use for weights, such as `0=20GiB`."""


class Placement:
    """Where and how a model computes, decided before it is loaded."""

    def __init__(self, folder: Path, computing: ComputeOptions) -> None:
        self.device = choose_device(computing.device)
        """Where inputs go, and outputs come from."""
        self.precision = choose_precision(computing.precision, self.device)
        self.dtype: torch.dtype = DTYPES[self.precision]
        self.loading: dict[str, Any] = {}
        """Arguments of `from_pretrained`; empty if the model is moved after it is loaded."""
        device = computing.device or ""
        spread = device.partition(":")[0] == AUTO
        bits = _bits(folder)
        if (spread or bits) and self.precision == "int8":
            raise UserError(f"--precision int8 is not for {'--device auto' if spread else f'a model in {bits}'}")
        if spread:
            _need("accelerate", f"--device {device}")
            self._disk = tempfile.TemporaryDirectory(prefix="rescore-")
            limits = memory_limits(device)
            self.loading = {"device_map": "auto", "max_memory": limits, "offload_folder": self._disk.name}
        elif bits:
            self.loading = {"device_map": {"": self.device}}
        if bits:
            _need("accelerate", f"{folder}: a model in {bits}")
            _need("bitsandbytes", f"{folder}: a model in {bits}")
            self.precision = bits
        if self.loading:
            self.loading["torch_dtype"] = self.dtype

    def settle(self, model: Any) -> None:
        """Move a model that was loaded with `loading`."""
        if not self.loading:
            model.to(self.device, self.dtype)


def memory_limits(device: str) -> dict[int | str, str] | None:
    """The memory limit of each device from `auto:0=20GiB,cpu=64GiB`; None for `auto`, which has no limits."""
    _, separator, limits = device.partition(":")
    if not separator:
        return None
    memory: dict[int | str, str] = {}
    for limit in limits.split(","):
        match = LIMIT.fullmatch(limit)
        if not match:
            raise UserError(f"--device {device}: {limit!r} is no limit; expected such as auto:0=20GiB,cpu=64GiB")
        memory[match[1] if match[1] == "cpu" else int(match[1])] = match[2]
    return memory


def _bits(folder: Path) -> str | None:
    """4bit or 8bit, if config.json says that the weights are stored so by bitsandbytes."""
    config = read_json(folder / "config.json")
    stored = config.get("quantization_config") if isinstance(config, dict) else None
    if not isinstance(stored, dict):
        return None
    return next((f"{bits}bit" for bits in (4, 8) if stored.get(f"load_in_{bits}bit")), None)


def _need(package: str, what: str) -> None:
    if find_spec(package) is None:
        raise UserError(f"{what} needs {package}; install it with: pip install 'rescore[large]'")
    logging.getLogger(package).setLevel(logging.ERROR)
