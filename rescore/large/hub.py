"""Models in Hugging Face's layout: names on its hub, folders that are read without
executing anything, and prompts.
"""

from __future__ import annotations

import inspect
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any

from rescore.errors import UserError, installed_by
from rescore.files import absent, read_json
from rescore.lms.base import Question
from rescore.lms.config import LIMITS

log = logging.getLogger(__name__)

ODD_FILES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Errors that the library raises where the files of a model have odd values."""
LOGITS = 2**25
"""The largest number of logits of one batch: 128 MiB in float32."""
NAME = re.compile(
    r"([A-Za-z0-9][\w.-]{0,95}/)?[\w.-]{1,96}(@[\w./-]{1,100})?", re.ASCII
)
"""`OWNER/MODEL`, or `OWNER/MODEL@REVISION`; the oldest models have no owner."""
FILES = ["*.json", "*.txt", "*.model", "*.spm", "*.safetensors"]
"""Files to download: configuration, tokenizer and weights; neither pickled weights nor
code.
"""
SOURCE = "{src}"
"""The place of the source in a template."""
TEXT = "{text}"
"""The place of the scored text in a template."""


class Template:
    """What a causal model reads around a text that is scored."""

    def __init__(self, template: str) -> None:
        """Read a template.

        Args:
            template: Ends with {text}, and may have {src}; \\n is a new line, \\t a
                tab.

        Raises:
            UserError: The template does not end with {text}.
        """
        self.text = template.replace("\\n", "\n").replace("\\t", "\t")
        if self.text.count(TEXT) != 1 or not self.text.endswith(TEXT):
            raise UserError(
                f"--prompt {template!r}: expected a template that ends with {TEXT}, and"
                f" may have {SOURCE}"
            )
        self.reads_source = SOURCE in self.text

    def before(self, question: Question) -> str:
        """Return what is read before the text, with the source in its place."""
        source = question.pair(channel=False)[0] if self.reads_source else ""
        return self.text.removesuffix(TEXT).replace(SOURCE, source)


def find(path: Path) -> tuple[Path, str | None]:
    """Return the folder of a model, and `OWNER/MODEL@COMMIT` for a model of the hub.

    A local folder comes first, then the hub's cache (HF_HOME, HF_HUB_CACHE), then,
    unless HF_HUB_OFFLINE is set, the hub.

    Args:
        path: A local folder or file, or OWNER/MODEL, or OWNER/MODEL@REVISION. Other
            paths are returned as they are.

    Raises:
        UserError: The model is nowhere, or downloading it failed.
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
    folder = None
    if isinstance(cached, str):
        folder = Path(cached).parent
    # Other programs cache a configuration alone, too.
    if folder is None or not any(folder.glob("*.safetensors")):
        folder = _download(model, revision or None)
    return folder, f"{model}@{folder.name[:12]}"


def _download(model: str, revision: str | None) -> Path:
    """Return the folder in the hub's cache to which a model was downloaded."""
    from huggingface_hub import constants, snapshot_download

    suggestion = absent(Path(model)).rpartition("folder")[2]
    nowhere = (
        f"{model}: no such folder, and not in the Hugging Face cache"
        f" ({constants.HF_HUB_CACHE})"
    )
    if constants.HF_HUB_OFFLINE:
        raise UserError(
            f"{nowhere}; HF_HUB_OFFLINE is set, so that it is not"
            f" downloaded{suggestion}"
        )
    log.info("%s: downloading from the Hugging Face Hub", model)
    # Without this, a machine without network waits for minutes until the last attempt.
    os.environ.setdefault("HF_HUB_ETAG_TIMEOUT", "10")
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=FILES))
    except Exception as error:
        # Errors of the library, of two HTTP libraries, and of the system.
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"{nowhere}; downloading it failed: {type(error).__name__}:"
            f" {reason}{suggestion}"
        ) from None


SIZES = {
    "layers": LIMITS["layers"],
    "n_layer": LIMITS["layers"],
    "_size": LIMITS["vocab_size"],
    "d_model": LIMITS["vocab_size"],
    "n_embd": LIMITS["vocab_size"],
    "n_inner": LIMITS["vocab_size"],
    "ffn_dim": LIMITS["vocab_size"],
    "_embeddings": LIMITS["vocab_size"],
    "positions": LIMITS["vocab_size"],
    "heads": LIMITS["vocab_size"],
    "n_head": LIMITS["vocab_size"],
}
"""Endings of names in the library's configurations, with the largest allowed values."""


def check_sizes(folder: Path) -> None:
    """Raise an error if config.json has sizes that no model has.

    The library would allocate the sizes of a damaged or hostile file before it reads
    any weights. Configurations inside, such as `text_config`, are checked, too.

    Args:
        folder: The folder of a model.

    Raises:
        UserError: A size is too large, or the file is not JSON.
    """
    path = folder / "config.json"
    if not path.is_file():
        return
    for name, value in _values(read_json(path)):
        most = _largest(name)
        if isinstance(value, int) and most is not None and value > most:
            raise UserError(f"{path}: {name} is {value}; at most {most:,} are allowed")


def _largest(name: str) -> int | None:
    """Return the largest allowed value of a size; None for other names."""
    for ending, most in SIZES.items():
        if name.endswith(ending):
            return most
    return None


def _values(document: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of a JSON document, at any depth."""
    if isinstance(document, dict):
        yield from document.items()
        for value in document.values():
            yield from _values(value)
    elif isinstance(document, list):
        for value in document:
            yield from _values(value)


def is_gguf(path: Path) -> bool:
    """Return whether a model is a GGUF file, which holds weights, configuration and
    tokenizer.
    """
    return path.suffix.lower() == ".gguf" and path.is_file()


def check_files(folder: Path) -> None:
    """Raise an error unless a model's weights can be read without executing anything.

    Args:
        folder: The folder of a model, or a GGUF file.

    Raises:
        UserError: A file or a package is missing.
    """
    if is_gguf(folder):
        if find_spec("gguf") is None:
            raise UserError(
                f"{folder}: GGUF files need the package gguf; install it:"
                f" {installed_by('gguf')}"
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
        raise UserError(
            f"{folder}: no *.safetensors in it{_pickled(folder)}; save the model with"
            " safe_serialization=True"
        )


def _pickled(folder: Path) -> str:
    """Return a remark about pickled weights in a folder, or an empty string."""
    files = [*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.ckpt")]
    if not files:
        return ""
    return f" ({min(files).name} is pickled, and loading it could execute code)"


@contextmanager
def told(folder: Path) -> Iterator[None]:
    """Return a context in which errors of transformers become errors of the user: a
    file of the model does not fit the others, or has odd values.

    The traceback is logged for `--verbose`.

    Args:
        folder: The folder of the model.

    Raises:
        UserError: The library raised an error, other than a lack of memory.
    """
    try:
        yield
    except ODD_FILES as error:
        kind = type(error).__name__
        if kind == "OutOfMemoryError":
            raise
        log.debug("%s", folder, exc_info=True)
        reason = " ".join(str(error).split())[:120]
        raise UserError(
            f"{folder}: transformers cannot compute with it ({kind}: {reason}); is a"
            " file of the model damaged, or from another model?"
        ) from None


def check_numbers(log_probs: Any, folder: Path) -> None:
    """Raise an error if a model computes something that is no number.

    Args:
        log_probs: An array or a tensor of log-probabilities.
        folder: The folder of the model.

    Raises:
        UserError: A value is NaN.
    """
    if bool((log_probs != log_probs).any()):
        raise UserError(
            f"{folder}: a score is NaN; its weights are damaged, or too large for the"
            " precision"
        )


def _check_sentencepiece(folder: Path) -> None:
    """Raise an error if a model cannot be loaded because its tokenizer needs a package.

    Args:
        folder: The folder of the model.

    Raises:
        UserError: The folder has a tokenizer of SentencePiece alone, and the package is
            not installed.
    """
    files = sorted([*folder.glob("*.spm"), *folder.glob("*.model")])
    if not files or (folder / "tokenizer.json").exists():
        return
    if find_spec("sentencepiece") is None:
        raise UserError(
            f"{files[0]}: the tokenizer needs SentencePiece; install it: pip install"
            " sentencepiece protobuf"
        ) from None


def cache_name(model: Any) -> str:
    """Return the name under which a model takes and gives keys and values of earlier
    tokens: versions of transformers differ.

    Args:
        model: A model of transformers.
    """
    names = inspect.signature(model.forward).parameters
    return "cache" if "cache" in names else "past_key_values"


def load_model(folder: Path, kind: str, about: str) -> tuple[Any, Any]:
    """Return a model of transformers, ready to score, and its tokenizer.

    Nothing in the folder is executed. Quantised weights of a GGUF file are converted to
    floating point.

    Args:
        folder: A folder in Hugging Face's layout, or a GGUF file.
        kind: The name of the library's class.
        about: The description of the class, for messages.

    Raises:
        UserError: The model cannot be loaded, lacks weights, or transformers is not
            installed.
    """
    check_files(folder)
    check_sizes(folder)
    try:
        import transformers
    except ImportError:
        raise UserError(
            "models of Hugging Face need transformers; install it:"
            f" {installed_by('hf')}"
        ) from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    place = folder
    options: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    weights = {"use_safetensors": True}
    if is_gguf(folder):
        place = folder.parent
        options["gguf_file"] = folder.name
        weights = {}
    read: Any = getattr(transformers, kind)
    try:
        # The library shows a progress bar of its own while it converts weights.
        with redirect_stderr(StringIO()):
            tokenizer: Any = transformers.AutoTokenizer.from_pretrained(
                str(place), **options
            )
            model, loaded = read.from_pretrained(
                str(place), output_loading_info=True, **weights, **options
            )
    except Exception as error:
        # The library raises many kinds of errors for an unreadable folder.
        _check_sentencepiece(folder)
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{folder}: transformers cannot load it ({reason})") from None
    if loaded["missing_keys"]:
        missing = min(loaded["missing_keys"])
        raise UserError(
            f"{folder}: no weights for {missing}; the model was not trained as {about}"
        )
    if getattr(model, "is_quantized", False) and not is_gguf(folder):
        raise UserError(
            f"{folder}: has quantised weights; let a server load it, and give --lm"
            " server:URL#MODEL"
        )
    return model.eval(), tokenizer
