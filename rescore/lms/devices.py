"""The device and the arithmetic of a network."""

from __future__ import annotations

import logging
import math
import os
import platform
from pathlib import Path

import torch

from rescore.errors import UserError

log = logging.getLogger(__name__)


def choose_device(name: str | None) -> torch.device:
    """Return a device; on a CPU, limit PyTorch to the cores that the process may use.

    Args:
        name: The name of the device; None for CUDA if it is available, else the CPU.

    Raises:
        UserError: There is no such device.
    """
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError):  # PyTorch built without CUDA asserts
        raise UserError(
            f"--device {name}: no such device here; expected cpu, cuda or cuda:N"
        ) from None
    device = torch.device(name)
    # PyTorch knows the process's cores, but not a container's quota
    if device.type == "cpu":
        torch.set_num_threads(min(torch.get_num_threads(), usable_cores()))
    return device


def token_budget(device: torch.device, bytes_a_token: int) -> int:
    """Return the number of tokens to compute together.

    On a CPU, their data fit into the cache; on a GPU, they keep it busy within a
    quarter of the free memory.

    Args:
        device: The device.
        bytes_a_token: The memory that the network needs for a token.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return max(256, min(65_536, free // 4 // bytes_a_token))
    return max(256, min(4_096, cache_size() // bytes_a_token))


def cache_size(place: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> int:
    """Return the bytes of the CPU's largest cache.

    Args:
        place: The folder in which Linux describes the caches of a CPU.

    Returns:
        The size; 16 MiB where the system does not say it.
    """
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = []
    try:
        for file in place.glob("index*/size"):
            text = file.read_text(encoding="ascii").strip()
            sizes.append(int(text[:-1]) * units[text[-1]])
        return max(sizes)
    except (OSError, ValueError, KeyError, IndexError):
        return 16 << 20


def usable_cores(quota: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return the number of cores that this process may use, within its affinity and a
    container's quota.

    Args:
        quota: The file in which Linux tells the quota of a container.
    """
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    try:
        allowed, period = quota.read_text(encoding="ascii").split()
        return max(1, min(cores, math.ceil(int(allowed) / int(period))))
    except (OSError, ValueError):  # no cgroup, or no quota ("max")
        return cores


DTYPES = {
    "float32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "int8": torch.float32,
}
"""The precisions, and the type of values that are not quantised."""


def choose_precision(name: str | None, device: torch.device) -> str:
    """Return the precision of a network that scores.

    Args:
        name: The precision; None for float32 on a CPU, and on a GPU for bf16, or for
            fp16 where the GPU has no bf16.
        device: The device of the network.

    Raises:
        UserError: The precision is unknown, or the device does not have it.
    """
    on_cpu = device.type == "cpu"
    if name is None:
        if on_cpu:
            return "float32"
        return "bf16" if torch.cuda.is_bf16_supported() else "fp16"
    if name not in DTYPES:
        raise UserError(f"--precision {name}: expected {', '.join(DTYPES)}")
    if name == ("fp16" if on_cpu else "int8"):
        better = "float32, bf16 or int8" if on_cpu else "float32, bf16 or fp16"
        raise UserError(f"--precision {name}: not for {device.type}; expected {better}")
    if on_cpu and name == "bf16" and cpu_multiplies_bfloat16() is False:
        log.warning(
            "--precision bf16: this CPU has no instructions for products of bfloat16,"
            " so bf16 is slower than float32; int8 is the fastest here"
        )
    return name


BFLOAT16_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
"""What Linux calls the instructions for products of bfloat16: two of Intel and AMD, one
of ARM.
"""


def cpu_name(place: Path = Path("/proc/cpuinfo")) -> str:
    """Return the name of the CPU, or of its kind where the system does not say it.

    Args:
        place: The file in which Linux describes the CPU.
    """
    if place.exists():
        for line in place.read_text(encoding="utf-8").splitlines():
            key, _, name = line.partition(":")
            if key.strip() == "model name":
                return name.strip()
    return platform.processor() or platform.machine()


def cpu_multiplies_bfloat16(place: Path = Path("/proc/cpuinfo")) -> bool | None:
    """Return whether the CPU has instructions for products of bfloat16; without them
    PyTorch computes such products more slowly than in float32.

    Args:
        place: The file in which Linux describes the CPU.

    Returns:
        None where the system does not say it.
    """
    try:
        words = place.read_text(encoding="utf-8").split()
    except OSError:
        return None
    return not BFLOAT16_FLAGS.isdisjoint(words)


KERNELS = 16
"""Compiled kernels that oneDNN keeps. It compiles one for each shape of input and keeps
1,024 by default. The batches of a service or a training have many shapes. Kernels are
small and live long, so they leave gaps that large tensors do not fit into: the memory
of a service grows by 60 % in 8,000 lists. With 16 kernels it does not grow, and scoring
is as fast.
"""


def bound_kernels() -> None:
    """Limit the number of compiled kernels that oneDNN keeps to `KERNELS`.

    It has an effect only before the process has computed with a network.
    """
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(KERNELS))
