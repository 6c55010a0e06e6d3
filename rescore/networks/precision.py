"""With how many bits a network computes: what is gained in speed is lost in the last digits of a score."""

from __future__ import annotations

import warnings
from itertools import repeat
from typing import Any

import torch
from torch import nn

from rescore.errors import UserError
from rescore.networks.network import Network
from rescore.networks.softmax import TiedSoftmax, split
from rescore.networks.transformer import Block

DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "int8": torch.float32}
"""The precisions, and the type of what is not quantised."""


def choose_precision(name: str | None, device: torch.device) -> str:
    """`name`, or the usual one: float32 on a CPU; bf16 on a GPU, or fp16 where it has no bf16.

    Raises:
        UserError: the device cannot compute so.
    """
    on_cpu = device.type == "cpu"
    if name is None:
        return "float32" if on_cpu else "bf16" if torch.cuda.is_bf16_supported() else "fp16"
    if name not in DTYPES:
        raise UserError(f"--precision {name}: expected {', '.join(DTYPES)}")
    if name == ("fp16" if on_cpu else "int8"):
        better = "float32, bf16 or int8" if on_cpu else "float32, bf16 or fp16"
        raise UserError(f"--precision {name}: not for {device.type}; expected {better}")
    return name


def convert(network: Network, precision: str) -> TiedSoftmax:
    """Convert a network, in place, and the matrix of its softmax, which usually is its embeddings.

    With int8 weights are quantised by row, and inputs as they come. With float32 on a CPU, weights that are float16
    numbers, as those of every checkpoint, are kept as such, packed for the cache; products and sums are float32, so
    that results differ by rounding alone, and few rows are multiplied up to three times faster.

    Keys and values stay as they are: most of them are computed for distinct tokens only (`TTA.predict`).
    """
    network.to(DTYPES[precision])
    embeddings = network.output_weight.detach()
    bias = None if network.output_bias is None else network.output_bias.detach()
    if precision == "int8":
        kind = torch.qint8
    elif precision == "float32" and _can_pack(network):
        kind = torch.float16
    else:
        return TiedSoftmax(embeddings, bias=bias)
    for block in (module for module in network.modules() if isinstance(module, Block)):
        attention = block.attention
        attention.query, attention.output = quantised(attention.query, kind), quantised(attention.output, kind)
        block.fc1, block.fc2 = quantised(block.fc1, kind), quantised(block.fc2, kind)
    parts = zip(split(embeddings), split(bias) if bias is not None else repeat(None), strict=False)
    return TiedSoftmax(embeddings, [quantised(_linear(*part), kind) for part in parts], bias)


def _can_pack(network: Network) -> bool:
    weights = list(network.parameters())
    return (
        weights[0].device.type == "cpu"
        and "fbgemm" in torch.backends.quantized.supported_engines
        and all(torch.equal(weight, weight.half().float()) for weight in weights)
    )


def quantised(module: nn.Module, kind: torch.dtype = torch.qint8) -> Any:
    """A copy whose linear maps have weights of another type (PyTorch's dynamic quantisation)."""
    from torch.ao.quantization import quantize_dynamic

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it moves to another package, some day
        return quantize_dynamic(nn.Sequential(module), {nn.Linear}, dtype=kind)[0]


def _linear(weight: torch.Tensor, bias: torch.Tensor | None) -> nn.Linear:
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    linear.weight = nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        linear.bias = nn.Parameter(bias, requires_grad=False)
    return linear
