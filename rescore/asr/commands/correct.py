"""`rescore correct`: listed terms in place of the words that a recogniser heard."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import click

from rescore import formats
from rescore.asr.correct import Corrector, TermChange
from rescore.asr.documents import KINDS, Documents, kind_of, passages
from rescore.cli import options
from rescore.errors import OptionError
from rescore.formats.source import Source
from rescore.metrics.listed import WordList
from rescore.options import Declared, option, read_file, written_file


@dataclass(frozen=True, kw_only=True)
class CorrectOptions(Declared):
    """The texts, the list of terms, and what is written."""

    common = True

    text: tuple[str, ...] = option((), metavar="[TEXT...]", argument=True, reads=True)
    words: str = read_file(
        "", "Your terms: one `term`, or `heard => term`, per line.", required=True
    )
    output: str = written_file(
        "-",
        "Write the corrected text; for several texts, a folder.",
        "-o",
        "--output",
        metavar="PATH",
    )
    kind: str | None = option(
        None, "Format of TEXT.  [default: detected]", "--format", choices=KINDS
    )
    threshold: float | None = option(
        None,
        "Least probability of a correction.  [default: a careful value]",
        metavar="P",
        low=0,
        high=1,
    )
    case: bool = option(
        True,
        "Correct case alone, too: write a term as the list has it.",
        "--case/--no-case",
    )
    explain: str | None = option(
        None,
        "Write each correction: utterance, heard, term, probability; - is stderr.",
        metavar="FILE",
        writes="stderr",
    )


@options.command("correct")
def command(own: CorrectOptions) -> None:
    """Replace misheard words by the terms of a list: "gold man sacks" by Goldman
    Sachs.

    \b
    rescore correct talk.srt --words terms.txt -o new.srt --explain -
    rescore correct talks/ more.srt --words terms.txt -o corrected/
    recogniser | rescore correct - --words terms.txt

    TEXT is a 1-best text, or a folder of them: plain lines, Kaldi text, trn, CTM, STM,
    SRT or VTT. The output has the same format, and new words have the times of the
    words that they replace.
    """
    corrector = Corrector(WordList.load(Path(own.words)), own.threshold, case=own.case)
    targets = _targets(own)
    number = 0
    understood = Documents()
    with ExitStack() as stack:
        explained = None
        if own.explain and own.explain != "-":
            explained = stack.enter_context(formats.opened(own.explain))
        for target, source in targets.items():
            with formats.opened(target) as file:
                kind = own.kind or kind_of(source)
                document = understood.counted(passages(source, kind), source.name, kind)
                for written, changes in corrector.document(document):
                    file.write(written)
                    number += len(changes)
                    if own.explain:
                        for change in changes:
                            line = _line(change)
                            click.echo(line, file=explained, err=explained is None)
    understood.tell()
    if own.explain and not number:
        click.echo(f"rescore: nothing to correct{_advice(own.threshold)}", err=True)


def _advice(threshold: float | None) -> str:
    """Return what corrects more than a threshold; empty if nothing does.

    Args:
        threshold: The threshold of the user; None for the default.
    """
    if threshold == 0:
        return ""
    lower = LOWER
    if threshold is not None:
        lower = min(LOWER, threshold / 2)
    return f"; a lower --threshold (such as {lower:.2g}) corrects more"


LOWER = 0.3
"""A threshold below the default."""


def _targets(own: CorrectOptions) -> dict[str, Source]:
    """Return the texts by the paths that they are written to; several texts are written
    into a folder, which is made.
    """
    texts = [Source(path) for path in own.text or ("-",)]
    sources: list[Source] = []
    for text in texts:
        sources += text.files()
    if len(texts) == 1 and not texts[0].is_folder:
        return {own.output: texts[0]}
    targets = {}
    is_input = False
    for source in sources:
        target = Path(own.output) / source.path.name
        targets[str(target)] = source
        if target.exists() and target.samefile(source.path):
            is_input = True
    if own.output == "-" or len(targets) < len(sources) or is_input:
        raise OptionError(
            "several texts need -o FOLDER, another than theirs, and names of their own"
        )
    Path(own.output).mkdir(exist_ok=True)
    return targets


def _line(change: TermChange) -> str:
    """Return a line of --explain."""
    heard = " ".join(change.heard.split())
    return f"{change.id}\t{heard}\t{change.meant}\t{change.probability:.3f}"
