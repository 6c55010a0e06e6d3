"""Word lattices in HTK's Standard Lattice Format (SLF), which HTK and SRILM write; each
becomes an N-best list.

There is a file per utterance, or a folder of such files.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from itertools import islice
from typing import NamedTuple

from rescore.asr.formats.acoustic import ACOUSTIC, LANGUAGE, AcousticScale
from rescore.errors import UserError
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import ListSize, as_number, stem_of, strip_markup
from rescore.nbest import FIRST_PASS, Column, Header, Hypothesis, NbestList

SIZE = 100
"""Hypotheses of a list, by default."""
_LATTICE_FILE = re.compile(r"\.(?:slf|lat|htk)(?:\.gz|\.xz)?$")
_BEGINNING = re.compile(
    r"(?:V|VERSION|U|UTTERANCE|N|NODES|SUBLAT|base|lmname|lmscale|start)=\S"
)


@dataclass(frozen=True, kw_only=True)
class Options(ListSize, AcousticScale):
    """Options of lattices: the number of texts, and the scale of the acoustic
    scores.
    """


def sniff(source: Source) -> bool:
    for file in _files(source)[:1]:
        lines = (
            line
            for line in file.head.split("\n", 40)[:40]
            if line.strip() and not line.startswith("#")
        )
        return _BEGINNING.match(next(lines, "")) is not None
    return False


def _files(source: Source) -> list[Source]:
    """The source itself; of a folder the files with the endings of lattices, else all
    files.
    """
    named = (
        source.files(lambda path: _LATTICE_FILE.search(path.name) is not None)
        if source.is_folder
        else []
    )
    return named or source.files()


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """The best --nbest-size (100) different texts of each lattice.

    The score of a text is the score of its best path. The score of a path is the sum
    over its links of `acscale a + lmscale l + ngscale n + prscale r + ...`, with the
    scales of the header, and `wdpenalty` for each word.
    --acoustic-scale replaces `acscale`. Scores are natural logs unless the header has
    another `base`.
    """
    own = options.of(Options)
    for file in _files(source):
        for lattice in _lattices(file):
            yield lattice.nbest(stem_of(file), own)


_COLUMNS = {
    "a": (ACOUSTIC, "acscale", 1.0),
    "l": (LANGUAGE, "lmscale", 1.0),
    "n": ("ngram", "ngscale", 1.0),
    "r": ("pron", "prscale", 1.0),
    "ds": ("duration", "duscale", 0.0),
    **{f"x{number}": (f"x{number}", f"x{number}scale", 0.0) for number in range(1, 10)},
}
"""The column of each score, its scale in the header, and the default of the scale, as
in SRILM.
"""
_SHORT = {
    **{"VERSION": "V", "UTTERANCE": "U", "NODES": "N", "LINKS": "L"},
    **{
        "START": "S",
        "END": "E",
        "WORD": "W",
        "acoustic": "a",
        "language": "l",
        "ngram": "n",
    },
}
_AUDIO_ENDING = re.compile(r"\.(?:mfc|plp|fbk|fea|wav|flac|sph|lab|rec|lat|slf)$")
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
    """The lattices of a file: several, if it was joined from files."""
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
    """The fields NAME=VALUE of a line, by their short names."""
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
    """A character after a backslash; or bytes in octal, of HTK (three digits) or SRILM
    (a zero and three digits).
    """
    if match[2]:
        return match[2]
    escaped = bytes(int(digits, 8) & 0xFF for digits in match[1].split("\\")[1:])
    try:
        return escaped.decode()
    except UnicodeDecodeError:
        return escaped.decode("latin-1")


class _Link(NamedTuple):
    source: str
    target: str
    word: str
    """Empty for silence."""
    scores: dict[str, float]
    """The score of each column, as a natural log."""


class _Path(NamedTuple):
    """A path from the start of a lattice to a node."""

    score: float
    words: int
    """The number of its word sequence: paths with the same words have the same
    number.
    """
    link: _Link | None
    before: _Path | None
    """The path without its last link."""

    def links(self) -> list[_Link]:
        """The links from the start to the node."""
        links, path = [], self
        while path.link is not None and path.before is not None:
            links.append(path.link)
            path = path.before
        return links[::-1]


@dataclass(slots=True)
class _Lattice:
    """A lattice while it is read, and its best texts."""

    place: str
    """The name of the lattice in errors."""
    header: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    """The fields of each node, which apply to its links if the links lack them."""
    links: list[_Link] = field(default_factory=list)

    def link(self, fields: dict[str, str], place: str) -> None:
        """Add a link. Its word is its own, else that of its end node (with dir=b in the
        header, of its start node).
        """
        for name in ("S", "E"):
            if name not in fields:
                raise UserError(f"{place}: a link without {name}=; truncated?")
            if self.nodes and fields[name] not in self.nodes:
                raise UserError(
                    f"{place}: the link has node {fields[name]}, which is not in the"
                    " file; truncated?"
                )
        node = self.nodes.get(
            fields["S" if self.header.get("dir", "f").startswith("b") else "E"], {}
        )
        word = fields.get("W", _NULL)
        if word == _NULL:
            word = node.get("W", _NULL)
        scores = {
            _COLUMNS[name][0]: self._log(value, f"{place}: {name}")
            for name, value in (node | fields).items()
            if name in _COLUMNS
        }
        self.links.append(
            _Link(fields["S"], fields["E"], "" if word in _SILENT else word, scores)
        )

    def _log(self, text: str, place: str) -> float:
        """A score as natural log."""
        score = as_number(text, place)
        if math.isnan(score) or score == math.inf:
            raise UserError(f"{place}: score is {text}; decode it again or remove it")
        base = (
            as_number(self.header["base"], self.place, "base")
            if "base" in self.header
            else math.e
        )
        if not 1 < base < math.inf:
            raise UserError(f"{self.place}: base is {base:g}; expected more than 1")
        return score * math.log(base)

    def nbest(self, name: str, options: Options) -> NbestList:
        """The best different texts. The id is the header's name without folders and the
        ending of audio files, or else `name`.
        """
        self._check_size()
        utterance = _AUDIO_ENDING.sub("", self.header.get("U", "").rpartition("/")[2])
        columns = {ACOUSTIC, LANGUAGE}.union(*(link.scores for link in self.links))
        hypotheses: dict[str, Hypothesis] = {}
        for path in self._best(options.size or SIZE, options.acoustic_scale):
            links = path.links()
            text = strip_markup(" ".join(link.word for link in links if link.word))
            sums = {
                column: sum(link.scores.get(column, 0.0) for link in links)
                for column in sorted(columns)
            }
            # Of several spellings in subwords, the best counts.
            hypotheses.setdefault(
                text, Hypothesis(text, {FIRST_PASS: path.score, **sums})
            )
        parts = {column: Column.component("lattice") for column in sorted(columns)}
        return NbestList(
            utterance or name, list(hypotheses.values()), header=Header(columns=parts)
        )

    def _check_size(self) -> None:
        for name, what, number in (
            ("N", "nodes", len(self.nodes)),
            ("L", "links", len(self.links)),
        ):
            if (
                name in self.header
                and (number or name == "L")
                and self.header[name] != str(number)
            ):
                raise UserError(
                    f"{self.place}: the header announces {self.header[name]} {what},"
                    f" but there are {number}; truncated?"
                )
        if not self.links:
            raise UserError(f"{self.place}: no links; truncated?")

    def _best(self, size: int, acoustic_scale: float | None) -> list[_Path]:
        """The best paths with different words, the best first.

        Each node gets its `size` best paths with different words, from the nodes before
        it. This is exact: a path through a worse beginning has `size` better paths with
        other words beside it.
        """
        nodes = self._in_order()
        sources, targets = (
            {link.source for link in self.links},
            {link.target for link in self.links},
        )
        start = self._end("start", "into", sources - targets)
        end = self._end("end", "out of", targets - sources)
        scales = {
            column: (
                as_number(self.header[scale], self.place, scale)
                if scale in self.header
                else default
            )
            for column, scale, default in _COLUMNS.values()
        }
        if acoustic_scale is not None:
            scales[ACOUSTIC] = acoustic_scale
        penalty = (
            self._log(self.header["wdpenalty"], f"{self.place}: wdpenalty")
            if "wdpenalty" in self.header
            else 0.0
        )
        into: dict[str, list[tuple[_Link, float]]] = {}
        for link in self.links:
            score = sum(
                scales[column] * value
                for column, value in link.scores.items()
                if scales[column]
            )
            if score > -math.inf:
                into.setdefault(link.target, []).append(
                    (link, score + (penalty if link.word else 0.0))
                )
        sequences: dict[tuple[int, str], int] = {}
        best = {start: [_Path(0.0, 0, None, None)]}

        def extended(link: _Link, score: float) -> Iterator[_Path]:
            for path in best.get(link.source, []):
                words = path.words
                if link.word:
                    words = sequences.setdefault((words, link.word), len(sequences) + 1)
                yield _Path(path.score + score, words, link, path)

        for node in nodes:
            paths = heapq.merge(
                *(extended(*link) for link in into.get(node, [])),
                key=lambda path: -path.score,
            )
            if node != start:
                best[node] = list(islice(_different(paths), size))
        if not best.get(end):
            raise UserError(
                f"{self.place}: no path from the start to the end; is the file whole?"
            )
        return best[end]

    def _in_order(self) -> list[str]:
        """The nodes, each after all nodes that lead to it."""
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
        """The node that the header names, or the only node without links."""
        if name in self.header:
            return self.header[name]
        if len(candidates) > 1:
            raise UserError(
                f"{self.place}: {len(candidates)} nodes have no links {where} them"
                f" (first: {min(candidates)}), so the {name} is unknown; truncated?"
                f" Else add {name}=N to the header"
            )
        return candidates.pop()


def _different(paths: Iterator[_Path]) -> Iterator[_Path]:
    """The paths, the best of those with the same words."""
    seen = set()
    for path in paths:
        if path.words not in seen:
            seen.add(path.words)
            yield path
