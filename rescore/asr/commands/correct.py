"""`rescore correct`: listed terms in place of the words that a recogniser heard."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rescore.asr.formats.documents import KINDS
from rescore.cli import options
from rescore.cli.options.base import GroupedCommand, Number

if TYPE_CHECKING:
    from rescore.asr.correct import Change


@click.command("correct", cls=GroupedCommand)
@click.argument("text", metavar="TEXT", default="-")
@click.option(
    "--words",
    required=True,
    metavar="FILE",
    help="Your terms: one `term`, or `heard => term`, per line, perhaps with a tab and a weight; or one line "
    "`utterance word word ...` per utterance.",
)
@options.output_option("Write the corrected text.")
@click.option("--format", "kind", type=click.Choice(KINDS), help="Format of TEXT.  [default: detected]")
@click.option(
    "--threshold",
    type=Number(0.0, 1.0),
    metavar="P",
    help="Least probability of a correction.  [default: tuned on --dev, else a careful value]",
)
@click.option("--dev", metavar="TEXT", help="A text with references, on which the threshold is tuned.")
@click.option("--dev-ref", metavar="FILE", help="References of --dev.")
@click.option("--lm", metavar="KIND[:PATH]", help="A language model that also weighs the corrected sentences.")
@click.option(
    "--explain", metavar="FILE", help="Write each correction: utterance, heard, term, probability; - is stderr."
)
def command(
    text: str,
    words: str,
    output: str,
    kind: str | None,
    threshold: float | None,
    dev: str | None,
    dev_ref: str | None,
    lm: str | None,
    explain: str | None,
) -> None:
    """Correct what was heard into the terms of a list: "gold man sacks" into Goldman Sachs.

    \b
    rescore correct talk.srt --words terms.txt -o new.srt --explain -
    recogniser | rescore correct - --words terms.txt
    rescore correct test.trn --words terms.txt --dev dev.trn --dev-ref ref.trn

    TEXT is a 1-best text: plain lines, Kaldi text, trn, STM, CTM, SRT, VTT, or JSON of Whisper, Azure, Google, Vosk or
    sherpa. The output has the same format, and new words have the times of those that they replace.
    """
    from contextlib import ExitStack
    from pathlib import Path

    from rescore import formats
    from rescore.asr.correct import Corrector
    from rescore.asr.formats.documents import kind_of, parts
    from rescore.asr.thresholds import language_model, tuned
    from rescore.formats.source import Source
    from rescore.metrics.listed import WordList
    from rescore.metrics.normalise import Normaliser

    if bool(dev) != bool(dev_ref):
        raise click.UsageError("--dev and --dev-ref belong together")
    if dev and threshold is not None:
        raise click.UsageError("--threshold gives what --dev tunes; leave one out")
    listed = WordList.load(Path(words))
    corrector = Corrector(listed, threshold, language_model(lm) if lm else None)
    if dev and dev_ref:
        click.echo(f"rescore: {tuned(corrector, listed, dev, dev_ref, Normaliser(drop_punctuation=True))}", err=True)
    source = Source(text)
    document = parts(source, kind or kind_of(source))
    with ExitStack() as stack:
        file = stack.enter_context(formats.opened(output))
        shown = stack.enter_context(formats.opened(explain)) if explain and explain != "-" else None
        for written, changes in corrector.document(document):
            file.write(written)
            for line in map(_line, changes if explain else ()):
                click.echo(line, file=shown, err=shown is None)


def _line(change: Change) -> str:
    return f"{change.id}\t{' '.join(change.heard.split())}\t{change.meant}\t{change.probability:.3f}"
