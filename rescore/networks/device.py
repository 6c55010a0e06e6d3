"""Where arithmetic runs."""

from __future__ import annotations

import math
import os
from pathlib import Path

import torch

from rescore.errors import UserError


def choose_device(name: str | None) -> torch.device:
    """The device called `name`, or CUDA where there is one.

    Raises:
        UserError: this machine has no such device.
    """
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError):  # PyTorch built without CUDA asserts
        raise UserError(f"--device {name}: no such device here; expected cpu, cuda or cuda:N") from None
    if torch.device(name).type == "cpu":  # PyTorch knows what the process is bound to, but no container's quota
        torch.set_num_threads(min(torch.get_num_threads(), usable_cores()))
    return torch.device(name)


def token_budget(device: torch.device, bytes_a_token: int) -> int:
    """How many tokens to compute together.

    On a CPU so many that what they need stays in its cache; on a GPU so many that they keep it busy, in a quarter of
    the memory that is free.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return max(256, min(65_536, free // 4 // bytes_a_token))
    return max(256, min(4_096, cache_size() // bytes_a_token))


def cache_size(place: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int:
    """Bytes of the largest cache; 16 MiB where the system does not say."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    try:
        sizes = [file.read_text(encoding="ascii").strip() for file in place.glob("index*/size")]
        return max(int(size[:-1]) * units[size[-1]] for size in sizes)
    except (OSError, ValueError, KeyError, IndexError):
        return 16 << 20


def usable_cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """The cores that this process may use: those it is bound to, or fewer where a container's quota says so."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        allowed, period = quota.read_text(encoding="ascii").split()
        return max(1, min(cores, math.ceil(int(allowed) / int(period))))
    except (OSError, ValueError):  # no cgroup, or no quota ("max")
        return cores
