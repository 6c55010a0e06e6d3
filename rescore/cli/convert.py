"""`rescore convert`: any format to the native one."""

from __future__ import annotations

import click

from rescore.cli import options


@click.command("convert")
@options.nbest_argument
@click.option("-o", "--output", default="-", show_default=True, metavar="FILE", help=".json, or .jsonl; also .gz.")
@options.input_options
def command(nbest: tuple[str, ...], output: str, inputs: options.InputOptions) -> None:
    """Read N-best lists of any known format and write them in the native one.

    \b
    rescore convert exp/decode_test --ref data/test/text -o test.json
    """
    from rescore import formats

    formats.write(inputs.read(nbest), output)
