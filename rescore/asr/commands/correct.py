"""`rescore correct`: listed terms in place of the words that a recogniser heard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rescore.asr.formats.documents import KINDS
from rescore.cli import options
from rescore.options import Declared, option, read_file, written_file

if TYPE_CHECKING:
    from rescore.asr.correct import Change


@dataclass(frozen=True, kw_only=True)
class Correction(Declared):
    common = True

    text: tuple[str, ...] = option((), metavar="[TEXT...]", argument=True, reads=True)
    words: str = read_file(
        "", "Your terms: one `term`, or `heard => term`, per line.", required=True
    )
    output: str = written_file(
        "-",
        "Write the corrected text; of several, a folder.",
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
def command(own: Correction) -> None:
    """Correct what was heard into the terms of a list: "gold man sacks" into Goldman
    Sachs.

    \b
    rescore correct talk.srt --words terms.txt -o new.srt --explain -
    rescore correct talks/ more.srt --words terms.txt -o corrected/
    recogniser | rescore correct - --words terms.txt

    TEXT is a 1-best text, or a folder of them: plain lines, Kaldi text, trn, CTM, SRT
    or VTT. The output has the same format, and new words have the times of those that
    they replace.
    """
    from contextlib import ExitStack
    from pathlib import Path

    from rescore import formats
    from rescore.asr.correct import Corrector
    from rescore.asr.formats.documents import kind_of, parts
    from rescore.formats.source import Source
    from rescore.metrics.listed import WordList

    explain = own.explain
    corrector = Corrector(WordList.load(Path(own.words)), own.threshold, case=own.case)
    texts = [Source(path) for path in own.text or ("-",)]
    sources = [source for text in texts for source in text.files()]
    targets = {own.output: texts[0]}
    if len(texts) > 1 or texts[0].is_folder:
        targets = {
            str(Path(own.output) / source.path.name): source for source in sources
        }
        pairs = [(Path(target), source.path) for target, source in targets.items()]
        over = any(target.exists() and target.samefile(path) for target, path in pairs)
        if own.output == "-" or len(targets) < len(sources) or over:
            raise click.UsageError(
                "several texts need -o FOLDER, another than theirs, and names of"
                " their own"
            )
        Path(own.output).mkdir(exist_ok=True)
    found = False
    with ExitStack() as stack:
        shown = (
            stack.enter_context(formats.opened(explain))
            if explain and explain != "-"
            else None
        )
        for target, source in targets.items():
            with formats.opened(target) as file:
                for written, changes in corrector.document(
                    parts(source, own.kind or kind_of(source))
                ):
                    file.write(written)
                    found |= bool(changes)
                    for line in map(_line, changes if explain else ()):
                        click.echo(line, file=shown, err=shown is None)
    if explain and not found:
        click.echo(
            "rescore: nothing to correct; a lower --threshold (such as 0.3) corrects"
            " more",
            err=True,
        )


def _line(change: Change) -> str:
    heard = " ".join(change.heard.split())
    return f"{change.id}\t{heard}\t{change.meant}\t{change.probability:.3f}"
