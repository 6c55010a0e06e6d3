"""`rescore embed`: vectors of sentences or tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rescore.cli import options
from rescore.cli.bundle import GroupedCommand
from rescore.cli.vectors import VectorsOptions, vector_options

if TYPE_CHECKING:
    from rescore.scoring.vectors import Embedder, Vectors

CHUNK = 1_000


@click.command("embed", cls=GroupedCommand)
@click.argument("file", metavar="FILE")
@options.lm_options
@click.option("-o", "--output", required=True, metavar="FILE", help=".npy, .jsonl (also .gz), or .safetensors.")
@vector_options
@click.option("--tokens", is_flag=True, help="One vector per token instead of one per sentence; .jsonl only.")
def command(file: str, lms: options.LanguageModelOptions, output: str, vectors: VectorsOptions, tokens: bool) -> None:
    """Write the vectors of the sentences of FILE, one per line, in their order.

    \b
    rescore embed sentences.txt --lm tta -o vectors.npy
    rescore embed sentences.txt --lm unilm --lm unilm-bw -o vectors.jsonl

    Hidden vectors are those of the last layer (or --layer). The vectors of several --lm
    are joined. Empty lines get zeros. .npy and .jsonl are written as a stream; .safetensors holds all in memory.
    """
    from rescore import formats
    from rescore.formats.source import Source
    from rescore.scoring.vectors import Embedder

    ending = next((name for name in (".npy", ".safetensors", ".jsonl", ".jsonl.gz") if output.endswith(name)), None)
    if ending is None or (tokens and not ending.startswith(".jsonl")):
        raise click.UsageError(f"--output {output}: expected {'.jsonl' if tokens else '.npy, .jsonl or .safetensors'}")
    sentences = [line.strip() for line in Source(file).lines()]
    if not sentences:
        raise click.UsageError(f"{file}: no text in it")
    embedder = Embedder(lms.load(), vectors.options())
    with options.progress_bar(len(sentences), "embed", unit="sent") as bar:

        def parts() -> Iterator[list[str]]:
            for start in range(0, len(sentences), CHUNK):
                some = sentences[start : start + CHUNK]
                yield some
                bar.update(len(some))

        if not ending.startswith(".jsonl"):
            _write_array(Path(output), len(sentences), map(embedder.sentences, parts()))
            return
        with formats.opened(output) as lines:
            for some in parts():
                for entry in _tokens(embedder, some) if tokens else _sentences(embedder, some):
                    lines.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _tokens(embedder: Embedder, sentences: Sequence[str]) -> Iterator[dict[str, Any]]:
    for text, (strings, vectors) in zip(sentences, embedder.tokens(sentences), strict=True):
        yield {"text": text, "tokens": strings, "vectors": vectors.tolist()}


def _sentences(embedder: Embedder, sentences: Sequence[str]) -> Iterator[dict[str, Any]]:
    for text, vector in zip(sentences, embedder.sentences(sentences), strict=True):
        yield {"text": text, "vector": vector.tolist()}


def _write_array(path: Path, rows: int, parts: Iterator[Vectors]) -> None:
    """Write the (rows, d) vectors that come in parts: .npy as a stream, .safetensors at once.

    Raises:
        UserError: it cannot be written.
    """
    import numpy as np
    from safetensors.numpy import save

    from rescore.errors import UserError
    from rescore.files import replacing

    try:
        with replacing(path) as temporary, open(temporary, "wb") as file:
            if path.suffix == ".safetensors":
                file.write(save({"vectors": np.concatenate(list(parts))}))
                return
            for rank, part in enumerate(parts):
                if rank == 0:
                    about = {"descr": "<f4", "fortran_order": False, "shape": (rows, part.shape[1])}
                    np.lib.format.write_array_header_1_0(file, about)
                file.write(part.astype("<f4").tobytes())
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from None
