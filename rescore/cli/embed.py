"""`rescore embed`: vectors of sentences or tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import click

from rescore.cli import options
from rescore.cli.bundle import GroupedCommand
from rescore.cli.vectors import VectorsOptions, vector_options

CHUNK = 1_000


@click.command("embed", cls=GroupedCommand)
@click.argument("file", metavar="FILE")
@options.lm_options
@click.option("-o", "--output", required=True, metavar="FILE", help=".npy, .jsonl (also .gz), or .safetensors.")
@vector_options
@click.option("--tokens", is_flag=True, help="A vector for each token instead of one a sentence; .jsonl only.")
def command(file: str, lms: options.LanguageModelOptions, output: str, vectors: VectorsOptions, tokens: bool) -> None:
    """Write the vectors of the sentences of FILE, one a line, in their order.

    \b
    rescore embed sentences.txt --lm tta -o vectors.npy
    rescore embed sentences.txt --lm unilm --lm unilm-bw -o vectors.jsonl

    `context` are hidden vectors of the last layer (or --layer), `embed` input embeddings. The vectors of several --lm
    are joined. Empty lines get zeros. .npy and .jsonl are written as a stream; .safetensors holds all in memory.
    """
    import numpy as np

    from rescore import formats
    from rescore.files import replacing
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
        starts = range(0, len(sentences), CHUNK)
        if ending.startswith(".jsonl"):
            with formats.opened(output) as lines:
                for start in starts:
                    some = sentences[start : start + CHUNK]
                    if tokens:
                        for text, (strings, found) in zip(some, embedder.tokens(some), strict=True):
                            entry = {"text": text, "tokens": strings, "vectors": found.tolist()}
                            lines.write(json.dumps(entry, ensure_ascii=False) + "\n")
                    else:
                        for text, vector in zip(some, embedder.sentences(some), strict=True):
                            lines.write(
                                json.dumps({"text": text, "vector": vector.tolist()}, ensure_ascii=False) + "\n"
                            )
                    bar.update(len(some))
            return
        with replacing(Path(output)) as temporary:
            whole: np.ndarray | None = None
            for start in starts:
                some = sentences[start : start + CHUNK]
                found_vectors = embedder.sentences(some)
                if whole is None:
                    shape = (len(sentences), found_vectors.shape[1])
                    if ending == ".npy":
                        whole = np.lib.format.open_memmap(temporary, "w+", np.dtype(np.float32), shape)
                    else:
                        whole = np.empty(shape, np.float32)
                whole[start : start + len(some)] = found_vectors
                bar.update(len(some))
            assert whole is not None
            if ending == ".npy":
                cast(np.memmap, whole).flush()
            else:
                from safetensors.numpy import save_file

                save_file({"vectors": whole}, temporary)
