"""`rescore convert`: from any format to any other."""

from __future__ import annotations

from typing import Any

import click

from rescore import parts
from rescore.cli import options
from rescore.cli.options.base import GroupedCommand, OneOf
from rescore.config import RunConfig
from rescore.formats import BEST_ENDINGS, written_formats


class OneOfWritten(OneOf):
    """A format that `convert` writes."""

    def __init__(self) -> None:
        super().__init__(parts.FORMATS, written_formats, explained=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if (name := str(value).lower()) in BEST_ENDINGS:
            self.fail(f"{name} holds 1-best texts, not lists; write it with: rescore rerank NBEST --best out.{name}")
        return super().convert(value, param, ctx)


@click.command("convert", cls=GroupedCommand)
@options.nbest_argument
@options.output_option("File (also .gz) or folder to write; - is stdout.", "PATH")
@click.option(
    "--to",
    type=OneOfWritten(),
    help="Format to write.  [default: from the ending: .json, .csv, .tsv, else native JSON Lines]",
)
@options.takes(undo=options.DetokenizeOption, config=options.config(options.EXPANSION), inputs=options.InputOptions)
def command(
    nbest: tuple[str, ...],
    output: str,
    to: str | None,
    undo: options.DetokenizeOption,
    config: RunConfig,
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

    lists = inputs.read(nbest)
    lists = list(pipeline.expand(pipeline.resolve(options.configured(config), lists, measures=False), lists))
    if undo.detokenize:
        plain = detokeniser(undo.detokenize)
        for nbest_list in lists:
            nbest_list.hypotheses = [
                rewritten(hypothesis, plain(hypothesis.text)) for hypothesis in nbest_list.hypotheses
            ]
            nbest_list.references = tuple(plain(text) for text in nbest_list.references)
    formats.write(lists, output, to)
