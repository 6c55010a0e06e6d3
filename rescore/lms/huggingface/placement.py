"""Where the weights of a model of transformers lie, and in which arithmetic: on one device, or spread over all of them
and the disk (accelerate); in 4 or 8 bits if the folder's configuration says so (bitsandbytes)."""

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
from rescore.lms.neural.precision import AUTO, DTYPES, choose_device, choose_precision

LIMIT = re.compile(r"(cpu|\d{1,3})=(\d{1,6}[KMGT]i?B)", re.ASCII)
"""Memory that a device may use for weights, such as `0=20GiB`."""


class Placement:
    """Where and how a model computes, decided before it is loaded."""

    def __init__(self, folder: Path, computing: ComputeOptions) -> None:
        """
        Raises:
            UserError: the device is absent or lacks the precision, or a package is missing.
        """
        self.device = choose_device(computing.device)
        """Where inputs go, and outputs come from."""
        self.precision = choose_precision(computing.precision, self.device)
        self.dtype: torch.dtype = DTYPES[self.precision]
        self.loading: dict[str, Any] = {}
        """Arguments of `from_pretrained`; empty if the model is moved after it is loaded."""
        asked = computing.device or ""
        spread = asked.partition(":")[0] == AUTO
        bits = _bits(folder)
        if (spread or bits) and self.precision == "int8":
            raise UserError(f"--precision int8 is not for {'--device auto' if spread else f'a model in {bits}'}")
        if spread:
            _need("accelerate", f"--device {asked}")
            self._disk = tempfile.TemporaryDirectory(prefix="rescore-")
            limits = memory_limits(asked)
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
    """The memory limit of each device from `auto:0=20GiB,cpu=64GiB`; None for `auto`, which has no limits.

    Raises:
        UserError: a limit cannot be read.
    """
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
