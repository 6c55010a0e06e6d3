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
from rescore.parts import Registry
from rescore.research.kinds import VectorOptions

if TYPE_CHECKING:
    from rescore.research.vectors import Embedder, Vectors


CHUNK = 1_000
"""Sentences whose vectors are made together."""
TASKS: Registry[str] = Registry(
    "task",
    {
        "sick": ("sick", "entailment of sentence pairs in SICK.txt"),
        "wic": ("wic", "whether a word means the same in two sentences (WiC)"),
    },
)
"""The tasks of `probe`."""


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
    gold: str | None = option(
        None, "WiC answers, T or F, one per line; PAIRS is then the WiC data.", metavar="FILE", reads=True
    )


@options.command("similarity", lms=options.PLAIN)
def similarity_command(own: Similarity, lms: options.LanguageModelOptions, vectors: VectorOptions) -> None:
    """Correlate the cosines of sentence vectors with human similarity scores. PAIRS is an STS-B csv, SICK.txt, or lines
    with a score and two sentences, separated by tabs. With --gold, print the accuracy on words in context (WiC).

    \b
    rescore similarity sts-dev.csv --lm tta --lm unilm
    rescore similarity dev.data.txt --gold dev.gold.txt --lm tta
    """
    from rescore import formats
    from rescore.research import similarity

    gold, centre, output = own.gold, own.centre, own.output
    if own.joined and gold:
        raise click.UsageError("--joined does not apply to --gold: tokens of several models may differ")
    models = lms.load()
    if gold:
        words = similarity.read_words(own.pairs, gold)
        accuracies = [similarity.measure_words(words, lm, vectors, centre) for lm in models]
        shown, figures = similarity.render_word_accuracies(accuracies), [asdict(accuracy) for accuracy in accuracies]
    else:
        read = similarity.read_pairs(own.pairs)
        groups = [models] if own.joined else [[lm] for lm in models]
        correlations = [similarity.measure_pairs(read, group, vectors, centre) for group in groups]
        shown, figures = similarity.render(correlations), [asdict(correlation) for correlation in correlations]
    if output:
        with formats.opened(output) as file:
            file.write(json.dumps(figures, indent=2) + "\n")
    if output != "-":
        click.echo(shown)


@dataclass(frozen=True, kw_only=True)
class Probing(FiguresFile):
    name: str = option("", argument=True, required=True, choices=TASKS)
    file: str = option("", metavar="FILE", argument=True, required=True, reads=True)
    gold: str | None = option(None, "wic: the answers, T or F, one per line.", metavar="FILE", reads=True)
    fine_tune: bool = option(False, "Also fine-tune the network with the classifier, and print both accuracies.")
    epochs: int | None = option(None, "--fine-tune: passes over the training examples.  [default: 3]", low=1)
    learning_rate: float | None = option(
        None,
        "--fine-tune: highest learning rate of AdamW.  [default: 0.0005]",
        low=1e-9,
        high=1,
    )


@options.command("probe", lms=options.PLAIN)
def probe_command(own: Probing, lms: options.LanguageModelOptions, vectors: VectorOptions) -> None:
    """Train a linear classifier on vectors and print its accuracy. Needs scikit-learn.

    sick: entailment in SICK.txt; wic: words in context.

    \b
    rescore probe sick SICK.txt --lm tta --lm unilm
    rescore probe wic dev.data.txt --gold dev.gold.txt --lm tta
    rescore probe sick SICK.txt --lm tta --fine-tune --epochs 5
    """
    from rescore import formats
    from rescore.research import probe

    name, gold, output = own.name, own.gold, own.output
    fine_tune, epochs, learning_rate = own.fine_tune, own.epochs, own.learning_rate
    if not fine_tune and (epochs or learning_rate):
        raise click.UsageError(f"--{'epochs' if epochs else 'learning-rate'} goes with --fine-tune")
    read = probe.read(name, Path(own.file), Path(gold) if gold else None)
    loaded = lms.load()
    if fine_tune:
        from rescore.research.fine_tuning import FineTuning, trainable

        usual = FineTuning()
        how = FineTuning(epochs or usual.epochs, learning_rate or usual.learning_rate)
        for lm in loaded:
            trainable(lm)  # what cannot be is refused before anything is measured
    results = [probe.probe(name, read, lm, vectors) for lm in loaded]
    if fine_tune:
        with options.progress_bar(how.epochs * probe.trained_on(read) * len(loaded), "fine-tune", "pairs") as bar:
            results += [probe.fine_tuned(name, read, lm, vectors, how, bar.update) for lm in loaded]
    if output:
        with formats.opened(output) as lines:
            lines.write(json.dumps([asdict(result) for result in results], indent=2) + "\n")
    if output != "-":
        click.echo(probe.render(results))
