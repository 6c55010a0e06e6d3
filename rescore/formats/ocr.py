"""Pages of optical character recognition: hOCR, ALTO and PAGE.

A line is an utterance. Its words, or their letters, may have alternatives: the line is
then a small lattice, of which the best texts are a list. The text that the recogniser
chose comes first, with the best score of its word.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rescore.formats.fields import TextOfUtterance
from rescore.formats.graphs import SIZE, Slot, best_texts
from rescore.formats.markup import Element, elements
from rescore.formats.rows import ListSize, Row, RowFormat, as_list
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import as_number, stem_of

LEAST = 1e-4
"""The least probability of an alternative: confidences are rounded to 0."""


class OcrReading(NamedTuple):
    """A text that a page gives for a line, a word or a letter."""

    text: str
    confidence: float | None = None
    """Between 0 and 1; None if the page has none."""


class _Line(NamedTuple):
    """What a page says of a line."""

    texts: Sequence[tuple[str, float]]
    """The different texts with their scores."""
    references: tuple[str, ...] = ()


class _Pages(RowFormat):
    """A format of pages.

    Args:
        mark: A pattern of the beginning of a file.
        is_line: Whether an element with a name and attributes is a line.
        read_line: Returns what a line says, with a number of texts at most.
    """

    Options = ListSize

    def __init__(
        self,
        mark: str,
        is_line: Callable[[str, Mapping[str, str]], bool],
        read_line: Callable[[Element, int], _Line],
    ) -> None:
        self._mark = re.compile(mark)
        self._is_line = is_line
        self._read_line = read_line

    def sniff(self, source: Source) -> bool:
        """Return whether the file, or the first page of a folder, has the mark."""
        if not source.is_folder:
            head = source.head
            return head.lstrip().startswith("<") and bool(self._mark.search(head))
        pages = (path for path in source.path.iterdir() if _PAGE.search(path.name))
        first = min(pages, default=None)
        return first is not None and first.is_file() and self.sniff(Source(first))

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield the best --nbest-size (100) different texts of each line.

        The score of a text is the sum of the logs of the confidences of its parts;
        alternatives without confidences have minus the log of their rank. The id of a
        text is the id of its line; if several files are read, the name of the file
        stands before it.

        Args:
            source: A page, several pages in one file, or a folder.
            options: The options of formats, with the number of texts.

        Raises:
            UserError: The file is no well-formed XML, or a confidence is no number.
        """
        size = options.of(ListSize).size or SIZE
        has_several = source.is_folder or options.several
        for file in source.files(lambda path: bool(_PAGE.search(path.name))):
            prefix = f"{stem_of(file)}-" if has_several else ""
            for name, place, line in self._lines(file, size):
                about = Row(prefix + name, place, references=line.references)
                about.is_plain = True
                rows = [about]
                for text, score in line.texts:
                    row = Row(prefix + name, place, text, total=score, is_plain=True)
                    rows.append(row)
                yield from as_list(rows)

    def texts(self, source: Source, role: str) -> Iterator[TextOfUtterance]:
        """Yield the reference of each line, or else its text: a page that people have
        corrected has a text for each line.

        Args:
            source: A page, or several pages in one file.
            role: `ref`; a page has no texts of another role.
        """
        if role != "ref":
            return
        for name, place, line in self._lines(source, size=1):
            texts = line.references or (line.texts[0][0],)
            yield TextOfUtterance(name, texts, place, {})

    def _lines(self, source: Source, size: int) -> Iterator[tuple[str, str, _Line]]:
        """Yield the id and the place of each line of a file, and what it says."""
        for number, line in enumerate(elements(source, self._is_line), 1):
            own = line.attributes.get("id") or line.attributes.get("ID")
            yield own or f"line-{number}", line.place, self._read_line(line, size)


_PAGE = re.compile(r"\.(?:hocr|html?|xml)(?:\.gz|\.xz)?$", re.IGNORECASE)


# --- alternatives --------------------------------------------------------------------


def _slot(readings: Iterable[OcrReading]) -> dict[str, float]:
    """Return readings of one place with their scores: logs of their confidences, or
    minus the logs of their ranks where one has no confidence. Of equal texts the best
    counts.
    """
    slot: dict[str, float] = {}
    known = list(readings)
    has_confidences = all(one.confidence is not None for one in known)
    for rank, one in enumerate(known, 1):
        score = -math.log(rank)
        if has_confidences:
            score = math.log(max(one.confidence or 0.0, LEAST))
        slot[one.text] = max(score, slot.get(one.text, score))
    return slot


def _word(
    chosen: str, letters: Sequence[Slot], others: Iterable[OcrReading], size: int
) -> Slot:
    """Return the texts of a word.

    Args:
        chosen: The text that the recogniser chose: it has the best score.
        letters: The alternatives of each letter; empty if letters have none.
        others: The readings of the whole word, with the chosen text.
        size: The number of texts, at most.
    """
    slot = _slot(others)
    if any(len(letter) > 1 for letter in letters):
        spelled = dict(best_texts(letters, size))
        for text in slot:  # readings without letters come last
            spelled.setdefault(text, min(spelled.values()))
        slot = spelled
    best = max(slot.values(), default=0.0)
    return {chosen: best, **{text: slot[text] for text in slot if text != chosen}}


def _of_words(words: Iterable[Slot], size: int, end: str = "") -> _Line:
    """Return a line of words, with blanks between them."""
    slots: list[Slot] = []
    for word in words:
        if slots:
            slots.append({" ": 0.0})
        slots.append(word)
    texts: dict[str, float] = {}
    for text, score in best_texts([*slots, {end: 0.0}], size):
        texts.setdefault(" ".join(text.split()), score)
    return _Line(list(texts.items()))


def _confidence(text: str | None, place: str, whole: float = 1.0) -> float | None:
    """Return a confidence between 0 and 1.

    Args:
        text: A number, as a file has it; None if the file has none.
        place: The file and line, for messages.
        whole: The number that means certain. Some programs write 96.1 where the format
            has 0.961.
    """
    if text is None:
        return None
    number = as_number(text, place, "confidence") / whole
    return number if number <= 1 else number / 100


# --- hOCR ----------------------------------------------------------------------------

_CHOICE = re.compile(r"\bx_confs\s+([^\s;]+)")
_WORD = re.compile(r"\bx_wconf\s+([^\s;]+)")
_HOCR_LINES = {"ocr_line", "ocr_header", "ocr_caption", "ocr_textfloat", "ocrx_line"}


def _classes(attributes: Mapping[str, str]) -> set[str]:
    """Return the classes of an element."""
    return set(attributes.get("class", "").split())


def _is(name: str) -> Callable[[Element], bool]:
    """Return a function that says whether an element has a class."""
    return lambda element: name in _classes(element.attributes)


def _title(element: Element, pattern: re.Pattern[str]) -> str | None:
    """Return a value in the title of an element."""
    match = pattern.search(element.attributes.get("title", ""))
    return match and match[1]


def _are_choices(element: Element) -> bool:
    """Return whether an element holds the choices of a letter, as Tesseract writes them
    with `lstm_choice_mode=2`.
    """
    return any(_title(child, _CHOICE) for child in element.children())


def _is_no_text(element: Element) -> bool:
    """Return whether an element is not part of a word's text: choices of a letter, or
    of each step in time (`lstm_choice_mode=1`).
    """
    return "ocr_symbol" in _classes(element.attributes) or _are_choices(element)


def _hocr_line(line: Element, size: int) -> _Line:
    """Return what a line of hOCR says."""
    words = line.within(_is("ocrx_word"))
    return _of_words([_hocr_word(word, size) for word in words or [line]], size)


def _hocr_word(word: Element, size: int) -> Slot:
    """Return the texts of a word of hOCR."""
    confidence = _confidence(_title(word, _WORD), word.place, 100)
    if any(map(_is("alternatives"), word.children())):
        return _with_alternatives(word, size)
    own = word.text(_is_no_text)
    if word.within(lambda one: "x_bboxes" in one.attributes.get("title", "")):
        own = "".join(own.split())  # a letter a line
    letters = []
    for group in word.within(_is_no_text):
        if _are_choices(group):
            letters.append(_slot(_choices(group)))
    chosen = _joined(own)
    return _word(chosen, letters, [OcrReading(chosen, confidence)], size)


def _with_alternatives(word: Element, size: int) -> Slot:
    """Return the texts of a word whose parts have alternatives, as the standard writes
    them: `<ins class="alt">` and `<del class="alt">`.
    """
    parts = []
    for part in word.parts:
        if isinstance(part, str):
            parts.append({part.strip(): 0.0})
        elif _is("alternatives")(part):
            others = [
                OcrReading(_joined(one.text())) for one in part.within(_is("alt"))
            ]
            parts.append(_slot(others or [OcrReading("")]))
        else:
            parts.append({_joined(part.text()): 0.0})
    chosen = "".join(next(iter(part)) for part in parts)
    return _word(chosen, parts, [OcrReading(chosen)], size)


def _choices(group: Element) -> Iterator[OcrReading]:
    """Yield the choices of a letter; the blank before a word is an empty text."""
    for choice in group.children():
        confidence = _confidence(_title(choice, _CHOICE), choice.place, 100)
        yield OcrReading(choice.text().strip(), confidence)


def _joined(text: str) -> str:
    """Return a text with single blanks."""
    return " ".join(text.split())


# --- ALTO ----------------------------------------------------------------------------


def _alto_line(line: Element, size: int) -> _Line:
    """Return what a line of ALTO says."""
    words = [_alto_word(word, size) for word in line.children("String")]
    hyphens = [hyphen.attributes.get("CONTENT", "") for hyphen in line.children("HYP")]
    return _of_words(words, size, "".join(hyphens))


def _alto_word(word: Element, size: int) -> Slot:
    """Return the texts of a word of ALTO."""
    chosen = _joined(word.attributes.get("CONTENT", ""))
    confidence = _confidence(word.attributes.get("WC"), word.place)
    readings = [OcrReading(chosen, confidence)]
    for other in word.children("ALTERNATIVE"):
        readings.append(OcrReading(_joined(other.text())))
    letters = []
    for glyph in word.children("Glyph"):
        letters.append(_slot(_variants(glyph)))
    return _word(chosen, letters, readings, size)


def _variants(glyph: Element) -> Iterator[OcrReading]:
    """Yield the letter of a glyph, and its variants."""
    own = glyph.attributes.get("CONTENT", "")
    confidence = _confidence(glyph.attributes.get("GC"), glyph.place)
    variants = []
    for variant in glyph.children("Variant"):
        text = variant.attributes.get("CONTENT") or variant.text().strip()
        of_variant = _confidence(variant.attributes.get("VC"), variant.place)
        variants.append(OcrReading(text, of_variant))
    if confidence is not None or own not in [one.text for one in variants]:
        yield OcrReading(own, confidence)
    yield from variants


# --- PAGE ----------------------------------------------------------------------------


def _page_line(line: Element, size: int) -> _Line:
    """Return what a line of PAGE says: texts of the whole line, or of its words.

    A text without confidence before texts with confidences is a reference, as OCR4all
    writes corrected lines.
    """
    readings = _readings(line)
    references: tuple[str, ...] = ()
    others = [one.confidence for one in readings[1:]]
    if others and readings[0].confidence is None and None not in others:
        references = (readings.pop(0).text,)
    words = line.children("Word")
    if len(readings) > 1 or not words:
        chosen = readings[0].text if readings else ""
        texts = _word(chosen, (), readings, size)
        return _Line(list(texts.items())[:size], references)
    read = _of_words([_page_word(word, size) for word in words], size)
    return read._replace(references=references)


def _page_word(word: Element, size: int) -> Slot:
    """Return the texts of a word of PAGE."""
    letters = [_slot(_readings(glyph)) for glyph in word.children("Glyph")]
    readings = _readings(word)
    chosen = "".join(next(iter(letter), "") for letter in letters)
    if readings:
        chosen = readings[0].text
    return _word(chosen, letters, readings, size)


def _readings(element: Element) -> list[OcrReading]:
    """Return the texts that stand directly in an element, by their index."""
    indexed = []
    for place, equivalent in enumerate(element.children("TextEquiv")):
        texts = [one.text() for one in equivalent.children("Unicode")]
        confidence = _confidence(equivalent.attributes.get("conf"), equivalent.place)
        index = as_number(
            equivalent.attributes.get("index", "0"), equivalent.place, "index"
        )
        indexed.append((index, place, OcrReading(_joined("".join(texts)), confidence)))
    return [reading for _, _, reading in sorted(indexed)]


def _is_text_line(name: str, attributes: Mapping[str, str]) -> bool:
    """Return whether an element is a line of ALTO or PAGE."""
    return name == "TextLine"


HOCR = _Pages(
    r"""class\s*=\s*["'](?:ocr_page|ocr_carea|ocr_line|ocrx_word)\b""",
    lambda name, attributes: not _HOCR_LINES.isdisjoint(_classes(attributes)),
    _hocr_line,
)
ALTO = _Pages(r"<(?:\w+:)?alto[\s>]", _is_text_line, _alto_line)
PAGE = _Pages(r"<(?:\w+:)?PcGts[\s>]", _is_text_line, _page_line)
