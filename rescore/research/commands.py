"""`rescore embed`, `similarity` and `probe`: vectors of sentences and tokens, and what
they tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from rescore.cli import options
from rescore.errors import OptionError, UserError
from rescore.file_options import of_form
from rescore.options import Declared, OptionValues, option, read_file, written_file
from rescore.research.probe_tasks import PROBES
from rescore.research.vector_options import FineTuning, VectorOptions

if TYPE_CHECKING:
    from rescore.lms import LanguageModel


@dataclass(frozen=True, kw_only=True)
class Embedding(Declared):
    common = True

    text: str = option("", metavar="FILE", argument=True, required=True, reads=True)
    output: str = written_file(
        "",
        "Write the vectors: .npy, .safetensors or .jsonl (also .gz); - is stdout, as"
        " JSON Lines.",
        "-o",
        "--output",
        required=True,
    )
    tokens: bool = option(
        False, "Write the vectors of tokens instead of sentences; JSON Lines only."
    )


@options.command("embed", lms=options.PLAIN)
def embed_command(
    own: Embedding, lms: options.LanguageModelOptions, vectors: VectorOptions
) -> None:
    """Write the vector of each sentence of FILE, which has one sentence per line.

    \b
    rescore embed sentences.txt --lm tta -o vectors.npy
    rescore embed sentences.txt --lm unilm --lm unilm-bw -o vectors.jsonl

    The vectors of several --lm are concatenated. The vector of an empty line is 0. .npy
    and .jsonl are written as a stream; .safetensors needs all vectors in memory.
    """
    from rescore.formats.source import Source
    from rescore.lms.devices import bound_kernels
    from rescore.research import vector_files
    from rescore.research.vectors import Embedder

    vector_files.check_output(own.output, own.tokens)
    bound_kernels()  # a long text has batches of many shapes
    sentences = (line.strip() for line in Source(own.text).lines())
    first = next(sentences, None)
    if first is None:
        raise UserError(f"{own.text}: is empty; expected one sentence per line")
    embedder = Embedder(lms.load(), vectors)
    with options.progress_bar(None, "embed", unit="sent") as bar:

        def reported() -> Iterator[list[str]]:
            for chunk in vector_files.in_chunks(chain([first], sentences)):
                yield chunk
                bar.update(len(chunk))

        vector_files.write_vectors(own.output, reported(), embedder, own.tokens)


@dataclass(frozen=True, kw_only=True)
class Similarity(Declared):
    common = True

    pairs: str = option("", metavar="PAIRS", argument=True, required=True, reads=True)
    output: str | None = written_file(
        None,
        "Write the figures as JSON; - is stdout.",
        "-o",
        "--output",
        may_write=of_form(".json"),
    )
    centre: bool = option(
        False, "Subtract the mean of all vectors before taking cosines."
    )
    joined: bool = option(
        False,
        "Concatenate the vectors of all --lm instead of printing one row per --lm.",
    )
    gold: str | None = read_file(
        None,
        "Answers of words in context (WiC), T or F, one per line; PAIRS is then the"
        " data of WiC.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.joined and self.gold:
            raise UserError(
                "--joined does not apply to --gold: tokens of several models may differ"
            )


@options.command("similarity", lms=options.PLAIN)
def similarity_command(
    own: Similarity, lms: options.LanguageModelOptions, vectors: VectorOptions
) -> None:
    """Correlate the cosines of sentence vectors with human similarity scores. PAIRS is
    an STS-B csv, SICK.txt, or lines with a score and two sentences, separated by tabs.
    With --gold, print the accuracy on words in context (WiC).

    \b
    rescore similarity sts-dev.csv --lm tta --lm unilm
    rescore similarity sts-dev.csv --lm unilm --lm unilm-bw --joined
    rescore similarity dev.data.txt --gold dev.gold.txt --lm tta
    """
    from rescore.reports.markup import write_json

    if own.gold is None:
        figures, table = _of_sentences(own, lms.load(), vectors)
    else:
        figures, table = _of_words(own, own.gold, lms.load(), vectors)
    if own.output:
        write_json(figures, own.output)
    options.show(table)


Figures = tuple[object, str]
"""The figures that are written as JSON, and their table."""


def _of_sentences(
    own: Similarity, models: Sequence[LanguageModel], vectors: VectorOptions
) -> Figures:
    """The correlations of cosines of sentences with people's scores."""
    from rescore.research import similarity
    from rescore.research.vectors import Embedder

    if own.joined and len(models) < 2:
        raise OptionError("--joined needs two or more --lm; give another --lm")
    pairs = similarity.read_pairs(own.pairs)
    groups = [models] if own.joined else [[lm] for lm in models]
    embedders = [Embedder(group, vectors) for group in groups]
    results = [
        similarity.measure_pairs(pairs, embedder, own.centre) for embedder in embedders
    ]
    return results, similarity.render(results)


def _of_words(
    own: Similarity, gold: str, models: Sequence[LanguageModel], vectors: VectorOptions
) -> Figures:
    """How often the cosine of a word's vectors tells its meaning."""
    from rescore.research import words_in_context
    from rescore.research.vectors import Embedder

    pairs = words_in_context.read_word_pairs(own.pairs, gold)
    embedders = [Embedder([lm], vectors) for lm in models]
    results = [
        words_in_context.measure_words(pairs, embedder, own.centre)
        for embedder in embedders
    ]
    return results, words_in_context.render(results)


@dataclass(frozen=True, kw_only=True)
class Probing(Declared):
    common = True

    name: str = option("", argument=True, required=True, choices=PROBES)
    path: str = option("", metavar="FILE", argument=True, required=True, reads=True)
    of_task: OptionValues = option(OptionValues, parts=PROBES)
    """The options of the tasks."""
    fine_tune: bool = option(
        False,
        "Also train a copy of the network together with the classifier, and print both"
        " accuracies.",
    )
    training: FineTuning = option(FineTuning, nested=FineTuning)
    output: str | None = written_file(
        None,
        "Write the figures as JSON; - is stdout.",
        "-o",
        "--output",
        may_write=of_form(".json"),
    )


@options.command("probe", lms=options.PLAIN)
def probe_command(
    own: Probing, lms: options.LanguageModelOptions, vectors: VectorOptions
) -> None:
    """Train a linear classifier on vectors and print its accuracy. Needs scikit-learn.

    sick: entailment in SICK.txt; wic: words in context; order: which of two lines of a
    text comes first.

    \b
    rescore probe sick SICK.txt --lm tta --lm unilm
    rescore probe wic dev.data.txt --gold dev.gold.txt --lm tta
    rescore probe order novels.txt --lm tta
    rescore probe sick SICK.txt --lm tta --fine-tune --epochs 2
    """
    from rescore.reports.markup import write_json
    from rescore.research import fine_tuning, probe, probe_tasks
    from rescore.research.vectors import Embedder

    examples = probe_tasks.read_examples(own.name, own.path, own.of_task)
    models = lms.load()
    embedders = [Embedder([lm], vectors) for lm in models]
    if own.fine_tune:
        for lm in models:
            fine_tuning.trainable(lm)  # refused before anything is computed
    results = [probe.probe(own.name, examples, embedder) for embedder in embedders]
    if own.fine_tune:
        total = own.training.epochs * examples.trained * len(models)
        with options.progress_bar(total, "fine-tune", unit="pairs") as bar:
            for lm in models:
                results.append(
                    fine_tuning.fine_tuned(
                        own.name, examples, lm, vectors, own.training, bar.update
                    )
                )
    if own.output:
        write_json(results, own.output)
    options.show(probe.render(results))
