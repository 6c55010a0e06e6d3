"""Helpers of readers: from a toolkit's tokens to the text it meant for people, ids,
numbers, names of utterances.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Sequence
from enum import Flag
from pathlib import Path
from typing import Any, TypeVar

from rescore.columns import RANK
from rescore.errors import UserError, installed_by
from rescore.formats.source import REPEATED, InputWarnings, Source
from rescore.ids import SOUNDS

T = TypeVar("T")

# --- from tokens to texts ------------------------------------------------------------

_ENTITIES = {
    "&#124;": "|",
    "&lt;": "<",
    "&gt;": ">",
    "&apos;": "'",
    "&quot;": '"',
    "&#91;": "[",
    "&#93;": "]",
    "&#40;": "(",
    "&#59;": ";",
    "&#64;": "@",
    "&#123;": "{",
    "&#125;": "}",
    "&#9601;": "▁",
    "&amp;": "&",
}
"""Escapes of the Moses tokeniser, and of our writers; the ampersand last, or `&amp;lt;`
would be unescaped twice.
"""
_ESCAPES = str.maketrans({mark: f"&#{ord(mark)};" for mark in "(@{|}▁"})
_ESCAPES |= str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""The escapes of letters that make marks, such as `<s>` and `{ a / b }`."""
_SENTENCE_MARKS = re.compile(r"<(?:s|/s|eos|sos|sos/eos|blank|pad)>")


_BPE = re.compile(r"(?<=\S)@@(?: |$)")
"""The mark of subword-nmt behind a subword."""


def _has_pieces(text: str) -> bool:
    """Return whether a text has pieces of SentencePiece, not a single `▁` alone."""
    is_stray = text.count("▁") == 1 and "▁" in text.split()
    return "▁" in text and not is_stray


def undo_bpe(text: str) -> str:
    """Return the text with subwords joined: `@@ ` of subword-nmt, `▁` of SentencePiece.
    A single mark that stands alone is a sign of the text.

    Args:
        text: Subwords between blanks, or a text without subwords.

    Example:
        >>> undo_bpe("▁the ▁cat s"), undo_bpe("th@@ e"), undo_bpe("▁ price list")
        ('the cats', 'the', '▁ price list')
    """
    if "@@" in text:
        text = _BPE.sub("", text)
    if _has_pieces(text):
        # a blank parts two pieces; ▁ is the blank of the text
        text = text.replace(" ", "").replace("▁", " ")
    return " ".join(text.split())


def has_entities(text: str) -> bool:
    """Return whether a text has escapes of the Moses tokeniser."""
    return "&" in text and any(entity in text for entity in _ENTITIES)


def undo_entities(text: str) -> str:
    """Return the text without escapes of the Moses tokeniser: `&apos;` is an apostrophe
    again.
    """
    if "&" in text:
        for entity, character in _ENTITIES.items():
            text = text.replace(entity, character)
    return text


def undo_marks(text: str) -> str:
    """Return the text without `<eos>` and its like, and with blanks for `<space>`."""
    if "<" in text:
        text = _SENTENCE_MARKS.sub("", text.replace("<space>", " "))
    return " ".join(text.split())


_SPACE = "<space>"
"""The blank in texts whose letters stand apart."""


def spelled_out(texts: Sequence[str]) -> list[str]:
    """Return the texts of a file as words, if letters stand apart in it, with `<space>`
    between words, as in ESPnet's score_cer; else as they are.

    Args:
        texts: All texts of the file: a text of a single word has no `<space>`.
    """
    tokens = set[str]()
    for text in texts:
        tokens.update(text.split())
    letters = tokens - {_SPACE}
    if _SPACE not in tokens or not all(map(_is_letter, letters)):
        return list(texts)
    joined = []
    for text in texts:
        words = " ".join(text.split()).split(_SPACE)
        joined.append(" ".join("".join(word.split()) for word in words))
    return joined


def _is_letter(token: str) -> bool:
    """Return whether a token is a letter or a mark such as `<unk>`."""
    return len(token) == 1 or (token.startswith("<") and token.endswith(">"))


TAG = re.compile(r"<\|[^<>|\s]{0,40}\|>")
"""A tag of Whisper, SenseVoice, FunASR or OWSM: a language, a task, a time."""


def without_tags(text: str) -> str:
    """Return the text without tags such as `<|en|>`; a text without tags as it is.

    Args:
        text: The text, as a recogniser writes it.

    Example:
        >>> without_tags("<|en|><|woitn|>a b")
        'a b'
    """
    if "<|" not in text or not TAG.search(text):
        return text
    return " ".join(TAG.sub(" ", text).split())


class Marks(Flag):
    """Kinds of marks that toolkits write into texts. Tags such as `<|en|>` are no such
    marks: a line tells when they are dropped.
    """

    NONE = 0
    SENTENCES = 1
    """`<s>`, `<eos>`, `<space>` and their like."""
    SUBWORDS = 2
    """`@@` and `▁`."""
    ENTITIES = 4
    """Escapes of the Moses tokeniser, such as `&apos;`."""


def marks_in(text: str) -> Marks:
    """Return the kinds of marks that a text has."""
    found = Marks.NONE
    if "<" in text and ("<space>" in text or _SENTENCE_MARKS.search(text)):
        found |= Marks.SENTENCES
    if _BPE.search(text) or _has_pieces(text):
        found |= Marks.SUBWORDS
    if has_entities(text):
        found |= Marks.ENTITIES
    return found


def strip_markup(text: str, kept: Marks = Marks.NONE) -> str:
    """Return the text without marks, subwords and entities of toolkits.

    Args:
        text: The text, as a toolkit writes it.
        kept: The kinds of marks that stay.

    Example:
        >>> strip_markup("<s> it &apos;s lo@@ w")
        "it 's low"
    """
    if text.isalnum():  # as most words of a CTM
        return text
    if Marks.SENTENCES not in kept:
        text = undo_marks(text)
    if Marks.SUBWORDS not in kept:
        text = undo_bpe(text)
    return text if Marks.ENTITIES in kept else undo_entities(text)


def without_marks(text: str, kept: Marks = Marks.NONE) -> str:
    """Return the text as of `strip_markup`; a text without marks stays as it is, with
    all its blanks.

    Args:
        text: The text.
        kept: The kinds of marks that stay.
    """
    if not marks_in(text) & ~kept:
        return text
    return strip_markup(text, kept)


def escaped(text: str, read: Callable[[str], str]) -> str:
    """Return a text as one line from which a reader gets the same text: letters that
    make marks are escaped if it takes something in the text for a mark.

    Args:
        text: The text.
        read: Returns what the reader makes of a line.

    Example:
        >>> escaped("we mark <s> so", strip_markup)
        'we mark &lt;s&gt; so'
    """
    plain = " ".join(text.split())
    if read(plain) == plain:
        return plain
    return plain.translate(_ESCAPES)


def read_text(text: str) -> str:
    """Return what readers make of a text, without tags and marks."""
    return strip_markup(without_tags(text))


def read_line(text: str) -> str:
    """Return what readers of 1-best texts and of references make of the text in a
    line, behind an id or alone; empty for an id in brackets, which is no text.

    Args:
        text: The text.
    """
    if split_trn(text) is not None:
        return ""
    return read_text(text)


NOTHING = "<s></s>"
"""An empty reference or source in the cell of a table, in which an empty cell is no
text: the marks of a sentence, without words.
"""


def detokeniser(language: str) -> Callable[[str], str]:
    """Return a function that undoes the Moses tokeniser, by sacremoses.

    Args:
        language: The code of the language, such as `en`.

    Raises:
        UserError: sacremoses is not installed.
    """
    try:
        from sacremoses import MosesDetokenizer
    except ImportError:
        raise UserError(
            f"Moses' detokeniser needs sacremoses; {installed_by('mt')}"
        ) from None
    tool = MosesDetokenizer(lang=language)
    return lambda text: str(tool.detokenize(text.split(), unescape=True))


# --- lines with ids ------------------------------------------------------------------


def split_id(line: str) -> tuple[str, str]:
    """Return the id and the text of a Kaldi-style line.

    Args:
        line: A line `utterance text`, in which blanks and tabs alone part the two.

    Returns:
        The id, and the text, which may be empty.
    """
    name, _, text = line.strip(" \t").replace("\t", " ").partition(" ")
    return name, text.strip(" ")


def split_trn(line: str) -> tuple[str, str] | None:
    """Return the text and the id of a line of trn; None if no id in brackets is at its
    end.
    """
    match = re.search(r"(?:^|\s)\(([^\s()]+)\)\s*$", line)
    if match is None:
        return None
    return line[: match.start()], match[1]


def are_rows(lines: Sequence[str]) -> bool:
    """Return whether lines are rows of a table, not texts: the first line has a tab, or
    all lines have the same number of commas, and more than one.

    Args:
        lines: The lines of a file that is neither trn nor Kaldi text.
    """
    if len(lines) < 2:
        return False
    commas = {line.count(",") for line in lines}
    return "\t" in lines[0] or (len(commas) == 1 and max(commas) > 1)


def table(path: Path, warnings: InputWarnings | None = None) -> dict[str, str]:
    """Return the values of a Kaldi-style file by utterance.

    Args:
        path: A file with lines `utterance value`.
        warnings: Collects repairs; with None, they are reported at once.

    Raises:
        UserError: An utterance has two different values.
    """
    values: dict[str, str] = {}
    places: dict[str, int] = {}
    source = Source(path, warnings)
    for number, line in enumerate(source.lines(), 1):
        if not line.strip():
            continue
        place = f"{source.name}: line {number}"
        name, value = split_id(line)
        if values.setdefault(name, value) != value:
            raise duplicated(name, place, f"line {places[name]}")
        if name in places:
            source.warnings.add("line", REPEATED, place)
        places.setdefault(name, number)
    return values


def duplicated(name: str, place: str, other: str, advice: str = "") -> UserError:
    """Return the error about an id that names two utterances.

    Args:
        name: The id.
        place: The file and line of the second utterance.
        other: The place of the first.
        advice: What else the user can do.
    """
    return UserError(
        f"{place}: utterance {name[-120:]} is duplicated (first: {other[-80:]}); give"
        f" each utterance once{advice}"
    )


def numbered(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    """Return the paths in a folder whose names match, in the order of their numbers.

    Args:
        folder: The folder.
        pattern: The pattern of a whole name; its first group is the number.
    """
    entries = []
    for path in folder.iterdir():
        match = pattern.fullmatch(path.name)
        if match is not None:
            entries.append((int(match[1]), path))
    return [path for _, path in sorted(entries)]


def add_once(values: dict[str, T], name: str, value: T, place: str) -> None:
    """Set the value of an utterance that must have none yet.

    Args:
        values: The values by utterance, which are changed.
        name: The utterance.
        value: The value.
        place: The file and line, for the message.

    Raises:
        UserError: The utterance has a value.
    """
    if name in values:
        raise UserError(
            f"{place}: utterance {name} is duplicated; give each utterance once"
        )
    values[name] = value


# --- values --------------------------------------------------------------------------


def as_number(text: str, place: str, what: str = "score") -> float:
    """Return a number as a file has it.

    Args:
        text: The number in decimal notation.
        place: The file and line, for the message.
        what: A description of the number, for the message.

    Raises:
        UserError: The text is no number.
    """
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{place}: {what} is {text!r}, not a number") from None


def json_number(value: Any, place: str, what: str = "score") -> float:
    """Return the number that a JSON value holds.

    Args:
        value: A JSON number, or a text that holds a number.
        place: The file and line, for the message.
        what: A description of the number, for the message.

    Raises:
        UserError: The value is no number.
    """
    try:
        if isinstance(value, (bool, list, dict)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise UserError(
            f"{place}: {what} is {json.dumps(value)[:40]}, not a number"
        ) from None
    except OverflowError:
        raise UserError(
            f"{place}: {what} has {len(str(value))} digits; no score has"
        ) from None


def rank_of(value: Any, place: str) -> int:
    """Return the rank of a hypothesis, as a file has it.

    Args:
        value: A whole number, or a text that holds one.
        place: The file and line, for the message.

    Raises:
        UserError: The value is no whole number.
    """
    number = json_number(value, place, RANK)
    if not number.is_integer():
        raise UserError(f"{place}: rank is {value!r}; give a whole number")
    return int(number)


def field_of(value: Any, key: str) -> Any:
    """Return a field of a JSON object; None for a value that is no object.

    Args:
        value: Any JSON value.
        key: The key of the field.
    """
    if not isinstance(value, dict):
        return None
    return value.get(key)


def literal_words(text: str, place: str) -> str:
    """Return the words of a list as Python prints it, with blanks between them.

    Args:
        text: A list such as `['A', 'B']`, or a text in quotation marks.
        place: The file and line, for the message.

    Raises:
        UserError: The text is neither.
    """
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        value = None
    if isinstance(value, str):
        return value
    if not isinstance(value, (list, tuple)) or any(
        not isinstance(word, str) for word in value
    ):
        raise UserError(
            f"{place}: expected a list of words such as ['A', 'B'], found"
            f" {text.strip()[:40]}"
        )
    return " ".join(value)


# --- names of utterances -------------------------------------------------------------

_ENDINGS = re.compile(
    rf"(?:{'|'.join(map(re.escape, SOUNDS))})?"
    r"(?:\.(?:json|jsonl|txt|srt|vtt|ctm|stm|trn|rttm|nbest|score|out|slf|lat|htk|fst"
    r"|hocr|html|xml))*"
    r"(?:\.gz|\.xz)?$",
    re.IGNORECASE,
)


def utterance_of(path: str) -> str:
    """Return the name of a file without folder and known endings, which may hold dots:
    the name of its utterance.

    Args:
        path: The path, with slashes or backslashes.

    Example:
        >>> utterance_of("calls/talk.2024-01-01.wav.json")
        'talk.2024-01-01'
    """
    name = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return _ENDINGS.sub("", name) or name


def stem_of(source: Source) -> str:
    """Return the name of the utterance or recording of a file; `stdin` for a stream."""
    if source.is_stdin:
        return "stdin"
    return utterance_of(source.path.name)
