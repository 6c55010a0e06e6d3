"""Helpers of readers: from a toolkit's tokens to the text it meant for people, ids,
numbers, groups of lines.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rescore.errors import UserError, counted
from rescore.formats.source import UTF8, InputWarnings, Source
from rescore.nbest import Hypothesis, NbestList
from rescore.options import Declared, option

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


def undo_bpe(text: str) -> str:
    """Return the text with subwords joined: `@@ ` of subword-nmt, `▁` of SentencePiece.

    Args:
        text: Subwords between blanks, or a text without subwords.
    """
    if "@@" in text:
        text = re.sub(r"@@(?: |$)", "", text)
    if "▁" in text:
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


def strip_markup(text: str) -> str:
    """Return the text without marks, subwords and entities of toolkits."""
    return undo_entities(undo_bpe(undo_marks(text)))


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


def read_line(text: str) -> str:
    """Return what readers of 1-best texts and of references make of the text in a
    line, behind an id or alone; empty for an id in brackets, which is no text.

    Args:
        text: The text.
    """
    if split_trn(text) is not None:
        return ""
    return undo_entities(undo_marks(text))


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
            "--detokenize needs sacremoses; install it with: pip install 'rescore[mt]'"
        ) from None
    tool = MosesDetokenizer(lang=language)
    return lambda text: str(tool.detokenize(text.split(), unescape=True))


# --- from lines to lists -------------------------------------------------------------


def grouped(
    parts: Iterable[tuple[str | None, NbestList]],
    name: str,
    more_references: bool = False,
) -> Iterator[NbestList]:
    """Yield lists, in which neighbouring parts with the same id are joined.

    Args:
        parts: An id and a list with the contents of one line (a hypothesis, a
            reference, a source); or None and a whole list.
        name: The file, for messages.
        more_references: Whether references add up; otherwise two different references
            are an error.

    Raises:
        UserError: Parts of a list have different references or sources.
    """
    current: NbestList | None = None
    for identity, nbest in parts:
        if current is not None and current.id == identity:
            _join(current, nbest, name, more_references)
            continue
        if current is not None:
            yield current
            current = None
        if identity is None:
            yield nbest
        else:
            current = nbest
    if current is not None:
        yield current


def _join(
    current: NbestList, nbest: NbestList, name: str, more_references: bool
) -> None:
    """Add the contents of a part to the list that it belongs to."""
    current.hypotheses += nbest.hypotheses
    new = tuple(text for text in nbest.references if text not in current.references)
    if new and current.references and not more_references:
        raise UserError(
            f"{name}: utterance {current.id}: its lines have different references"
            f" ({current.references[0][:40]!r}, {new[0][:40]!r}); give a single"
            " reference"
        )
    current.references += new
    if nbest.source is None or nbest.source == current.source:
        return
    if current.source is not None:
        raise UserError(
            f"{name}: utterance {current.id}: its lines have different sources;"
            " give a single source"
        )
    current.source = nbest.source


@dataclass(frozen=True, kw_only=True)
class ListSize(Declared):
    """The option of formats whose files do not mark the end of a list."""

    size: int | None = option(
        None,
        "Hypotheses per list, if the file does not mark the end of a list (NeMo beams,"
        " OpenNMT). For lattices: number of different texts to read, 100 by default.",
        "--nbest-size",
        low=1,
    )


def portions(
    hypotheses: Iterable[Hypothesis], size: int, name: str
) -> Iterator[NbestList]:
    """Yield lists of equal size, numbered from 1: for files that do not mark the end of
    a list.

    Args:
        hypotheses: The hypotheses of all lists.
        size: The number of hypotheses of each list.
        name: The file, for messages.

    Raises:
        UserError: The last list has fewer hypotheses.
    """
    nbest = NbestList("1", [])
    number = 0
    for number, hypothesis in enumerate(hypotheses, 1):
        nbest.hypotheses.append(hypothesis)
        if number % size == 0:
            yield nbest
            nbest = NbestList(str(number // size + 1), [])
    if nbest.hypotheses:
        raise UserError(
            f"{name}: {counted(number, 'line')} is not a multiple of {size}; give the"
            " right --nbest-size"
        )


# --- lines with ids ------------------------------------------------------------------

_DIGIT = re.compile("[0-9]")
_ID_MARK = re.compile(r"[\w.][-_]\w|\d")
"""A hyphen or underscore between letters, or a digit."""


def split_id(line: str) -> tuple[str, str]:
    """Return the id and the text of a Kaldi-style line.

    Args:
        line: A line `utterance text`, in which blanks and tabs alone part the two.

    Returns:
        The id, and the text, which may be empty.
    """
    name, _, text = line.strip(" \t").replace("\t", " ").partition(" ")
    return name, text.strip(" ")


def are_numbers(ids: Sequence[str]) -> bool:
    """Return whether ids are numbers in order, as of lists that have no ids: they may
    be paired with others by order.

    Args:
        ids: The ids of lists.
    """
    if not ids or len(ids[0]) > 9 or not (ids[0].isascii() and ids[0].isdecimal()):
        return False
    first = int(ids[0])
    return list(ids) == list(map(str, range(first, first + len(ids))))


def begin_with_ids(lines: Sequence[str], beside: Sequence[str] = ()) -> bool:
    """Return whether all lines begin with different words that look like ids: each has
    a digit.

    Args:
        lines: Lines of a text; empty lines do not count.
        beside: Lines of another text that begin with the same words. A hyphen or
            underscore between letters is then as good as a digit, and no id is a
            further word of these texts.
    """
    first = first_words(lines)
    if not first or len(set(first)) < len(first):
        return False
    if not beside:
        return all(map(_DIGIT.search, first))
    words = set[str]()
    for line in (*lines, *beside):
        words.update(split_id(line)[1].split())
    return words.isdisjoint(first) and all(map(_ID_MARK.search, first))


def split_trn(line: str) -> tuple[str, str] | None:
    """Return the text and the id of a line of trn; None if no id in brackets is at its
    end.
    """
    match = re.search(r"(?:^|\s)\(([^\s()]+)\)\s*$", line)
    if match is None:
        return None
    return line[: match.start()], match[1]


def first_words(lines: Sequence[str]) -> list[str]:
    """Return the first words of the lines that are not empty."""
    return [split_id(line)[0] for line in lines if line.strip()]


def table(path: Path, warnings: InputWarnings | None = None) -> dict[str, str]:
    """Return the values of a Kaldi-style file by utterance.

    Args:
        path: A file with lines `utterance value`.
        warnings: Collects repairs; with None, they are reported at once.

    Raises:
        UserError: An utterance has two different values.
    """
    values: dict[str, str] = {}
    for place, line in Source(path, warnings).filled():
        name, value = split_id(line)
        if values.setdefault(name, value) != value:
            raise UserError(
                f"{place}: utterance {name} is duplicated; give each utterance once"
            )
    return values


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

_AUDIO = re.compile(r"\.(wav|flac|mp3|ogg|m4a|opus|sph)$")
_ENDINGS = re.compile(
    r"(?:\.(?:wav|flac|mp3|ogg|m4a|opus|sph|mp4|webm))?"
    r"(?:\.(?:json|jsonl|txt|srt|vtt|nbest|score|out|slf|lat|htk|fst))*(?:\.gz|\.xz)?$",
    re.IGNORECASE,
)


def identity_of(value: Any) -> str:
    """Return an id as text; of the path of an audio file, its name without folder and
    ending.

    Args:
        value: A text or a number.
    """
    text = str(value)
    if _AUDIO.search(text):
        return utterance_of(text)
    return text


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


def read_lines(
    path: Path, empty: bool = False, warnings: InputWarnings | None = None
) -> Iterator[str]:
    """Yield the lines of a text for training or scoring, without blanks around them.

    Args:
        path: A file, plain, gzip or xz; `-` is standard input.
        empty: Whether empty lines are wanted, too.
        warnings: Collects repairs. With None, for training, a text that is not UTF-8 is
            an error: invalid characters must not be learnt.

    Raises:
        UserError: The file cannot be read.
    """
    for line in Source(path, warnings or InputWarnings(refused=UTF8)).lines():
        text = line.strip()
        if text or empty:
            yield text
