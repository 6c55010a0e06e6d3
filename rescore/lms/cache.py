"""Scores that were computed once are kept: in SQLite, one file per model."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from rescore.errors import UserError
from rescore.lms.base import LanguageModel, Question, TokenScores, Wrapped, as_scored

log = logging.getLogger(__name__)

VERSION = 2  # raised when the scores of the same model files change
BUSY_TIMEOUT = 60.0  # seconds to wait for another process that writes
ENDING = f"-{VERSION}.sqlite3"
COMMIT_SECONDS = 5.0  # a killed run loses the scores of about so long
KEYS_A_QUERY = 500  # keys in one query

TABLES = """
CREATE TABLE IF NOT EXISTS model (fingerprint TEXT PRIMARY KEY, name TEXT);
CREATE TABLE IF NOT EXISTS scores (
    text BLOB PRIMARY KEY, tokens TEXT, log_probs BLOB, unknown TEXT, total REAL, checksum BLOB
) WITHOUT ROWID;
"""

COLUMNS = ("text", "tokens", "log_probs", "unknown", "total", "checksum")


class DamagedCacheError(Exception):
    """A file that SQLite cannot read."""


class Cached(Wrapped):
    """A language model that looks up earlier scores, from any process.

    The model's fingerprint (weights, tokenizer, settings) names the file; a hash finds a question in it. SQLite's
    rollback journal is used because, unlike the write-ahead log, it works on network file systems, and a killed process
    leaves a whole file.
    """

    def __init__(self, lm: LanguageModel, folder: Path) -> None:
        super().__init__(lm)
        self.capabilities = replace(self.capabilities, cached=True)
        self._folder = folder
        self._read_only = False
        self.looked_up = self.computed = 0
        """Different questions, of each call, whose scores were there, or were not."""

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of the model, which must have one."""
        if not self._lm.fingerprint:
            raise UserError(f"{self.name}: has no fingerprint, so its scores cannot be kept; give the model one")
        return self._lm.fingerprint

    def report(self) -> None:
        """Log how many scores were in the cache; the next report counts from here."""
        if self.looked_up:
            counts = f"{self.looked_up:,}", f"{self.computed:,}"
            log.info("%s: %s scores were in the cache, %s were computed", self.name, *counts)
            self.looked_up = self.computed = 0

    @property
    def path(self) -> Path:
        """The file with this model's scores."""
        return self._folder / f"{self.fingerprint}{ENDING}"

    def score(self, questions: Sequence[Question]) -> list[TokenScores]:
        if not self._read_only and not self._writable():
            self._read_only = True
            log.warning("%s: cannot be written; new scores of %s are not stored", self._folder, self.name)
        try:
            return self._score(questions)
        except DamagedCacheError as error:
            log.warning("%s: damaged (%s); the scores are computed again", self.path, error)
            self.path.unlink(missing_ok=True)
            self.path.with_name(self.path.name + "-journal").unlink(missing_ok=True)
        try:
            return self._score(questions)
        except DamagedCacheError as error:
            raise UserError(f"{self.path}: cannot be used ({error}); give another --cache") from None

    def as_scored(self, questions: Sequence[Question]) -> Iterator[tuple[int, TokenScores]]:
        """Places of questions with their results, once all are there."""
        yield from enumerate(self.score(questions))

    def _score(self, questions: Sequence[Question]) -> list[TokenScores]:
        keys = {question: _key(question) for question in questions}
        results = self._found_read_only(list(keys.values())) if self._read_only else self._found(list(keys.values()))
        missing = [question for question, key in keys.items() if key not in results]
        self.looked_up += len(results)
        self.computed += len(missing)
        new: dict[bytes, TokenScores] = {}
        due = time.monotonic() + COMMIT_SECONDS
        try:
            for place, token_scores in as_scored(self._lm, missing):
                new[keys[missing[place]]] = token_scores
                if time.monotonic() >= due:
                    self._keep(new)
                    results |= new
                    new, due = {}, time.monotonic() + COMMIT_SECONDS
        finally:  # keeps the scores from before a failure, too
            self._keep(new)
        results |= new
        return [results[keys[question]] for question in questions]

    def _found(self, keys: Sequence[bytes]) -> dict[bytes, TokenScores]:
        with self._opened() as database:
            return dict(self._known(database, keys))

    def _found_read_only(self, keys: Sequence[bytes]) -> dict[bytes, TokenScores]:
        """Scores from a file that cannot be written; empty if the file is absent or unreadable."""
        try:
            with closing(sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True)) as database:
                self._check_model([row[0] for row in database.execute("SELECT fingerprint FROM model")])
                return dict(self._known(database, keys))
        except (sqlite3.Error, TypeError, ValueError):
            return {}

    def _keep(self, scores: dict[bytes, TokenScores]) -> None:
        """Write scores; a signal that ends the program while they are written does not lose them."""
        if self._read_only or not scores:
            return
        try:
            self._write(scores)
        except (KeyboardInterrupt, SystemExit):
            self._write(scores)
            raise

    def _write(self, scores: dict[bytes, TokenScores]) -> None:
        with self._opened() as database, database:
            database.executemany(
                "INSERT OR REPLACE INTO scores VALUES (?, ?, ?, ?, ?, ?)",
                [_row(key, token_scores) for key, token_scores in scores.items()],
            )

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """The database, open for one step: nothing is held while a network computes."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=BUSY_TIMEOUT)) as database:
                with database:
                    database.executescript(TABLES)
                    database.execute("INSERT OR IGNORE INTO model VALUES (?, ?)", (self.fingerprint, self.name))
                self._check_model([row[0] for row in database.execute("SELECT fingerprint FROM model")])
                yield database
        except sqlite3.Error as error:
            if any(word in str(error) for word in self._not_ours()):
                raise UserError(f"{self.path}: cannot be used ({error}); free it, or give another --cache") from None
            raise DamagedCacheError(error) from None
        except (TypeError, ValueError) as error:  # names and values are damaged, or not UTF-8
            raise DamagedCacheError(error) from None
        except OSError as error:
            raise UserError(f"{self._folder}: cannot be written ({error.strerror or error})") from None

    def _check_model(self, fingerprints: Sequence[object]) -> None:
        """See that the file has this model's scores alone. A few letters that differ are damage, not another model."""
        for fingerprint in fingerprints:
            if fingerprint == self.fingerprint:
                continue
            letters = [a != b for a, b in zip(str(fingerprint), self.fingerprint, strict=False)]
            if len(letters) == len(self.fingerprint) and sum(letters) > len(letters) / 4:
                raise UserError(f"{self.path}: has the scores of another model; delete it")
            raise sqlite3.DatabaseError("its model is not the one it is named after")

    def _not_ours(self) -> list[str]:
        """Parts of SQLite's messages about a sound file that cannot be used."""
        return ["locked", "busy", "unable to open", "full", "I/O", *([] if self._writable() else ["readonly"])]

    def _writable(self) -> bool:
        """Whether scores can be kept: the file, its folder, or the folder in which this is made, is writable."""
        existing = next(path for path in (self._folder, *self._folder.absolute().parents) if path.exists())
        return os.access(existing, os.W_OK) and (os.access(self.path, os.W_OK) or not self.path.exists())

    def _known(self, database: sqlite3.Connection, keys: Sequence[bytes]) -> Iterator[tuple[bytes, TokenScores]]:
        for start in range(0, len(keys), KEYS_A_QUERY):
            batch = keys[start : start + KEYS_A_QUERY]
            query = f"SELECT {', '.join(COLUMNS)} FROM scores WHERE text IN ({','.join('?' * len(batch))})"
            for row in database.execute(query, batch):
                key, tokens, log_probs, unknown, total, checksum = row
                if checksum == _checksum(row[:-1]):  # damaged rows are scored again
                    yield key, _scores(tokens, log_probs, unknown, total)


def _key(question: Question) -> bytes:
    """The hash of the text; for a question with more parts, of an unambiguous form of all parts."""
    if question == Question(question.text):
        return hashlib.blake2b(question.text.encode(), digest_size=16).digest()
    parts = [question.text, question.source, question.before, question.after]
    if question.audio is not None:
        from rescore.formats.audio import digest

        parts.append(digest(question.audio))
    whole = json.dumps(parts)
    return hashlib.blake2b(whole.encode(), digest_size=16, person=b"question").digest()


def _scores(tokens: str, log_probs: bytes, unknown: str, total: float) -> TokenScores:
    """Of a row; raises TypeError or ValueError if it holds no scores of a sentence."""
    names, places, values = json.loads(tokens), json.loads(unknown), np.frombuffer(log_probs)
    if not all(isinstance(name, str) for name in names) or not isinstance(names, list):
        raise TypeError("tokens are texts")
    if not isinstance(total, float) or not all(0 <= place < len(values) for place in places):
        raise TypeError("sums are numbers, and unknown tokens are among the tokens")
    return TokenScores(names, values, tuple(places), total)


def _row(key: bytes, scores: TokenScores) -> tuple[object, ...]:
    row = (key, json.dumps(scores.tokens), scores.log_probs.tobytes(), json.dumps(scores.unknown), scores.sum)
    return (*row, _checksum(row))


def _checksum(row: Sequence[object]) -> bytes:
    return hashlib.blake2b(repr(tuple(row)).encode(), digest_size=8).digest()
