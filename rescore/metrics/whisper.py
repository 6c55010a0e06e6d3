"""Whisper's normalisers, of the package whisper-normalizer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import version

from rescore.errors import UserError

CLASSES = {
    "whisper_english": "english:EnglishTextNormalizer",
    "whisper_basic": "basic:BasicTextNormalizer",
}
"""Modules and classes of the package, by the name of the switch."""
CACHED = 1 << 17
"""Texts of which the result is kept: bounds memory."""


@cache
def normaliser(name: str, switch: bool) -> Callable[[str], str]:
    """One of `CLASSES`, which is slow: texts are cached.

    Raises:
        UserError: the package is not installed.
    """
    module, kind = CLASSES[name].split(":")
    try:
        function: Callable[[str], str] = getattr(
            import_module(f"whisper_normalizer.{module}"), kind
        )()
    except ImportError:
        option = name.replace("_", "-")
        raise UserError(
            f"--{option} needs the package whisper-normalizer; pip install"
            " 'rescore[whisper]'"
        ) from None
    return lru_cache(CACHED)(function)


def version_of(name: str, switch: bool) -> str:
    """The package's version, which figures depend on: versions differ in their
    spellings.
    """
    normaliser(name, switch)
    return version("whisper-normalizer")
