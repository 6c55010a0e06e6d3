"""`rescore train`: a language model from text, or from translations."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import click

from rescore.cli.options.base import GroupedCommand
from rescore.cli.training import WAYS, Common, Way
from rescore.errors import UserError

MODULES: dict[str, Way] = {name: importlib.import_module(f"rescore.cli.training.{name}") for name in WAYS}
KINDS = [kind for module in MODULES.values() for kind in module.KINDS]


def _with_all_options(command: Any) -> Any:
    for module in reversed(MODULES.values()):
        command = module.options(command)
    return command


@click.command("train", cls=GroupedCommand)
@click.option(
    "--lm",
    required=True,
    type=click.Choice(KINDS),
    metavar="KIND",
    help=f"What to train: {', '.join(KINDS)}.",
)
@click.option("--text", metavar="FILE", help="One sentence per line, UTF-8; plain, .gz or .xz. channel: N-best lists.")
@click.option(
    "--pairs",
    nargs=2,
    multiple=True,
    metavar="SOURCE TARGET",
    help="unified, lexical; tta, bilm, which then read the source: sentences and their translations, line by line. "
    "lexical: may be repeated.",
)
@click.option("--out", required=True, metavar="DIR", help="The model's folder; --lm KIND:DIR scores with it.")
@click.option("--tokenizer", metavar="FILE", help="A tokenizer.json.  [default: train one on the text]")
@click.option(
    "--normalize",
    type=click.Choice(["english", "speech", "text", "folded"]),
    help="For a new tokenizer: english folds case, accents and punctuation; speech keeps accents; text keeps all; "
    "folded keeps all but case.  [default: english; for lexical folded]",
)
@_with_all_options
@click.pass_context
def command(
    ctx: click.Context,
    /,
    lm: str,
    text: str | None,
    pairs: tuple[tuple[str, str], ...],
    out: str,
    tokenizer: str | None,
    normalize: str | None,
    **options: Any,
) -> None:
    """Train a language model and write its folder: the model, its tokenizer.json, and a card, README.md.

    \b
    rescore train --lm tta --text corpus.txt.xz --out lm --minutes 120
    torchrun --nproc-per-node 4 -m rescore train --lm tta --text a.txt --out lm
    rescore train --lm unified --text a.en --pairs train.de train.en --out lm
    rescore train --lm tta --pairs train.de train.en --out lm
    rescore train --lm lexical --pairs train.de train.en --out lm
    rescore train --lm ngram -o 5 --prune 0,0,1 --text corpus.txt.xz --out lm
    rescore train --lm channel --text dev.json --out channel

    After an interruption, the same command with --resume continues where it stopped. An n-gram model is estimated by
    KenLM's lmplz, which has to be on PATH; the error says how to get it where it is not.
    """
    name, module = next((name, module) for name, module in MODULES.items() if lm in module.KINDS)
    _refuse_foreign(ctx, lm, module)
    _refuse_another(Path(out), lm)
    if text == "-":
        raise click.UsageError("--text -: the text is read more than once; give a file")
    if pairs and lm not in module.PAIRED:
        raise click.UsageError(f"--pairs does not apply to --lm {lm}")
    if len(pairs) > 1 and lm != "lexical":
        raise click.UsageError(f"--lm {lm} takes --pairs once; put the texts into one file for each language")
    common = Common(
        lm,
        Path(out),
        Path(text) if text else None,
        tuple((Path(source), Path(target)) for source, target in pairs),
        Path(tokenizer) if tokenizer else None,
        normalize,
    )
    module.train(common, options[name])


def _refuse_another(out: Path, lm: str) -> None:
    """A folder that holds a model of another kind: files of both would be mixed there."""
    from rescore.lms.folders import card_value

    there = card_value(out, "kind")
    if there not in (None, lm):
        raise UserError(
            f"--out {out}: holds a model of kind {there}, not {lm}; give another folder, or delete this one"
        )


def _refuse_foreign(ctx: click.Context, lm: str, module: Way) -> None:
    """An option that this kind of model does not know would otherwise be ignored in silence."""
    foreign = {other.TITLE for other in MODULES.values()} - {module.TITLE}
    for parameter in ctx.command.params:
        given = ctx.get_parameter_source(parameter.name or "") == click.core.ParameterSource.COMMANDLINE
        if given and getattr(parameter, "title", None) in foreign:
            raise click.UsageError(f"{parameter.opts[-1]} does not apply to --lm {lm}")
