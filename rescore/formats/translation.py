"""Translation toolkits: logs of fairseq; n-best files of Moses and Marian; lines of
OpenNMT.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from rescore.columns import FIRST_PASS, SUM, Column
from rescore.errors import UserError, counted
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import (
    ListSize,
    as_number,
    grouped,
    portions,
    strip_markup,
    undo_bpe,
    undo_entities,
)
from rescore.formats.writing import check_holds, checked_number, line, opened
from rescore.nbest import Header, Hypothesis, NbestList
from rescore.options import Declared, option

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class FairseqOptions(Declared):
    lenpen: float = option(
        1.0,
        "Length penalty that fairseq used. With --s2s sum, rescore undoes this penalty"
        " in the scores of H lines.",
        low=-10,
        high=10,
    )


class _Fairseq:
    """Logs of fairseq-generate and fairseq-interactive: S-, T-, H-, D- and P- lines
    among logging noise.
    """

    Options = FairseqOptions
    translates = True

    def sniff(self, source: Source) -> bool:
        return re.search(r"^[SH]-\d+\t", source.head, re.MULTILINE) is not None

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Blocks come out of order and are returned in the order of their ids.

        H is log2 p / tokens ** lenpen. `s2s` is H in natural log, and `sum` is natural
        log p; tokens are the P values, or the H tokens and the end.
        """
        lenpen = options.of(FairseqOptions).lenpen
        lists: dict[int, NbestList] = {}
        for place, text in source.filled():
            match = _LINE.fullmatch(text)
            if match is None:
                continue
            kind, index, rest = match[1], int(match[2]), match[3] or ""
            nbest = lists.setdefault(index, NbestList(str(index), []))
            if kind == "S":
                nbest.source = undo_entities(undo_bpe(rest))
                continue
            if kind == "T":
                nbest.references = (strip_markup(rest.replace("<<unk>>", "<unk>")),)
                continue
            score, _, said = rest.partition("\t")
            mean = 0.0 if kind == "P" else as_number(score, place) * math.log(2)
            if kind == "H":
                scores = {
                    FIRST_PASS: mean,
                    SUM: mean * (len(said.split()) + 1) ** lenpen,
                }
                nbest.hypotheses.append(Hypothesis(strip_markup(said), scores))
                continue
            if not nbest.hypotheses:
                raise UserError(
                    f"{place}: a {kind}- line before the first H- line of its sentence"
                )
            last = nbest.hypotheses[-1]
            if kind == "P":
                last.scores[SUM] = (
                    last.scores[FIRST_PASS] * max(1, len(rest.split())) ** lenpen
                )
            elif mean != last.scores[FIRST_PASS]:
                raise UserError(
                    f"{place}: the D- line has another score than the H- line before it"
                )
            else:
                last.text = strip_markup(said)
        yield from (lists[index] for index in sorted(lists))


_LINE = re.compile(r"([STHDP])-(\d{1,18})(?:\t(.*))?", re.DOTALL)


class _Moses:
    """`id ||| hypothesis ||| features ||| total`, and perhaps alignments behind
    them.
    """

    translates = True

    def sniff(self, source: Source) -> bool:
        return _FIRST.match(source.head) is not None

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """The lines of one id stand together, and are read as a stream.

        `s2s` is the total. Features go into columns of their names; several values of a
        feature are numbered.
        """
        columns: dict[str, Column] = {}
        header = Header(columns=columns)

        def entry(line: str, place: str) -> tuple[str, NbestList]:
            name, hypothesis = _entry(line, place)
            columns.update(
                (key, _COMPONENT)
                for key in hypothesis.scores
                if key != FIRST_PASS and key not in columns
            )
            return name, NbestList(name, [hypothesis], header=header)

        yield from grouped(
            (entry(line, place) for place, line in source.filled()), source.name
        )

    def write(self, lists: Iterable[NbestList], path: str) -> None:
        """Each column but the first pass is a feature; bars in a text are escaped as
        the Moses tokeniser does.

        References (the first of each list) and sources are lines of files of their own:
        PATH.ref and PATH.src.
        """
        sources, references = list[str](), list[str]()
        holds = {"components"} if path == "-" else {"components", "reference", "source"}
        with opened(path) as file:
            for nbest in check_holds(lists, frozenset(holds), path, written=_escaped):
                number = checked_number(nbest, path)
                sources.append(nbest.source or "")
                references.append(next(iter(nbest.references), ""))
                for hypothesis in nbest.hypotheses:
                    features = [
                        f"{_feature(name, path)}= {score!r}"
                        for name, score in hypothesis.scores.items()
                        if name != FIRST_PASS
                    ]
                    text = _escaped(hypothesis.text)
                    cells = (
                        number,
                        text,
                        " ".join(features),
                        repr(hypothesis.scores[FIRST_PASS]),
                    )
                    file.write(" ||| ".join(cells) + "\n")
        for ending, what, texts in (
            ("src", "sources", sources),
            ("ref", "references", references),
        ):
            if path != "-" and any(texts):
                name = f"{path.removesuffix('.gz')}.{ending}"
                with opened(name) as file:
                    file.writelines(line(text) + "\n" for text in texts)
                log.info("%s: %s for --%s, a line per list", name, what, ending)


_COMPONENT = Column.component("moses")
_FIRST = re.compile(r"\s*\d+\s*\|\|\|")


def _entry(text: str, place: str) -> tuple[str, Hypothesis]:
    columns = [column.strip() for column in text.split("|||")]
    if len(columns) < 4:
        raise UserError(
            f"{place}: expected `id ||| hypothesis ||| features ||| total`, found"
            f" {counted(len(columns), 'column')}"
        )
    scores = {FIRST_PASS: as_number(columns[3], place), **_features(columns[2], place)}
    return columns[0], Hypothesis(strip_markup(columns[1]), scores)


def _features(text: str, place: str) -> dict[str, float]:
    """`LM0= -1 -2`, or `lm: -1` in older files; a value may also stand behind its name
    without a blank.
    """
    values: dict[str, list[float]] = {}
    name = "feature"
    for word in text.split():
        before, equals, number = (
            (word[:-1], ":", "") if word.endswith(":") else word.rpartition("=")
        )
        if equals and before:
            name = before
        if number or not equals:
            values.setdefault(name, []).append(
                as_number(number if before else word, place)
            )
    if FIRST_PASS in values:  # the total alone is the first pass
        raise UserError(
            f"{place}: the name of the feature {FIRST_PASS} is reserved; give it"
            " another name"
        )
    return {
        column if len(numbers) == 1 else f"{column}.{rank}": number
        for column, numbers in values.items()
        for rank, number in enumerate(numbers, 1)
    }


def _feature(name: str, path: str) -> str:
    """The name of a feature."""
    if not name or name.split() != [name] or "|||" in name:
        raise UserError(
            f"{path}: column {name!r} cannot be the name of a feature; rename it, or"
            " write .jsonl"
        )
    return name


def _escaped(text: str) -> str:
    return line(text).replace("&", "&amp;").replace("|", "&#124;")


class _Opennmt:
    """OpenNMT and CTranslate2: `-n_best N` writes N lines a sentence, without
    scores.
    """

    Options = ListSize
    translates = True

    def sniff(self, source: Source) -> bool:
        return False  # plain lines could be anything: --format says so

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """The order of the lines is the first pass."""
        size = options.of(ListSize).size
        if not size:
            raise UserError(
                f"{source.name}: cannot tell how many lines belong to a sentence; give"
                " --nbest-size N"
            )
        yield from portions(
            (Hypothesis(strip_markup(text)) for text in source.lines()),
            size,
            source.name,
        )


FAIRSEQ = _Fairseq()
MOSES = _Moses()
OPENNMT = _Opennmt()
