"""Encode a text and pack it into shards that are small enough to send.

    python benchmarks/gpu/pack.py TEXT --tokenizer models/tta/tokenizer.json \
        --out shards --megabytes 50

An empty line of TEXT ends a document. Documents are shuffled, so each shard is a random
sample of all documents.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
from shards import Block, block_of, write_shard

from rescore.errors import UserError
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.corpus import encode_corpus

LONGEST = 126
"""Most tokens of a sentence; longer sentences are cut. With [BOS] and [EOS] a sentence
has 128 positions.
"""
HEADER = 10_000
"""Bytes of a shard that are reserved for its header."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Pack a text into shards of encoded sentences."
    )
    parser.add_argument("text", type=Path)
    parser.add_argument(
        "--tokenizer", type=Path, required=True, help="a tokenizer.json"
    )
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        help="the folder for shard-000.safetensors and so on",
    )
    parser.add_argument(
        "--megabytes", type=float, default=50.0, help="size of a shard, at most"
    )
    parser.add_argument(
        "--block-tokens",
        type=int,
        default=4_000_000,
        help="tokens that are compressed together",
    )
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    tokenizer = Tokenizer.load(arguments.tokenizer)
    if tokenizer.vocab_size > 1 << 16:
        raise UserError(
            f"{arguments.tokenizer}: {tokenizer.vocab_size:,} tokens do not fit 16"
            " bits; at most 65,536 do"
        )
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=arguments.out) as folder:
        encode_corpus([arguments.text], tokenizer, Path(folder), LONGEST)
        blocks = compressed(Path(folder), arguments.block_tokens, arguments.processes)
        size = int(arguments.megabytes * 1e6) - HEADER
        for number, members in enumerate(shards(blocks, size)):
            path = arguments.out / f"shard-{number:03}.safetensors"
            write_shard(path, members, tokenizer.fingerprint)
            print(described(path, members), flush=True)


def compressed(folder: Path, block_tokens: int, processes: int) -> Iterator[Block]:
    """Yield blocks of shuffled documents, in a reproducible order.

    Args:
        folder: The encoded text.
        block_tokens: Tokens of a block, about.
        processes: Number of processes that compress.
    """
    ends = np.fromfile(folder / "ends.bin", dtype=np.int64)
    documents = np.fromfile(folder / "documents.bin", dtype=np.int64)
    tokens = np.diff(ends[documents - 1], prepend=0)
    order = np.random.default_rng(0).permutation(len(documents))
    groups = np.cumsum(tokens[order]) // block_tokens
    borders = np.flatnonzero(np.diff(groups)) + 1
    parts = [part.tolist() for part in np.split(order, borders)]
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(partial(read_block, folder), parts)


def read_block(folder: Path, members: Sequence[int]) -> Block:
    """Return the block of documents of an encoded text.

    Args:
        folder: The encoded text.
        members: Numbers of the documents.
    """
    ids: npt.NDArray[np.uint16] = np.memmap(
        folder / "ids.bin", dtype=np.uint16, mode="r"
    )
    ends = np.fromfile(folder / "ends.bin", dtype=np.int64)
    documents = np.fromfile(folder / "documents.bin", dtype=np.int64)
    token_ends = np.concatenate([[0], ends])
    sentence_ends = np.concatenate([[0], documents])
    lengths = np.diff(token_ends)
    texts = []
    sizes = []
    counts = []
    for number in members:
        first = int(sentence_ends[number])
        last = int(sentence_ends[number + 1])
        texts.append(ids[token_ends[first] : token_ends[last]])
        sizes.append(lengths[first:last])
        counts.append(last - first)
    return block_of(np.concatenate(texts), np.concatenate(sizes), counts)


def shards(blocks: Iterator[Block], size: int) -> Iterator[list[Block]]:
    """Yield the blocks of each shard.

    Args:
        blocks: All blocks.
        size: Bytes of a shard, at most; a shard of one block can have more.
    """
    members: list[Block] = []
    room = size
    for block in blocks:
        if members and block.size > room:
            yield members
            members = []
            room = size
        members.append(block)
        room -= block.size
    if members:
        yield members


def described(path: Path, members: Sequence[Block]) -> str:
    """Return a line about a shard."""
    tokens = sum(block.tokens for block in members)
    documents = sum(len(block.documents) for block in members)
    size = path.stat().st_size
    return (
        f"{path}: {documents:,} documents, {tokens:,} tokens, {size / 1e6:.2f} MB,"
        f" {8 * size / tokens:.2f} bits a token"
    )


if __name__ == "__main__":
    main()
