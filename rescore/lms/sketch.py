"""A sketch of the sentences of a training text, beside a model: did the model see the references?"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rescore.errors import UserError
from rescore.files import replacing
from rescore.lms.tokenizer import Tokenizer

SENTENCES = "sentences.npy"
"""The file of a `Sketch` in a model's folder."""
SKETCH_SIZE = 1 << 16
MIN_WORDS = 5
"""A shorter sentence stands in many texts by chance."""
SUSPICIOUS = 0.05
"""If at least this share of references is in a training text, the model is suspected to have seen them."""


class Sketch:
    """The smallest hashes of a text's sentences: enough to tell whether another text repeats many of them.

    All hashes of a text with at most `SKETCH_SIZE` different sentences are kept. The smallest hashes of a larger text
    are a random sample: a sentence whose hash is not above the largest kept hash can be looked up.
    """

    def __init__(self, hashes: npt.NDArray[np.uint64] | None = None) -> None:
        self._hashes = np.empty(0, np.uint64) if hashes is None else hashes

    def watching(self, sentences: Iterable[list[str]]) -> Iterator[list[str]]:
        """The sentences, each given as its words, as they pass by; their hashes are added."""
        new: list[int] = []
        for words in sentences:
            yield words
            if len(words) >= MIN_WORDS:
                new.append(_hash(words))
            if len(new) == SKETCH_SIZE:
                self._add(new)
                new = []
        self._add(new)

    def _add(self, hashes: list[int]) -> None:
        self._hashes = np.unique(np.concatenate([self._hashes, np.array(hashes, np.uint64)]))[:SKETCH_SIZE]

    def save(self, path: Path) -> None:
        with replacing(path) as temporary, open(temporary, "wb") as file:
            np.save(file, self._hashes)

    @classmethod
    def load(cls, path: Path) -> Sketch:
        """Read what `save` wrote."""
        try:
            hashes = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError):
            hashes = np.empty(0)
        if hashes.dtype != np.uint64 or hashes.ndim != 1:
            raise UserError(f"{path}: damaged; remove the file, or train the model again")
        return cls(hashes)

    def share_of(self, sentences: Iterable[Sequence[str]]) -> float:
        """The share of sentences that are in the text, among those long enough to be looked up; 0 without any."""
        hashes = np.array([_hash(words) for words in sentences if len(words) >= MIN_WORDS], np.uint64)
        if len(self._hashes) == SKETCH_SIZE:
            hashes = hashes[hashes <= self._hashes[-1]]
        return float(np.isin(hashes, self._hashes).mean()) if len(hashes) else 0.0


def _hash(words: Sequence[str]) -> int:
    return int.from_bytes(hashlib.blake2b(" ".join(words).encode(), digest_size=8).digest(), "little")


def share_seen(folder: Path, references: Sequence[str]) -> float:
    """The share of references that a model's training text has; 0 where its folder does not tell."""
    path = folder / SENTENCES
    if not path.is_file():
        return 0.0
    words = Tokenizer.load(folder / "tokenizer.json").words(references)
    return Sketch.load(path).share_of([[word.lower() for word in sentence] for sentence in words])
