"""A model on disk: config.json, model.safetensors (float16), tokenizer.json. Data only;
nothing in it is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from rescore.errors import UserError
from rescore.files import replacing
from rescore.lms.config import NetworkConfig, network_kind
from rescore.lms.networks import Network
from rescore.lms.tokenizer import MASK_ID, Tokenizer

FORMATS = ("F16", "BF16", "F32", "F64")
"""The number formats of weights, as safetensors names them."""


def build(config: NetworkConfig) -> Network:
    """Return a network with fresh random weights.

    Args:
        config: The configuration of the network.
    """
    network: Network = network_kind(config.kind).network(config)
    return network


def build_without_memory(config: NetworkConfig) -> Network:
    """Return a network whose weights have shapes, but no values and no memory.

    Args:
        config: The configuration of the network.
    """
    with torch.device("meta"), _WithoutValues():
        return build(config)


class _WithoutValues(TorchFunctionMode):
    """Draws no initial values while it is active.

    For normal random values without memory PyTorch imports its compiler, which takes
    longer than scoring a small file.
    """

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a function of PyTorch, unless it draws normal random values."""
        options = dict(kwargs or {})
        if function in (nn.init.normal_, Tensor.normal_):
            return options["tensor"] if "tensor" in options else args[0]
        return function(*args, **options)


def save(folder: Path, network: Network, tokenizer: Tokenizer) -> None:
    """Write a model folder; the weights in float16.

    Args:
        folder: The folder, which is made if it is absent.
        network: The network.
        tokenizer: Its tokenizer.

    Raises:
        UserError: A file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    network.config.save(folder / "config.json")
    tokenizer.save(folder / "tokenizer.json")
    weights = {
        name: value.detach().to("cpu", torch.float16).contiguous()
        for name, value in network.state_dict().items()
    }
    write_tensors(folder / "model.safetensors", weights)


def write_tensors(
    path: Path, tensors: dict[str, Tensor], about: dict[str, str] | None = None
) -> None:
    """Write a safetensors file beside its place, and rename it.

    Args:
        path: The place of the file.
        tensors: The tensors by name.
        about: Metadata of the file; None for none.

    Raises:
        UserError: The file cannot be written.
    """
    try:
        with replacing(path) as temporary:
            save_file(tensors, temporary, metadata=about)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{path}: cannot be written ({error})") from None


def load(folder: Path, kind: str | None = None) -> tuple[Network, Tokenizer]:
    """Return the network and the tokenizer of a model folder.

    Args:
        folder: The folder.
        kind: The kind that the network must have; None for any kind.

    Returns:
        The network in float32, ready to score, and its tokenizer.

    Raises:
        UserError: A file is absent or damaged, or the files do not belong together.
    """
    if not folder.is_dir():
        raise UserError(
            f"{folder}: no such folder; expected config.json, model.safetensors and"
            " tokenizer.json in it"
        )
    config = NetworkConfig.load(folder / "config.json")
    if kind not in (None, config.kind):
        raise UserError(
            f"{folder / 'config.json'}: the model is of kind {config.kind}, not {kind}"
        )
    tokenizer = _load_tokenizer(folder, config)
    weights = _load_weights(folder / "model.safetensors", config)
    network = build(config)
    network.load_state_dict(weights)
    return network.eval(), tokenizer


def _load_tokenizer(folder: Path, config: NetworkConfig) -> Tokenizer:
    """Return the tokenizer of a folder, which must belong to a network of this
    configuration.
    """
    path = folder / "tokenizer.json"
    tokenizer = Tokenizer.load(path)
    if tokenizer.vocab_size != config.vocab_size:
        raise UserError(
            f"{folder}: tokenizer.json has {tokenizer.vocab_size} tokens, config.json"
            f" says {config.vocab_size}; they belong to different models"
        )
    if config.first_query == "mask" and tokenizer.mask != MASK_ID:
        raise UserError(
            f"{path}: [MASK] is {tokenizer.mask}; first_query mask needs {MASK_ID}"
        )
    return tokenizer


def _load_weights(path: Path, config: NetworkConfig) -> dict[str, Tensor]:
    """Return the weights of a file, which must be those of a network of this
    configuration.
    """
    if not path.is_file():
        raise UserError(
            f"{path}: no such file (weights are read from safetensors only)"
        )
    try:
        _check_shapes(path, config)  # before there is room for either
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: not a whole safetensors file ({error})") from None
    weights = read_tensors(path)
    for name in sorted(weights):
        if not weights[name].isfinite().all():
            raise UserError(
                f"{path}: {name} has values that are not numbers; the training went"
                " wrong"
            )
    return weights


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the weights of a safetensors file.

    Args:
        path: The file.

    Raises:
        UserError: The file is absent or damaged, or holds numbers in another format
            than those of `FORMATS`.
    """
    try:
        with safe_open(path, "pt") as file:
            for name in sorted(file.keys()):
                number_format = file.get_slice(name).get_dtype()
                if number_format not in FORMATS:
                    raise UserError(
                        f"{path}: {name} has numbers in the format {number_format};"
                        f" weights are read as {', '.join(FORMATS)}: convert them, or"
                        " train again"
                    )
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path}: not a whole safetensors file ({error})") from None


def _check_shapes(path: Path, config: NetworkConfig) -> None:
    """Check that a file has the weights of a network of this configuration, each in its
    shape, and no others.
    """
    network = build_without_memory(config)
    wanted = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    with safe_open(path, "pt") as file:
        shapes = {}
        for name in file.keys():  # noqa: SIM118 (no mapping)
            shapes[name] = tuple(file.get_slice(name).get_shape())
    for name in sorted(wanted.keys() | shapes.keys()):
        if shapes.get(name) != wanted.get(name):
            raise UserError(
                f"{path}: {name} is {shapes.get(name, 'nothing')}, config.json asks for"
                f" {wanted.get(name, 'nothing')}"
            )
