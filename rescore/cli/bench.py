"""`rescore bench`: the speed of language models on this machine."""

from __future__ import annotations

from pathlib import Path

import click

from rescore.cli import options
from rescore.cli.options.base import GroupedCommand


def _numbers(ctx: click.Context, parameter: click.Parameter, value: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(number) for number in value.split(","))
    except ValueError:
        numbers = (0,)
    if min(numbers) < 1:
        raise click.BadParameter(f"{value}: expected numbers of words, such as 5,20,100")
    return numbers


@click.command("bench", cls=GroupedCommand)
@options.nbest_argument
@click.option("--hypotheses", type=click.IntRange(min=1), default=500, show_default=True, help="Number of hypotheses.")
@click.option(
    "--lengths",
    default="5,10,15,20,30,40,50,60,80,100",
    show_default=True,
    callback=_numbers,
    help="Lengths of the single sentences, in words.",
)
@click.option(
    "--repeats", type=click.IntRange(min=1), default=3, show_default=True, help="Number of runs of each measurement."
)
@click.option("--vectors", is_flag=True, help="Measure sentence vectors, as in `rescore embed`, instead of scores.")
@click.option("-o", "--output", metavar="FILE", help="Write all figures as JSON.")
@click.option("--plot", metavar="FILE", help="Draw milliseconds by sentence length (PNG; needs matplotlib).")
@options.takes(lms=options.PLAIN, inputs=options.InputOptions)
def command(
    nbest: tuple[str, ...],
    lms: options.LanguageModelOptions,
    hypotheses: int,
    lengths: tuple[int, ...],
    repeats: int,
    vectors: bool,
    output: str | None,
    plot: str | None,
    inputs: options.InputOptions,
) -> None:
    """Measure how fast language models score N-best lists, and single sentences by length.

    \b
    rescore bench test.json --lm tta --lm bilm
    rescore bench test.json --lm tta --lm bilm --vectors
    """
    from rescore import formats
    from rescore.reports import speed

    if lms.cache:
        raise click.UsageError("--cache: what is looked up cannot be measured")
    texts = speed.sample(inputs.read(nbest), hypotheses)
    speeds = []
    for model in lms.load():
        with options.progress_bar(repeats + len(lengths), f"bench {model.name}", unit="run") as bar:
            speeds.append(speed.measure(model, texts, lengths, repeats, bar.update, vectors))
    about = f"{'vectors of ' if vectors else ''}{speed.described(texts)}, tokenising included; {speed.machine()}"
    if output:
        with formats.opened(output) as file:
            speed.write(speeds, about, file)
    if plot:
        speed.plot(speeds, Path(plot))
    if output != "-":
        click.echo(speed.render(speeds, about))
