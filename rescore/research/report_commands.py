"""The commands of the papers' measurements: each parses, measures and prints."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rescore.cli import options
from rescore.errors import UserError
from rescore.files import shown
from rescore.formats.source import InputWarnings
from rescore.formats.text import read_lines
from rescore.nbest import NbestList
from rescore.options import Declared, option
from rescore.reports import perplexity
from rescore.research.report import ReportOptions


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
