"""Models by their names on the Hugging Face hub: from the local cache, else downloaded. Data only, never code."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from pathlib import Path

from rescore.errors import UserError
from rescore.scoring.base import LanguageModel, Question, TokenScores, Wrapped

log = logging.getLogger(__name__)

NAME = re.compile(r"([A-Za-z0-9][\w.-]{0,95}/)?[\w.-]{1,96}(@[\w./-]{1,100})?", re.ASCII)
"""`OWNER/MODEL`, or `OWNER/MODEL@REVISION`; the oldest models have no owner."""
FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
"""What is downloaded: configuration, tokenizer and weights; neither pickled weights nor code."""


def find(path: Path) -> tuple[Path, str | None]:
    """The folder of a model, and `OWNER/MODEL@COMMIT` where it is one of the hub's.

    A local folder comes first, then the hub's cache (HF_HOME, HF_HUB_CACHE), then, unless HF_HUB_OFFLINE is set, the
    hub. What is no name of a model is returned as it is.

    Raises:
        UserError: the hub has no such model, or cannot be reached.
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
    if isinstance(cached, str):
        folder = Path(cached).parent
    elif "/" in model:
        folder = _download(model, revision or None)
    else:
        return path, None
    return folder, f"{model}@{folder.name[:12]}"


def _download(model: str, revision: str | None) -> Path:
    from huggingface_hub import constants, snapshot_download

    nowhere = f"{model}: no such folder, and not in the Hugging Face cache ({constants.HF_HUB_CACHE})"
    if constants.is_offline_mode():
        raise UserError(f"{nowhere}; HF_HUB_OFFLINE is set, so that it is not downloaded")
    log.info("%s: downloading from the Hugging Face hub", model)
    # Without this, a machine without network waits for minutes until the last attempt.
    os.environ.setdefault("HF_HUB_ETAG_TIMEOUT", "10")
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=FILES))
    except Exception as error:  # the library's own, those of two HTTP libraries, those of the system
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"{nowhere}; downloading it failed: {type(error).__name__}: {reason}") from None


class FromHub(Wrapped):
    """A language model whose columns and signatures name its place on the hub, and the commit."""

    def __init__(self, lm: LanguageModel, revision: str) -> None:
        super().__init__(lm)
        self._revision = revision

    @property
    def model(self) -> str:
        return f"{self._lm.model}:{self._revision}"

    @property
    def fingerprint(self) -> str:
        return self._lm.fingerprint

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        return self._lm.score(questions)
