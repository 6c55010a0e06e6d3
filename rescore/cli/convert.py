"""`rescore convert`: from any format to any other."""

from __future__ import annotations

import click

from rescore import parts
from rescore.cli import options
from rescore.cli.options.base import GroupedCommand, OneOf


class OneOfWritten(OneOf):
    """A format that can be written."""

    def __init__(self) -> None:
        super().__init__(parts.FORMATS)

    @property
    def names(self) -> list[str]:
        return [name for name in self.table.names if hasattr(self.table[name], "write")]


@click.command("convert", cls=GroupedCommand)
@options.nbest_argument
@click.option(
    "-o",
    "--output",
    default="-",
    show_default=True,
    metavar="PATH",
    help="File (also .gz) or folder to write; - is stdout.",
)
@click.option(
    "--to",
    type=OneOfWritten(),
    help="Format to write.  [default: from the ending: .json, .csv, .tsv, else native JSON Lines]",
)
@options.detokenize_option
@options.expansion_options
@options.input_options
def command(
    nbest: tuple[str, ...],
    output: str,
    to: str | None,
    detokenize: str | None,
    expansion: options.ExpansionOptions,
    inputs: options.InputOptions,
) -> None:
    """Convert N-best lists to another format.

    \b
    rescore convert exp/decode_test --ref data/test/text -o test.json
    rescore convert test.json --to espnet2 -o decode_test
    rescore convert lists.csv --field text=hyp --field score=logp -o lists.jsonl

    A warning names the data that the new format cannot hold.
    """
    from rescore import formats, pipeline
    from rescore.formats.best import rewritten
    from rescore.formats.text import detokeniser

    lists = list(pipeline.expand(inputs.read(nbest), options.run_config(expansion)))
    if detokenize:
        undo = detokeniser(detokenize)
        for nbest_list in lists:
            nbest_list.hypotheses = [
                rewritten(hypothesis, undo(hypothesis.text)) for hypothesis in nbest_list.hypotheses
            ]
            nbest_list.references = tuple(undo(text) for text in nbest_list.references)
    formats.write(lists, output, to)
