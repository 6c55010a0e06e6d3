"""The commands of the papers' measurements: each parses, measures and prints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rescore import formats
from rescore.cli import options
from rescore.config import RunConfig
from rescore.errors import OptionError, UserError
from rescore.files import shown
from rescore.formats.outputs import is_text
from rescore.formats.sentences import read_sentences
from rescore.formats.source import InputWarnings, Source
from rescore.metrics.texts import warn_of_texts
from rescore.nbest import NbestList
from rescore.options import Declared, option, read_file
from rescore.plan import resolve
from rescore.reports import perplexity
from rescore.research import error_places, frequencies
from rescore.research.report import ChartOptions, ReportOptions
from rescore.tuning import Weights


def read_text(path: str) -> list[NbestList]:
    """Return the sentences of a text, as lists of one hypothesis.

    Args:
        path: A text with one sentence per line; an empty line ends a document.

    Raises:
        UserError: The file cannot be read or holds no text.
    """
    warnings = InputWarnings()
    lines = perplexity.documents(
        read_sentences(Path(path), empty=True, warnings=warnings)
    )
    warnings.report()
    if not lines:
        raise UserError(
            f"{path}: no text in it; give a file with one sentence per line"
        )
    return lines


def running_words(path: str) -> list[str]:
    """Return the words of a text, or of the first hypotheses of N-best lists.

    Args:
        path: A text, or N-best lists of any format that is detected.

    Raises:
        UserError: The file cannot be read.
    """
    source = Source(path)
    if is_text(source):
        return [word for line in source.lines() for word in line.split()]
    lists = formats.iterate([source])
    return [word for nbest in lists for word in nbest.hypotheses[0].text.split()]


@dataclass(frozen=True, kw_only=True)
class Accuracy(Declared):
    common = True

    text: str = option("", metavar="TEXT", argument=True, required=True, reads=True)


@options.command("accuracy", lms=options.PLAIN)
def accuracy_command(
    own: Accuracy, lms: options.LanguageModelOptions, output: ReportOptions
) -> None:
    """Measure how many tokens of a text language models predict as most probable.
    TEXT has one sentence per line.

    \b
    rescore accuracy test.txt --lm tta --lm bilm --lm bilm:intact --lm unilm

    A T-TA predicts each token from all other tokens, a bilm predicts each masked token,
    a unilm predicts each next token and the end of the sentence.
    """
    from rescore.research import accuracy

    output.check()
    lines = read_text(own.text)
    models = lms.load()
    with options.progress_bar(len(models) * len(lines), "accuracy", "sent") as bar:
        report = accuracy.measure(models, lines, shown(own.text), bar.update)
    output.write(report)


@dataclass(frozen=True, kw_only=True)
class Errors(Declared):
    common = True

    outputs: tuple[str, ...] = option(
        (), metavar="OUTPUT...", argument=True, required=True, reads=True, lists=True
    )
    weights: tuple[str, ...] = read_file(
        (),
        "Weights file: also show the texts that these weights choose from the lists."
        " May be repeated.",
    )
    force_weights: bool = option(
        False,
        "Apply weights that were tuned on scores of another model.",
        needs="weights",
    )
    width: int = option(5, "Number of places or lengths in a row.", metavar="N", low=1)


@options.command(
    "errors",
    config=options.config("errors", "weights", words=("respell",)),
    inputs=options.Offer(options.InputOptions, without=("audio", "merge", "scores")),
)
def errors_command(
    own: Errors, output: ChartOptions, config: RunConfig, inputs: options.InputOptions
) -> None:
    """Show the word error rate by position in the sentence and by length. OUTPUT is
    N-best lists (their first pass) or 1-best texts.

    \b
    rescore errors test.scored.jsonl --weights unilm.json --weights tta.json
    rescore errors baseline.trn reranked.trn --ref ref.trn --plot errors.svg
    """
    output.check()
    if own.weights and len(own.outputs) > 1:
        raise OptionError("--weights choose from the lists of a single OUTPUT")
    read = [(shown(path), inputs.read_output(path)) for path in own.outputs]
    weights = {shown(path): Weights.load(Path(path)) for path in own.weights}
    if weights:
        report = error_places.compare_weights(read[0][1], weights, config, own.width)
    else:
        report = error_places.compare_outputs(read, config, own.width)
    output.write_charted(report)


def _numbers(text: str) -> list[int]:
    """The numbers of words in a text such as `5,20,100`."""
    numbers = [int(part) if part.isdecimal() else 0 for part in text.split(",")]
    if min(numbers) < 1:
        raise ValueError(f"{text!r} is no list of numbers of words, such as 5,20,100")
    return numbers


def _checked_numbers(text: str) -> str:
    _numbers(text)
    return text


@dataclass(frozen=True, kw_only=True)
class Bench(Declared):
    common = True

    nbest: str = option(
        "", metavar="NBEST|TEXT", argument=True, required=True, reads=True
    )
    lengths: str = option(
        "5,10,20,30,50,75,100",
        "Numbers of words of the sentences, which are cut from the lists or the text.",
        metavar="N,N...",
        parse=_checked_numbers,
    )
    sentences: int = option(10, "Number of sentences of each length.", low=1)
    repeats: int = option(5, "Number of runs; the median counts.", low=1)
    vectors: bool = option(
        False, "Measure sentence vectors, as in `similarity`, instead of scores."
    )


@options.command("bench", lms=options.PLAIN)
def bench_command(
    own: Bench, lms: options.LanguageModelOptions, output: ChartOptions
) -> None:
    """Measure the run time of language models by sentence length: one sentence at a
    time, and in batches. Ratios are against the first --lm.

    \b
    rescore bench test.json --lm tta --lm bilm --lm unilm --plot speed.svg
    rescore bench test.txt --lm tta --lm bilm --vectors
    """
    from rescore.research import speed

    output.check()
    lengths = _numbers(own.lengths)
    words = running_words(own.nbest)
    with options.progress_bar(speed.WHOLE, "bench", "%") as bar:
        report = speed.measure(
            lms.load(),
            words,
            lengths,
            own.sentences,
            own.repeats,
            own.vectors,
            lms.computing.device,
            bar.update,
        )
    output.write_charted(report)


@dataclass(frozen=True, kw_only=True)
class Correlate(Declared):
    common = True

    nbest: tuple[str, ...] = option(
        (), metavar="NBEST...", argument=True, required=True, reads=True, lists=True
    )
    results: tuple[str, ...] = read_file(
        (),
        "Results of reranking the lists with each model, from `rescore compare -o"
        " FILE.json` or `rescore run --report FILE`. May be repeated.",
    )


@options.command(
    "correlate",
    lms=options.PLAIN,
    config=options.config("correlate"),
    inputs=options.ONLY_MODELS,
)
def correlate_command(
    own: Correlate,
    lms: options.LanguageModelOptions,
    output: ChartOptions,
    config: RunConfig,
    inputs: options.InputOptions,
) -> None:
    """Correlate the perplexity of language models with word error rates: over models,
    and over sentences. The lists need references.

    \b
    rescore compare test.json --dev dev.json --lm tta --lm unilm -o compared.json
    rescore correlate test.json --lm tta --lm unilm --results compared.json

    Perplexities are of the references. Over sentences, the perplexity of the first pass
    is correlated with its errors.
    """
    from rescore.research import correlation

    output.check()
    lists = inputs.read(own.nbest, need_references=True)
    metric = resolve(config, lists).metric
    warn_of_texts(metric, lists)
    error_rates = correlation.read_error_rates(own.results, metric.name, len(lists))
    models = lms.load()
    total = 2 * len(models) * len(lists)
    with options.progress_bar(total, "score", "sent") as bar:
        report = correlation.measure(models, lists, metric, error_rates, bar.update)
    output.write_charted(report)


@dataclass(frozen=True, kw_only=True)
class Frequencies(Declared):
    common = True

    text: str = option("", metavar="TEXT", argument=True, required=True, reads=True)
    corpus: str = read_file(
        "",
        "Training text of the models, or a model folder with lexicon.txt.xz, from which"
        " the frequencies come.",
        metavar="FILE|DIR",
        required=True,
    )


@options.command("frequencies", lms=options.PLAIN)
def frequencies_command(
    own: Frequencies, lms: options.LanguageModelOptions, output: ChartOptions
) -> None:
    """Show the perplexity of the words of a text by their frequency in a training text,
    and the share of words that each model predicts best.

    \b
    rescore frequencies test.txt --corpus train.txt --lm tta --lm unilm

    TEXT has one sentence per line. Words are separated by blanks.
    """
    output.check()
    lines = read_text(own.text)
    corpus = frequencies.read_corpus(own.corpus)
    models = lms.load()
    sources = shown(own.text), shown(own.corpus)
    with options.progress_bar(len(models) * len(lines), "score", "sent") as bar:
        report = frequencies.measure(models, lines, corpus, sources, bar.update)
    output.write_charted(report)
