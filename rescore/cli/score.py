"""`rescore score`: one more column."""

from __future__ import annotations

from itertools import chain, islice

import click

from rescore.cli import options


@click.command("score")
@options.nbest_argument
@options.lm_option
@click.option("-o", "--output", default="-", show_default=True, metavar="FILE", help="Lists with the new column.")
@options.norm_option
@options.input_options
@options.device_option
def command(
    nbest: tuple[str, ...],
    lm: str,
    output: str,
    lm_norm: str | None,
    ref: str | None,
    format_name: str | None,
    s2s: str,
    lenpen: float,
    device: str | None,
) -> None:
    """Add a column of LM scores (natural log) to N-best lists, and write them in the native format.

    \b
    rescore score test.json --lm tta -o test.tta.jsonl.gz

    The column is called tta (sums over tokens) or tta.mean. JSON Lines are scored as a stream.
    """
    from rescore import formats, pipeline, scoring

    if ref:
        lists = iter(formats.read(nbest, references=ref, format_name=format_name, s2s=s2s, lenpen=lenpen))
    else:
        lists = formats.iterate(nbest, format_name, s2s, lenpen)
    head = list(islice(lists, 1))
    model = scoring.load(lm, device)
    with options.progress_bar(None, f"score {model.name}") as bar:
        scored = scoring.add_column(model, chain(head, lists), pipeline.choose_norm(lm_norm, head), bar.update)
        formats.write(scored, output)
