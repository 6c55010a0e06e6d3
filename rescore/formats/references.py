"""Texts of utterances: references, source texts, and 1-best outputs.

A file of texts is Kaldi text, sclite trn or plain lines; N-best lists and manifests
give references and source texts, too. If either side has ids, ids must match; only
lists and texts without ids are paired by order.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from rescore.columns import FIRST_PASS
from rescore.errors import UserError, counted
from rescore.formats.fields import Fields, with_fields
from rescore.formats.matching import matched
from rescore.formats.segments import is_stm
from rescore.formats.source import TAGS, InputWarnings, ReadOptions, Source
from rescore.formats.text import (
    add_once,
    are_numbers,
    begin_with_ids,
    first_words,
    has_entities,
    spelled_out,
    split_id,
    split_trn,
    undo_entities,
    undo_marks,
    without_tags,
)
from rescore.formats.texts import kind_of_texts, texts_by_id
from rescore.formats.wordlists import without_lists
from rescore.ids import short
from rescore.nbest import Header, Hypothesis, NbestList
from rescore.parts import FORMATS

log = logging.getLogger(__name__)

Texts = dict[str, tuple[str, ...]]
"""The texts of each utterance by its id, in the order of a file or of lists."""

# --- references and sources of lists -------------------------------------------------


@dataclass(frozen=True, slots=True)
class References:
    """Files of references. An utterance has a reference from each of several files."""

    paths: tuple[str, ...]
    format: str | None = None
    """`kaldi`, `trn`, `plain`; None detects the format from the contents."""


def read_references(
    references: str | Path | References | Sequence[TextFile],
    ids: Sequence[str],
    escaped: bool = True,
) -> Texts:
    """Return the references of each utterance, from all files.

    N-best lists (and NeMo manifests) give their own references. A text file whose lines
    all end in `(id)` is trn; one whose lines begin with ids is Kaldi text; else it is
    plain, one line an utterance, in the order of `ids`.

    Args:
        references: The files.
        ids: The utterances.
        escaped: Whether XML entities of the Moses tokeniser are undone, as in
            hypotheses.

    Returns:
        The references by id, in the order of `ids`.

    Raises:
        UserError: A file is damaged, or an utterance has no reference in it.
    """
    per_file = [file.of(ids, escaped) for file in open_references(references)]
    texts = {}
    for name in ids:
        texts[name] = tuple(chain.from_iterable(by_id[name] for by_id in per_file))
    return texts


def open_references(
    references: str | Path | References | Sequence[TextFile],
    warnings: InputWarnings | None = None,
) -> list[TextFile]:
    """Return the files of references, each read once: a pipe cannot be read again.

    Args:
        references: The files; open files are returned as they are.
        warnings: Collects repairs; with None, each file reports them itself.
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
    """Return the lists with references from files, whose utterances they must be.

    Args:
        lists: The lists.
        references: The files.
        warnings: Collects repairs.
        allow_missing: Whether references of utterances without a list are only
            reported; otherwise they are an error.

    Raises:
        UserError: A list has no reference, or a file is damaged.
    """
    ids = [nbest.id for nbest in lists]
    files = open_references(references, warnings)
    # Readers undo the tokeniser's entities; if hypotheses still have entities, both
    # sides are left as they are.
    texts = read_references(files, ids, escaped=not _have_entities(lists))
    _check_left_out(files, ids, "list", "lists", allow_missing)
    every = [replace(nbest, references=texts[nbest.id]) for nbest in lists]
    return with_fields(every, [file.fields for file in files])


def _have_entities(lists: Iterable[NbestList]) -> bool:
    """Return whether a hypothesis has escapes of the Moses tokeniser."""
    for nbest in lists:
        if any(has_entities(hypothesis.text) for hypothesis in nbest.hypotheses):
            return True
    return False


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
    file = TextFile(Source(path, warnings), sources=True)
    if not file.of_lists and path.suffix in (".csv", ".tsv"):
        raise UserError(
            f"{path}: the first line names no columns id and src; name them so"
        )
    texts = with_references(lists, [file], warnings, allow_missing)
    warnings.report()
    return [
        replace(nbest, source=text.references[0])
        for nbest, text in zip(lists, texts, strict=True)
    ]


def _check_left_out(
    files: Sequence[TextFile], ids: Sequence[str], what: str, wanted: str, allowed: bool
) -> None:
    """Report the utterances of the files that are not among `ids`: an error if that is
    not allowed.
    """
    for file in files:
        absent = file.left_out(ids)
        if not absent:
            continue
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


# --- files of texts ------------------------------------------------------------------


class TextFile:
    """A file of texts that is read once: references, source texts, or a 1-best output.

    Args:
        source: The file.
        format_name: `kaldi`, `trn`, `plain`; None detects the format.
        output: Whether the file has 1-best texts: each line is a text, even if it looks
            like JSON.
        sources: Whether the file has source texts: of lists these are read, not the
            references.

    Raises:
        UserError: The file is empty, or does not have this format.
    """

    def __init__(
        self,
        source: Source,
        format_name: str | None = None,
        output: bool = False,
        sources: bool = False,
    ) -> None:
        _check_kind(source, as_lines=bool(format_name) and not (output or sources))
        self.path = source.name
        self.format = format_name
        self._noun = "source text" if sources else "reference"
        is_detected = format_name is None and not output
        role = "src" if sources else "ref"
        kind = kind_of_texts(source, role) if is_detected else None
        # a log of a toolkit such as fairseq has lists without being JSON
        translates = _translates(kind)
        has_fields = kind is not None and hasattr(FORMATS[kind], "texts")
        self.of_lists = is_detected and (
            bool(source.peek.root) or translates or has_fields
        )
        self.of_translations = self.of_lists and (
            translates or "src" in source.peek.keys
        )
        self.form = "" if self.of_lists else "trn"
        """The form of a file of texts, for messages; certain when `of` was called."""
        self.lines: list[str] = []
        self.fields: Mapping[str, Fields] = {}
        """The fields of the utterances of a file of lists."""
        self.by_id: Texts | None = None
        """The texts of a file that surely has ids: of lists and of trn."""
        if self.of_lists:
            self.by_id = self._texts_of_lists(source, kind or "native", sources)
        else:
            self.lines = without_lists(list(source.lines()), self.path)
            if output:
                self.lines = _lines_without_tags(source, self.lines)
            if format_name in (None, "trn"):
                self.by_id = _trn_texts(self.lines, self.path)
            self._check_lines(output)
        self.first = first_words(self.lines)
        """The first words of the lines that are not empty."""
        self.has_ids = self.by_id is None and begin_with_ids(self.lines)
        """Whether the lines begin with words that look like ids."""

    def _texts_of_lists(self, source: Source, kind: str, sources: bool) -> Texts:
        """Return the references or source texts of lists."""
        texts, self.fields = texts_by_id(source, kind, sources)
        if not texts:
            raise UserError(f"{self.path}: no {self._noun}s in it")
        return texts

    def _check_lines(self, output: bool) -> None:
        """Check that lines of text have the format they should have."""
        if not self.lines or not (output or any(map(str.strip, self.lines))):
            raise UserError(f"{self.path}: is empty")
        if self.format == "trn" and not self.by_id:
            raise UserError(f"{self.path}: not trn: a line does not end in (id)")
        if self.format is None and not output and is_stm(self.lines):
            raise UserError(
                f"{self.path}: is stm, for whole recordings; add --whole to rescore"
                " eval, or give references as trn or Kaldi text (or --ref-format if"
                " this is no stm)"
            )

    @property
    def ids(self) -> list[str]:
        """Return the ids of the file, in its order, as far as they are certain without
        the ids of lists.
        """
        if self.by_id is not None:
            return list(self.by_id)
        if self.format == "kaldi" or (self.format is None and self.has_ids):
            return self.first
        return []

    def kaldi_texts(self) -> Texts:
        """Return the texts of lines that begin with ids.

        Raises:
            UserError: Two lines have the same id.
        """
        texts: Texts = {}
        for number, line in enumerate(self.lines, 1):
            if line.strip():
                name, text = split_id(line)
                add_once(texts, name, (text,), f"{self.path}: line {number}")
        return texts

    def numbered_texts(self) -> Texts:
        """Return the lines as texts whose ids are their numbers, from 1."""
        return {str(number): (line,) for number, line in enumerate(self.lines, 1)}

    def of(self, ids: Sequence[str], escaped: bool = True) -> Texts:
        """Return the texts of some utterances.

        Args:
            ids: The utterances.
            escaped: Whether XML entities of the Moses tokeniser are undone.

        Returns:
            The texts by id, in the order of `ids`; alternatives of trn and Kaldi text
            are several texts.

        Raises:
            UserError: An utterance has no text.
        """
        by_id = self._named(ids)
        if by_id is None and self._is_kaldi(ids):
            by_id = _renamed(self.kaldi_texts(), ids)
            self.form = "Kaldi text"
        if by_id is None:
            by_id = self._in_order(ids)
            self.form = "lines in order"
        elif self._is_beside_numbers(by_id, ids):
            by_id = dict(zip(ids, by_id.values(), strict=True))
        missing = [name for name in ids if name not in by_id]
        if missing:
            raise UserError(
                f"{self.path}: no {self._noun} for utterance {missing[0]}"
                f" ({len(missing)} of {len(ids)} missing; its first is"
                f" {next(iter(by_id), 'none')})"
            )
        if self.of_lists:
            return {name: by_id[name] for name in ids}
        return {name: self._readings(name, by_id[name][0], escaped) for name in ids}

    def _named(self, ids: Sequence[str]) -> Texts | None:
        """Return the texts of a file with certain ids, by the names of the lists. Case
        does not count in the ids of trn, as in sclite.
        """
        if self.by_id is None:
            return None
        if self.of_lists:
            return _renamed(self.by_id, ids)
        known = set(ids)
        folded = {name.lower(): name for name in ids}
        names = {}
        for name in self.by_id:
            names[name] = name if name in known else folded.get(name.lower(), name)
        if len(set(names.values())) < len(names):
            return self.by_id
        by_id = {names[name]: texts for name, texts in self.by_id.items()}
        return _renamed(by_id, ids)

    def _in_order(self, ids: Sequence[str]) -> Texts:
        """Return the lines as texts of the utterances in their order."""
        if len(self.lines) != len(ids):
            raise UserError(
                f"{self.path}: {counted(len(self.lines), 'line')} for"
                f" {counted(len(ids), 'utterance')}, and the lines do not begin or end"
                f" with ids such as {ids[0] if ids else '?'}; give Kaldi text, trn, or"
                " one line an utterance"
            )
        return {name: (line,) for name, line in zip(ids, self.lines, strict=True)}

    def _is_beside_numbers(self, by_id: Texts, ids: Sequence[str]) -> bool:
        """Return whether the file is a manifest beside lists that are numbered."""
        if not self.of_lists or len(by_id) != len(ids):
            return False
        return are_numbers(ids) and by_id.keys().isdisjoint(ids)

    def _readings(self, name: str, text: str, escaped: bool) -> tuple[str, ...]:
        """Return the texts that a line stands for, without marks of toolkits."""
        texts: tuple[str, ...] = (undo_marks(text),)
        if self.by_id is not None:
            texts = readings(texts[0], f"{self.path}: utterance {name}")
        if escaped:  # last: an escaped mark is none
            texts = tuple(map(undo_entities, texts))
        return texts

    def left_out(self, ids: Sequence[str]) -> list[str]:
        """Return the utterances of the file, in its order, that are not among `ids`.

        Args:
            ids: The utterances of lists.

        Returns:
            Ids of the file; empty if it has no ids.
        """
        if self.by_id is None and self._is_kaldi(ids):
            names = list(_renamed(dict.fromkeys(self.first, ()), ids))
        else:
            names = list(self._named(ids) or ())
        known = set(ids)
        if are_numbers(ids) and known.isdisjoint(names):
            return []
        return [name for name in names if name not in known]

    def _is_kaldi(self, ids: Sequence[str]) -> bool:
        """Return whether the lines begin with the ids of the lists."""
        if self.format is not None:
            return self.format == "kaldi"
        known = {*ids, *map(short, ids)}
        if not are_numbers(ids):
            if all(map(str.isdecimal, ids)):
                # a part of numbered lists: sentences may begin with a number, too
                return 2 * len(known.intersection(self.first)) > len(known)
            return self.has_ids or not known.isdisjoint(map(short, self.first))
        if self.has_ids and not all(map(str.isdecimal, self.first)):
            raise UserError(
                f"{self.path}: its lines begin with ids such as {self.first[0]}, but"
                " the lists have numbers only; give lines without ids in their order,"
                " or --ref-format plain if these are words"
            )
        return sorted(word for word in self.first if word in known) == sorted(ids)


def _renamed(by_id: Texts, ids: Sequence[str]) -> Texts:
    """Return texts by the names that lists have (`rescore.formats.matching`); a text
    without a list keeps its name.

    Args:
        by_id: The texts of a file.
        ids: The ids of the lists.
    """
    names = matched(ids, by_id)
    return {names.get(name, name): texts for name, texts in by_id.items()}


def _check_kind(source: Source, as_lines: bool) -> None:
    """Check that a source is a file, and has lines of text if it is read as lines."""
    if source.is_folder:
        raise UserError(
            f"{source.name}: is a folder; give the file with the texts, usually"
            f" {source.path / 'text'}"
        )
    if as_lines and source.peek.first:
        raise UserError(
            f"{source.name}: is JSON, not lines of text; leave out --ref-format"
        )


def _translates(kind: str | None) -> bool:
    """Return whether a toolkit of translation writes lists of a format."""
    return kind is not None and getattr(FORMATS[kind], "translates", False)


def _lines_without_tags(source: Source, lines: Sequence[str]) -> list[str]:
    """Return the lines of an output without tags such as `<|en|>`, which are told."""
    texts = []
    for number, line in enumerate(lines, 1):
        text = without_tags(line)
        if text != line:
            source.warnings.add("line", TAGS, f"{source.name}: line {number}")
        texts.append(text)
    return texts


def _trn_texts(lines: Sequence[str], path: str) -> Texts | None:
    """Return texts by id; `;;` begins a comment. None if a line does not end in an id
    in brackets, or without texts.
    """
    texts: Texts = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith(";;"):
            continue
        parts = split_trn(line)
        if parts is None:
            return None
        text, name = parts
        add_once(texts, name, (text.strip(),), f"{path}: line {number}")
    names = list(texts)
    spelled = spelled_out([text for (text,) in texts.values()])
    return {name: (text,) for name, text in zip(names, spelled, strict=True)} or None


# --- alternatives --------------------------------------------------------------------

MOST_READINGS = 1024
"""Readings of a text, at most."""
_ALTERNATIVES = re.compile(r"(?<![^\s{/])\{\s*([^{}\s][^{}]*)\}")
"""Alternatives without further alternatives in them. As in sclite, only the opening
bracket needs a blank before it.
"""
AS_LETTERS = str.maketrans("{}/@", "\ufdd0\ufdd1\ufdd2\ufdd3")
"""Characters that no text has, for brackets, slashes and @ that are no marks of
alternatives, as in words of a CTM; `readings` turns them into these letters again.
"""
FROM_LETTERS = str.maketrans("\ufdd0\ufdd1\ufdd2\ufdd3", "{}/@")
"""The letters of `AS_LETTERS` again."""


def unescaped(text: str) -> str:
    """Return a text of sclite without escapes; escaped brackets and @ are letters that
    `readings` takes for no marks (`AS_LETTERS`).

    Args:
        text: A text, with or without alternatives.
    """
    for mark, letter in AS_LETTERS.items():
        text = text.replace(f"&#{mark};", chr(letter))
    return undo_entities(text)


def readings(text: str, place: str) -> tuple[str, ...]:
    """Return all texts that a text of sclite stands for, such as `the { cat / cats }
    sat {@/down}`; @ is no word.

    Brackets that are not closed are words. The texts with the fewest @ come first,
    since sclite prefers them to others that are as close.

    Args:
        text: A text, with or without alternatives.
        place: The file and utterance, for the message.

    Raises:
        UserError: The text has more than `MOST_READINGS` readings.

    Example:
        >>> readings("a { b /@ } c", "ref.trn")
        ('a b c', 'a c')
    """
    texts = [text]
    while any(map(_ALTERNATIVES.search, texts)):
        texts = list(dict.fromkeys(chain.from_iterable(map(_opened, texts))))
        if len(texts) > MOST_READINGS:
            raise UserError(
                f"{place}: its alternatives make more than {MOST_READINGS:,} readings;"
                " leave some out"
            )
    sentences = sorted(map(str.split, texts), key=lambda words: words.count("@"))
    unique = dict.fromkeys(map(_joined, sentences))
    return tuple(reading.translate(FROM_LETTERS) for reading in unique)


def first_reading(text: str) -> str:
    """Return the reading with the first of all alternatives, even if that is @: the
    choice where nothing else decides.

    Args:
        text: A text, with or without alternatives.
    """
    while _ALTERNATIVES.search(text):
        text = next(_opened(text))
    return _joined(text.split())


def _opened(text: str) -> Iterator[str]:
    """Yield the text with each of the alternatives in place of a first innermost
    bracket; a text without alternatives as it is.
    """
    match = _ALTERNATIVES.search(text)
    if match is None:
        yield text
        return
    before = text[: match.start()].split()
    after = text[match.end() :].split()
    for alternative in match[1].split("/"):
        yield " ".join([*before, *alternative.split(), *after])


def _joined(words: Sequence[str]) -> str:
    """Return the words of a reading as a text, without @."""
    return " ".join(word for word in words if word != "@")


def cheapest(text: str, references: Sequence[str], place: str) -> str:
    """Return the reading of an output that sclite aligns with a reference at the least
    cost; the first of equals.

    Args:
        text: The output, with or without alternatives.
        references: The references of the utterance.
        place: The file and utterance, for the message.

    Raises:
        UserError: The output has more than `MOST_READINGS` readings.
    """
    choices = readings(text, place)
    if len(choices) == 1:
        return choices[0]
    # rapidfuzz loads numpy, and few outputs have alternatives
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    costs = cdist(
        [reference.lower().split() for reference in references],
        [undo_entities(choice).lower().split() for choice in choices],
        scorer=Levenshtein.distance,
        scorer_kwargs={"weights": (3, 3, 4)},
    )
    return choices[int(costs.argmin()) % len(choices)]


# --- 1-best outputs ------------------------------------------------------------------


class _Text:
    """The format `text`: 1-best texts, which need references beside them."""

    def sniff(self, source: Source) -> bool:
        """Return False: no N-best list has this format."""
        return False

    def read(self, source: Source, options: ReadOptions) -> Iterator[NbestList]:
        """Raise an error that says where this format is of use."""
        raise UserError(
            f"{source.name}: --format text is for 1-best texts with --ref, in `rescore"
            " eval`"
        )


BEST = _Text()


def read_best(
    source: Source, files: Sequence[TextFile], allow_missing: bool = False
) -> list[NbestList]:
    """Return 1-best texts with their references, as lists of one hypothesis.

    Both are trn, or Kaldi text with the same ids, or plain with the same number of
    lines.

    Args:
        source: The 1-best texts.
        files: The references.
        allow_missing: Whether references of utterances without a text are only
            reported; otherwise they are an error.

    Raises:
        UserError: Texts and references do not belong together.
    """
    output = TextFile(source, output=True)
    hypotheses = _with_ids(output, files[0]) or output.numbered_texts()
    ids = list(hypotheses)
    _check_left_out(files, ids, f"text in {output.path}", "an output", allow_missing)
    references = read_references(files, ids)
    if output.by_id is not None:
        for name, (text,) in hypotheses.items():
            place = f"{output.path}: utterance {name}"
            choice = cheapest(undo_marks(text), references[name], place)
            hypotheses[name] = (choice,)
    header = Header(translates=files[0].of_translations)
    lists = []
    for nbest in best_lists(hypotheses):
        lists.append(replace(nbest, references=references[nbest.id], header=header))
    return with_fields(lists, [file.fields for file in files])


def best_lists(texts: Mapping[str, tuple[str, ...]]) -> list[NbestList]:
    """Return 1-best texts as lists of one hypothesis.

    Args:
        texts: One text for each id.
    """
    lists = []
    for name, (text,) in texts.items():
        best = Hypothesis(undo_entities(undo_marks(text)), {FIRST_PASS: 0.0})
        lists.append(NbestList(name, [best]))
    return lists


def _with_ids(output: TextFile, references: TextFile) -> Texts | None:
    """Return the texts of an output by their ids; None if neither output nor references
    have ids.
    """
    if references.format == "plain":
        return None
    if output.by_id is not None:
        return output.by_id
    ids = set(map(short, references.ids))
    names = set(map(short, output.first))
    if _is_numbered(output, references):
        return {
            name: (line,)
            for name, line in zip(references.ids, output.lines, strict=True)
        }
    if references.format == "kaldi" or ids & names:
        return output.kaldi_texts()
    if _has_numbers(output, references):
        return output.kaldi_texts()
    shared = names.intersection(map(short, references.first))
    if 1 < len(names) == len(output.first) and 2 * len(shared) > len(names):
        if begin_with_ids(output.lines, references.lines):
            return output.kaldi_texts()
        raise UserError(
            f"{output.path}: its lines and those of {references.path} begin with the"
            f" same words ({output.first[0]}), which may be ids or words; give"
            " --ref-format kaldi if they are ids, --ref-format plain if they are words"
        )
    _check_without_ids(output, references)
    return None


def _has_numbers(output: TextFile, references: TextFile) -> bool:
    """Return whether the lines of an output are numbered, as outputs of lists without
    ids are, and the references are plain lines in the same order.
    """
    first = output.first
    if len(first) < 2 or first[0] not in ("0", "1") or not are_numbers(first):
        return False
    is_plain = references.by_id is None and not references.has_ids
    return is_plain and len(references.lines) == len(first)


def _check_without_ids(output: TextFile, references: TextFile) -> None:
    """Check that neither an output nor its references have ids."""
    ids = references.ids
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


def _is_numbered(output: TextFile, references: TextFile) -> bool:
    """Return whether lines without ids stand beside lists that are numbered, as
    fairseq's are. Some sentences may begin with a number.
    """
    ids = set(references.ids)
    if not references.of_lists or len(ids) != len(output.lines):
        return False
    has_numbers = all(map(str.isdecimal, ids))
    return has_numbers and 2 * len(ids.intersection(output.first)) <= len(ids)
