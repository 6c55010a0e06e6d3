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
from rescore.files import make_folder
from rescore.formats import ReadOptions, native
from rescore.formats.source import Source
from rescore.lms.base import WithNeighbours
from rescore.nbest import NbestList
from rescore.scoring.local import OnProgress

log = logging.getLogger(__name__)

NAME = re.compile(r"\d{6,}-[0-9a-f]{12}\.jsonl|\.\d{6,}-[0-9a-f]{12}\.jsonl\..+\.tmp")
"""Names of shards, and of shards whose writer was killed."""


class Shards:
    """A folder beside the output with a JSON Lines file for each window of lists, named
    after its place and a hash of its inputs.
    """

    def __init__(self, output: str, made_by: Sequence[str]) -> None:
        """Make the folder.

        Args:
            output: The file that joins the shards.
            made_by: Fingerprints and settings; if they change, all shards are computed
                again.

        Raises:
            UserError: The folder cannot be made.
        """
        self._output = output
        self._folder = Path(f"{output}.shards")
        self._made_by = "\n".join(made_by)
        self._paths: list[Path] = []
        self._to_write: deque[Path] = deque()
        make_folder(self._folder, str(self._folder))

    def add(self, window: Sequence[WithNeighbours]) -> Path | None:
        """Return the file for the next window; None if it exists already, made from the
        same lists and neighbours by the same models.

        Args:
            window: The lists of the window.
        """
        digest = hashlib.sha256(self._made_by.encode())
        for placed in window:
            digest.update(_content(placed).encode())
        key = digest.hexdigest()[:12]
        path = self._folder / f"{len(self._paths):06d}-{key}.jsonl"
        self._paths.append(path)
        return None if path.is_file() else path

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
            path = self.add(window)
            if path is None:
                progress(sum(len(placed.nbest.hypotheses) for placed in window))
            else:
                self._to_write.append(path)
                yield window

    def write(self, windows: Iterable[list[WithNeighbours]]) -> None:
        """Write each window to its file, then join all.

        Args:
            windows: The windows of `missing`, with their new columns.
        """
        for window in windows:
            path = self._to_write.popleft()
            formats.write((placed.nbest for placed in window), str(path))
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
        """Yield the lists of all shards."""
        for path in self._paths:
            yield from native.read(Source(path), ReadOptions())


def _content(placed: WithNeighbours) -> str:
    """Return an unambiguous text of all that the scores of a list depend on, and of all
    that is written beside them.
    """
    nbest = placed.nbest
    hypotheses = []
    for hypothesis in nbest.hypotheses:
        scores = sorted(hypothesis.scores.items())
        about = (hypothesis.text, hypothesis.origin, hypothesis.times, hypothesis.rank)
        hypotheses.append((about, hypothesis.combined, scores))
    columns = sorted(nbest.header.records.items(), key=lambda item: item[0])
    header = (columns, nbest.header.translates, nbest.header.scores_are_means)
    place = (nbest.id, nbest.recording, nbest.audio)
    written = (place, nbest.references, nbest.source, header)
    return repr((written, hypotheses, placed.before, placed.after))
