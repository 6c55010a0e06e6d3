"""Word lattices as text: HTK's and SRILM's SLF, Kaldi's archives, OpenFst's lines; each becomes an N-best list.

SLF and OpenFst have one file per utterance. Kaldi's archives come from `lattice-copy ark:- ark,t:-`, with compact
lattices or `--write-compact=false`. A folder holds any of these files. Lattices are read one after another.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rescore.asr.formats.acoustic import ACOUSTIC, LANGUAGE, AcousticScale
from rescore.asr.formats.lattice_paths import Arcs, Lattice, as_score, is_silent, state_number
from rescore.errors import UserError
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import ListSize, as_number, strip_markup, table
from rescore.nbest import FIRST_PASS, Column, Hypothesis, NbestList
from rescore.options import option

SIZE = 100
"""Hypotheses of a list, by default."""
SYMBOLS = "words.txt"
"""The symbol table beside the lattices, where --symbols names no other."""
_WEIGHT = re.compile(r"[-+]?(?:\d+\.?\d*(?:e[-+]?\d+)?|\.\d+|inf|infinity|nan)", re.IGNORECASE)
_LATTICE_FILE = re.compile(r"\.(?:slf|lat|htk)(?:\.gz|\.xz)?$")
_FINAL = -1
"""A state after all final ones: the weight of a final state is on an epsilon arc to it."""


def sniff(source: Source) -> bool:
    return any(_is_lattice(file.head) for file in _files(source)[:1])


def _is_lattice(head: str) -> bool:
    """Whether the text begins as SLF, as one of Kaldi's archives, or as lines of OpenFst."""
    lines = _filled(head)[:20]
    if not lines or _SLF_BEGINNING.match(lines[0]) or _is_binary(head):
        return bool(lines)
    if len(lines[0].split()) == 1:
        return len(lines) > 1 and _is_arc(lines[1])
    return _is_arc(lines[0]) and all(map(_is_arc_or_final, lines)) and not all(map(_is_nbest, lines))


def _filled(head: str) -> list[str]:
    """The lines at the beginning of a file, without empty lines and comments."""
    return [line for line in head.split("\n", 40)[:40] if line.strip() and not line.startswith("#")]


def _is_arc(line: str) -> bool:
    """Whether the cells of a line are two states, one or two labels, and perhaps a weight."""
    cells = line.split()
    states = 3 <= len(cells) <= 5 and cells[0].isdecimal() and cells[1].isdecimal()
    return states and (len(cells) < 5 or _is_weight(cells[4]))


def _is_arc_or_final(line: str) -> bool:
    cells = line.split()
    return (len(cells) < 3 and cells[0].isdecimal()) or _is_arc(line)


def _is_nbest(line: str) -> bool:
    """Whether this may be a line of SRILM's N-best lists: the third cell is the number of the words that follow."""
    cells = line.split()
    return len(cells) > 2 and cells[2] == str(len(cells) - 3)


def _is_weight(cell: str) -> bool:
    return all(_WEIGHT.fullmatch(part) for part in cell.split(",")[:2])


def _is_binary(head: str) -> bool:
    return head.partition(" ")[2].startswith("\0B")


def _files(source: Source) -> list[Source]:
    """The source itself; of a folder the files with the endings of lattices, else all files but the symbol table."""
    named = source.files(lambda path: _LATTICE_FILE.search(path.name) is not None) if source.is_folder else []
    return named or source.files(lambda path: path.name != SYMBOLS)


@dataclass(frozen=True, kw_only=True)
class Options(ListSize, AcousticScale):
    symbols: str | None = option(
        None,
        "Symbol table of Kaldi and OpenFst lattices that contain word numbers.  [default: words.txt beside the "
        "lattices]",
        metavar="FILE",
        reads=True,
    )


def read(source: Source, options: ReadOptions) -> Iterator[NbestList]:
    """The best --nbest-size (100) different texts of each lattice.

    `s2s` is the score of the toolkit. SLF: the scores of the links with the scales of the header, and the word penalty.
    Kaldi: minus the sum of graph cost and acoustic cost. OpenFst: minus the weight. --acoustic-scale replaces the scale
    of the acoustic scores.
    """
    for name, lattice in lattices(source, options):
        hypotheses: dict[str, Hypothesis] = {}
        for sequence in lattice.best(options.of(Options).size or SIZE):
            text = strip_markup(" ".join(sequence.words))  # of several spellings in subwords, the best counts
            hypotheses.setdefault(text, Hypothesis(text, {FIRST_PASS: sequence.score, **sequence.columns}))
        columns = next(iter(hypotheses.values())).scores.keys() - {FIRST_PASS}
        provenance = {column: Column.component("lattice") for column in sorted(columns)}
        yield NbestList(name, list(hypotheses.values()), provenance=provenance)


def fewest_errors(
    source: Source,
    options: ReadOptions,
    references: Mapping[str, Sequence[str]],
    normalise: Callable[[str], Sequence[str]],
) -> dict[str, tuple[int, int]]:
    """By id, the smallest edit distance between the reference of an utterance and any path, and the reference's words.

    Lattices of subwords are left out, and lattices without a reference.

    Args:
        references: texts by id; of several the nearest counts. normalise: the words of a text, as they are compared.
    """
    errors = {}
    for name, lattice in lattices(source, options):
        whole_words = not any("\u2581" in word or "@@" in word for word in lattice.vocabulary)
        if whole_words and references.get(name):
            texts = [normalise(text) for text in references[name]]
            errors[name] = min((lattice.fewest_errors(words, normalise), len(words)) for words in texts)
    return errors


def lattices(source: Source, options: ReadOptions) -> Iterator[tuple[str, Lattice]]:
    """The lattices of a file or a folder, each with the id of its utterance."""
    own = options.of(Options)
    for file in _files(source):
        lines = _filled(file.head)
        if _is_binary(file.head):
            raise UserError(f"{file.name}: a binary archive; write it as text with: lattice-copy ark:IN ark,t:OUT")
        if not lines:
            raise UserError(f"{file.name}: is empty")
        name = file.stem
        if _SLF_BEGINNING.match(lines[0]):
            yield from _slf_lattices(file, name, own)
        else:
            yield from _transducers(file, name, _Symbols(file, own), own)


class _Symbols:
    """The words of labels: as they stand, or by a symbol table where they are numbers."""

    def __init__(self, source: Source, options: Options) -> None:
        self._path = Path(options.symbols) if options.symbols else source.path.parent / SYMBOLS
        self._required = options.symbols is not None
        self._table: dict[str, str] | None = None

    def words(self, labels: set[str], place: str) -> dict[str, str]:
        """The word of each label; empty for epsilon and silence."""
        if self._required or all(map(str.isdecimal, labels)):
            words = {label: self._word(label, place) for label in labels}
        else:
            words = {label: label for label in labels}
        return {label: "" if is_silent(word) else word for label, word in words.items()}

    def _word(self, label: str, place: str) -> str:
        if label == "0":
            return ""
        if self._table is None:
            if not self._required and not self._path.is_file():
                raise UserError(f"{place}: words are numbers; give their symbol table with --symbols {SYMBOLS}")
            self._table = {number: word for word, number in table(self._path).items()}
            self._table |= {word: word for word in self._table.values()}  # texts that int2sym.pl wrote
        if label not in self._table:
            raise UserError(f"{place}: label {label[:40]} is not in {self._path}; give another --symbols")
        return self._table[label]


def _transducers(source: Source, name: str, symbols: _Symbols, options: Options) -> Iterator[tuple[str, Lattice]]:
    """The lattices of Kaldi's archive (an id, lines, an empty line, and so on), or the lattice of OpenFst's lines."""
    current: _Transducer | None = None
    for number, line in enumerate(source.lines(), 1):
        cells = line.split(None, 1)
        if current is None and cells:
            current = _Transducer(source.name)
            if len(line.split()) == 1:  # an id, since the first line of OpenFst's is an arc
                current = _Transducer(f"{source.name}: utterance {cells[0]}", cells[0])
                continue
        if current is not None and cells:
            current.lines.append((number, line))
        elif current is not None and current.name:
            yield current.name, current.lattice(source.name, symbols, options)
            current = None
    if current is not None:
        if current.name:
            raise UserError(f"{current.place}: no empty line after this lattice; is the file truncated?")
        yield name, current.lattice(source.name, symbols, options)


@dataclass(slots=True)
class _Transducer:
    """The lines of one lattice."""

    place: str
    name: str = ""
    """The id in one of Kaldi's archives."""
    lines: list[tuple[int, str]] = field(default_factory=list)

    def lattice(self, file: str, symbols: _Symbols, options: Options) -> Lattice:
        """The lattice that the lines describe; its start is the first state."""
        widths = {len(cells) for _, cells in self._cells()}
        if not widths <= {1, 2, 3, 4, 5}:
            number = next(number for number, cells in self._cells() if len(cells) > 5)
            raise UserError(f"{file}: line {number}: expected `start end label [label] [weight]` or `state [weight]`")
        # As fstcompile reads them: an acceptor has one label, all else has two, and the second is the word.
        acceptor = 5 not in widths and (3 in widths or any(_has_weight(cells) for _, cells in self._cells()))
        label = 2 if acceptor else 3
        if 5 in widths and 3 in widths:
            raise UserError(f"{self.place}: lines of 3 cells and of 5; truncated?")
        words = symbols.words({cells[label] for _, cells in self._cells() if len(cells) > 2}, self.place)
        arcs, finals = Arcs(), False
        for number, cells in self._cells():
            place, final = f"{file}: line {number}", len(cells) < 3
            weight = cells[1:] if final else cells[label + 1 :]
            scores = _scores(weight[0], place) if weight else {}
            state, target = state_number(cells[0], place), _FINAL if final else state_number(cells[1], place)
            arcs.add(state, target, "" if final else words[cells[label]], scores)
            finals |= final
        if not finals:
            raise UserError(f"{self.place}: no final state; truncated?")
        if FIRST_PASS in arcs.columns and len(arcs.columns) > 1:
            raise UserError(f"{self.place}: weights of one cost and of two; expected `graph,acoustic` or one cost")
        acoustic_scale = 1.0 if options.acoustic_scale is None else options.acoustic_scale
        scales = {FIRST_PASS: 1.0, LANGUAGE: 1.0, ACOUSTIC: acoustic_scale}
        return Lattice(self.place, arcs, arcs.sources[0], _FINAL, scales)

    def _cells(self) -> Iterator[tuple[int, list[str]]]:
        """The number and the cells of each line; kept as text, since cells take several times the memory."""
        return ((number, line.split()) for number, line in self.lines)


def _has_weight(cells: list[str]) -> bool:
    """Whether the fourth of four cells is a weight, and no label."""
    return len(cells) == 4 and not cells[3].isdecimal() and _is_weight(cells[3])


def _scores(weight: str, place: str) -> dict[str, float]:
    """The scores that a weight stands for: Kaldi's `graph,acoustic` with or without transition ids, or one cost."""
    costs = weight.split(",", 2)
    names = (FIRST_PASS,) if len(costs) == 1 else (LANGUAGE, ACOUSTIC)
    return {name: as_score(cost, place, -1.0) for name, cost in zip(names, costs, strict=False)}


_EXTRA = tuple(f"x{number}" for number in range(1, 10))
_SLF_COLUMNS = {
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
_SLF_BEGINNING = re.compile(r"(?:V|VERSION|U|UTTERANCE|N|NODES|SUBLAT|base|lmname|lmscale|start)=\S")
_AUDIO_ENDING = re.compile(r"\.(?:mfc|plp|fbk|fea|wav|flac|sph|lab|rec|lat|slf)$")
_ESCAPED = re.compile(r"((?:\\0?[0-7]{3})+)|\\(.)")
_NULL = "!NULL"


def _slf_lattices(source: Source, name: str, options: Options) -> Iterator[tuple[str, Lattice]]:
    """The lattices of an SLF file, each with its id: the utterance of its header, or else `name`.

    The score of a path is the sum over its links of `acscale a + lmscale l + ngscale n + prscale r + ...`, with the
    scales of the header, and `wdpenalty` for each word. Scores are natural logs unless the header has another `base`.
    """
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
            if name in _SLF_COLUMNS:
                scores[_SLF_COLUMNS[name][0]] = self._log(value, f"{place}: {name}")
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

    def lattice(self, options: Options) -> Lattice:
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
            for column, scale, default in _SLF_COLUMNS.values()
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
