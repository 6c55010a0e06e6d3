"""`rescore train`: a language model from text, or from translations. The options are
those that its kind declares.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path

import click

from rescore.cli import bridge
from rescore.cli.bridge import Command, Offer
from rescore.errors import OptionError, UserError, takes_no
from rescore.lms.base import Kind, kind_of
from rescore.lms.folders import card_value
from rescore.lms.options import TrainingOptions
from rescore.lms.training.options import SourceOptions
from rescore.options import Declared, option
from rescore.parts import CHANNEL_KINDS, KINDS, LESSONS, Registry

log = logging.getLogger(__name__)


def trained_kinds() -> Registry[Kind]:
    """The kinds of models that can be trained."""
    trained: Registry[Kind] = Registry(KINDS.kind, {})
    for name, kind_class in chain(KINDS.loaded(), CHANNEL_KINDS.loaded()):
        kind = kind_class(name)
        try:
            is_trained = kind.training_options() is not None
        except (ImportError, AttributeError) as error:  # of an installed package
            log.warning("%s %s cannot be trained (%s)", KINDS.kind, name, error)
            continue
        if is_trained:
            trained.register(kind.name, kind)
    return trained


@dataclass(frozen=True, kw_only=True)
class TrainedKind(Declared):
    common = True

    lm: str = option(
        "",
        "Kind of model. `--lm NAME --help-all` lists the options of this kind.",
        choices=trained_kinds,
        required=True,
    )


class TrainCommand(Command):
    """A command with the options of the kind that --lm names; without --lm, with the
    options of most networks.
    """

    def offers(self, ctx: click.Context) -> Mapping[str, Offer]:
        """Return the options of the command and of the kind.

        Args:
            ctx: The context of the command.
        """
        return {
            **super().offers(ctx),
            "options": Offer(ctx.meta.get(DECLARED, SourceOptions)),
        }

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse a command line, in which --lm names the kind.

        Args:
            ctx: The context of the command, which gets the values.
            args: The words of the command line.

        Raises:
            UserError: The kind is unknown, or cannot be trained.
            UsageError: The kind has no such option, or a value is wrong.
        """
        name = _named(args)
        if name:
            if name in KINDS:
                kind_of(name)  # says why the kind of a package cannot be loaded
            kinds = trained_kinds()
            kind = kinds[kinds.check(name)]
            ctx.meta[DECLARED] = kind.training_options()
            ctx.meta[KIND] = kind
        return super().parse_args(ctx, args)

    def instead(self, ctx: click.Context, flag: str) -> str:
        """Return the message about an option that the kind lacks: other kinds have it,
        or other commands.

        Args:
            ctx: The context of the command.
            flag: The option as it is typed.
        """
        kind = ctx.meta.get(KIND)
        able = []
        for name, other in trained_kinds().loaded():
            declared = other.training_options()
            assert declared is not None
            strange = _strange(other)
            for parameter in Offer(declared).parameters():
                flags = (*parameter.opts, *parameter.secondary_opts)
                if flag in flags and parameter.name not in strange:
                    able.append(name)
        if kind is None or not able:
            return super().instead(ctx, flag)
        others = f"--lm {' or '.join(able)}"
        return takes_no(f"train --lm {kind.name}", flag, [others])

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters; options of lessons that do not suit the kind are not
        shown.

        Args:
            ctx: The context of the command.
        """
        params = super().get_params(ctx)
        kind = ctx.meta.get(KIND)
        if kind is None or not ctx.meta.get(bridge.PARTS):
            return params
        strange = _strange(kind)
        for param in params:
            if isinstance(param, click.Option) and param.name in strange:
                param.hidden = True
        return params


def _strange(kind: Kind) -> set[str]:
    """Return the options of lessons that do not suit a kind."""
    strange: set[str] = set()
    for _, lesson in LESSONS.loaded():
        if not lesson.suits(kind):
            strange.update(entry.name for entry in lesson.Options.declared())
    return strange


DECLARED = "rescore.train.options"
KIND = "rescore.train.kind"


def _named(args: Sequence[str]) -> str:
    """Return the value of --lm; empty where it is absent."""
    for argument, following in pairwise([*args, ""]):
        if argument == "--lm":
            return following
        if argument.startswith("--lm="):
            return argument.removeprefix("--lm=")
    return ""


@bridge.command("train", TrainCommand)
def command(kind: TrainedKind, options: TrainingOptions) -> None:
    """Train a language model. Write the model, tokenizer.json, and a model card
    (README.md) to --out.

    \b
    rescore train --lm tta --help-all
    rescore train --lm tta --text corpus.txt.xz --out lm --minutes 120
    rescore train --lm tta --pairs train.de train.en --out lm
    rescore train --lm lexical --pairs train.de train.en --out lm
    rescore train --lm ngram -o 5 --prune 0,0,1 --text corpus.txt.xz --out lm
    rescore train --lm channel --text dev.json --out channel

    To continue after an interruption, repeat the command with --resume. N-gram models
    of more than 20 million words need KenLM's lmplz on PATH.
    """
    there = card_value(options.out, "kind")
    if there not in (None, kind.lm):  # files of both would be mixed in the folder
        instead = "give another folder, or delete this one"
        raise UserError(
            f"--out {options.out}: holds a model of kind {there}, not {kind.lm};"
            f" {instead}"
        )
    if Path("-") in getattr(options, "text", ()):
        raise OptionError("--text -: the text is read more than once; give a file")
    is_new = not options.out.exists()
    try:
        trained_kinds()[kind.lm].train(options, lambda line: click.echo(line, err=True))
    finally:
        if is_new:
            # a folder with files stays, and a training can end before it makes the
            # folder
            with suppress(OSError):
                options.out.rmdir()
    click.echo(f"wrote {options.out}", err=True)
