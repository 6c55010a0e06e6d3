"""The elements of a file of XML that a format asks for, as a stream.

Nothing is fetched and nothing is expanded: a DOCTYPE that declares something, such as
an entity, is refused, and a DTD elsewhere is not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html.entities import html5
from xml.parsers import expat

from rescore.errors import UserError
from rescore.formats.source import Source

DEEPEST = 100
"""Elements within an element that is asked for, one in another, at most."""


@dataclass(slots=True)
class Element:
    """An element with all that is in it."""

    name: str
    """Its name without the prefix of a namespace."""
    attributes: Mapping[str, str]
    place: str
    """The file and line, for messages."""
    parts: list[Element | str] = field(default_factory=list)
    """Its elements and its text, in their order."""

    def children(self, name: str = "") -> list[Element]:
        """Return the elements that are directly in it.

        Args:
            name: Their name; empty for all.
        """
        found = [part for part in self.parts if isinstance(part, Element)]
        return [part for part in found if name in ("", part.name)]

    def within(self, is_wanted: Callable[[Element], bool]) -> list[Element]:
        """Return the elements in it, at any depth, but none in a returned element.

        Args:
            is_wanted: Whether an element is returned.
        """
        found = []
        for child in self.children():
            if is_wanted(child):
                found.append(child)
            else:
                found += child.within(is_wanted)
        return found

    def text(self, is_left_out: Callable[[Element], bool] = lambda one: False) -> str:
        """Return the text in it, at any depth.

        Args:
            is_left_out: Whether the text of an element does not count.
        """
        texts = []
        for part in self.parts:
            if isinstance(part, str):
                texts.append(part)
            elif not is_left_out(part):
                texts.append(part.text(is_left_out))
        return "".join(texts)


def elements(
    source: Source, is_wanted: Callable[[str, Mapping[str, str]], bool]
) -> Iterator[Element]:
    """Yield elements of a file, each when it is whole; none within another.

    Args:
        source: The file.
        is_wanted: Whether an element with a name and attributes is yielded.

    Raises:
        UserError: The file is no well-formed XML, or its DOCTYPE declares something.
    """
    builder = _Builder(source.name, is_wanted)
    begun = False
    try:
        for line in source.lines(crlf=True):
            begun = begun or bool(line.strip())
            if begun:  # nothing may stand before the declaration of XML
                builder.parser.Parse(f"{line}\n", False)
            yield from builder.taken()
        builder.parser.Parse("", True)
    except expat.ExpatError as error:
        raise UserError(
            f"{source.name}: line {error.lineno}: no well-formed XML"
            f" ({expat.ErrorString(error.code)}); truncated?"
        ) from None


class _Builder:
    """Makes elements of the events of a parser."""

    def __init__(
        self, name: str, is_wanted: Callable[[str, Mapping[str, str]], bool]
    ) -> None:
        self._name = name
        self._is_wanted = is_wanted
        self._open: list[Element] = []
        self._whole: list[Element] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text
        self.parser.SkippedEntityHandler = self._entity

    def taken(self) -> list[Element]:
        """Return the elements that became whole since the last call."""
        whole, self._whole = self._whole, []
        return whole

    def _place(self) -> str:
        return f"{self._name}: line {self.parser.CurrentLineNumber}"

    def _doctype(
        self, name: str, system: str | None, public: str | None, declares: int
    ) -> None:
        if declares:
            raise UserError(
                f"{self._place()}: the DOCTYPE declares entities or the like, which are"
                " not read; remove the declarations"
            )

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        name = name.rpartition(":")[2]
        if not self._open and not self._is_wanted(name, attributes):
            return
        element = Element(name, attributes, self._place())
        if self._open:
            self._open[-1].parts.append(element)
        self._open.append(element)
        if len(self._open) > DEEPEST:
            raise UserError(f"{self._place()}: more than {DEEPEST} elements are nested")

    def _end(self, name: str) -> None:
        if not self._open:
            return
        element = self._open.pop()
        if not self._open:
            self._whole.append(element)

    def _text(self, text: str) -> None:
        if self._open:
            self._open[-1].parts.append(text)

    def _entity(self, name: str, is_parameter: bool) -> None:
        """Read an entity of HTML, such as `&nbsp;`: its DTD is not read."""
        if not is_parameter:
            self._text(html5.get(f"{name};", "\ufffd"))
