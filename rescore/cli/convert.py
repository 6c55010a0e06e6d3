"""`rescore convert`: from any format to any other."""

from __future__ import annotations

from dataclasses import dataclass

from rescore import formats, pipeline
from rescore.cli import options
from rescore.cli.bridge import is_typed
from rescore.config import RunConfig
from rescore.file_options import of_form
from rescore.formats import check_output, written_formats
from rescore.formats.writing import write_references
from rescore.options import option, written_file
from rescore.parts import FORMATS


def _format(text: str) -> str:
    check_output(f"out.{text.lower()}")
    return FORMATS.check(text)


@dataclass(frozen=True, kw_only=True)
class Conversion(options.Lists):
    output: tuple[str, ...] = written_file(
        ("-",),
        "File (also .gz) or folder to write; - is stdout. May be repeated.",
        "-o",
        "--output",
        metavar="PATH",
    )
    to: str | None = option(
        None,
        "Format to write.  [default: from the ending, such as .json, .csv, .moses, else"
        " native JSON Lines]",
        metavar=f"[{'|'.join(written_formats())}]",
        parse=_format,
    )
    group_ids: str | None = option(
        None,
        "Unite the lists whose ids share a part, such as requests for samples of one"
        " question: the first group of REGEX (RE2) is the id of the united list.",
        metavar="REGEX",
    )
    """Each text counts, also if it is equal to another."""
    ref_text: str | None = written_file(
        None,
        "Write the references as text, one per line, for `train --text`. Lists are then"
        " written with -o alone.",
        may_write=of_form(".txt"),
    )


@options.command("convert", config=options.config("convert"), inputs=options.REWRITTEN)
def command(
    own: Conversion,
    undo: options.DetokenizeOption,
    config: RunConfig,
    inputs: options.InputOptions,
) -> None:
    """Convert N-best lists to another format.

    \b
    rescore convert exp/decode_test --ref data/test/text -o test.json
    rescore convert test.json --to espnet2 -o decode_test
    rescore convert lists.csv --field text=hyp --field score=logp -o lists.jsonl

    rescore convert batch.jsonl --group-ids '(.*)-[0-9]+' -o samples.jsonl

    rescore convert train.json --ref-text sentences.txt

    With --ref, NBEST may also be a 1-best text (Kaldi text, trn, plain lines): each
    text becomes a list of one hypothesis.

    A warning names the data that the new format cannot hold.
    """
    if own.to is None:
        for path in own.output:
            check_output(path)
    inputs.read_options.group_ids = own.group_ids
    lists = inputs.read_lists_or_texts(own.nbest)
    plan = pipeline.resolve(config, lists, measures=False)
    expanded = list(pipeline.expand(plan, lists))
    written = undo.undone(expanded)
    if own.ref_text is not None:
        write_references(written, own.ref_text)
        if not is_typed("output"):
            return
    for path in own.output:
        formats.write(written, path, own.to)
