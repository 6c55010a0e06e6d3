"""Encode a text and pack it into shards that are small enough to send: 16 bits for a
token, 8 for a sentence's length.

    python benchmarks/gpu/pack.py TEXT --tokenizer models/tta/tokenizer.json \
        --out shards --megabytes 50

An empty line of TEXT ends a document. Documents are shuffled, so that each shard is a
sample of them all.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from rescore.errors import UserError
from rescore.files import replacing
from rescore.lms.tokenizer import Tokenizer
from rescore.lms.training.corpus import encode_corpus

LONGEST = 126
"""Tokens of a sentence, at most; longer ones are cut. With their frame they have 128
positions.
"""


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
        "--megabytes", type=float, default=50.0, help="of a shard, at most"
    )
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
        ids = np.fromfile(Path(folder) / "ids.bin", dtype=np.uint16)
        ends = np.fromfile(Path(folder) / "ends.bin", dtype=np.int64)
        documents = np.fromfile(Path(folder) / "documents.bin", dtype=np.int64)
    for number, members in enumerate(
        shards(ends, documents, int(arguments.megabytes * 1e6))
    ):
        path = arguments.out / f"shard-{number:03}.safetensors"
        with replacing(path) as temporary:
            save_file(
                packed(ids, ends, documents, members),
                temporary,
                metadata={"tokenizer": tokenizer.fingerprint},
            )
        print(f"{path}: {len(members):,} documents, {path.stat().st_size / 1e6:.1f} MB")


def shards(
    ends: npt.NDArray[np.int64], documents: npt.NDArray[np.int64], size: int
) -> list[npt.NDArray[np.int64]]:
    """Which documents each shard has; of more than `size` bytes only where one document
    alone has more.
    """
    begins = np.concatenate([[0], documents[:-1]])
    tokens = ends[documents - 1] - np.where(begins > 0, ends[begins - 1], 0)
    bytes_each = 2 * tokens + (documents - begins) + 8
    found: list[list[int]] = []
    room = 0
    for document in np.random.default_rng(0).permutation(len(documents)):
        if not found or bytes_each[document] > room:
            found.append([])
            room = size - 1000  # for the header
        found[-1].append(int(document))
        room -= int(bytes_each[document])
    return [np.array(members) for members in found]


def packed(
    ids: npt.NDArray[np.uint16],
    ends: npt.NDArray[np.int64],
    documents: npt.NDArray[np.int64],
    members: npt.NDArray[np.int64],
) -> dict[str, npt.NDArray[np.generic]]:
    """Token ids, sentences' lengths, and the number of sentences in each document."""
    lengths = np.diff(ends, prepend=0)
    starts = np.concatenate([[0], documents[:-1]])
    parts = [slice(int(starts[one]), int(documents[one])) for one in members]
    return {
        "ids": np.concatenate(
            [
                ids[(ends[part.start - 1] if part.start else 0) : ends[part.stop - 1]]
                for part in parts
            ]
        ),
        "lengths": np.concatenate([lengths[part] for part in parts]).astype(np.uint8),
        "documents": np.array(
            [part.stop - part.start for part in parts], dtype=np.int64
        ),
    }


if __name__ == "__main__":
    main()
