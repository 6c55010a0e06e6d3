"""Word lattices in HTK's Standard Lattice Format (SLF), which HTK and SRILM write; each
becomes an N-best list.

There is a file per utterance, or a folder of such files.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

from rescore.columns import FIRST_PASS
from rescore.errors import UserError
from rescore.formats.acoustic import ACOUSTIC, LANGUAGE, AcousticScale
from rescore.formats.graphs import SIZE, Link, Path, best_paths
from rescore.formats.rows import ListSize, Row, RowFormat, as_list
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import as_number, stem_of, strip_markup

_LATTICE_FILE = re.compile(r"\.(?:slf|lat|htk)(?:\.gz|\.xz)?$")
_BEGINNING = re.compile(
    r"(?:V|VERSION|U|UTTERANCE|N|NODES|SUBLAT|base|lmname|lmscale|start)=\S"
)


@dataclass(frozen=True, kw_only=True)
class Options(ListSize, AcousticScale):
    """Options of lattices: the number of texts, and the scale of the acoustic
    scores.
    """


class _Lattices(RowFormat):
    """A lattice, several lattices in one file, or a folder of such files."""

    Options = Options
    components = "lattice"

    def sniff(self, source: Source) -> bool:
        """Return whether the first file begins as a lattice does."""
        files = _files(source)
        if not files:
            return False
        for line in files[0].head.split("\n", 40)[:40]:
            if line.strip() and not line.startswith("#"):
                return _BEGINNING.match(line) is not None
        return False

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield the best --nbest-size (100) different texts of each lattice.

        The score of a text is the score of its best path. The score of a path is the
        sum over its links of `acscale a + lmscale l + ngscale n + prscale r + ...`,
        with the scales of the header, and `wdpenalty` for each word.
        --acoustic-scale replaces `acscale`. Scores are natural logs unless the header
        has another `base`.

        Args:
            source: A lattice, several lattices in one file, or a folder.
            options: The options of lattices.

        Raises:
            UserError: A lattice is damaged.
        """
        own = options.of(Options)
        for file in _files(source):
            for lattice in _lattices(file):
                yield from lattice.rows(stem_of(file), own)


def _files(source: Source) -> list[Source]:
    """Return the source itself; of a folder the files with the endings of lattices,
    else all files.
    """
    lattices = []
    if source.is_folder:
        lattices = source.files(lambda path: bool(_LATTICE_FILE.search(path.name)))
    return lattices or source.files()


_COLUMNS = {
    "a": (ACOUSTIC, "acscale", 1.0),
    "l": (LANGUAGE, "lmscale", 1.0),
    "n": ("ngram", "ngscale", 1.0),
    "r": ("pron", "prscale", 1.0),
    "ds": ("duration", "duscale", 0.0),
}
for _number in range(1, 10):
    _COLUMNS[f"x{_number}"] = (f"x{_number}", f"x{_number}scale", 0.0)
"""The column of each score, its scale in the header, and the default of the scale, as
in SRILM.
"""
_SHORT = {
    "VERSION": "V",
    "UTTERANCE": "U",
    "NODES": "N",
    "LINKS": "L",
    "START": "S",
    "END": "E",
    "WORD": "W",
    "acoustic": "a",
    "language": "l",
    "ngram": "n",
}
"""The short names of fields that may be spelled out."""
_ESCAPED = re.compile(r"((?:\\0?[0-7]{3})+)|\\(.)")
_NULL = "!NULL"
_SILENT = frozenset(
    (
        _NULL,
        "<eps>",
        "<epsilon>",
        "<s>",
        "</s>",
        "!SENT_START",
        "!SENT_END",
        "!SIL",
        "<sil>",
        "<SIL>",
        "-pau-",
    )
)
"""Words that are not part of the text."""


def _lattices(source: Source) -> Iterator[_Lattice]:
    """Yield the lattices of a file: several, if it was joined from files."""
    current = _Lattice(source.name)
    for place, line in source.filled():
        if line.startswith("#"):
            continue
        fields = _fields(line, place)
        if "SUBLAT" in fields or ("I" in fields and "L" in fields):
            raise UserError(
                f"{place}: sub-lattices cannot be read; expand the lattice first"
            )
        if "I" in fields:
            current.nodes[fields["I"]] = fields
        elif "J" in fields:
            current.link(fields, place)
        else:
            if current.links:  # the header of another lattice
                yield current
                current = _Lattice(place)
            current.header |= fields
    yield current


def _fields(line: str, place: str) -> dict[str, str]:
    """Return the fields NAME=VALUE of a line, by their short names."""
    fields = {}
    for cell in line.split():
        name, equals, value = cell.partition("=")
        if not equals or not name:
            raise UserError(
                f"{place}: expected fields NAME=VALUE, but {cell[:40]!r} is none;"
                " truncated?"
            )
        if value[:1] in ("'", '"') and len(value) > 2 and value[-1] == value[0]:
            value = value[1:-1]
        fields[_SHORT.get(name, name)] = _ESCAPED.sub(_unescaped, value)
    return fields


def _unescaped(match: re.Match[str]) -> str:
    """Return the character after a backslash; or the text of bytes in octal, of HTK
    (three digits) or SRILM (a zero and three digits).
    """
    if match[2]:
        return match[2]
    escaped = bytes(int(digits, 8) & 0xFF for digits in match[1].split("\\")[1:])
    try:
        return escaped.decode()
    except UnicodeDecodeError:
        return escaped.decode("latin-1")


@dataclass(slots=True)
class _Lattice:
    """A lattice while it is read, and its best texts."""

    place: str
    """The name of the lattice in errors."""
    header: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    """The fields of each node, which apply to its links if the links lack them."""
    links: list[Link] = field(default_factory=list)

    def link(self, fields: dict[str, str], place: str) -> None:
        """Add a link.

        Its word is its own, or else the word of its end node (with dir=b in the header,
        of its start node).

        Args:
            fields: The fields of the link.
            place: The file and the line, for errors.
        """
        for name in ("S", "E"):
            if name not in fields:
                raise UserError(f"{place}: a link without {name}=; truncated?")
            if self.nodes and fields[name] not in self.nodes:
                raise UserError(
                    f"{place}: the link has node {fields[name]}, which is not in the"
                    " file; truncated?"
                )
        backward = self.header.get("dir", "f").startswith("b")
        node = self.nodes.get(fields["S" if backward else "E"], {})
        word = fields.get("W", _NULL)
        if word == _NULL:
            word = node.get("W", _NULL)
        if word in _SILENT:
            word = ""
        scores = {}
        for name, value in (node | fields).items():
            if name in _COLUMNS:
                column, _, _ = _COLUMNS[name]
                scores[column] = self._log(value, f"{place}: {name}")
        self.links.append(Link(fields["S"], fields["E"], word, scores))

    def _setting(self, name: str, default: float) -> float:
        """Return a number of the header."""
        if name in self.header:
            return as_number(self.header[name], self.place, name)
        return default

    def _log(self, text: str, place: str) -> float:
        """Return a score as natural log."""
        score = as_number(text, place)
        if math.isnan(score) or score == math.inf:
            raise UserError(f"{place}: score is {text}; decode it again or remove it")
        base = self._setting("base", math.e)
        if not 1 < base < math.inf:
            raise UserError(f"{self.place}: base is {base:g}; expected more than 1")
        return score * math.log(base)

    def rows(self, name: str, options: Options) -> list[Row]:
        """Return the best different texts.

        The id is the name in the header, as it stands.

        Args:
            name: The id if the header has no name.
            options: The number of texts, and the scale of the acoustic scores.
        """
        self._check_size()
        utterance = self.header.get("U", "") or name
        columns = {ACOUSTIC, LANGUAGE}
        for link in self.links:
            columns.update(link.scores)
        texts: dict[str, Row] = {}
        for path in self._best(options.size or SIZE, options.acoustic_scale):
            links = path.links()
            text = strip_markup(" ".join(link.word for link in links if link.word))
            scores = {FIRST_PASS: path.score}
            for column in sorted(columns):
                scores[column] = sum(link.scores.get(column, 0.0) for link in links)
            row = Row(utterance, self.place, text, scores, is_plain=True)
            texts.setdefault(text, row)  # of spellings in subwords, the best counts
        return as_list(texts.values())

    def _check_size(self) -> None:
        """Check that no node and no link is missing."""
        if self.nodes:  # they may be named by links alone
            self._check_number("N", "nodes", len(self.nodes))
        self._check_number("L", "links", len(self.links))
        if not self.links:
            raise UserError(f"{self.place}: no links; truncated?")

    def _check_number(self, name: str, what: str, number: int) -> None:
        """Check a number that the header may announce."""
        announced = self.header.get(name, str(number))
        if announced != str(number):
            raise UserError(
                f"{self.place}: the header announces {announced} {what}, but there are"
                f" {number}; truncated?"
            )

    def _best(self, size: int, acoustic_scale: float | None) -> list[Path]:
        """Return the best paths with different words, the best first.

        Args:
            size: The number of paths, at most.
            acoustic_scale: The factor of acoustic scores; None for the header's.
        """
        nodes = self._in_order()
        sources = {link.source for link in self.links}
        targets = {link.target for link in self.links}
        start = self._end("start", "into", sources - targets)
        end = self._end("end", "out of", targets - sources)
        into = self._scored_links(acoustic_scale)
        paths = best_paths(nodes, into, start, end, size)
        if not paths:
            raise UserError(
                f"{self.place}: no path from the start to the end; is the file whole?"
            )
        return paths

    def _scored_links(
        self, acoustic_scale: float | None
    ) -> dict[str, list[tuple[Link, float]]]:
        """Return the possible links into each node, with their weighted scores."""
        scales = {}
        for column, scale, default in _COLUMNS.values():
            scales[column] = self._setting(scale, default)
        if acoustic_scale is not None:
            scales[ACOUSTIC] = acoustic_scale
        penalty = 0.0
        if "wdpenalty" in self.header:
            place = f"{self.place}: wdpenalty"
            penalty = self._log(self.header["wdpenalty"], place)
        into: dict[str, list[tuple[Link, float]]] = {}
        for link in self.links:
            score = 0.0
            for column, value in link.scores.items():
                if scales[column]:
                    score += scales[column] * value
            if score > -math.inf:
                score += penalty if link.word else 0.0
                into.setdefault(link.target, []).append((link, score))
        return into

    def _in_order(self) -> list[str]:
        """Return the nodes, each after all nodes that lead to it."""
        graph = TopologicalSorter[str]()
        for link in self.links:
            graph.add(link.target, link.source)
        try:
            return list(graph.static_order())
        except CycleError as error:
            node = error.args[1][1]
            raise UserError(
                f"{self.place}: there is a cycle through node {node}; lattices are"
                " acyclic"
            ) from None

    def _end(self, name: str, where: str, candidates: set[str]) -> str:
        """Return the node that the header names, or the only node without links.

        Args:
            name: The name of the field: start or end.
            where: The direction of the links that the node lacks, for errors.
            candidates: The nodes without these links.
        """
        if name in self.header:
            return self.header[name]
        if len(candidates) > 1:
            raise UserError(
                f"{self.place}: {len(candidates)} nodes have no links {where} them"
                f" (first: {min(candidates)}), so the {name} is unknown; truncated?"
                f" Else add {name}=N to the header"
            )
        return candidates.pop()


LATTICE = _Lattices()
