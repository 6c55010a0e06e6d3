"""Every test of this folder is marked `gpu`, and skipped where there is no GPU."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

DEVICE = os.environ.get("RESCORE_TEST_DEVICE", "cuda")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.gpu)


@pytest.fixture(autouse=True)
def no_gpu_no_test() -> None:
    """Skip a test where there is no GPU."""
    if DEVICE == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs a GPU: torch.cuda.is_available() is false")


@pytest.fixture
def device() -> str:
    """The device of the tests: cuda, or cpu in a rehearsal."""
    return DEVICE


@pytest.fixture
def cuda(device: str) -> str:
    """The GPU, for tests that cannot be rehearsed."""
    if device != "cuda":
        pytest.skip("cannot be rehearsed without a GPU")
    return device
