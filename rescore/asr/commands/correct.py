"""`rescore correct`: listed terms in place of the words that a recogniser heard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rescore.asr.formats.documents import KINDS
from rescore.cli import options
from rescore.options import Declared, option

if TYPE_CHECKING:
    from rescore.asr.correct import Change


@dataclass(frozen=True, kw_only=True)
class Correction(Declared):
    common = True

    text: str = option("-", metavar="TEXT", argument=True, reads=True)
    words: str = option(
        "", "Your terms: one `term`, or `heard => term`, per line.", metavar="FILE", required=True, reads=True
    )
    output: str = option("-", "Write the corrected text.", "-o", "--output", metavar="FILE", writes="stdout")
    kind: str | None = option(None, "Format of TEXT.  [default: detected]", "--format", choices=KINDS)
    threshold: float | None = option(
        None, "Least probability of a correction.  [default: a careful value]", metavar="P", low=0, high=1
    )
    explain: str | None = option(
        None,
        "Write each correction: utterance, heard, term, probability; - is stderr.",
        metavar="FILE",
        writes="stderr",
    )


@options.command("correct")
def command(own: Correction) -> None:
    """Correct what was heard into the terms of a list: "gold man sacks" into Goldman Sachs.

    \b
    rescore correct talk.srt --words terms.txt -o new.srt --explain -
    recogniser | rescore correct - --words terms.txt

    TEXT is a 1-best text: plain lines, Kaldi text, trn, CTM, SRT or VTT. The output has the same format, and
    new words have the times of those that they replace.
    """
    from contextlib import ExitStack
    from pathlib import Path

    from rescore import formats
    from rescore.asr.correct import Corrector
    from rescore.asr.formats.documents import kind_of, parts
    from rescore.formats.source import Source
    from rescore.metrics.listed import WordList

    explain = own.explain
    corrector = Corrector(WordList.load(Path(own.words)), own.threshold)
    source = Source(own.text)
    document = parts(source, own.kind or kind_of(source))
    with ExitStack() as stack:
        file = stack.enter_context(formats.opened(own.output))
        shown = stack.enter_context(formats.opened(explain)) if explain and explain != "-" else None
        for written, changes in corrector.document(document):
            file.write(written)
            for line in map(_line, changes if explain else ()):
                click.echo(line, file=shown, err=shown is None)


def _line(change: Change) -> str:
    return f"{change.id}\t{' '.join(change.heard.split())}\t{change.meant}\t{change.probability:.3f}"
