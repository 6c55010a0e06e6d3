"""Whisper's normalisers, of the package whisper-normalizer."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import version

from rescore.errors import UserError, installed_by


@cache
def normaliser(name: str, switch: bool) -> Callable[[str], str]:
    """Return a normaliser of Whisper, which is slow.

    Args:
        name: The switch: `whisper_english` or `whisper_basic`.
        switch: The value of the switch, which is on.

    Raises:
        UserError: The package is not installed.
    """
    try:
        from whisper_normalizer.basic import BasicTextNormalizer
        from whisper_normalizer.english import EnglishTextNormalizer
    except ImportError:
        option = name.replace("_", "-")
        raise UserError(
            f"--{option} needs the package whisper-normalizer;"
            f" {installed_by('whisper')}"
        ) from None
    function: Callable[[str], str]
    if name == "whisper_english":
        function = EnglishTextNormalizer()
    else:
        function = BasicTextNormalizer()
    return function


def version_of(name: str, switch: bool) -> str:
    """Return the version of the package: versions differ in their spellings.

    Args:
        name: The switch.
        switch: The value of the switch, which is on.

    Raises:
        UserError: The package is not installed.
    """
    normaliser(name, switch)
    return version("whisper-normalizer")
