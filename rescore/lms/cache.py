"""Scores that were computed once are kept in SQLite, one file per model."""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from rescore.errors import UserError, counted
from rescore.formats.audio import digest
from rescore.lms.base import (
    LanguageModel,
    Question,
    TokenScores,
    Wrapped,
    as_scored,
    places_of,
)

log = logging.getLogger(__name__)

VERSION = 3
"""Part of a file's name. It is raised when the tables change, or the scores of the same
model files.
"""
ENDING = f"-{VERSION}.sqlite3"
"""End of a file's name, behind the fingerprint of the model."""
BUSY_TIMEOUT = 60.0
"""Seconds to wait for another process that writes."""
COMMIT_SECONDS = 5.0
"""Seconds between two commits: a killed run loses the scores of about this time."""
KEYS_A_QUERY = 500
"""Keys in one query."""

TABLE = """
CREATE TABLE IF NOT EXISTS scores (
    question BLOB PRIMARY KEY, tokens TEXT, log_probs BLOB, unknown TEXT, total REAL
) WITHOUT ROWID
"""


class Cached(Wrapped):
    """A language model that looks up earlier scores, from any process.

    The model's fingerprint (weights, tokenizer, settings) names the file; a hash finds
    a question in it. SQLite's rollback journal is used because, unlike the write-ahead
    log, it works on network file systems, and a killed process leaves a whole file.
    """

    def __init__(self, lm: LanguageModel, folder: Path) -> None:
        """Wrap a model.

        Args:
            lm: The model.
            folder: The folder of the files with scores.
        """
        super().__init__(lm, cached=True)
        self._folder = folder
        self._looked_up = 0
        self._computed = 0
        self._began_empty: bool | None = None
        """Whether the file had no score when it was first read; None before that."""

    def report(self) -> None:
        """Log how many scores were in the cache; the next report counts from here.

        Scores that are found in a file that began empty come from this run: its texts
        repeat.
        """
        if not self._looked_up or self._began_empty:
            return
        log.info(
            "%s: %s scores were in the cache, %s were computed; equal texts count once",
            self.name,
            f"{self._looked_up:,}",
            f"{self._computed:,}",
        )
        self._looked_up = 0
        self._computed = 0

    @property
    def path(self) -> Path:
        """The file with this model's scores."""
        if not self.fingerprint:
            raise UserError(
                f"{self.name}: has no fingerprint, so its scores cannot be kept; give"
                " the model one"
            )
        return self._folder / f"{self.fingerprint}{ENDING}"

    def as_scored(
        self, questions: Sequence[Question]
    ) -> Iterator[tuple[int, TokenScores]]:
        """Yield places and scores: first the known scores, then those that the model
        computes.
        """
        places = places_of(questions)
        keys = {question: _key(question) for question in places}
        known = self._known(list(keys.values()))
        missing = [question for question, key in keys.items() if key not in known]
        self._looked_up += len(known)
        self._computed += len(missing)
        for question, key in keys.items():
            if key in known:
                for place in places[question]:
                    yield place, known[key]
        new: dict[bytes, TokenScores] = {}
        due = time.monotonic() + COMMIT_SECONDS
        try:
            for rank, scores in as_scored(self._lm, missing):
                # before the score is added: what is kept ends with a whole batch
                if time.monotonic() >= due:
                    self._keep(new)
                    new = {}
                    due = time.monotonic() + COMMIT_SECONDS
                question = missing[rank]
                new[keys[question]] = scores
                for place in places[question]:
                    yield place, scores
        except BaseException:  # keeps the scores from before a failure, too
            self._keep(new)
            raise
        self._finish(new)

    def _finish(self, scores: dict[bytes, TokenScores]) -> None:
        """Keep the last scores of some questions."""
        self._keep(scores)

    def _known(self, keys: Sequence[bytes]) -> dict[bytes, TokenScores]:
        """Return the scores that are in the file, by the keys of questions."""
        known = {}
        with self._opened() as database:
            if self._began_empty is None:
                first = database.execute("SELECT 1 FROM scores LIMIT 1").fetchone()
                self._began_empty = first is None
            for start in range(0, len(keys), KEYS_A_QUERY):
                batch = keys[start : start + KEYS_A_QUERY]
                marks = ",".join("?" * len(batch))
                query = f"SELECT * FROM scores WHERE question IN ({marks})"
                for key, tokens, log_probs, unknown, total in database.execute(
                    query, batch
                ):
                    known[key] = TokenScores(
                        list(json.loads(tokens)),
                        np.frombuffer(log_probs),
                        tuple(json.loads(unknown)),
                        float(total),
                    )
        return known

    def _keep(self, scores: dict[bytes, TokenScores]) -> None:
        """Write new scores to the file, by the keys of questions."""
        if not scores:
            return
        with self._opened() as database, database:
            rows = [_row(key, token_scores) for key, token_scores in scores.items()]
            database.executemany(
                "INSERT OR REPLACE INTO scores VALUES (?, ?, ?, ?, ?)", rows
            )

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        """Open the database for one step: nothing is held while a network computes."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self.path, timeout=BUSY_TIMEOUT)) as database:
                database.execute(TABLE)
                yield database
        # values of a damaged file have other types
        except (sqlite3.Error, OSError, TypeError, ValueError) as error:
            raise UserError(
                f"{self.path}: cannot be used ({error}); delete it, or give another"
                " --cache"
            ) from None


class KeptUntilDone(Cached):
    """A language model whose scores are kept in case that the command is stopped.

    Nothing is written for questions that are scored within `COMMIT_SECONDS`, so a fast
    model stays as fast. A model that goes on with kept scores forms the same batches as
    without a stop, and gives the same scores.
    """

    def report(self) -> None:
        """Log how many scores an earlier run has kept; the next report counts from
        here.
        """
        if self._looked_up and not self._began_empty:
            log.info(
                "%s: an earlier run has kept %s",
                self.name,
                counted(self._looked_up, "score"),
            )
        self._looked_up = 0

    def _known(self, keys: Sequence[bytes]) -> dict[bytes, TokenScores]:
        """Return the scores that are in the file; without a file, none is made."""
        if not self.path.exists():
            self._began_empty = True
            return {}
        return super()._known(keys)

    def _finish(self, scores: dict[bytes, TokenScores]) -> None:
        """Keep nothing: all questions are scored, and their part is written next."""


def _key(question: Question) -> bytes:
    """Return the hash of a question.

    A question that is a text alone has the hash of the text; another question has the
    hash of an unambiguous form of all its parts.
    """
    if question == Question(question.text):
        return hashlib.blake2b(question.text.encode(), digest_size=16).digest()
    parts = [question.text, question.source, question.before, question.after]
    if question.audio is not None:
        parts.append(digest(question.audio))
    whole = json.dumps(parts)
    return hashlib.blake2b(whole.encode(), digest_size=16, person=b"question").digest()


def _row(key: bytes, scores: TokenScores) -> tuple[object, ...]:
    """Return the row of the table with the scores of a question."""
    return (
        key,
        json.dumps(scores.tokens),
        scores.log_probs.tobytes(),
        json.dumps(scores.unknown),
        scores.sum,
    )
