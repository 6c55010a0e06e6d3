"""Parts of an output that is long in the making: each is kept when it is done, and joined when all are."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from rescore import formats
from rescore.errors import UserError
from rescore.formats import ReadOptions, native
from rescore.formats.source import Source
from rescore.nbest import NbestList


class Shards:
    """A folder beside the output: a JSON Lines file a window of lists, named after its place and what made it."""

    def __init__(self, output: str, made_by: Sequence[str]) -> None:
        """
        Args:
            output: the file that they will be joined to.
            made_by: fingerprints and settings; with others, shards are made anew.
        """
        self._output = output
        self._folder = Path(f"{output}.shards")
        self._made_by = "\n".join(made_by)
        self._paths: list[Path] = []
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{self._folder}: cannot be made ({error.strerror or error})") from None

    def add(self, window: Sequence[NbestList]) -> Path | None:
        """Where the next window is to be written; None if it is there already."""
        digest = hashlib.sha256(self._made_by.encode())
        for nbest in window:
            hypotheses = [(hypothesis.text, sorted(hypothesis.scores.items())) for hypothesis in nbest.hypotheses]
            digest.update(repr((nbest.id, nbest.references, nbest.source, hypotheses)).encode())
        key = digest.hexdigest()[:12]
        path = self._folder / f"{len(self._paths):06d}-{key}.jsonl"
        self._paths.append(path)
        return None if path.is_file() else path

    def join(self) -> None:
        """Write the output, in the order of the windows, and remove the shards."""
        formats.write(self._lists(), self._output)
        shutil.rmtree(self._folder)

    def _lists(self) -> Iterator[NbestList]:
        for path in self._paths:
            if path.stat().st_size:  # empty where all its lists were skipped
                yield from native.read(Source(path), ReadOptions())
