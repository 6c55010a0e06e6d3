"""Texts of utterances: references, and 1-best outputs with them. Kaldi text, sclite
trn, plain lines; references also from lists and manifests.

If either side has ids, ids must match; only lists and references without ids are paired
by order.
"""

from __future__ import annotations

import csv
import io
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rescore.columns import FIRST_PASS
from rescore.errors import UserError, counted
from rescore.formats.records import records_of
from rescore.formats.source import InputWarnings, ReadOptions, Source, sniff
from rescore.formats.text import (
    add_once,
    are_numbers,
    begin_with_ids,
    first_words,
    has_entities,
    identity_of,
    split_id,
    split_trn,
    undo_entities,
    undo_marks,
)
from rescore.nbest import Header, Hypothesis, NbestList
from rescore.parts import FORMATS

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class References:
    """Files of references: with several, each utterance has one of each."""

    paths: tuple[str, ...]
    format: str | None = None
    """`kaldi`, `trn`, `plain`; None detects the format from the contents."""


def read_references(
    references: str | Path | References | Sequence[TextFile],
    ids: Sequence[str],
    escaped: bool = True,
) -> dict[str, tuple[str, ...]]:
    """The references of each utterance in `ids`, from all files.

    N-best lists (and NeMo manifests) give their own references. A text file whose lines
    all end in `(id)` is trn; one whose lines begin with ids is Kaldi text; else it is
    plain, one line an utterance, in the order of `ids`.

    Args:
        escaped: whether XML entities of the Moses tokeniser are undone, as in
            hypotheses.
    """
    per_file = [file.of(ids, escaped) for file in open_references(references)]
    return {
        name: tuple(text for by_id in per_file for text in by_id[name]) for name in ids
    }


def open_references(
    references: str | Path | References | Sequence[TextFile],
    warnings: InputWarnings | None = None,
) -> list[TextFile]:
    """The files of references, each read once: a pipe cannot be read again. Open ones
    are returned as they are.
    """
    if isinstance(references, Sequence) and not isinstance(references, str):
        return list(references)
    if not isinstance(references, References):
        references = References((str(references),))
    return [
        TextFile(Source(path, warnings), references.format) for path in references.paths
    ]


def with_references(
    lists: list[NbestList],
    references: str | Path | References | Sequence[TextFile],
    warnings: InputWarnings,
    allow_missing: bool,
) -> list[NbestList]:
    """The lists with references from files, whose utterances must be these lists."""
    ids = [nbest.id for nbest in lists]
    files = open_references(references, warnings)
    # Readers undo the tokeniser's entities; if hypotheses still have entities, both
    # sides are left as they are.
    escaped = not any(
        has_entities(hypothesis.text)
        for nbest in lists
        for hypothesis in nbest.hypotheses
    )
    texts = read_references(files, ids, escaped)
    _check_left_out(files, ids, "list", "lists", allow_missing)
    return [replace(nbest, references=texts[nbest.id]) for nbest in lists]


def with_sources(
    lists: list[NbestList], path: Path, strict: bool, allow_missing: bool
) -> list[NbestList]:
    """Return the lists with the source texts of a file.

    Args:
        lists: The lists.
        path: Plain lines in the order of the lists, Kaldi text, CSV or TSV with the
            columns id and src, or lists in JSON.
        strict: Whether oddities of the file are errors.
        allow_missing: Whether source texts of utterances without a list are only
            reported; otherwise they are an error.

    Raises:
        UserError: A list has no source text, or the file has source texts of other
            lists.
    """
    warnings = InputWarnings(strict)
    try:
        kind = "plain" if path.suffix in (".csv", ".tsv") else None
        file = TextFile(Source(path, warnings), kind, sources=True)
        if file.format:
            file.format = None
            file.by_id = _sources_of_table(file.lines, path)
        texts = with_references(lists, [file], warnings, allow_missing)
    except UserError as error:
        raise UserError(str(error).replace("no reference", "no source text")) from None
    warnings.report()
    return [
        replace(nbest, source=text.references[0])
        for nbest, text in zip(lists, texts, strict=True)
    ]


def _sources_of_table(lines: list[str], path: Path) -> dict[str, tuple[str, ...]]:
    """Return the source texts of a CSV or TSV with the columns id and src."""
    delimiter = "," if path.suffix == ".csv" else "\t"
    # one text, since a quoted cell may have several lines
    text = io.StringIO("\n".join(lines))
    rows = list(csv.DictReader(text, delimiter=delimiter))
    if not rows or not {"id", "src"} <= rows[0].keys():
        raise UserError(
            f"{path}: the first line names no columns id and src; name them so"
        )
    return {row["id"]: (row["src"],) for row in rows}


def _check_left_out(
    files: Sequence[TextFile], ids: Sequence[str], what: str, wanted: str, allowed: bool
) -> None:
    """Report the utterances of the files that are not among `ids`: an error if that is
    not allowed.
    """
    for file in files:
        if absent := file.left_out(ids):
            count = counted(len(absent) + len(ids), "utterance")
            message = f"{file.path}: no {what} for {len(absent):,} of its {count}"
            if not allowed:
                raise UserError(
                    f"{message}, first {absent[0]}; give {wanted} of the whole set, or"
                    " --allow-missing"
                )
            log.warning(
                "%s (first: %s); these utterances are not measured", message, absent[0]
            )


class TextFile:
    """A file of texts that is read once: references, or a 1-best output."""

    def __init__(
        self,
        source: Source,
        format_name: str | None = None,
        output: bool = False,
        sources: bool = False,
    ) -> None:
        """
        Args:
            output: the file has 1-best texts: each line is a text, even if it looks
                like JSON.
            sources: the file has source texts: of lists these are read, not the
                references.
        """
        if source.is_folder:
            raise UserError(
                f"{source.name}: is a folder; give the file with the texts, usually"
                f" {source.path / 'text'}"
            )
        self.path, self.format = source.name, format_name
        if format_name and not (output or sources) and source.peek.first:
            raise UserError(
                f"{self.path}: is JSON, not lines of text; leave out --ref-format"
            )
        kind = sniff(source) if format_name is None and not output else None
        # such as a log of fairseq
        translated = kind is not None and getattr(FORMATS[kind], "translates", False)
        self.of_lists = (
            format_name is None
            and not output
            and (bool(source.peek.root) or translated)
        )
        self.lines = [] if self.of_lists else list(source.lines())
        if not self.of_lists and not (
            self.lines if output else any(line.strip() for line in self.lines)
        ):
            raise UserError(f"{self.path}: is empty")
        self.of_translations = self.of_lists and (
            translated or "src" in source.peek.keys
        )
        self.by_id = (
            _of_records(source, kind or "native", sources) if self.of_lists else None
        )
        """The texts of a file that surely has ids: of lists and of trn."""
        if format_name in (None, "trn") and not self.of_lists:
            self.by_id = _trn_texts(self.lines, self.path)
        if format_name == "trn" and not self.by_id:
            raise UserError(f"{self.path}: not trn: a line does not end in (id)")
        if format_name is None and not output and is_stm(self.lines):
            raise UserError(
                f"{self.path}: is stm, for whole recordings (rescore eval --whole);"
                " give references as trn or Kaldi text, or --ref-format if this is"
                " no stm"
            )
        self.first = first_words(self.lines)
        """The first words of the lines that are not empty."""
        self.has_ids = self.by_id is None and begin_with_ids(self.lines)
        """Whether the lines begin with words that look like ids."""

    @property
    def ids(self) -> list[str]:
        """The ids of the file, in its order, as far as that is certain without the ids
        of lists.
        """
        if self.by_id is not None:
            return list(self.by_id)
        return (
            self.first
            if self.format == "kaldi" or (self.format is None and self.has_ids)
            else []
        )

    def kaldi_texts(self) -> dict[str, tuple[str, ...]]:
        texts: dict[str, tuple[str, ...]] = {}
        for number, line in enumerate(self.lines, 1):
            if line.strip():
                name, text = split_id(line)
                add_once(texts, name, (text,), f"{self.path}: line {number}")
        return texts

    def numbered_texts(self) -> dict[str, tuple[str, ...]]:
        return {str(number): (line,) for number, line in enumerate(self.lines, 1)}

    def of(
        self, ids: Sequence[str], escaped: bool = True
    ) -> dict[str, tuple[str, ...]]:
        """The references of each utterance."""
        by_id = self._named(ids)
        if by_id is None and self._is_kaldi(ids):
            by_id = self.kaldi_texts()
        values = (
            [(line,) for line in self.lines] if by_id is None else list(by_id.values())
        )
        if by_id is None and len(values) != len(ids):
            raise UserError(
                f"{self.path}: {counted(len(self.lines), 'line')} for"
                f" {counted(len(ids), 'utterance')}, and the lines do not begin or end"
                f" with ids such as {ids[0] if ids else '?'}; give Kaldi text, trn, or"
                " one line an utterance"
            )
        in_order = (
            self.of_lists
            and len(values) == len(ids)
            and are_numbers(ids)
            and not set(ids) & set(self.ids)
        )
        # in_order: a manifest beside lists that are numbered
        if by_id is None or in_order:
            by_id = dict(zip(ids, values, strict=True))
        if missing := [name for name in ids if name not in by_id]:
            raise UserError(
                f"{self.path}: no reference for utterance {missing[0]} ({len(missing)}"
                f" of {len(ids)} missing; its first is {next(iter(by_id), 'none')})"
            )
        return {
            name: (
                by_id[name]
                if self.of_lists
                else self._readings(name, by_id[name][0], escaped)
            )
            for name in ids
        }

    def _named(self, ids: Sequence[str]) -> dict[str, tuple[str, ...]] | None:
        """The texts of a file with certain ids. Case does not count in the ids of trn,
        as in sclite.
        """
        if self.of_lists or self.by_id is None:
            return self.by_id
        known, folded = set(ids), {name.lower(): name for name in ids}
        names = {
            name: name if name in known else folded.get(name.lower(), name)
            for name in self.by_id
        }
        unique = len(set(names.values())) == len(names)
        return {
            names[name] if unique else name: texts for name, texts in self.by_id.items()
        }

    def _readings(self, name: str, text: str, escaped: bool) -> tuple[str, ...]:
        text = undo_marks(undo_entities(text) if escaped else text)
        return (
            (text,)
            if self.by_id is None
            else readings(text, f"{self.path}: utterance {name}")
        )

    def left_out(self, ids: Sequence[str]) -> list[str]:
        """The utterances of the file, in its order, that are not among `ids`; empty if
        it has no ids.
        """
        names = (
            self.first
            if self.by_id is None and self._is_kaldi(ids)
            else list(self._named(ids) or ())
        )
        known = set(ids)
        return (
            []
            if are_numbers(ids) and not known & set(names)
            else [name for name in names if name not in known]
        )

    def _is_kaldi(self, ids: Sequence[str]) -> bool:
        """Whether the lines begin with the ids of the lists."""
        if self.format is not None:
            return self.format == "kaldi"
        known = set(ids)
        if not are_numbers(ids):
            # a part of numbered lists: sentences may begin with a number, too
            if all(map(str.isdecimal, ids)):
                return 2 * len(known.intersection(self.first)) > len(known)
            return self.has_ids or not known.isdisjoint(self.first)
        if self.has_ids and not all(map(str.isdecimal, self.first)):
            raise UserError(
                f"{self.path}: its lines begin with ids such as {self.first[0]}, but"
                " the lists have numbers only; give lines without ids in their order,"
                " or --ref-format plain if these are words"
            )
        return sorted(word for word in self.first if word in known) == sorted(ids)


def _of_records(source: Source, kind: str, sources: bool) -> dict[str, tuple[str, ...]]:
    """The references or source texts of lists of a format, or the references of a
    manifest without hypotheses.
    """
    keys = set(source.peek.keys)
    if (
        not sources
        and {"audio_filepath", "text"} <= keys
        and not {"beams", "pred_text"} & keys
    ):
        by_id = _of_manifest(source)
    else:
        # some formats need a size to read hypotheses
        lists = FORMATS[kind].read(source, ReadOptions(size=1))
        if sources:
            by_id = {
                nbest.id: (nbest.source,) for nbest in lists if nbest.source is not None
            }
        else:
            by_id = {nbest.id: nbest.references for nbest in lists if nbest.references}
    if not by_id:
        raise UserError(f"{source.name}: no references in it")
    return by_id


def _of_manifest(source: Source) -> dict[str, tuple[str, ...]]:
    """The texts of a NeMo manifest, as training reads it, by their ids or the names of
    their audio files.
    """
    texts: dict[str, tuple[str, ...]] = {}
    for _, value, place in records_of(source):
        known = value if isinstance(value, dict) else {}
        audio, text = known.get("audio_filepath"), known.get("text")
        if not isinstance(audio, str) or not isinstance(text, str):
            raise UserError(f"{place}: expected an object with audio_filepath and text")
        add_once(
            texts, identity_of(known.get("id", audio)), (" ".join(text.split()),), place
        )
    return texts


def _trn_texts(lines: Sequence[str], path: str) -> dict[str, tuple[str, ...]] | None:
    """Texts by id; `;;` begins a comment. None if a line does not end in an id in
    brackets, or without texts.
    """
    texts: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith(";;"):
            continue
        if (parts := split_trn(line)) is None:
            return None
        add_once(texts, parts[1], (parts[0].strip(),), f"{path}: line {number}")
    return texts or None


STM = re.compile(
    r"\s*(\S+)\s+(\S+)\s+(\S+)\s+(\d+(?:\.\d+)?)\s+(\d+(?:\.\d+)?)(?:\s+<[^>]*>(?=\s|$))?((?:\s.*)?)"
)
"""A segment of a recording: file, channel, speaker, start, end, and a text."""


def is_stm(lines: Sequence[str]) -> bool:
    """Whether the lines are those of an STM."""
    filled = [line for line in lines if line.strip() and not line.startswith(";;")]
    return bool(filled) and all(map(STM.fullmatch, filled))


MOST_READINGS = 1024
_ALTERNATIVES = re.compile(r"(?<![^\s{/])\{\s*([^{}\s][^{}]*)\}")
"""Alternatives without further alternatives in them. As in sclite, only the opening
bracket needs a blank before it.
"""
AS_LETTERS, _BACK = (
    str.maketrans("{}/", "\ufdd0\ufdd1\ufdd2"),
    str.maketrans("\ufdd0\ufdd1\ufdd2", "{}/"),
)
"""Words of a CTM have no marks of alternatives: other characters, which no text has,
stand for these in `readings`.
"""


def readings(text: str, place: str) -> tuple[str, ...]:
    """All texts that a text of sclite such as `the { cat / cats } sat {@/down}` stands
    for; @ is no word.

    Brackets that are not closed are words. The texts with the fewest @ come first,
    since sclite prefers them to others that are as close.

    Example:
        >>> readings("a { b /@ } c", "ref.trn")
        ('a b c', 'a c')
    """
    texts = [text]
    while any(matches := list(map(_ALTERNATIVES.search, texts))):
        parts = zip(texts, matches, strict=True)
        texts = list(
            dict.fromkeys(
                reading for part in parts for reading in _without_one_bracket(*part)
            )
        )
        if len(texts) > MOST_READINGS:
            raise UserError(
                f"{place}: its alternatives make more than {MOST_READINGS:,} readings;"
                " leave some out"
            )
    words = sorted((text.split() for text in texts), key=lambda words: words.count("@"))
    return tuple(
        dict.fromkeys(
            " ".join(word for word in each if word != "@").translate(_BACK)
            for each in words
        )
    )


def first_reading(text: str) -> str:
    """The reading with the first of all alternatives, even if that is @: the choice
    where nothing else decides.
    """
    while match := _ALTERNATIVES.search(text):
        text = next(_without_one_bracket(text, match))
    return " ".join(word for word in text.split() if word != "@")


def _without_one_bracket(text: str, match: re.Match[str] | None) -> Iterator[str]:
    """The text with each of the alternatives that were matched, which hold no further
    alternatives.
    """
    if match is None:
        yield text
        return
    for alternative in match[1].split("/"):
        yield " ".join(
            [
                *text[: match.start()].split(),
                *alternative.split(),
                *text[match.end() :].split(),
            ]
        )


def cheapest(text: str, references: Sequence[str], place: str) -> str:
    """The reading of an output that sclite aligns with a reference at the least cost;
    the first of equals.
    """
    if len(choices := readings(text, place)) == 1:
        return choices[0]
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    words, expected = (
        [each.lower().split() for each in texts] for texts in (choices, references)
    )
    costs = cdist(
        expected,
        words,
        scorer=Levenshtein.distance,
        scorer_kwargs={"weights": (3, 3, 4)},
    )
    return choices[int(costs.argmin()) % len(choices)]


class _Text:
    """1-best texts, which need references beside them: no N-best lists."""

    def sniff(self, source: Source) -> bool:
        return False

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        raise UserError(
            f"{source.name}: --format text is for 1-best texts with --ref, in `rescore"
            " eval`"
        )


BEST = _Text()


def read_best(
    source: Source, files: Sequence[TextFile], allow_missing: bool = False
) -> list[NbestList]:
    """A 1-best text with its references, as lists of one hypothesis.

    Both are trn, or Kaldi text with the same ids, or plain with the same number of
    lines.
    """
    output = TextFile(source, output=True)
    hypotheses = _with_ids(output, files[0]) or output.numbered_texts()
    _check_left_out(
        files, list(hypotheses), f"text in {output.path}", "an output", allow_missing
    )
    texts = read_references(files, list(hypotheses))
    header = Header(translates=files[0].of_translations)
    lists = [
        replace(nbest, references=texts[nbest.id], header=header)
        for nbest in best_lists(hypotheses)
    ]
    for nbest in lists if output.by_id is not None else ():
        text = cheapest(
            nbest.hypotheses[0].text,
            nbest.references,
            f"{output.path}: utterance {nbest.id}",
        )
        nbest.hypotheses = [replace(nbest.hypotheses[0], text=text)]
    return lists


def best_lists(texts: Mapping[str, tuple[str, ...]]) -> list[NbestList]:
    """1-best texts by id as lists of one hypothesis."""
    return [
        NbestList(
            name, [Hypothesis(undo_marks(undo_entities(text)), {FIRST_PASS: 0.0})]
        )
        for name, (text,) in texts.items()
    ]


def _with_ids(
    output: TextFile, references: TextFile
) -> dict[str, tuple[str, ...]] | None:
    """The texts of an output by their ids; None if neither output nor references
    have ids.
    """
    if references.format == "plain":
        return None
    if output.by_id is not None:
        return output.by_id
    ids, names = set(references.ids), set(output.first)
    numbered = (
        references.of_lists
        and all(map(str.isdecimal, ids))
        and len(ids) == len(output.lines)
    )
    # as of fairseq: some sentences begin with a number, too
    if numbered and 2 * len(ids & names) <= len(ids):
        return {
            name: (line,)
            for name, line in zip(references.ids, output.lines, strict=True)
        }
    if references.format == "kaldi" or ids & names:
        return output.kaldi_texts()
    shared = names.intersection(references.first)
    if 1 < len(names) == len(output.first) and 2 * len(shared) > len(names):
        if begin_with_ids(output.lines, references.lines):
            return output.kaldi_texts()
        raise UserError(
            f"{output.path}: its lines and those of {references.path} begin with the"
            f" same words ({output.first[0]}), which may be ids or words; give"
            " --ref-format kaldi if they are ids, --ref-format plain if they are words"
        )
    if output.has_ids and not all(map(str.isdecimal, output.first)):
        raise UserError(
            f"{references.path}: no reference for utterance {output.first[0]} of"
            f" {output.path}, whose lines begin with ids; its first is"
            f" {min(ids, default='none')}"
        )
    if ids:
        raise UserError(
            f"{output.path}: its lines have no ids such as {min(ids)} of"
            f" {references.path}; give an output with ids (rescore rerank --best NAME,"
            " not NAME.txt), or --ref-format plain if both have none"
        )
    return None
