"""Where arithmetic runs."""

from __future__ import annotations

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
    return torch.device(name)
