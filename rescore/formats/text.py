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
# Escapes of the Moses tokeniser; the ampersand last, or `&amp;lt;` would be unescaped
# twice.
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
        # a blank parts two pieces; ▁ is the blank that was read
        text = text.replace(" ", "").replace("▁", " ")
    return " ".join(text.split())


def has_entities(text: str) -> bool:
    """Whether a text has escapes of the Moses tokeniser."""
    return "&" in text and any(entity in text for entity in _ENTITIES)


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


def strip_markup(text: str) -> str:
    """All of it: marks, subwords, entities."""
    return undo_entities(undo_bpe(undo_marks(text)))


def detokeniser(language: str) -> Callable[[str], str]:
    """Undoes the Moses tokeniser, by sacremoses."""
    try:
        from sacremoses import MosesDetokenizer
    except ImportError:
        raise UserError(
            "--detokenize needs sacremoses; install it with: pip install 'rescore[mt]'"
        ) from None
    tool = MosesDetokenizer(lang=language)
    return lambda text: str(tool.detokenize(text.split(), unescape=True))


def grouped(
    parts: Iterable[tuple[str | None, NbestList]],
    name: str,
    more_references: bool = False,
) -> Iterator[NbestList]:
    """Join neighbouring parts with the same id, as a stream.

    Args:
        parts: an id and a list with the contents of one line (a hypothesis, a
            reference, a source); or None and a whole list.
        name: of the file.
        more_references: whether references add up; else two different references are an
            error.
    """
    current: NbestList | None = None
    for identity, nbest in parts:
        if identity is not None and current is not None and current.id == identity:
            _join(current, nbest, name, more_references)
            continue
        if current is not None:
            yield current
        current = nbest if identity is not None else None
        if identity is None:
            yield nbest
    if current is not None:
        yield current


def _join(
    current: NbestList, nbest: NbestList, name: str, more_references: bool
) -> None:
    current.hypotheses += nbest.hypotheses
    new = tuple(text for text in nbest.references if text not in current.references)
    if new and current.references and not more_references:
        raise UserError(
            f"{name}: utterance {current.id}: its lines have different references"
            f" ({current.references[0][:40]!r}, {new[0][:40]!r}); give a single"
            " reference"
        )
    current.references += new
    if nbest.source is not None and nbest.source != current.source:
        if current.source is not None:
            raise UserError(
                f"{name}: utterance {current.id}: its lines have different sources;"
                " give a single source"
            )
        current.source = nbest.source


@dataclass(frozen=True, kw_only=True)
class ListSize(Declared):
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
    """Lists of `size` hypotheses each, numbered from 1: for files that do not say where
    a list ends.
    """
    nbest, number = NbestList("1", []), 0
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


def split_id(line: str) -> tuple[str, str]:
    """`utterance text` of a Kaldi-style line; only blanks and tabs part the two, and
    the text may be empty.
    """
    name, _, text = line.strip(" \t").replace("\t", " ").partition(" ")
    return name, text.strip(" ")


def are_numbers(ids: Sequence[str]) -> bool:
    """Whether ids are numbers in order, as of lists that have no ids: they may be
    paired with others by order.
    """
    if not ids or not (ids[0].isascii() and ids[0].isdecimal()) or len(ids[0]) > 9:
        return False
    return list(ids) == [
        str(number) for number in range(int(ids[0]), int(ids[0]) + len(ids))
    ]


def begin_with_ids(lines: Sequence[str], beside: Sequence[str] = ()) -> bool:
    """Whether all lines begin with different words that look like ids: each has a
    digit.

    Args:
        beside: another text whose lines begin with the same words. A hyphen or
            underscore between letters is then as good as a digit, and no id is a
            further word of these texts.
    """
    first, mark = first_words(lines), r"[\w.][-_]\w|\d" if beside else "[0-9]"
    words = (
        {word for line in (*lines, *beside) for word in split_id(line)[1].split()}
        if beside
        else ()
    )
    return len(set(first)) == len(first) > 0 and all(
        re.search(mark, word) and word not in words for word in first
    )


def split_trn(line: str) -> tuple[str, str] | None:
    """Text and id of a line of trn; None if no id in brackets is at its end."""
    match = re.search(r"(?:^|\s)\(([^\s()]+)\)\s*$", line)
    return (line[: match.start()], match[1]) if match else None


def first_words(lines: Sequence[str]) -> list[str]:
    return [split_id(line)[0] for line in lines if line.strip()]


def table(path: Path, warnings: InputWarnings | None = None) -> dict[str, str]:
    """The lines `utterance value` of a Kaldi-style file."""
    values: dict[str, str] = {}
    for place, line in Source(path, warnings).filled():
        name, value = split_id(line)
        if values.setdefault(name, value) != value:
            raise UserError(
                f"{place}: utterance {name} is duplicated; give each utterance once"
            )
    return values


def numbered(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    """What a folder has with names that match, in the order of the number in the first
    group.
    """
    entries = [
        (int(match[1]), path)
        for path in folder.iterdir()
        if (match := pattern.fullmatch(path.name))
    ]
    return [path for _, path in sorted(entries)]


def add_once(values: dict[str, T], name: str, value: T, place: str) -> None:
    """Set the value of an utterance that must have none yet."""
    if name in values:
        raise UserError(
            f"{place}: utterance {name} is duplicated; give each utterance once"
        )
    values[name] = value


def as_number(text: str, place: str, what: str = "score") -> float:
    """A number as a file has it.

    Args:
        what: a description of the number, for the message.
    """
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{place}: {what} is {text!r}, not a number") from None


def json_number(value: Any, place: str, what: str = "score") -> float:
    """A JSON number, or a text that holds a number."""
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


def literal_words(text: str, place: str) -> str:
    """The words of a list as Python prints it, `['A', 'B']`; or of a text."""
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


def identity_of(value: Any) -> str:
    """An id; of the path of an audio file its name without folder and ending."""
    text = str(value)
    return (
        utterance_of(text)
        if re.search(r"\.(wav|flac|mp3|ogg|m4a|opus|sph)$", text)
        else text
    )


_ENDINGS = re.compile(
    r"(?:\.(?:wav|flac|mp3|ogg|m4a|opus|sph|mp4|webm))?"
    r"(?:\.(?:json|jsonl|txt|srt|vtt|nbest|score|out|slf|lat|htk|fst))*(?:\.gz|\.xz)?$",
    re.IGNORECASE,
)


def utterance_of(path: str) -> str:
    """The name of a file without folder and known endings, which may hold dots: what
    its utterance is called.

    Example:
        >>> utterance_of("calls/talk.2024-01-01.wav.json")
        'talk.2024-01-01'
    """
    name = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return _ENDINGS.sub("", name) or name


def stem_of(source: Source) -> str:
    """What the utterance or recording of a file is called."""
    return "stdin" if source.is_stdin else utterance_of(source.path.name)


def read_lines(
    path: Path, empty: bool = False, warnings: InputWarnings | None = None
) -> Iterator[str]:
    """The lines of a text for training or scoring, without blanks around them.

    Args:
        path: a file, plain, gzip or xz; `-` is standard input.
        empty: whether empty lines are wanted, too.
        warnings: collects repairs. With None, for training, a text that is not UTF-8 is
            an error: invalid characters must not be learnt.
    """
    for line in Source(path, warnings or InputWarnings(refused=UTF8)).lines():
        if (line := line.strip()) or empty:
            yield line
