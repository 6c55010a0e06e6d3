"""HTK's and SRILM's Standard Lattice Format: a header, nodes (I=) and links (J=), with words on either.

The score of a path is the sum over its links of `acscale a + lmscale l + ngscale n + prscale r + ...`, with the scales
of the header, and `wdpenalty` for each word. Scores are natural logs unless the header has another `base`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from rescore.errors import UserError
from rescore.formats.lattice_paths import ACOUSTIC, LANGUAGE, Arcs, Lattice, as_score, is_silent, state_number
from rescore.formats.lines import as_number
from rescore.formats.source import AcousticScale, Source

_EXTRA = tuple(f"x{number}" for number in range(1, 10))
_COLUMNS = {
    "a": (ACOUSTIC, "acscale", 1.0),
    "l": (LANGUAGE, "lmscale", 1.0),
    "n": ("ngram", "ngscale", 1.0),
    "r": ("pron", "prscale", 1.0),
    "ds": ("duration", "duscale", 0.0),
    **{name: (name, f"{name}scale", 0.0) for name in _EXTRA},
}
"""The column of each score, its scale in the header, and the default of the scale, as in SRILM."""
_OF_NODES = frozenset(("W", "a", "r", "ds", *_EXTRA))
"""Fields of a node that apply to its links if the links lack them."""
_SHORT = {
    **{"VERSION": "V", "UTTERANCE": "U", "NODES": "N", "LINKS": "L"},
    **{"START": "S", "END": "E", "WORD": "W", "acoustic": "a", "language": "l", "ngram": "n"},
}
_BEGINNING = re.compile(r"(?:V|VERSION|U|UTTERANCE|N|NODES|SUBLAT|base|lmname|lmscale|start)=\S")
_AUDIO_ENDING = re.compile(r"\.(?:mfc|plp|fbk|fea|wav|flac|sph|lab|rec|lat|slf)$")
_ESCAPED = re.compile(r"((?:\\0?[0-7]{3})+)|\\(.)")
_NULL = "!NULL"


def begins(line: str) -> bool:
    """Whether a file with this first line (without comments) is SLF."""
    return _BEGINNING.match(line) is not None


def read(source: Source, name: str, options: AcousticScale) -> Iterator[tuple[str, Lattice]]:
    """The lattices of a file, each with its id: the utterance of its header, or else `name`."""
    current = _Slf(source.name)
    for place, line in source.filled():
        if line.startswith("#"):
            continue
        fields = _fields(line, place)
        if "SUBLAT" in fields or ("I" in fields and "L" in fields):
            raise UserError(f"{place}: sub-lattices cannot be read; expand the lattice first")
        if "I" in fields:
            current.nodes[fields["I"]] = {name: value for name, value in fields.items() if name in _OF_NODES}
        elif "J" in fields:
            current.link(fields, place)
        else:
            if len(current.arcs):  # the header of another lattice
                yield current.utterance or name, current.lattice(options)
                current = _Slf(place)
            current.header |= fields
    yield current.utterance or name, current.lattice(options)


def _fields(line: str, place: str) -> dict[str, str]:
    """The fields NAME=VALUE of a line, by their short names."""
    fields = {}
    for cell in line.split():
        name, equals, value = cell.partition("=")
        if not equals or not name:
            raise UserError(f"{place}: expected fields NAME=VALUE, but {cell[:40]!r} is none; truncated?")
        if value[:1] in ("'", '"') and len(value) > 2 and value[-1] == value[0]:
            value = value[1:-1]
        if "\\" in value:
            value = _ESCAPED.sub(_unescaped, value)
        fields[_SHORT.get(name, name)] = value
    return fields


def _unescaped(match: re.Match[str]) -> str:
    """A character after a backslash; or bytes in octal, of HTK (three digits) or SRILM (a zero and three digits)."""
    if match[2]:
        return match[2]
    escaped = bytes(int(digits, 8) & 0xFF for digits in match[1].split("\\")[1:])
    try:
        return escaped.decode()
    except UnicodeDecodeError:
        return escaped.decode("latin-1")


@dataclass(slots=True)
class _Slf:
    """A lattice while it is read."""

    place: str
    header: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    arcs: Arcs = field(default_factory=Arcs)

    @property
    def utterance(self) -> str:
        """The name in the header without folders and the ending of audio files; empty without a name."""
        return _AUDIO_ENDING.sub("", self.header.get("U", "").rpartition("/")[2])

    def link(self, fields: dict[str, str], place: str) -> None:
        """Add a link. Its word is its own, else that of its end node (with dir=b in the header, of its start node)."""
        for name in ("S", "E"):
            if name not in fields:
                raise UserError(f"{place}: a link without {name}=; truncated?")
            if self.nodes and fields[name] not in self.nodes:
                raise UserError(f"{place}: the link has node {fields[name]}, which is not in the file; truncated?")
        node = self.nodes.get(fields["S" if self.header.get("dir", "f").startswith("b") else "E"], {})
        word = fields.get("W", _NULL)
        if word == _NULL:
            word = node.get("W", _NULL)
        scores = {}
        for name, value in (node | fields).items():
            if name in _COLUMNS:
                scores[_COLUMNS[name][0]] = self._log(value, f"{place}: {name}")
        source, target = state_number(fields["S"], place), state_number(fields["E"], place)
        self.arcs.add(source, target, "" if is_silent(word) else word, scores)

    def _log(self, text: str, place: str) -> float:
        """A score as natural log."""
        score, base = as_score(text, place), self.header.get("base")
        if base is None:
            return score
        base_value = as_number(base, self.place, "base")
        if base_value == 0:  # probabilities
            if score < 0:
                raise UserError(f"{place}: probability is {text}, which is negative (the header has base=0)")
            return math.log(score) if score else -math.inf
        if not 1 < base_value < math.inf:
            raise UserError(f"{self.place}: base is {base}; expected 0 for probabilities, or more than 1")
        return score * math.log(base_value)

    def lattice(self, options: AcousticScale) -> Lattice:
        """The lattice, once all links are read."""
        for name, what, number in (("N", "nodes", len(self.nodes)), ("L", "links", len(self.arcs))):
            if name in self.header and (number or name == "L") and self.header[name] != str(number):
                raise UserError(
                    f"{self.place}: the header announces {self.header[name]} {what}, but there are {number}; truncated?"
                )
        if not len(self.arcs):
            raise UserError(f"{self.place}: no links; truncated?")
        self.arcs.require(ACOUSTIC, LANGUAGE)
        scales = {
            column: as_number(self.header[scale], self.place, scale) if scale in self.header else default
            for column, scale, default in _COLUMNS.values()
        }
        if options.acoustic_scale is not None:
            scales[ACOUSTIC] = options.acoustic_scale
        penalty = self.header.get("wdpenalty")
        word_score = self._log(penalty, f"{self.place}: wdpenalty") if penalty else 0.0
        sources, targets = set(self.arcs.sources), set(self.arcs.targets)
        start = self._end("start", "into", sources - targets)
        end = self._end("end", "out of", targets - sources)
        return Lattice(self.place, self.arcs, start, end, scales, word_score)

    def _end(self, name: str, where: str, candidates: set[int]) -> int:
        """The node that the header names, or the only node without links."""
        if name in self.header:
            return state_number(self.header[name], self.place)
        if not candidates:
            raise UserError(
                f"{self.place}: there is a cycle, as all nodes have links {where} them; lattices are acyclic"
            )
        if len(candidates) > 1:
            raise UserError(
                f"{self.place}: {len(candidates)} nodes have no links {where} them (first: {min(candidates)}), so the "
                f"{name} is unknown; truncated? Else add {name}=N to the header"
            )
        return candidates.pop()
