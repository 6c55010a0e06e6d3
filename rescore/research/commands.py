"""`rescore embed`, `similarity` and `probe`: vectors of sentences and tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rescore.cli import options
from rescore.options import Declared, option
from rescore.research.kinds import VectorOptions

if TYPE_CHECKING:
    from rescore.research.vectors import Embedder, Vectors


CHUNK = 1_000
"""Sentences whose vectors are made together."""


@dataclass(frozen=True, kw_only=True)
class Embedding(Declared):
    common = True

    file: str = option("", metavar="FILE", argument=True, required=True, reads=True)
    output: str = option(
        "",
        "Write the vectors: .npy or .jsonl (also .gz).",
        "-o",
        "--output",
        metavar="FILE",
        required=True,
        writes="stdout",
    )
    tokens: bool = option(False, "Write one vector per token instead of one per sentence; .jsonl only.")


@options.command("embed", lms=options.PLAIN)
def embed_command(own: Embedding, lms: options.LanguageModelOptions, vectors: VectorOptions) -> None:
    """Write one vector for each sentence of FILE, which has one sentence per line.

    \b
    rescore embed sentences.txt --lm tta -o vectors.npy
    rescore embed sentences.txt --lm unilm --lm unilm-bw -o vectors.jsonl

    Hidden vectors come from the last layer, or from --layer. The vectors of several --lm are concatenated. An empty
    line gets a vector of zeros.
    """
    from rescore import formats
    from rescore.formats.source import Source
    from rescore.research.vectors import Embedder

    file, output, tokens = own.file, own.output, own.tokens
    ending = next((name for name in (".npy", ".jsonl", ".jsonl.gz") if output.endswith(name)), None)
    if ending is None or (tokens and not ending.startswith(".jsonl")):
        raise click.UsageError(f"--output {output}: expected {'.jsonl' if tokens else '.npy or .jsonl'}")
    sentences = [line.strip() for line in Source(file).lines()]
    if not sentences:
        raise click.UsageError(f"{file}: no text in it")
    embedder = Embedder(lms.load(), vectors)
    with options.progress_bar(len(sentences), "embed", unit="sent") as bar:

        def parts() -> Iterator[list[str]]:
            for start in range(0, len(sentences), CHUNK):
                chunk = sentences[start : start + CHUNK]
                yield chunk
                bar.update(len(chunk))

        if not ending.startswith(".jsonl"):
            _write_array(Path(output), len(sentences), map(embedder.sentences, parts()))
            return
        with formats.opened(output) as lines:
            for chunk in parts():
                for entry in _tokens(embedder, chunk) if tokens else _sentences(embedder, chunk):
                    lines.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _tokens(embedder: Embedder, sentences: Sequence[str]) -> Iterator[dict[str, Any]]:
    for text, (strings, vectors) in zip(sentences, embedder.tokens(sentences), strict=True):
        yield {"text": text, "tokens": strings, "vectors": vectors.tolist()}


def _sentences(embedder: Embedder, sentences: Sequence[str]) -> Iterator[dict[str, Any]]:
    for text, vector in zip(sentences, embedder.sentences(sentences), strict=True):
        yield {"text": text, "vector": vector.tolist()}


def _write_array(path: Path, rows: int, parts: Iterator[Vectors]) -> None:
    """Write the (rows, d) vectors that come in parts as .npy."""
    import numpy as np

    from rescore.errors import UserError
    from rescore.files import replacing

    try:
        with replacing(path) as temporary, open(temporary, "wb") as file:
            for rank, part in enumerate(parts):
                if rank == 0:
                    about = {"descr": "<f4", "fortran_order": False, "shape": (rows, part.shape[1])}
                    np.lib.format.write_array_header_1_0(file, about)
                file.write(part.astype("<f4").tobytes())
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror or error})") from None


@dataclass(frozen=True, kw_only=True)
class FiguresFile(Declared):
    common = True

    output: str | None = option(
        None, "Write the figures as JSON; - is stdout.", "-o", "--output", metavar="FILE", writes="stdout"
    )


@dataclass(frozen=True, kw_only=True)
class Similarity(FiguresFile):
    pairs: str = option("", metavar="PAIRS", argument=True, required=True, reads=True)
    centre: bool = option(False, "Subtract the mean vector of all sentences before taking cosines.")
    joined: bool = option(False, "Concatenate the vectors of all --lm instead of printing one row per --lm.")


@options.command("similarity", lms=options.PLAIN)
def similarity_command(own: Similarity, lms: options.LanguageModelOptions, vectors: VectorOptions) -> None:
    """Correlate the cosines of sentence vectors with human similarity scores. PAIRS is an STS-B csv, SICK.txt, or lines
    with a score and two sentences, separated by tabs.

    \b
    rescore similarity sts-dev.csv --lm tta --lm unilm
    rescore similarity sts-dev.csv --lm unilm --lm unilm-bw --joined
    """
    from rescore.research import similarity

    models = lms.load()
    pairs = similarity.read_pairs(own.pairs)
    groups = [models] if own.joined else [[lm] for lm in models]
    results = [similarity.measure_pairs(pairs, group, vectors, own.centre) for group in groups]
    _write_figures(own.output, results, similarity.render(results))


def _write_figures(output: str | None, results: Sequence[Any], table: str) -> None:
    """Write results as JSON, and print their table unless the JSON goes to stdout."""
    from rescore import formats

    if output:
        with formats.opened(output) as file:
            file.write(json.dumps([asdict(result) for result in results], indent=2) + "\n")
    if output != "-":
        click.echo(table)
