"""The matrix-product ceiling of this machine: how long a network's products take with
nothing around them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import speed
import torch

from rescore.lms import LanguageModel, without_context
from rescore.lms.config import NetworkConfig
from rescore.lms.fast import CPU_SLICE, GPU_SLICE

ROWS = 1024
REPEATS = 10


def tta_seconds(
    lm: LanguageModel, config: NetworkConfig, texts: Sequence[str]
) -> float:
    """What the products of a T-TA's definition would take for texts by themselves, in
    float32 on this machine's GPU, or on its CPU if it has none.
    """
    tokens = [len(found.tokens) for found in lm.score(without_context(texts))]
    return bare_seconds(
        config,
        sum(tokens) + 2 * len(tokens),
        sum(tokens),
        speed.device(),
        torch.float32,
    )


def bare_seconds(
    config: NetworkConfig,
    positions: int,
    predictions: int,
    device: torch.device,
    dtype: torch.dtype,
) -> float:
    """MetricResult now, in this process, at `ROWS` rows a product; the median of
    several each.

    Args:
        positions: how many go through the layers. predictions: how many through the
            vocabulary.
    """
    d, wide = config.d_model, config.d_ff

    def product(inner: int, outer: int) -> float:
        one, other = (
            torch.randn(rows, inner, device=device, dtype=dtype)
            for rows in (ROWS, outer)
        )
        return _median(lambda: one @ other.T, device)

    size = min(CPU_SLICE if device.type == "cpu" else GPU_SLICE, config.vocab_size)
    layer = 4 * product(d, d) + product(d, wide) + product(wide, d)
    vocabulary = product(d, size) * config.vocab_size / size
    return (positions * config.layers * layer + predictions * vocabulary) / ROWS


def _median(run: Callable[[], object], device: torch.device) -> float:
    times = []
    for _ in range(REPEATS + 1):  # the first is thrown away
        began = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - began)
    return sorted(times[1:])[REPEATS // 2]
