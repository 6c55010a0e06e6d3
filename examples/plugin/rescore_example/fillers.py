"""The step `fillers`: words that people say while they think do not count."""

from __future__ import annotations

FILLERS = frozenset({"um", "uh", "erm"})


def fillers(text: str) -> str:
    """um, uh and erm are no words"""
    return " ".join(word for word in text.split() if word.lower() not in FILLERS)


fillers.across = False  # type: ignore[attr-defined]
fillers.version = "1.0"  # type: ignore[attr-defined]
