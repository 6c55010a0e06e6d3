"""From a toolkit's tokens to the text it meant a person to read."""

from __future__ import annotations

import re
from collections.abc import Callable

from rescore.errors import UserError

# What the Moses tokeniser escapes; the ampersand last, or `&amp;lt;` would be unescaped twice.
_ENTITIES = {
    "&#124;": "|",
    "&lt;": "<",
    "&gt;": ">",
    "&apos;": "'",
    "&quot;": '"',
    "&#91;": "[",
    "&#93;": "]",
    "&amp;": "&",
}
_SENTENCE_MARKS = re.compile(r"<(?:s|/s|eos|sos|sos/eos|blank|pad)>")


def undo_bpe(text: str) -> str:
    """Join subwords: `@@ ` of subword-nmt, `▁` of SentencePiece."""
    if "@@" in text:
        text = re.sub(r"@@(?: |$)", "", text)
    if "▁" in text:
        text = text.replace(" ", "").replace("▁", " ")  # a blank parts two pieces; ▁ is the blank that was read
    return " ".join(text.split())


def undo_entities(text: str) -> str:
    """Undo the escapes of the Moses tokeniser: `&apos;` is an apostrophe again."""
    if "&" in text:
        for entity, character in _ENTITIES.items():
            text = text.replace(entity, character)
    return text


def undo_marks(text: str) -> str:
    """Remove `<eos>` and its like, turn `<space>` into a blank."""
    if "<" in text:
        text = _SENTENCE_MARKS.sub("", text.replace("<space>", " "))
    return " ".join(text.split())


def plain(text: str) -> str:
    """All of it: marks, subwords, entities."""
    return undo_entities(undo_bpe(undo_marks(text)))


def detokeniser(language: str) -> Callable[[str], str]:
    """Undoes the Moses tokeniser, by sacremoses.

    Raises:
        UserError: the package is not installed.
    """
    try:
        from sacremoses import MosesDetokenizer
    except ImportError:
        raise UserError("--detokenize needs sacremoses; install it with: pip install 'rescore[mt]'") from None
    tool = MosesDetokenizer(lang=language)
    return lambda text: str(tool.detokenize(text.split(), unescape=True))
