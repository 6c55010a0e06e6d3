"""Toolkits of translation: logs of fairseq; n-best files of Moses and Marian; lines of
OpenNMT.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rescore.columns import FIRST_PASS, SUM
from rescore.errors import UserError, counted
from rescore.files import opened, unpacked_name
from rescore.formats.rows import ListSize, Row, RowFormat, as_list, in_portions
from rescore.formats.source import ReadOptions, Source
from rescore.formats.text import (
    NOTHING,
    Marks,
    as_number,
    duplicated,
    escaped,
    has_entities,
    read_line,
    split_trn,
    strip_markup,
)
from rescore.formats.writing import check_holds, checked_number, line, unmarked
from rescore.nbest import Hypothesis, NbestList, ranked_by
from rescore.options import Declared, option

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class FairseqOptions(Declared):
    """The options of fairseq's logs."""

    lenpen: float = option(
        1.0,
        "Length penalty that fairseq used. With --s2s sum, rescore undoes this penalty"
        " in the scores of H lines.",
        low=-10,
        high=10,
    )


# --- fairseq -------------------------------------------------------------------------

_LINE = re.compile(r"([STHDP])-(\d{1,18})(?:\t(.*))?", re.DOTALL)


class _Fairseq(RowFormat):
    """Logs of fairseq-generate and fairseq-interactive: S-, T-, H-, D- and P- lines
    among logging noise.
    """

    Options = FairseqOptions
    parts = ("*.txt*", "*.log*", "*.out*")
    translates = True
    has_means = True

    def sniff(self, source: Source) -> bool:
        """Return whether a line of the head is a source or a hypothesis."""
        return re.search(r"^[SH]-\d+\t", source.head, re.MULTILINE) is not None

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield the lines of each sentence in the order of the ids; a log has them out
        of order.

        An H- line has log2 p / tokens ** lenpen. `s2s` is this score in natural log,
        and `sum` is natural log p; tokens are the values of the P- line, or the tokens
        of the H- line and the end.

        Args:
            source: The log.
            options: The options of formats.

        Raises:
            UserError: A line is damaged, or stands before the H- line it belongs to.
        """
        lenpen = options.of(FairseqOptions).lenpen
        sentences: dict[int, list[Row]] = {}
        for place, text in source.filled():
            match = _LINE.fullmatch(text)
            if match is None:
                continue
            kind, index, rest = match[1], int(match[2]), match[3] or ""
            rows = sentences.setdefault(index, [])
            if kind == "S":
                _check_once(rows, place, rest)
                rows.append(Row(str(index), place, source=line(rest)))
            elif kind == "T":
                _check_once(rows, place)
                text = rest.replace("<<unk>>", "<unk>")
                rows.append(Row(str(index), place, references=(text,)))
            elif kind == "H":
                mean, text = _score_and_text(rest, place)
                tokens = len(text.split()) + 1  # and the end
                scores = {FIRST_PASS: mean, SUM: mean * tokens**lenpen}
                of_sentence = rows[0] if rows else Row(str(index), place)
                rows.append(Row(of_sentence.id, of_sentence.place, text, scores))
            else:
                _add_to_hypothesis(rows, kind, rest, lenpen, place)
        for index in sorted(sentences):
            yield from as_list(sentences.pop(index))


def _check_once(rows: Sequence[Row], place: str, source: str | None = None) -> None:
    """Check that a sentence has a single source and a single reference.

    Args:
        rows: The lines of the sentence before this line.
        place: The file and line, for the message.
        source: The source of an S- line; None for a T- line.

    Raises:
        UserError: The sentence has a source, or a reference. An S- line may stand twice
            before the hypotheses.
    """
    for row in rows:
        if source is None:
            is_another = bool(row.references)
        elif row.source is not None:
            is_another = row.source != line(source) or rows[-1].text is not None
        else:
            is_another = False
        if is_another:
            raise duplicated(row.id, place, rows[0].place)


def _add_to_hypothesis(
    rows: Sequence[Row], kind: str, rest: str, lenpen: float, place: str
) -> None:
    """Add the contents of a D- or P- line to the hypothesis before it.

    Args:
        rows: The lines of the sentence before this line.
        kind: The first letter of the line.
        rest: The contents behind the id.
        lenpen: The length penalty of the scores.
        place: The file and line, for messages.

    Raises:
        UserError: There is no hypothesis before it, or it has another score.
    """
    if not rows or rows[-1].text is None:
        raise UserError(
            f"{place}: a {kind}- line before the first H- line of its sentence"
        )
    last = rows[-1]
    mean = last.scores[FIRST_PASS]
    if kind == "P":
        last.scores[SUM] = mean * max(1, len(rest.split())) ** lenpen
        return
    detokenised, last.text = _score_and_text(rest, place)
    if detokenised != mean:
        raise UserError(
            f"{place}: the D- line has another score than the H- line before it"
        )


def _score_and_text(rest: str, place: str) -> tuple[float, str]:
    """Return the score of an H- or D- line, in natural log, and its text."""
    score, _, text = rest.partition("\t")
    return as_number(score, place) * math.log(2), text


# --- Moses ---------------------------------------------------------------------------

_FIRST = re.compile(r"\s*\d+\s*\|\|\|")


class _Moses(RowFormat):
    """`id ||| hypothesis ||| features ||| total`, and perhaps alignments behind
    them.
    """

    components = "moses"
    translates = True
    holds_choice = True
    """Whether the combined score is written beside the first pass."""

    def sniff(self, source: Source) -> bool:
        """Return whether the head begins with a number and bars."""
        return _FIRST.match(source.head) is not None

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield the hypotheses of the lists, whose lines stand together.

        `s2s` is the total. Features go into columns of their names; several values of a
        feature are numbered.

        Args:
            source: The file, which is read as a stream.
            options: The options of formats, of which Moses has none.

        Raises:
            UserError: A line has too few columns, or a score is no number.
        """
        for place, text in source.filled():
            cells = [cell.strip() for cell in text.split("|||")]
            if len(cells) == 3 and "=" in cells[2]:
                # marian-scorer --n-best adds its score to lists without totals
                features = list(_features(cells[2], place).values())
                if len(features) == 1:
                    yield Row(cells[0], place, cells[1], total=features[0])
                    continue
            if len(cells) < 4:
                raise UserError(
                    f"{place}: expected `id ||| hypothesis ||| features ||| total`,"
                    f" found {counted(len(cells), 'column')}"
                )
            name, hypothesis, features_cell, total, *beside = cells
            yield Row(
                name,
                place,
                hypothesis,
                _features(features_cell, place),
                total=as_number(total, place),
                alignment=" ||| ".join(beside),
            )

    def check(self, lists: Iterable[NbestList], path: str) -> None:
        """Check that lists can be written: ids are numbers, and columns can be names of
        features.

        Args:
            lists: The lists.
            path: The file, for the message.

        Raises:
            UserError: An id or a column cannot be written.
        """
        for nbest in lists:
            checked_number(nbest, path)
            for hypothesis in nbest.hypotheses:
                for name in hypothesis.scores:
                    _feature(name, path)

    def write(self, lists: Iterable[NbestList], path: str) -> None:
        """Write a line for each hypothesis: each column but the first pass is a
        feature, and bars in a text are escaped as the Moses tokeniser does.

        References (the first of each list) and sources are lines of files of their own:
        PATH.ref and PATH.src.

        Args:
            lists: The lists, whose ids are numbers.
            path: The file; `-` is standard output, without references and sources.

        Raises:
            UserError: An id or a column cannot be written.
        """
        sources: list[str | None] = []
        references: list[str | None] = []
        holds = {"components", "translations", "alignment"}
        if path != "-":
            holds |= {"reference", "source"}
        have_entities = False
        with opened(path) as file:
            for nbest in check_holds(lists, frozenset(holds), path):
                number = checked_number(nbest, path)
                sources.append(nbest.source)
                references.append(next(iter(nbest.references), None))
                for hypothesis in nbest.hypotheses:
                    file.write(_written(number, hypothesis, path))
                    have_entities |= has_entities(hypothesis.text)
        if path != "-":
            # readers leave entities as they are where hypotheses have some
            written = _unmarked_line
            if have_entities:
                written = line
                _warn_of_marks(path, [*references, *sources])
            _write_beside(path, "src", "sources", sources, written)
            _write_beside(path, "ref", "references", references, written)


def _features(text: str, place: str) -> dict[str, float]:
    """Return the features of a hypothesis by the names of their columns.

    They are written as `LM0= -1 -2`, or `lm: -1` in older files; a value may also stand
    behind its name without a blank.
    """
    values: dict[str, list[float]] = {}
    current = "feature"
    for word in text.split():
        name, value = _name_and_value(word)
        if name:
            current = name
        if value:
            values.setdefault(current, []).append(as_number(value, place))
    features = {}
    for name, numbers in values.items():
        for rank, number in enumerate(numbers, 1):
            column = name if len(numbers) == 1 else f"{name}.{rank}"
            features[column] = number
    return features


def _name_and_value(word: str) -> tuple[str, str]:
    """Return the name and the value in a word of features; each may be empty."""
    if word.endswith(":"):
        return word[:-1], ""
    name, _, value = word.rpartition("=")
    if not name and value:  # a number, or a wrong word such as `=1`
        return "", word
    return name, value


def _written(number: str, hypothesis: Hypothesis, path: str) -> str:
    """Return the line of a hypothesis."""
    total, columns = ranked_by(hypothesis)
    features = []
    for name, values in _by_feature(columns).items():
        features += [f"{_feature(name, path)}=", *map(repr, values)]
    cells = [number, _escaped(hypothesis.text), " ".join(features), repr(total)]
    if hypothesis.alignment:
        cells.append(line(hypothesis.alignment))
    return " ||| ".join(cells) + "\n"


def _by_feature(columns: Mapping[str, float]) -> dict[str, list[float]]:
    """Return the values of each feature; the columns NAME.1, NAME.2, ..., which
    `_features` makes of several values, are one feature again.
    """
    features: dict[str, list[float]] = {}
    for name, value in columns.items():
        stem, _, number = name.rpartition(".")
        if number == "1" and f"{stem}.2" in columns and stem not in columns:
            features[stem] = [value]
        elif stem in features and number == str(len(features[stem]) + 1):
            features[stem].append(value)
        else:
            features[name] = [value]
    return features


def _feature(name: str, path: str) -> str:
    """Return the name of a feature; a name with blanks or bars is an error."""
    if not name or name.split() != [name] or "|||" in name:
        raise UserError(
            f"{path}: column {name!r} cannot be the name of a feature; rename it, or"
            " write .jsonl"
        )
    return name


def _escaped(text: str) -> str:
    """Return a text as one line, with the escapes that keep bars apart."""
    bars_apart = line(text).replace("&", "&amp;").replace("|", "&#124;")
    if strip_markup(bars_apart) == line(text):
        return bars_apart
    return unmarked(text)


def _unmarked_line(text: str) -> str:
    """Return a text as a line of a file of references or sources."""
    return escaped(text, read_line)


def _warn_of_marks(path: str, texts: Sequence[str | None]) -> None:
    """Warn of references and sources with marks that cannot be escaped."""
    marked = 0
    for known in texts:
        text = line(known or "")
        if strip_markup(text, Marks.ENTITIES) != text or split_trn(text) is not None:
            marked += 1
    if marked:
        log.warning(
            "%s: toolkit marks in %s are not read again from the files beside it, since"
            " hypotheses have XML entities; write .jsonl",
            path,
            counted(marked, "text"),
        )


def _write_beside(
    path: str,
    ending: str,
    what: str,
    texts: Sequence[str | None],
    written: Callable[[str], str],
) -> None:
    """Write a line per list to a file beside the lists, if a list has such a text."""
    if all(text is None for text in texts):
        return
    lines = [written(text or "") for text in texts]
    if not any(lines):  # a file of empty lines is no text
        lines = [NOTHING] * len(lines)
    name = f"{unpacked_name(path)}.{ending}"
    with opened(name, output=path) as file:
        file.writelines(f"{text}\n" for text in lines)
    log.info("%s: %s for --%s, a line per list", name, what, ending)


# --- OpenNMT -------------------------------------------------------------------------


class _Opennmt(RowFormat):
    """OpenNMT and CTranslate2: `-n_best N` writes N lines a sentence, without scores,
    or with a score behind a tab (OpenNMT) or before bars (CTranslate2).
    """

    Options = ListSize
    translates = True

    def sniff(self, source: Source) -> bool:
        """Return False: plain lines could be anything, so --format names them."""
        return False

    def rows(self, source: Source, options: ReadOptions) -> Iterator[Row]:
        """Yield the hypotheses; without scores, the order of their lines is the first
        pass.

        Args:
            source: The file.
            options: The options of formats, with the number of lines of a sentence.

        Raises:
            UserError: The number is not set, or does not divide the number of lines.
        """
        size = options.of(ListSize).size
        if not size:
            raise UserError(
                f"{source.name}: cannot tell how many lines belong to a sentence; give"
                " --nbest-size N"
            )
        return in_portions(_scored_lines(source), size, source.name)


_SCORE = r"(?P<score>-?(?:\d+(?:\.\d*)?(?:e[-+]?\d+)?|inf))"
_WITH_SCORES = (
    re.compile(rf"(?P<text>.*)\t{_SCORE}", re.IGNORECASE),
    re.compile(rf"{_SCORE} \|\|\| ?(?P<text>.*)", re.IGNORECASE),
)
"""Lines with scores: of OpenNMT-py with `-with_score`, and of CTranslate2 with
`with_scores`.
"""


def _scored_lines(source: Source) -> Iterator[Row]:
    """Yield the hypothesis of each line, with its score if all lines at the beginning
    of the file have one.

    Raises:
        UserError: A later line has no score.
    """
    head = source.head.split("\n")
    whole_lines = [line.rstrip("\r") for line in head[:-1] or head]
    form = None
    for candidate in _WITH_SCORES:
        if whole_lines and all(map(candidate.fullmatch, whole_lines)):
            form = candidate
    for number, text in enumerate(source.lines(), 1):
        place = f"{source.name}: line {number}"
        if form is None:
            yield Row("", place, text)
            continue
        match = form.fullmatch(text)
        if match is None:
            raise UserError(f"{place}: no score, unlike the lines before it")
        yield Row("", place, match["text"], total=float(match["score"]))


FAIRSEQ = _Fairseq()
MOSES = _Moses()
OPENNMT = _Opennmt()
