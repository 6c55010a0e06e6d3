"""Helpers of readers: from a toolkit's tokens to the text it meant a person to read; ids, numbers and times of words;
lines grouped into lists, and records of JSON documents."""

from __future__ import annotations

import ast
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError, counted
from rescore.files import loads
from rescore.formats.source import InputWarnings, Source, utterance_of
from rescore.nbest import Hypothesis, NbestList

T = TypeVar("T")
# Escapes of the Moses tokeniser; the ampersand last, or `&amp;lt;` would be unescaped twice.
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


UNSPACED_LETTERS = (
    "\u0e00-\u0e7f"  # Thai
    "\u3040-\u30ff\uff66-\uff9f"  # Hiragana and Katakana
    "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Chinese characters
)
"""Ranges of the letters of Chinese, Japanese and Thai, which put no blanks between words."""
_THAI_MARKS = "\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
_TIMED = re.compile(f"\\s*(?:[{UNSPACED_LETTERS}][{_THAI_MARKS}]*|[^{UNSPACED_LETTERS}\\s]+)")


def timed_pieces(text: str) -> list[str]:
    """The stretches of a text that have times of their own, with the blanks before them: words between blanks, and
    each letter of Chinese, Japanese and Thai.

    Example:
        >>> timed_pieces("a b 你好")
        ['a', ' b', ' 你', '好']
    """
    return _TIMED.findall(text.strip())


def piece_times(text: str, words: Sequence[tuple[str, float, float]]) -> tuple[tuple[float, float], ...]:
    """Start and end of each of a text's `timed_pieces`, given those of its words as a toolkit cuts them.

    Empty if the text has other words, or a word ends before it starts. The letters of a word share its
    time evenly.
    """
    pieces = [piece.strip() for piece in timed_pieces(text)]
    if not all(0 <= start <= end < math.inf for _, start, end in words):
        return ()
    if len(words) == len(pieces):
        return tuple((start, end) for _, start, end in words)
    spelled = ["".join(word.split()) for word, _, _ in words]
    if "".join(spelled).lower() != "".join(pieces).lower() or len("".join(spelled)) != len("".join(pieces)):
        return ()
    letters = [
        (start + (end - start) * at / len(word), start + (end - start) * (at + 1) / len(word))
        for word, (_, start, end) in zip(spelled, words, strict=True)
        for at in range(len(word))
    ]
    ends = list(accumulate(map(len, pieces)))
    return tuple((letters[to - len(piece)][0], letters[to - 1][1]) for piece, to in zip(pieces, ends, strict=True))


def spread(words: Sequence[str], span: tuple[float, float]) -> list[tuple[float, float]]:
    """The times of words that share a stretch of time by letters."""
    per_letter = (span[1] - span[0]) / max(1, sum(map(len, words)))
    return list(pairwise(accumulate((per_letter * len(word) for word in words), initial=span[0])))


WORD_LISTS = ("words", "Words", "result")
"""Keys of lists of words in the JSON of recognisers."""
TIMES = (("start", "end"), ("startTime", "endTime"), ("startOffset", "endOffset"))
"""Keys of a word's start and end, in seconds."""


def undo_bpe(text: str) -> str:
    """Join subwords: `@@ ` of subword-nmt, `▁` of SentencePiece."""
    if "@@" in text:
        text = re.sub(r"@@(?: |$)", "", text)
    if "▁" in text:
        text = text.replace(" ", "").replace("▁", " ")  # a blank parts two pieces; ▁ is the blank that was read
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


MOST_READINGS = 1024
DEEPEST = 20


def readings(text: str, place: str) -> tuple[str, ...]:
    """All texts that a reference of sclite such as `the { cat / cats } sat { @ / down }` stands for; @ is no word.

    Brackets that are not closed are words.

    Raises:
        UserError: there are more than `MOST_READINGS`; the message begins with `place`.

    Example:
        >>> readings("a { b / @ } c", "ref.trn")
        ('a b c', 'a c')
    """
    words = text.split()
    depths = list(accumulate((word == "{") - (word == "}") for word in words))
    if "{" not in words or min(depths) < 0 or depths[-1] or max(depths) > DEEPEST:
        return (text,)
    sequences, _ = _sequence(words, 0, place, 0)
    return tuple(dict.fromkeys(" ".join(words) for words in sequences))


def _sequence(words: list[str], at: int, place: str, depth: int) -> tuple[list[tuple[str, ...]], int]:
    """The texts of the words from `at` on, until a closing slash or bracket; and its place."""
    sequences: list[tuple[str, ...]] = [()]
    while at < len(words) and not (depth and words[at] in ("}", "/")):
        new: list[tuple[str, ...]] = [() if depth and words[at] == "@" else (words[at],)]
        if words[at] == "{":
            new = []
            while words[at] != "}":
                more, at = _sequence(words, at + 1, place, depth + 1)
                new += more
        at += 1
        if len(sequences) * len(new) > MOST_READINGS:
            raise UserError(f"{place}: its alternatives make more than {MOST_READINGS:,} readings; leave some out")
        sequences = [sequence + more for sequence in sequences for more in new]
    return sequences, at


def grouped(
    parts: Iterable[tuple[str | None, NbestList]], name: str, more_references: bool = False
) -> Iterator[NbestList]:
    """Join neighbouring parts with the same id, as a stream.

    Args:
        parts: an id and a list with the contents of one line (a hypothesis, a reference, a source); or None and a whole
            list.
        name: of the file.
        more_references: whether references add up; else two different references are an error.

    Raises:
        UserError: the lines of one list have different references or sources.
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


def _join(current: NbestList, nbest: NbestList, name: str, more_references: bool) -> None:
    current.hypotheses += nbest.hypotheses
    new = tuple(text for text in nbest.references if text not in current.references)
    if new and current.references and not more_references:
        raise UserError(
            f"{name}: utterance {current.id}: its lines have different references "
            f"({current.references[0][:40]!r}, {new[0][:40]!r}); give a single reference"
        )
    current.references += new
    if nbest.source is not None and nbest.source != current.source:
        if current.source is not None:
            raise UserError(f"{name}: utterance {current.id}: its lines have different sources; give a single source")
        current.source = nbest.source


def portions(hypotheses: Iterable[Hypothesis], size: int, name: str) -> Iterator[NbestList]:
    """Lists of `size` hypotheses each, numbered from 1: for files that do not say where a list ends.

    Raises:
        UserError: the last one has fewer.
    """
    nbest, number = NbestList("1", []), 0
    for number, hypothesis in enumerate(hypotheses, 1):
        nbest.hypotheses.append(hypothesis)
        if number % size == 0:
            yield nbest
            nbest = NbestList(str(number // size + 1), [])
    if nbest.hypotheses:
        raise UserError(f"{name}: {counted(number, 'line')} is not a multiple of {size}; give the right --nbest-size")


def split_id(line: str) -> tuple[str, str]:
    """`utterance text` of a Kaldi-style line; only blanks and tabs part the two, and the text may be empty."""
    name, _, text = line.strip(" \t").replace("\t", " ").partition(" ")
    return name, text.strip(" ")


def table(path: Path, warnings: InputWarnings | None = None) -> dict[str, str]:
    """The lines `utterance value` of a Kaldi-style file.

    Raises:
        UserError: the file cannot be read, or an utterance is duplicated with other values.
    """
    values: dict[str, str] = {}
    for place, line in Source(path, warnings).filled():
        name, value = split_id(line)
        if values.setdefault(name, value) != value:
            raise UserError(f"{place}: utterance {name} is duplicated; give each utterance once")
    return values


def numbered(folder: Path, pattern: re.Pattern[str]) -> list[Path]:
    """What a folder has with names that match, in the order of the number in the first group."""
    entries = [(int(match[1]), path) for path in folder.iterdir() if (match := pattern.fullmatch(path.name))]
    return [path for _, path in sorted(entries)]


def add_once(values: dict[str, T], name: str, value: T, place: str) -> None:
    """
    Raises:
        UserError: the utterance has a value already; the message begins with `place`.
    """
    if name in values:
        raise UserError(f"{place}: utterance {name} is duplicated; give each utterance once")
    values[name] = value


def as_number(text: str, place: str, what: str = "score") -> float:
    """A number as a file has it.

    Args:
        what: a description of the number, for the message.

    Raises:
        UserError: it is none; the message begins with `place`.
    """
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{place}: {what} is {text!r}, not a number") from None


def json_number(value: Any, place: str, what: str = "score") -> float:
    """A JSON number, or a text that holds a number.

    Raises:
        UserError: it is none, or too large for one; the message begins with `place`.
    """
    try:
        if isinstance(value, (bool, list, dict)):
            raise TypeError
        return float(value)
    except (TypeError, ValueError):
        raise UserError(f"{place}: {what} is {json.dumps(value)[:40]}, not a number") from None
    except OverflowError:
        raise UserError(f"{place}: {what} has {len(str(value))} digits; no score has") from None


def literal_words(text: str, place: str) -> str:
    """The words of a list as Python prints it, `['A', 'B']`; or of a text.

    Raises:
        UserError: it is none; the message begins with `place`.
    """
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        value = None
    if isinstance(value, str):
        return value
    if not isinstance(value, (list, tuple)) or any(not isinstance(word, str) for word in value):
        raise UserError(f"{place}: expected a list of words such as ['A', 'B'], found {text.strip()[:40]}")
    return " ".join(value)


def records_of(source: Source, text_keys: Sequence[str] = ()) -> Iterator[tuple[int, Any, str]]:
    """The records with their numbers and places; JSON Lines as a stream. `text_keys`: where they have hypotheses."""
    peek = source.peek
    if peek.root == "{" and peek.lines:
        number = 0
        for line_number, line in enumerate(source.lines(), 1):
            if line.strip():
                number += 1
                place = f"{source.name}: line {line_number}"
                value = loads(line, place, line=True)
                for record in _by_id(value, text_keys) or [value]:
                    yield number, record, place
        return
    document = loads(source.read_all(), source.name)
    if by_id := _by_id(document, text_keys):
        for number, value in enumerate(by_id, 1):
            yield number, value, f"{source.name}: utterance {value['id']}"
        return
    values = document if isinstance(document, list) else [document]
    for number, value in enumerate(values, 1):
        yield number, value, f"{source.name}: entry {number}" if isinstance(document, list) else source.name


def _by_id(document: Any, text_keys: Sequence[str]) -> list[dict[str, Any]]:
    """The records of `{"utt": {"reference": ..., "hypotheses": [...]}}` or `{"utt": ["text", ...]}`; [] of others."""
    if not isinstance(document, dict) or not document or set(document) & set(text_keys):
        return []
    if all(isinstance(value, list) and value and not isinstance(value[0], (int, float)) for value in document.values()):
        return [{"id": name, "hyps": value} for name, value in document.items()]
    if all(isinstance(value, dict) for value in document.values()):
        return [{**value, "id": name} for name, value in document.items()]
    return []


def first_of(value: Mapping[str, Any], keys: Sequence[str]) -> str | None:
    return next((key for key in keys if value.get(key) is not None), None)


def identity_of(value: Any) -> str:
    """An id; of the path of an audio file its name without folder and ending."""
    text = str(value)
    return utterance_of(text) if re.search(r"\.(wav|flac|mp3|ogg|m4a|opus|sph)$", text) else text


RECENT = 1 << 14


class IdSet:
    """A set of texts, kept as 64-bit hashes: the newest in a Python set, all others in sorted arrays.

    Two of a million different texts have the same hash with a probability of 3e-8.
    """

    def __init__(self) -> None:
        self._recent: set[int] = set()
        self._sorted: list[npt.NDArray[np.uint64]] = []

    @property
    def parts(self) -> list[int]:
        """The sizes of the Python set and of the sorted arrays."""
        return [len(self._recent), *map(len, self._sorted)]

    def add(self, text: str) -> bool:
        """Whether the text is new; it no longer is."""
        key = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
        if key in self._recent or any(_holds(values, key) for values in self._sorted):
            return False
        self._recent.add(key)
        if len(self._recent) >= RECENT:
            # Arrays of doubling sizes: few to look into, and each id is merged a few times only.
            merged = np.fromiter(self._recent, dtype=np.uint64, count=len(self._recent))
            while self._sorted and len(self._sorted[-1]) <= len(merged):
                merged = np.concatenate([merged, self._sorted.pop()])
            self._sorted.append(np.sort(merged))
            self._recent = set()
        return True


def _holds(values: npt.NDArray[np.uint64], key: int) -> bool:
    at = int(np.searchsorted(values, np.uint64(key)))
    return at < len(values) and int(values[at]) == key
