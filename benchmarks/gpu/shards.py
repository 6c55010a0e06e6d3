"""Shards of encoded sentences: how they are written, read, and made into batches.

A shard is a safetensors file. Its ids are compressed by LZMA in blocks: about 8.4 bits
a token for English and 8,000 WordPieces, of which 13 bits would be the plain size.
"""

from __future__ import annotations

import lzma
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from rescore.errors import UserError
from rescore.files import replacing
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.corpus import SentenceBatch

WIDTH = 8
"""Batches are padded to a multiple of this number of tokens: GPUs read masks faster."""
POOL = 65_536
"""Sentences that are sorted by length together."""
WAITING = 16
"""Batches that are prepared in advance."""
LOOK_SECONDS = 0.5
"""Seconds between two looks at the folder of shards."""


@dataclass(frozen=True, slots=True)
class Block:
    """Compressed documents."""

    ids: bytes
    """LZMA of the token ids, 16 bits each, little-endian."""
    lengths: bytes
    """LZMA of the sentences' lengths in tokens, 8 bits each."""
    documents: tuple[int, ...]
    """Number of sentences in each document."""
    tokens: int

    @property
    def size(self) -> int:
        """Bytes in a shard."""
        return len(self.ids) + len(self.lengths) + 4 * len(self.documents)


def block_of(
    ids: npt.NDArray[np.uint16],
    lengths: npt.NDArray[np.int64],
    documents: Sequence[int],
) -> Block:
    """Return a block of documents.

    Args:
        ids: The tokens of all sentences.
        lengths: Tokens of each sentence, at most 255.
        documents: Number of sentences in each document.
    """
    return Block(
        _compress(ids.astype("<u2").tobytes(), width=1),
        _compress(lengths.astype(np.uint8).tobytes(), width=0),
        tuple(documents),
        len(ids),
    )


def _compress(data: bytes, width: int) -> bytes:
    """Return data as an XZ stream; items have 2 ** `width` bytes."""
    lzma2 = {"id": lzma.FILTER_LZMA2, "preset": 6, "pb": width, "lp": width, "lc": 3}
    return lzma.compress(data, filters=[lzma2])


def write_shard(path: Path, blocks: Sequence[Block], tokenizer: str) -> None:
    """Write a shard.

    Args:
        path: The file.
        blocks: The blocks.
        tokenizer: The fingerprint of the tokenizer.
    """
    documents = [number for block in blocks for number in block.documents]
    tensors: dict[str, npt.NDArray[np.generic]] = {
        "ids": _bytes(b"".join(block.ids for block in blocks)),
        "lengths": _bytes(b"".join(block.lengths for block in blocks)),
        "documents": np.array(documents, dtype=np.int32),
    }
    with replacing(path) as temporary:
        save_file(tensors, temporary, metadata={"tokenizer": tokenizer})


def _bytes(data: bytes) -> npt.NDArray[np.generic]:
    """Return bytes as an array."""
    return np.frombuffer(data, dtype=np.uint8)


@dataclass(slots=True)
class Shard:
    """The sentences of a shard, and how many of them were read."""

    ids: npt.NDArray[np.uint16]
    """The tokens of all sentences, without [BOS] and [EOS]."""
    lengths: npt.NDArray[np.int64]
    """Tokens of each sentence."""
    starts: npt.NDArray[np.int64]
    """Where each sentence begins in `ids`."""
    held_out: npt.NDArray[np.int64]
    """Numbers of the sentences for validation."""
    training: npt.NDArray[np.int64]
    """Numbers of the other sentences, in the order of the current pass."""
    passes: int = 0
    place: int = 0
    """Sentences of the current pass that were read."""

    @property
    def read(self) -> float:
        """How often the shard was read, as a number of passes."""
        return self.passes + self.place / len(self.training)

    def take(self, number: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
        """Return the numbers of the next sentences.

        Args:
            number: Number of sentences, at most.
            random: Shuffles the sentences at the beginning of a pass.
        """
        if self.place == 0:
            random.shuffle(self.training)
        taken = self.training[self.place : self.place + number]
        self.place += len(taken)
        if self.place == len(self.training):
            self.passes += 1
            self.place = 0
        return taken.copy()

    def cut(
        self, numbers: npt.NDArray[np.int64], budget: int, tokenizer: Tokenizer
    ) -> Iterator[SentenceBatch]:
        """Yield batches of sentences of about one length, longest first.

        Args:
            numbers: Numbers of the sentences.
            budget: Tokens of a batch, at most, padding included.
            tokenizer: The tokenizer of the shard.
        """
        lengths = self.lengths[numbers]
        order = np.argsort(-lengths, kind="stable")
        start = 0
        while start < len(order):
            width = int(lengths[order[start]]) + 2
            width = -(-width // WIDTH) * WIDTH
            stop = start + max(1, budget // width)
            yield self._batch(numbers[order[start:stop]], width, tokenizer)
            start = stop

    def _batch(
        self, numbers: npt.NDArray[np.int64], width: int, tokenizer: Tokenizer
    ) -> SentenceBatch:
        """Return sentences with their frame, padded to a width."""
        lengths = self.lengths[numbers]
        columns = np.arange(width - 2)
        inside = columns < lengths[:, None]
        tokens = np.full((len(numbers), width), tokenizer.pad, dtype=np.int64)
        tokens[:, 0] = tokenizer.bos
        places = self.starts[numbers][:, None] + columns
        tokens[:, 1:-1][inside] = self.ids[places[inside]]
        tokens[np.arange(len(numbers)), lengths + 1] = tokenizer.eos
        return SentenceBatch(tokens, lengths + 2)


def read_shard(path: Path, tokenizer: Tokenizer, held_out: int) -> Shard:
    """Return the sentences of a shard.

    Which sentences are held out depends on their number alone, so that a training that
    goes on elsewhere holds out the same sentences.

    Args:
        path: The file.
        tokenizer: The tokenizer of the training.
        held_out: Sentences for validation.

    Raises:
        UserError: The shard was packed with another tokenizer, or is too small.
        SafetensorError: The file is not whole.
        OSError: The file cannot be read.
    """
    with safe_open(path, framework="np") as file:
        packed_with = file.metadata()["tokenizer"]
        ids = file.get_tensor("ids").tobytes()
        lengths = file.get_tensor("lengths").tobytes()
    if packed_with != tokenizer.fingerprint:
        raise UserError(
            f"{path}: was packed with another tokenizer; pack the text again"
        )
    sizes = np.frombuffer(lzma.decompress(lengths), dtype=np.uint8).astype(np.int64)
    if len(sizes) <= held_out:
        raise UserError(
            f"{path}: has {len(sizes):,} sentences, not more than the {held_out:,} held"
            " out; lower --held-out"
        )
    order = np.random.default_rng(0).permutation(len(sizes))
    return Shard(
        ids=np.frombuffer(lzma.decompress(ids), dtype="<u2"),
        lengths=sizes,
        starts=np.cumsum(sizes) - sizes,
        held_out=order[:held_out],
        training=order[held_out:],
    )


@dataclass
class Shards:
    """The shards of a folder. New shards are read while training goes on.

    It stands in for `rescore.lms.training.corpus.Corpus` in the task of a `Trainer`.
    """

    folder: Path
    tokenizer: Tokenizer
    held_out_each: int
    """Sentences of each shard for validation."""
    seed: int
    report: Callable[[str], None]
    shards: list[Shard] = field(default_factory=list)
    problem: UserError | None = None
    """Why no shard can be read."""
    fingerprint: str = "shards"

    def watch(self) -> None:
        """Read the shards of the folder, and those that arrive later, without end.

        A file that is not whole yet is tried again.
        """
        seen: set[Path] = set()
        while True:
            for path in sorted(self.folder.glob("shard-*.safetensors")):
                if path not in seen and self.read(path):
                    seen.add(path)
            time.sleep(LOOK_SECONDS)

    def read(self, path: Path) -> bool:
        """Read a shard; return False if the file is not whole yet.

        Args:
            path: The file.
        """
        try:
            shard = read_shard(path, self.tokenizer, self.held_out_each)
        except UserError as error:
            self.problem = error
            self.report(f"left out: {error}")
            return True
        except (SafetensorError, lzma.LZMAError, OSError):
            return False
        self.shards.append(shard)
        self.report(
            f"shard {len(self.shards)}: {path.name}, {len(shard.ids):,} tokens,"
            f" {self.tokens:,} in all"
        )
        return True

    @property
    def tokens(self) -> int:
        """Tokens of the shards that were read."""
        return sum(len(shard.ids) for shard in list(self.shards))

    @property
    def training_tokens(self) -> int:
        """Tokens in one pass, [BOS] and [EOS] not counted."""
        held_out = 0
        for shard in list(self.shards):
            held_out += int(shard.lengths[shard.held_out].sum())
        return self.tokens - held_out

    @property
    def held_out_sentences(self) -> int:
        """Number of sentences for validation."""
        return sum(len(shard.held_out) for shard in list(self.shards))

    def held_out(self, budget: int, share: float = 1.0) -> Iterator[SentenceBatch]:
        """Yield the validation sentences of the shards that were read, each once.

        Args:
            budget: Tokens of a batch, padding included, at most.
            share: The share of each shard's validation sentences, from the first on.
        """
        for shard in list(self.shards):
            number = max(1, round(share * len(shard.held_out)))
            yield from shard.cut(shard.held_out[:number], budget, self.tokenizer)

    def batches(self, budget: int) -> Iterator[SentenceBatch]:
        """Yield batches without end. The next sentences are from the shard that was
        read the least, so that a shard that comes late catches up.

        Args:
            budget: Tokens of a batch, padding included, at most.
        """
        random = np.random.default_rng(self.seed)
        while True:
            shard = min(self.shards, key=lambda each: each.read)
            numbers = shard.take(POOL, random)
            batches = list(shard.cut(numbers, budget, self.tokenizer))
            random.shuffle(batches)  # type: ignore[arg-type]
            yield from batches


def prepared(batches: Iterator[SentenceBatch]) -> Iterator[SentenceBatch]:
    """Yield batches that a thread prepares in advance.

    Args:
        batches: Batches without end.
    """
    waiting: queue.Queue[Any] = queue.Queue(WAITING)

    def fill() -> None:
        """Prepare batches; an error is handed on like a batch."""
        try:
            for batch in batches:
                waiting.put(batch)
        except Exception as error:
            waiting.put(error)

    threading.Thread(target=fill, daemon=True).start()
    while True:
        batch = waiting.get()
        if isinstance(batch, Exception):
            raise batch
        yield batch
