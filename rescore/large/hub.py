"""Models in Hugging Face's layout: names on its hub, folders that are read without
executing anything, and prompts.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import redirect_stderr
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

from rescore.errors import UserError
from rescore.files import absent, read_json
from rescore.lms.base import Question
from rescore.lms.config import LIMITS

log = logging.getLogger(__name__)

LOGITS = 2**25
"""The most logits of one batch: 128 MiB in float32."""
NAME = re.compile(
    r"([A-Za-z0-9][\w.-]{0,95}/)?[\w.-]{1,96}(@[\w./-]{1,100})?", re.ASCII
)
"""`OWNER/MODEL`, or `OWNER/MODEL@REVISION`; the oldest models have no owner."""
FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
"""Files to download: configuration, tokenizer and weights; neither pickled weights nor
code.
"""
SOURCE, TEXT = "{src}", "{text}"


class Template:
    """What a causal model reads around a text that is scored."""

    def __init__(self, template: str) -> None:
        """
        Args:
            template: ends with {text}, and may have {src}; \\n is a new line, \\t a
                tab.
        """
        self.text = template.replace("\\n", "\n").replace("\\t", "\t")
        if self.text.count(TEXT) != 1 or not self.text.endswith(TEXT):
            raise UserError(
                f"--prompt {template!r}: expected a template that ends with {TEXT}, and"
                f" may have {SOURCE}"
            )
        self.reads_source = SOURCE in self.text

    def before(self, question: Question) -> str:
        """What is read before the text, with the source in its place."""
        source = question.pair(channel=False)[0] if self.reads_source else ""
        return self.text.removesuffix(TEXT).replace(SOURCE, source)


def find(path: Path) -> tuple[Path, str | None]:
    """The folder of a model, and `OWNER/MODEL@COMMIT` for a model of the hub.

    A local folder comes first, then the hub's cache (HF_HOME, HF_HUB_CACHE), then,
    unless HF_HUB_OFFLINE is set, the hub. Other paths are returned as they are.
    """
    name = path.as_posix()
    if path.exists() or not NAME.fullmatch(name) or ".." in name:
        return path, None
    try:
        from huggingface_hub import try_to_load_from_cache
    except ImportError:
        return path, None
    model, _, revision = name.partition("@")
    cached = try_to_load_from_cache(model, "config.json", revision=revision or None)
    folder = Path(cached).parent if isinstance(cached, str) else None
    # others read a configuration alone, too
    if folder is None or not any(folder.glob("*.safetensors")):
        folder = _download(model, revision or None)
    return folder, f"{model}@{folder.name[:12]}"


def _download(model: str, revision: str | None) -> Path:
    from huggingface_hub import constants, snapshot_download

    meant = absent(Path(model)).rpartition("folder")[2]
    nowhere = (
        f"{model}: no such folder, and not in the Hugging Face cache"
        f" ({constants.HF_HUB_CACHE})"
    )
    if constants.is_offline_mode():
        raise UserError(
            f"{nowhere}; HF_HUB_OFFLINE is set, so that it is not downloaded{meant}"
        )
    log.info("%s: downloading from the Hugging Face Hub", model)
    # Without this, a machine without network waits for minutes until the last attempt.
    os.environ.setdefault("HF_HUB_ETAG_TIMEOUT", "10")
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=FILES))
    except (
        Exception
    ) as error:  # of the library, of two HTTP libraries, and of the system
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"{nowhere}; downloading it failed: {type(error).__name__}: {reason}{meant}"
        ) from None


_MANY = (
    "_size",
    "d_model",
    "n_embd",
    "n_inner",
    "ffn_dim",
    "_embeddings",
    "positions",
    "heads",
    "n_head",
)
SIZES = {
    "layers": LIMITS["layers"],
    "n_layer": LIMITS["layers"],
    **dict.fromkeys(_MANY, LIMITS["vocab_size"]),
}
"""Endings of names in the library's configurations, with the largest allowed values."""


def check_sizes(folder: Path) -> None:
    """Refuse sizes in a damaged or hostile config.json, which the library would
    allocate before it reads any weights; also in the configurations inside, such as
    `text_config`.
    """
    path = folder / "config.json"
    values = read_json(path) if path.is_file() else {}
    for name, value in _values(values):
        most = next(
            (number for ending, number in SIZES.items() if name.endswith(ending)), None
        )
        if isinstance(value, int) and most is not None and value > most:
            raise UserError(f"{path}: {name} is {value}; at most {most:,} are allowed")


def _values(values: Any) -> Iterator[tuple[str, Any]]:
    """The names and values of a JSON document, at any depth."""
    if isinstance(values, dict):
        yield from values.items()
    for value in (
        values.values()
        if isinstance(values, dict)
        else values
        if isinstance(values, list)
        else ()
    ):
        yield from _values(value)


def is_gguf(path: Path) -> bool:
    """Whether a model is a GGUF file, which holds weights, configuration and
    tokenizer.
    """
    return path.suffix.lower() == ".gguf" and path.is_file()


def check_files(folder: Path) -> None:
    """See that a model is there whose weights can be read without executing
    anything.
    """
    if is_gguf(folder):
        if find_spec("gguf") is None:
            raise UserError(
                f"{folder}: GGUF files need the package gguf; install it: pip install"
                " 'rescore[gguf]'"
            )
        return
    if not folder.is_dir():
        raise UserError(
            f"{folder}: no such folder; expected config.json, *.safetensors and a"
            " tokenizer in it"
        )
    if not (folder / "config.json").is_file():
        raise UserError(
            f"{folder}: no config.json in it; expected a model in Hugging Face's layout"
        )
    if not any(folder.glob("*.safetensors")):
        pickled = sorted(
            [*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.ckpt")]
        )
        hint = (
            f" ({pickled[0].name} is pickled, and loading it could execute code)"
            if pickled
            else ""
        )
        raise UserError(
            f"{folder}: no *.safetensors in it{hint}; save the model with"
            " safe_serialization=True"
        )


def load_model(folder: Path, kind: str, about: str) -> tuple[Any, Any]:
    """A model of transformers, ready to score, and its tokenizer; nothing in the folder
    is executed.

    Quantised weights of a GGUF file are converted to floating point.

    Args:
        folder: in Hugging Face's layout, or a GGUF file.
        kind: the library's class. about: its description, for messages.
    """
    check_files(folder)
    check_sizes(folder)
    try:
        import transformers
    except ImportError:
        raise UserError(
            "models of Hugging Face need transformers; install it: pip install"
            " 'rescore[hf]'"
        ) from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    safely: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    place, weights = str(folder), {"use_safetensors": True}
    if is_gguf(folder):
        place, weights = str(folder.parent), {}
        safely["gguf_file"] = folder.name
    read: Any = getattr(transformers, kind)
    try:
        # the library shows a bar of its own while it converts weights
        with redirect_stderr(StringIO()):
            tokenizer: Any = transformers.AutoTokenizer.from_pretrained(place, **safely)
            model, loaded = read.from_pretrained(
                place, output_loading_info=True, **weights, **safely
            )
    except (
        Exception
    ) as error:  # the library raises many kinds of errors for an unreadable folder
        raise UserError(
            f"{folder}: transformers cannot load it"
            f" ({' '.join(str(error).split())[:200]})"
        ) from None
    if loaded["missing_keys"]:
        missing = sorted(loaded["missing_keys"])[0]
        raise UserError(
            f"{folder}: no weights for {missing}; the model was not trained as {about}"
        )
    if getattr(model, "is_quantized", False) and not is_gguf(folder):
        raise UserError(
            f"{folder}: has quantised weights; let a server load it, and give --lm"
            " server:URL#MODEL"
        )
    return model.eval(), tokenizer
