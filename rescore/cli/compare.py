"""`rescore compare`: language models side by side."""

from __future__ import annotations

import logging

import click

from rescore.cli import options
from rescore.cli.options.base import GroupedCommand, OneOf
from rescore.config import RunConfig
from rescore.parts import STYLES

log = logging.getLogger(__name__)


class CompareCommand(GroupedCommand):
    """The command; says which commands compare files where there is nothing to score them with."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.MissingParameter as error:
            raise click.UsageError(
                f"{error.format_message()} This command scores lists with language models. To compare outputs: rescore "
                "eval A B --ref FILE; results files: rescore report A.json B.json; a table without a model: rescore "
                "run NBEST --decide mbr --table FILE.tex",
                ctx,
            ) from None


@click.command("compare", cls=CompareCommand)
@options.nbest_argument
@click.option(
    "--word-bonus/--no-word-bonus",
    default=None,
    help="Tune a word bonus.  [default: for all models together, not for BLEU]",
)
@click.option(
    "--leave-out/--no-leave-out",
    default=True,
    help="Whether all models but one are combined, too, leaving out each model in turn.  [default: yes]",
)
@click.option(
    "--style",
    type=OneOf(STYLES, lambda: [*STYLES.names, "json"]),
    default="text",
    show_default=True,
    help="Style of the table on stdout.",
)
@click.option(
    "-o",
    "--output",
    multiple=True,
    metavar="FILE",
    help="Also write the table to FILE: .md, .csv, .tex, .txt, .json (full precision). May be repeated.",
)
@options.rename_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON, like --style json.")
@options.takes(
    lms=options.COMPARED,
    dev=options.Offer(options.DevLists, required=("dev",)),
    config=options.config(
        options.MODELS, options.EXPANSION, options.DECISION, options.MEASURES, names=("components", "boost")
    ),
    significance=options.TestOptions,
    inputs=options.InputOptions,
)
def command(
    nbest: tuple[str, ...],
    lms: options.LanguageModelOptions,
    dev: options.DevLists,
    word_bonus: bool | None,
    leave_out: bool,
    style: str,
    output: tuple[str, ...],
    rename: dict[str, str],
    as_json: bool,
    config: RunConfig,
    significance: options.TestOptions,
    inputs: options.InputOptions,
) -> None:
    """Compare language models on the same lists: each alone, all together, and all but one, each in turn.

    \b
    rescore compare test.json --dev dev.json --lm ngram:lm.arpa --lm tta -o t.md

    The weights of each row are tuned on --dev. A row has the metric, its gain over the first pass (a loss is negative),
    a p-value against the first pass, and the number of hypotheses scored per second. The p-value of a row `without
    MODEL` is against all models: it says whether the model adds anything to the others.
    """
    from rescore import formats
    from rescore.files import shown
    from rescore.reports.comparison import JSON, render
    from rescore.styles import endings, style_of, unknown_name

    styles = {path: JSON if path.endswith(".json") else style_of(path) for path in output}
    for path, found_style in styles.items():
        if found_style is None:
            raise click.UsageError(f"--output {path}: its ending is not one of {endings()}, .json")
    config = options.configured(config, lms, dev=dev.dev, word_bonus=word_bonus)
    lists, dev_lists = inputs.read(nbest, need_references=True), inputs.read_dev(dev.dev, dev.dev_ref)
    with options.scoring_bar(config, lists, dev_lists) as bar:
        comparison = comparing.compare(
            lists, dev_lists, config, lms.load, significance.make(), shown(", ".join(nbest)), bar.update, leave_out
        )
    if message := unknown_name(rename, comparison.names):
        log.warning(message)  # an error would throw away the scores
    for path, found_style in styles.items():
        with formats.opened(path) as file:
            file.write(render(comparison, str(found_style), rename) + "\n")
    click.echo(render(comparison, JSON if as_json else style, rename))
