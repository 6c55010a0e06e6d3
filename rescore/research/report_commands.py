"""The commands of the papers' measurements: each parses, measures and prints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from rescore.cli import options
from rescore.config import RunConfig
from rescore.errors import UserError
from rescore.files import shown
from rescore.formats.source import InputWarnings
from rescore.formats.text import read_lines
from rescore.nbest import NbestList
from rescore.options import Declared, option, read_file
from rescore.reports import perplexity
from rescore.research import error_places
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
    lines = perplexity.documents(read_lines(Path(path), empty=True, warnings=warnings))
    warnings.report()
    if not lines:
        raise UserError(
            f"{path}: no text in it; give a file with one sentence per line"
        )
    return lines


@dataclass(frozen=True, kw_only=True)
class Accuracy(Declared):
    common = True

    text: str = option("", metavar="TEXT", argument=True, required=True, reads=True)


@options.command("accuracy", lms=options.PLAIN)
def accuracy_command(
    own: Accuracy, lms: options.LanguageModelOptions, output: ReportOptions
) -> None:
    """Measure how many tokens of a text are the most probable ones of language models.
    TEXT has one sentence per line.

    \b
    rescore accuracy test.txt --lm tta --lm bilm --lm bilm:intact --lm unilm

    A T-TA predicts each token from all others, a bilm each masked token, a unilm each
    next token and the end of the sentence.
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
        (), metavar="OUTPUT...", argument=True, required=True, reads=True
    )
    weights: tuple[str, ...] = read_file(
        (),
        "Weights file: also show the texts that these weights choose from the lists."
        " May be repeated.",
    )
    force_weights: bool = option(
        False, "Apply weights that were tuned on scores of another model."
    )
    width: int = option(5, "Number of places or lengths in a row.", metavar="N", low=1)


@options.command("errors", config=options.config("rerank"))
def errors_command(
    own: Errors, output: ChartOptions, config: RunConfig, inputs: options.InputOptions
) -> None:
    """Show the word error rate by place in the sentence and by length. OUTPUT is N-best
    lists (their first pass) or 1-best texts.

    \b
    rescore errors test.scored.jsonl --weights unilm.json --weights tta.json
    rescore errors baseline.trn reranked.trn --ref ref.trn --plot errors.svg
    """
    output.check()
    if own.weights and len(own.outputs) > 1:
        raise click.UsageError("--weights choose from the lists of a single OUTPUT")
    config = options.configured(config, force_weights=own.force_weights)
    read = [(shown(path), inputs.read_output(path)) for path in own.outputs]
    weights = {shown(path): Weights.load(Path(path)) for path in own.weights}
    if weights:
        report = error_places.compare_weights(read[0][1], weights, config, own.width)
    else:
        report = error_places.compare_outputs(read, config, own.width)
    output.write_charted(report)
