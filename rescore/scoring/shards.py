"""Parts of an output that takes long: each part is kept when it is done, and all are
joined at the end. Of the part that is not done, the scores are kept.
"""

from __future__ import annotations

import json
import logging
import os
import re
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

from rescore import formats
from rescore.errors import UserError, counted
from rescore.files import locked, make_folder, remove_left, temporary_path
from rescore.formats import ReadOptions, audio, native
from rescore.formats.source import Source
from rescore.keys import Difference, Key, differences, digest_of
from rescore.lms import LanguageModel, capabilities_of
from rescore.lms.base import WithNeighbours
from rescore.lms.cache import ENDING, KeptUntilDone
from rescore.nbest import NbestList
from rescore.scoring.local import OnProgress

log = logging.getLogger(__name__)

NAME = re.compile(r"\d{6,}-[0-9a-f]{12}\.jsonl")
"""Names of shards."""
KEYS = "keys.jsonl"
"""The file with the key of each shard, by the name of the shard."""


class Shards:
    """A folder beside the output with a JSON Lines file for each window of lists, named
    after its place and the digest of its key: of the settings, and of all that is read
    and written.
    """

    def __init__(self, output: str, made_by: Mapping[str, Any]) -> None:
        """Make the folder.

        Args:
            output: The file that joins the shards.
            made_by: The models and settings; if they change, all shards are computed
                again.

        Raises:
            UserError: The folder cannot be made.
        """
        self._output = output
        self._folder = Path(f"{output}.shards")
        self._made_by = dict(made_by)
        self._paths: list[Path] = []
        self._kept: list[KeptUntilDone] = []
        """The models whose scores of an unfinished window are kept."""
        self._to_write: deque[tuple[Path, Key]] = deque()
        self._found = 0
        """Number of windows that have a file of an earlier run."""
        self._other: dict[str, str] = {}
        """What differs from the windows of an earlier run, in words, by name."""
        self._again = 0
        """Number of windows that an earlier run made of something else."""
        make_folder(self._folder, str(self._folder))
        lock = locked(self._folder)
        self._unlock: Callable[[], object] = _nothing
        if lock is not None:
            self._unlock = weakref.finalize(self, os.close, lock)
        else:  # another process writes this output, and its parts are its own
            self._folder = temporary_path(self._folder)
            make_folder(self._folder, str(self._folder))
        remove_left(self._folder)
        remove_left(Path(output).absolute().parent)
        self._earlier = _keys_by_place(self._folder / KEYS)

    def keeping(self, lms: Iterable[LanguageModel]) -> list[LanguageModel]:
        """Return the models so that the scores of an unfinished window are kept, too.

        Args:
            lms: The models. Those that have a cache or no fingerprint, or that score on
                a cluster, stay as they are.
        """
        models = []
        for lm in lms:
            does = capabilities_of(lm)
            if lm.fingerprint and not (does.cached or does.streams):
                lm = KeptUntilDone(lm, self._folder)
                self._kept.append(lm)
            models.append(lm)
        return models

    def add(self, window: Sequence[WithNeighbours]) -> Path | None:
        """Return the file for the next window; None if it exists already, made from the
        same lists and neighbours by the same models.

        Args:
            window: The lists of the window.
        """
        return self._place(self._key(window))

    def _key(self, window: Sequence[WithNeighbours]) -> Key:
        """Return the key of a window."""
        return {**self._made_by, **_contents(window)}

    def _place(self, key: Key) -> Path | None:
        """Return the file for the next window; None if it exists already."""
        number = f"{len(self._paths):06d}"
        path = self._folder / f"{number}-{digest_of(key)}.jsonl"
        self._paths.append(path)
        if path.is_file():
            self._found += 1
            return None
        if number in self._earlier:
            self._again += 1
            for different in differences(self._earlier[number], key):
                self._other.setdefault(different.name, self._in_words(different))
        return path

    def _in_words(self, different: Difference) -> str:
        """Return a setting with both values, or the name of an input."""
        is_setting = different.name in {
            name.replace("_", "-") for name in self._made_by
        }
        return str(different) if is_setting else different.name

    def missing(
        self, windows: Iterable[list[WithNeighbours]], progress: OnProgress
    ) -> Iterator[list[WithNeighbours]]:
        """Yield the windows that have no file yet.

        Args:
            windows: All windows.
            progress: Called with the number of hypotheses of each window that has a
                file.
        """
        for window in windows:
            key = self._key(window)
            path = self._place(key)
            if path is None:
                progress(sum(len(placed.nbest.hypotheses) for placed in window))
            else:
                self._to_write.append((path, key))
                yield window
        self._report()

    def _report(self) -> None:
        """Say how many windows an earlier run has finished, and what it made of
        something else.
        """
        parts = counted(len(self._paths), "part")
        if self._found:
            log.info(
                "%s: %d of %s were finished by an earlier run",
                self._folder,
                self._found,
                parts,
            )
        if self._again:
            log.warning(
                "%s: %d of %s were made with other settings or lists, and are scored"
                " again (%s)",
                self._folder,
                self._again,
                parts,
                "; ".join(self._other.values()),
            )

    def write(self, windows: Iterable[list[WithNeighbours]]) -> None:
        """Write each window to its file, then join all. If a window raises an error
        before any is written, the folder is removed. If the command is stopped, a line
        says what is kept.

        Args:
            windows: The windows of `missing`, with their new columns.
        """
        try:
            for window in windows:
                path, key = self._to_write.popleft()
                formats.write((placed.nbest for placed in window), str(path))
                self._note(path, key)
            self.join()
        except BaseException as error:
            with suppress(OSError):  # a folder with finished parts stays
                self._folder.rmdir()
            if isinstance(error, KeyboardInterrupt | SystemExit):
                self._report_kept()
            raise

    def _report_kept(self) -> None:
        """Say what the next run will find."""
        kept = []
        finished = sum(path.is_file() for path in self._paths)
        if finished:
            kept.append(counted(finished, "finished part"))
        if any(model.path.is_file() for model in self._kept):
            kept.append("the scores of the part that is not finished")
        if kept:
            log.info(
                "%s: holds %s; repeat the command to continue",
                self._folder,
                " and ".join(kept),
            )

    def _note(self, path: Path, key: Key) -> None:
        """Write down the key of a finished shard."""
        with open(self._folder / KEYS, "a", encoding="utf-8") as file:
            file.write(json.dumps({"part": path.name, "key": key}) + "\n")

    def join(self) -> None:
        """Write the output in the order of the windows, and remove the shards; other
        files in the folder stay.
        """
        formats.write(self._lists(), self._output)
        for path in self._folder.iterdir():
            if _is_own(path.name) and path.is_file():
                path.unlink()
        self._unlock()
        try:
            self._folder.rmdir()
        except OSError:
            log.warning(
                "%s: the folder is kept, because it contains files other than shards",
                self._folder,
            )

    def _lists(self) -> Iterator[NbestList]:
        """Yield the lists of all shards."""
        for path in self._paths:
            yield from native.read(Source(path), ReadOptions())


def _is_own(name: str) -> bool:
    """Return whether a file in the folder is of this module."""
    return name == KEYS or name.endswith(ENDING) or bool(NAME.fullmatch(name))


def _nothing() -> None:
    """Do nothing: the folder is not locked."""


def _keys_by_place(path: Path) -> dict[str, Key]:
    """Return the keys of the shards of earlier runs, by the number of their window."""
    keys: dict[str, Key] = {}
    with suppress(OSError, ValueError, KeyError, TypeError):  # cut off by a kill
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            number, _, _ = entry["part"].partition("-")
            keys[number] = dict(entry["key"])
    return keys


def _contents(window: Sequence[WithNeighbours]) -> Key:
    """Return the digest of each field of the lists of a window, by name: all that the
    scores depend on, and all that is written beside them.
    """
    columns: dict[str, list[Any]] = {}
    for placed in window:
        nbest = placed.nbest
        for name, value in (
            *_fields(nbest, without=("hypotheses", "header", "audio")),
            *_fields(nbest.header),
            ("audio", _sound(nbest)),
            ("before", placed.before),
            ("after", placed.after),
            ("hypotheses", len(nbest.hypotheses)),
        ):
            columns.setdefault(name, []).append(value)
        for hypothesis in nbest.hypotheses:
            for name, value in _fields(hypothesis):
                columns.setdefault(name, []).append(value)
    return {name: digest_of(values) for name, values in columns.items()}


def _sound(nbest: NbestList) -> str:
    """Return the digest of a list's recording; its path, where it cannot be read."""
    if nbest.audio is None:
        return ""
    try:
        return audio.digest(nbest.audio)
    except UserError:
        return nbest.audio.path


def _fields(value: Any, without: Sequence[str] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the fields that count in comparisons."""
    for name in _compared(value.__class__):
        if name not in without:
            yield name, getattr(value, name)


@cache
def _compared(of: type[Any]) -> list[str]:
    """Return the names of the fields of a dataclass that count in comparisons."""
    return [entry.name for entry in fields(of) if entry.compare]
