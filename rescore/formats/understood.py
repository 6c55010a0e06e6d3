"""What was read, in one line: how many lists of which format, and which columns or keys
hold the scores and the references.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rescore.columns import FIRST_PASS, FORMER_FIRST_PASS, RANK
from rescore.errors import counted, listed
from rescore.formats.source import Source
from rescore.nbest import NbestList

log = logging.getLogger("rescore.understood")
TEXT = "text"
"""The format of 1-best texts."""
TITLES = {"csv": "CSV", "tsv": "TSV", "json": "JSON"}
"""What people call formats whose names in `--format` differ."""
WORDS = {
    "id": "ids",
    "text": "texts",
    "score": "scores",
    "ref": "references",
    "src": "sources",
}
"""What the line calls the roles of columns and keys."""


@dataclass(slots=True)
class Understood:
    """What was read from some paths; lists are added as they are read."""

    paths: Sequence[str | Path | Source]
    formats: dict[str, None] = field(default_factory=dict)
    """The names of the formats, as `--format` has them."""
    roles: dict[str, str] = field(default_factory=dict)
    """Where ids, texts, scores, references and sources come from, by their roles: a
    column, a key or another file.
    """
    columns: list[str] = field(default_factory=list)
    """The columns beside the first pass, of the first list."""
    lists: int = 0
    fewest: int = 0
    """Hypotheses of the shortest list."""
    most: int = 0
    """Hypotheses of the longest list."""
    references: int = 0
    """Lists with references of their own."""
    system: str | None = None
    """The system whose rows are read, where a column names the system of each row."""

    @classmethod
    def of_texts(
        cls,
        source: str | Source,
        lists: Iterable[NbestList],
        roles: Mapping[str, str] | None = None,
    ) -> Understood:
        """Return what was read from a file of 1-best texts.

        Args:
            source: The file, or its path.
            lists: The texts, as lists of one hypothesis.
            roles: Where ids and texts come from, as `roles` has it.
        """
        understood = cls([source], {TEXT: None}, dict(roles or {}))
        for nbest in lists:
            understood.add(nbest)
        return understood

    def end(self, source: Source, name: str, s2s: str) -> None:
        """Add a file of lists, when its lists were read.

        Args:
            source: The file.
            name: The name of its format.
            s2s: The column that becomes the first pass.
        """
        self.formats[name] = None
        self.roles = {**source.roles, **self.roles}
        if s2s == RANK:
            self.roles["score"] = "the order"
        elif s2s != FIRST_PASS:
            self.roles["score"] = s2s

    def add(self, nbest: NbestList) -> None:
        """Add a list.

        Args:
            nbest: The list, whose first pass is known.
        """
        number = len(nbest.hypotheses)
        if not self.lists:
            self.fewest = number
            names = dict.fromkeys(
                name for one in nbest.hypotheses for name in one.scores
            )
            # the text that stands first names its systems first
            for name in dict.fromkeys([*nbest.header.systems, *names]):
                if name in names and name not in (FIRST_PASS, FORMER_FIRST_PASS):
                    self.columns.append(name)
        self.lists += 1
        self.fewest = min(self.fewest, number)
        self.most = max(self.most, number)
        self.references += bool(nbest.references)

    def add_files(
        self, role: str, files: Iterable[tuple[str, str]], replace: bool = False
    ) -> None:
        """Add files of references or of source texts.

        Args:
            role: `ref` or `src`.
            files: The path of each file, and its form.
            replace: Whether the lists have texts of this role, which do not count.
        """
        self.roles[role] = _named(files)
        if replace:
            self.roles[role] += ", not from the lists"

    def tell(self) -> None:
        """Log the line, when all is read."""
        log.info("%s", self)

    def __str__(self) -> str:
        """Return the line."""
        names = []
        for path in self.paths:
            name = path.name if isinstance(path, Source) else str(path)
            names.append("<stdin>" if name == "-" else name)
        of_system = "" if self.system is None else f", system {self.system}"
        phrases = [f"{listed(names, 3)}{of_system}: {self._number()}"]
        for role, words in WORDS.items():
            if role in self.roles:
                phrases.append(f"{words} from {self.roles[role]}")
        if self.references and "ref" not in self.roles:
            phrases.append("with references")
        if self.columns:
            phrases.append(f"columns {listed(self.columns)}")
        return ", ".join(phrases)

    def _number(self) -> str:
        """Return the number of lists and of the hypotheses of each, and the format."""
        if TEXT in self.formats:
            return counted(self.lists, "text")
        sizes = f"{self.most:,} hypotheses"
        if self.most == 1:
            sizes = "one hypothesis"
        elif self.fewest < self.most:
            sizes = f"{self.fewest:,} to {sizes}"
        names = listed([TITLES.get(name, name) for name in self.formats])
        return f"{counted(self.lists, 'list')} of {sizes} ({names})"


def tell_fields(fields: Mapping[str, str]) -> str:
    """Return which columns or keys of a file --field names.

    Args:
        fields: The column or key of each role.
    """
    return ", ".join(f"{WORDS[role]} from {key}" for role, key in fields.items())


def tell_files(role: str, files: Iterable[tuple[str, str]]) -> None:
    """Log where references or source texts come from, if the lists are told apart.

    Args:
        role: `ref` or `src`.
        files: The path of each file, and its form.
    """
    log.info("%s from %s", WORDS[role], _named(files))


def tell_recordings(path: str | Path, recordings: int, words: int) -> None:
    """Log how many whole recordings were read.

    Args:
        path: The file or folder.
        recordings: The number of recordings.
        words: The number of their words.
    """
    number = counted(recordings, "recording")
    log.info("%s: %s of %s", path, number, counted(words, "word"))


def tell_empty(path: str, cells: int) -> None:
    """Log how many cells of a wide table have no hypothesis.

    Args:
        path: The table.
        cells: The number of the cells, in rows that have hypotheses.
    """
    was = "was" if cells == 1 else "were"
    number = counted(cells, "empty cell")
    log.info("%s: %s %s read as no hypothesis", path, number, was)


def tell_column(name: str, model: str, fingerprint: str) -> None:
    """Log the model of a column of scores.

    Args:
        name: The name of the column.
        model: The model, as --lm names it.
        fingerprint: Its fingerprint, as signatures show it.
    """
    log.info("the column %s has the scores of %s (%s)", name, model, fingerprint)


def tell_likely_ids(path: str, name: str) -> None:
    """Log which key or column probably has the ids of a file in which no key has a
    known name of ids.

    Args:
        path: The file.
        name: The key or column.
    """
    log.info(
        "%s: no ids under a usual name, so the order gives the ids; if %s has the ids:"
        " --field id=%s",
        path,
        name,
        name,
    )


def tell_documents(paths: Sequence[str], texts: int, kinds: Iterable[str]) -> None:
    """Log how many texts of documents were read.

    Args:
        paths: The documents.
        texts: The number of their lines, cues or phrases with words.
        kinds: Their formats.
    """
    number = counted(texts, "text")
    log.info("%s: %s (%s)", listed(paths, 3), number, listed(list(kinds)))


def _named(files: Iterable[tuple[str, str]]) -> str:
    """Return the names of files, with their forms."""
    return listed([f"{path} ({form})" if form else path for path, form in files])
