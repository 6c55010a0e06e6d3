"""Vectors as files: .npy and JSON Lines, which are written as a stream, and
.safetensors, which needs all vectors in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from rescore.errors import UserError
from rescore.files import opened, replacing
from rescore.lms.checkpoint import write_tensors
from rescore.research.vectors import Embedder, Vectors

JSON_LINES = (".jsonl", ".jsonl.gz", ".jsonl.xz")
ARRAYS = (".npy", ".safetensors")
SENTENCES_TOGETHER = 1_000
"""Sentences that are embedded together: bounds memory."""


def check_output(path: str, tokens: bool) -> None:
    """Check that vectors can be written to a path.

    Args:
        path: A file, or - for JSON Lines on standard output.
        tokens: Whether vectors of tokens are written, which JSON Lines alone can hold.

    Raises:
        UserError: The path has another ending.
    """
    endings = JSON_LINES if tokens else (*ARRAYS, *JSON_LINES)
    if path != "-" and not path.endswith(endings):
        what = "vectors of tokens" if tokens else "vectors"
        raise UserError(f"{path}: {what} are written to {', '.join(endings)}")


def in_chunks(sentences: Iterable[str]) -> Iterator[list[str]]:
    """Yield sentences in lists of at most `SENTENCES_TOGETHER`."""
    chunk: list[str] = []
    for sentence in sentences:
        chunk.append(sentence)
        if len(chunk) == SENTENCES_TOGETHER:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def write_vectors(
    path: str, chunks: Iterable[Sequence[str]], embedder: Embedder, tokens: bool
) -> None:
    """Write the vectors of sentences, or of their tokens.

    Args:
        path: A file for which `check_output` raises no error.
        chunks: The sentences, at least one.
        embedder: Makes the vectors.
        tokens: Whether vectors of tokens are written.
    """
    if path.endswith(ARRAYS):
        arrays = (embedder.sentences(chunk) for chunk in chunks)
        if path.endswith(".npy"):
            write_array(Path(path), arrays)
        else:
            vectors = torch.from_numpy(np.concatenate(list(arrays)))
            write_tensors(Path(path), {"vectors": vectors})
        return
    with opened(path) as file:
        for chunk in chunks:
            records = of_tokens if tokens else of_sentences
            for record in records(embedder, chunk):
                file.write(json.dumps(record, ensure_ascii=False) + "\n")


def of_sentences(
    embedder: Embedder, sentences: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield a record of each sentence: its text and its vector."""
    vectors = embedder.sentences(sentences)
    for sentence, vector in zip(sentences, vectors, strict=True):
        yield {"text": sentence, "vector": vector.tolist()}


def of_tokens(embedder: Embedder, sentences: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield a record of each sentence: its text, its tokens and their vectors."""
    every = embedder.tokens(sentences)
    for sentence, (tokens, vectors) in zip(sentences, every, strict=True):
        yield {"text": sentence, "tokens": tokens, "vectors": vectors.tolist()}


def write_array(path: Path, parts: Iterable[Vectors]) -> None:
    """Write the rows of several arrays (n, d) as one .npy file.

    The number of rows is known at the end only. NumPy leaves room for it in the header,
    which is then written once more.

    Raises:
        UserError: The file cannot be written.
    """
    try:
        with replacing(path) as temporary, open(temporary, "wb") as file:
            rows = 0
            width = 0
            for part in parts:
                if rows == 0:
                    width = part.shape[1]
                    _write_header(file, rows, width)
                file.write(part.astype("<f4").tobytes())
                rows += len(part)
            file.seek(0)
            _write_header(file, rows, width)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be written ({error.strerror or error})"
        ) from None


def _write_header(file: BinaryIO, rows: int, width: int) -> None:
    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
    np.lib.format.write_array_header_1_0(file, header)
