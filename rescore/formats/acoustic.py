"""Lists with an acoustic and an LM score for each hypothesis: Kaldi's folders and
SRILM's files.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from rescore.columns import FIRST_PASS, free_name
from rescore.errors import UserError
from rescore.formats.rows import Joins, Row, RowFormat
from rescore.formats.source import HEAD, InputProblem, ReadOptions, Source
from rescore.formats.text import (
    as_number,
    numbered,
    split_id,
    table,
    utterance_of,
)
from rescore.formats.times import timed_pieces
from rescore.options import Declared, option

ACOUSTIC = "am"
"""The column of the acoustic score."""
LANGUAGE = "lm"
"""The column of the score of the language model (Kaldi's graph)."""
_WORDS = (
    "words_text",
    "words_text.gz",
    "words",
    "words.gz",
    "text",
    "text.gz",
    "nbest",
    "nbest.gz",
)
_ACOUSTIC_COSTS = ("acwt", "ac_cost")
_GRAPH_COSTS = ("lmwt.withlm", "lmwt", "lm_cost", "lmwt.nolm")
_NUMBERED = re.compile(r"(.+)-(\d{1,9})")
_ARCHIVES = re.compile(r"archives\.(\d+)")


@dataclass(frozen=True, kw_only=True)
class AcousticScale(Declared):
    """The option of formats with an acoustic and an LM score."""

    acoustic_scale: float | None = option(
        None,
        "First-pass score of Kaldi lists, SRILM lists and lattices: A times the"
        " acoustic score, plus the LM score.  [default: 1/12 for Kaldi, 1/8 for SRILM;"
        " lattices: acscale in the file, or 1]",
        metavar="A",
        low=0,
        high=1e6,
    )

    def or_default(self, default: float) -> float:
        """Return the scale, or the default of a toolkit where none is given."""
        return default if self.acoustic_scale is None else self.acoustic_scale


NO_GRAPH_COSTS = InputProblem(
    "has acoustic costs, but no file of graph costs beside it",
    "have acoustic costs, but no file of graph costs beside them",
    "; the acoustic score alone ranks (Kaldi's graph costs are lmwt.withlm or lmwt)",
)
NO_ACOUSTIC_COSTS = InputProblem(
    "has graph costs, but no file of acoustic costs beside it",
    "have graph costs, but no file of acoustic costs beside them",
    "; the graph score alone ranks (Kaldi's acoustic costs are acwt)",
)
KALDI_SCALE = 1 / 12
"""Kaldi's own default, --inv-acwt 12."""
SRILM_SCALE = 1 / 8
"""SRILM's own default, a language model weight of 8."""


# --- Kaldi ---------------------------------------------------------------------------


class _Kaldi(RowFormat):
    """A folder of archives in text form, as `nbest-to-linear` and
    `steps/rnnlmrescore.sh` leave it.

    `words_text` (or `text`) has the lines `utt-1 words`, `utt-2 words`, ...; `acwt` (or
    `ac_cost`) and `lmwt.withlm` (or `lmwt`, `lm_cost`, `lmwt.nolm`) the acoustic and
    the graph costs. Costs are negative logs: as scores they change sign. Any file may
    be gzipped.

    A file of such lines alone has no scores. It is detected where its lines are
    certainly hypotheses (`are_alternatives`), or where references tell.
    """

    Options = AcousticScale
    components = "kaldi"

    def sniff(self, source: Source) -> bool:
        if source.is_folder:
            return bool(self._parts(source.path))
        name, _ = split_id(source.head.partition("\n")[0])
        if not _NUMBERED.fullmatch(name):
            return False
        if source.is_regular and self.has_costs(source):
            return True
        return are_alternatives(numbered_texts(source))

    def may_be_lists(self, source: Source) -> bool:
        """Return whether the lines of a file may be hypotheses without costs."""
        return bool(numbered_texts(source))

    def are_lists_of(self, source: Source, ids: Collection[str]) -> bool | None:
        """Return whether the lines of a file without costs are hypotheses of known
        utterances: what stands before the numbers are ids of these.

        Args:
            source: The file.
            ids: The utterances, such as those with references.

        Returns:
            False if the whole ids of lines are known; None if neither is certain.
        """
        texts = numbered_texts(source)
        if not texts or (source.is_regular and self.has_costs(source)):
            return None
        for name, own in texts.items():
            if any(f"{name}-{rank}" in ids for rank in range(1, len(own) + 1)):
                return False
        return None if texts.keys().isdisjoint(ids) else True

    def _parts(self, path: Path) -> list[Path]:
        """Return the files of words in the folder itself, or in its archives.1,
        archives.2, ...
        """
        archives = numbered(path, _ARCHIVES)
        parts = []
        for folder in archives or [path]:
            if not archives and not self._costs(folder):
                continue
            texts = [folder / name for name in _WORDS if (folder / name).is_file()]
            parts += texts[:1]
        return parts

    def has_costs(self, words: Source) -> bool:
        """Return whether files of costs stand beside a file of words."""
        return bool(self._costs(words.path.parent))

    def _costs(self, folder: Path) -> dict[str, Path]:
        """Return the files of costs by their names without .gz."""
        files = {}
        for path in sorted(folder.iterdir()):
            name = path.name.removesuffix(".gz")
            is_known = name in _ACOUSTIC_COSTS or name in _GRAPH_COSTS
            if (is_known or name.startswith("lmwt.")) and path.is_file():
                files[name] = path
        return files

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield the hypotheses of each file of words.

        `s2s` is the graph score and the acoustic score times --acoustic-scale (1/12);
        both have columns, too.
        """
        scale = options.of(AcousticScale).or_default(KALDI_SCALE)
        texts = [source]
        if source.is_folder:
            texts = [Source(path, source.warnings) for path in self._parts(source.path)]
        for words in texts:
            costs = {}
            for name, file in self._costs(words.path.parent).items():
                costs[name] = table(file, source.warnings)
            _tell_absent(costs, words)
            yield from _with_costs(words, costs, scale)


def _tell_absent(costs: Collection[str], words: Source) -> None:
    """Warn if a file of words has acoustic costs alone, or graph costs alone.

    Args:
        costs: The names of the files of costs beside it.
        words: The texts.
    """
    has_acoustic = not set(_ACOUSTIC_COSTS).isdisjoint(costs)
    has_graph = not set(_GRAPH_COSTS).isdisjoint(costs)
    if has_acoustic and not has_graph:
        words.warnings.add("file", NO_GRAPH_COSTS, words.name)
    if has_graph and not has_acoustic:
        words.warnings.add("file", NO_ACOUSTIC_COSTS, words.name)


def _with_costs(
    words: Source, costs: dict[str, dict[str, str]], scale: float
) -> Iterator[Row]:
    """Yield the hypothesis of each line of a file.

    Args:
        words: The texts.
        costs: The costs of each file, by the first words of the lines.
        scale: The factor of the acoustic score.
    """
    utterance = ""
    ranks: set[str] = set()
    for place, line in words.filled():
        key, text = split_id(line)
        match = _NUMBERED.fullmatch(key)
        if not match:
            raise UserError(f"{place}: expected `utterance-1 words`, found {key!r}")
        scores = _components(key, words, costs)
        if scores:
            scores = _with_total(scores, scale)
        joins = Joins.SAME_ID
        if match[1] != utterance:
            utterance = match[1]
            joins = Joins.NEVER  # to the last list of another file
            ranks.clear()
        if match[2] in ranks:
            raise UserError(f"{place}: {key} is duplicated; give each line once")
        ranks.add(match[2])
        yield Row(utterance, place, text, scores, joins=joins)


def _components(
    key: str, words: Source, costs: dict[str, dict[str, str]]
) -> dict[str, float]:
    """Return the score of a line in each file of costs, by its column; `FIRST_PASS` is
    the graph score.
    """
    graph = next((name for name in _GRAPH_COSTS if name in costs), None)
    components = {}
    for name, values in costs.items():
        file = words.path.parent / name
        if key not in values:
            raise UserError(f"{file}: no cost for {key}, but {words.name} contains it")
        column = name.removeprefix("lmwt.")
        if name in _ACOUSTIC_COSTS:
            column = ACOUSTIC
        elif name == graph:
            column = FIRST_PASS
        elif column == FIRST_PASS:  # a name like `lmwt.s2s` is not the first pass
            column = free_name(column)
        cost = as_number(values[key].split(",")[0], f"{file}: {key}", "cost")
        components[column] = -cost
    return components


def _with_total(components: dict[str, float], scale: float) -> dict[str, float]:
    """Return scores with the first pass: the graph score and the scaled acoustic
    score.
    """
    others = dict(components)
    language = others.pop(FIRST_PASS, 0.0)
    acoustic = others.pop(ACOUSTIC, None)
    if acoustic is None:
        return {FIRST_PASS: language + 0.0, **others}  # never minus nothing
    total = language + scale * acoustic
    return {FIRST_PASS: total, ACOUSTIC: acoustic, LANGUAGE: language, **others}


# --- texts without costs -------------------------------------------------------------

_RANKED = re.compile(r"(.+)-([1-9]\d{0,8})")
"""The id of a hypothesis: numbers of utterances have leading zeros in most corpora."""


def numbered_texts(source: Source) -> dict[str, list[str]]:
    """Return the texts at the beginning of a file by utterance, if its lines may be
    hypotheses: `utt-1 words`, `utt-2 words`, ..., numbered from 1 without gaps.

    Args:
        source: The file.

    Returns:
        The texts of each utterance; empty if a line has another form, or no utterance
        has several texts.
    """
    lines = source.head.split("\n")
    if len(source.head) > HEAD // 8:  # the head may end within the last line
        lines.pop()
    texts: dict[str, list[str]] = {}
    utterance = ""
    for line in filter(str.strip, lines):
        key, text = split_id(line.rstrip("\r"))
        match = _RANKED.fullmatch(key)
        if match is None:
            return {}
        own = texts.setdefault(match[1], [])
        is_next = int(match[2]) == len(own) + 1
        if not is_next or (own and match[1] != utterance):
            return {}
        utterance = match[1]
        own.append(text)
    if all(len(own) == 1 for own in texts.values()):
        return {}
    return texts


def are_alternatives(texts: Mapping[str, Sequence[str]]) -> bool:
    """Return whether numbered texts are certainly hypotheses: most of several
    utterances have several texts, which all differ, and most of their words are those
    of the text before. The utterances of a recording have other words each, and
    recordings of one sentence have some equal texts.

    Args:
        texts: The texts of each utterance.
    """
    several = [own for own in texts.values() if len(own) > 1]
    if len(texts) < 2 or 2 * len(several) < len(texts):
        return False
    words = 0
    shared = 0
    for own in several:
        if len(set(own)) < len(own):
            return False
        for before, text in pairwise(own):
            first, second = set(timed_pieces(before)), set(timed_pieces(text))
            words += len(first) + len(second)
            shared += 2 * len(first & second)
    return 2 * shared > words


# --- SRILM ---------------------------------------------------------------------------

LN10 = math.log(10)
_LOG = r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?[ \t]+"
_OWN = re.compile(rf"(?!\d+\s+\d+\s){_LOG}{_LOG}\d+(?:\s|$)", re.IGNORECASE)
_DECIPHER = ("NBestList1.0", "NBestList2.0")
_SILENT = {"<s>", "</s>", "-pau-", "<pau>"}


class _Srilm(RowFormat):
    """SRILM N-best lists (nbest-format(5)): one file per utterance, named after it; or
    a folder of such files.

    The lines are `acoustic language words w1 w2 ...`, in logs of base 10.
    """

    Options = AcousticScale
    components = "srilm"

    def sniff(self, source: Source) -> bool:
        files = source.files()
        if not files:
            return False
        head = files[0].head
        return head.startswith(_DECIPHER) or _OWN.match(head) is not None

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield the hypotheses of each file, which is a list, with or without lines.

        `s2s` is the LM score and the acoustic score times --acoustic-scale (1/8), which
        have columns.
        """
        scale = options.of(AcousticScale).or_default(SRILM_SCALE)
        for file in source.files():
            name = utterance_of(file.path.name)
            yield Row(name, file.name, joins=Joins.NEVER)
            for place, line in file.filled():
                if line.startswith(_DECIPHER):
                    raise UserError(
                        f"{place}: Decipher's format is not read; convert it with"
                        " SRILM's rescore-decipher"
                    )
                cells = line.split()
                if len(cells) < 3:
                    raise UserError(
                        f"{place}: expected `acoustic language words w1 w2 ...`"
                    )
                scores = {FIRST_PASS: as_number(cells[1], place) * LN10}
                acoustic = as_number(cells[0], place) * LN10
                if acoustic:
                    scores = _with_total({**scores, ACOUSTIC: acoustic}, scale)
                text = " ".join(word for word in cells[3:] if word not in _SILENT)
                yield Row(name, place, text, scores)


KALDI = _Kaldi()
SRILM = _Srilm()
