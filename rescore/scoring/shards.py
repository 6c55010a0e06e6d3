"""Parts of an output that takes long: each part is kept when it is done, and all are
joined at the end.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rescore import formats
from rescore.errors import UserError
from rescore.formats import ReadOptions, native
from rescore.formats.source import Source
from rescore.lms.base import WithNeighbours
from rescore.nbest import NbestList
from rescore.scoring.local import OnProgress

log = logging.getLogger(__name__)

NAME = re.compile(r"\d{6,}-[0-9a-f]{12}\.jsonl|\.\d{6,}-[0-9a-f]{12}\.jsonl\..+\.tmp")
"""Of a shard, and of one whose writer was killed."""


class Shards:
    """A folder beside the output with a JSON Lines file for each window of lists, named
    after its place and a hash of its inputs.
    """

    def __init__(self, output: str, made_by: Sequence[str]) -> None:
        """
        Args:
            output: the file that joins the shards.
            made_by: fingerprints and settings; if they change, all shards are computed
                again.
        """
        self._output = output
        self._folder = Path(f"{output}.shards")
        self._made_by = "\n".join(made_by)
        self._paths: list[Path] = []
        self._to_write: deque[Path] = deque()
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"{self._folder}: cannot be made ({error.strerror or error})"
            ) from None

    def add(self, window: Sequence[WithNeighbours]) -> Path | None:
        """The file for the next window; None if it exists already, made from the same
        lists and neighbours by the same models.
        """
        digest = hashlib.sha256(self._made_by.encode())
        for placed in window:
            nbest = placed.nbest
            hypotheses = [
                (hypothesis.text, hypothesis.origin, sorted(hypothesis.scores.items()))
                for hypothesis in nbest.hypotheses
            ]
            about = (
                nbest.id,
                nbest.references,
                nbest.source,
                sorted(nbest.header.columns.items(), key=lambda item: item[0]),
            )
            digest.update(
                repr((about, hypotheses, placed.before, placed.after)).encode()
            )
        key = digest.hexdigest()[:12]
        path = self._folder / f"{len(self._paths):06d}-{key}.jsonl"
        self._paths.append(path)
        return None if path.is_file() else path

    def missing(
        self, windows: Iterable[list[WithNeighbours]], progress: OnProgress
    ) -> Iterator[list[WithNeighbours]]:
        """The windows that are not there yet, as a stream."""
        for window in windows:
            path = self.add(window)
            if path is None:
                progress(sum(len(placed.nbest.hypotheses) for placed in window))
            else:
                self._to_write.append(path)
                yield window

    def write(self, windows: Iterable[list[WithNeighbours]]) -> None:
        """Write each window of `missing`, with its new columns, to its place; then join
        all.
        """
        for window in windows:
            formats.write(
                (placed.nbest for placed in window), str(self._to_write.popleft())
            )
        self.join()

    def join(self) -> None:
        """Write the output in the order of the windows, and remove the shards; other
        files in the folder stay.
        """
        formats.write(self._lists(), self._output)
        for path in self._folder.iterdir():
            if NAME.fullmatch(path.name) and path.is_file():
                path.unlink()
        try:
            self._folder.rmdir()
        except OSError:
            log.warning(
                "%s: the folder is kept, because it contains files other than shards",
                self._folder,
            )

    def _lists(self) -> Iterator[NbestList]:
        for path in self._paths:
            yield from native.read(Source(path), ReadOptions())
