"""`rescore train`: a language model from text, or from translations. The options are those that its kind declares."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import click

from rescore.cli.options.base import GroupedCommand, Number, OneOf, Words
from rescore.errors import UserError
from rescore.lms.base import Kind, Report, kind_of
from rescore.lms.folders import card_value
from rescore.lms.neural.options import NeuralOptions
from rescore.lms.options import Option, TextOptions, TrainingOptions, option
from rescore.parts import KINDS, did_you_mean


class ChannelKind(Kind):
    """Channels, for --respell: what a recogniser writes where something else was said."""

    @dataclass(frozen=True, kw_only=True)
    class Options(TextOptions):
        title = "Channels"

        text: tuple[Path, ...] = option((), "N-best lists to learn from. May be repeated.", metavar="LISTS")
        ref: tuple[str, ...] = option(
            (),
            "References of the lists, if the lists have none. May be repeated for several references per utterance.",
            metavar="FILE",
        )

    def train(self, options: TrainingOptions, report: Report = lambda line: None) -> None:
        from rescore.expansion import channel

        assert isinstance(options, ChannelKind.Options)
        if not options.text:
            raise UserError("no lists to learn a channel from; give --text LISTS")
        channel.train([str(path) for path in options.text], options.out, options.ref, report)


def trained_kinds() -> dict[str, Kind]:
    """What can be trained, by name."""
    kinds = {name: kind_of(name) for name in KINDS.names} | {"channel": ChannelKind("channel")}
    return {name: kind for name, kind in kinds.items() if kind.Options is not None}


class OneOfTrained(OneOf):
    """A kind of model that can be trained."""

    def __init__(self) -> None:
        super().__init__(KINDS)

    @property
    def names(self) -> list[str]:
        return list(trained_kinds())

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in self.names:
            return str(value)
        self.fail(f"{value!r} is not one of {', '.join(self.names)}{did_you_mean(value, self.names)}", param, ctx)


class TrainCommand(GroupedCommand):
    """A command whose options are those of the kind that --lm names; without it, those of all networks."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        lm, *rest = super().get_params(ctx)
        return [lm, *_parameters(ctx.meta.get(DECLARED, NeuralOptions)), *rest]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        kinds, name = trained_kinds(), _named(args)
        if name in kinds:
            ctx.meta[DECLARED] = kinds[name].Options
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            able = [kind_name for kind_name, kind in kinds.items() if _has(kind, error.option_name)]
            if not able or name not in kinds:
                raise
            message = f"{error.option_name} is for {', '.join(able)}; it does not apply to --lm {name}"
            raise click.UsageError(message, ctx) from None


DECLARED = "rescore.train.options"


def _named(args: Sequence[str]) -> str:
    """What --lm is given; empty where it is absent."""
    for place, argument in enumerate(args):
        if argument == "--lm" and place + 1 < len(args):
            return args[place + 1]
        if argument.startswith("--lm="):
            return argument.removeprefix("--lm=")
    return ""


def _has(kind: Kind, name: str) -> bool:
    return kind.Options is not None and any(
        name in parameter.opts + parameter.secondary_opts for parameter in _parameters(kind.Options)
    )


def _parameters(options: type[TrainingOptions]) -> Iterator[click.Option]:
    """The options that a class declares."""
    hints, defaults = get_type_hints(options), {field.name: field.default for field in fields(options)}
    for name, title, about in options.declared():
        parameter = _parameter(name, hints[name], defaults[name], about)
        parameter.title = title  # type: ignore[attr-defined]  # GroupedCommand shows options by it
        yield parameter


def _parameter(name: str, hint: Any, default: Any, about: Option) -> click.Option:
    names = [name, *(about.names or [f"--{name.replace('_', '-')}"])]
    optional = NoneType in get_args(hint)
    kind = next(part for part in get_args(hint) if part is not NoneType) if optional else hint
    several = get_origin(kind) is tuple and get_args(kind)[1] is ...
    metavar = about.metavar or ("N" if kind is int else None)
    shown: dict[str, Any] = {"help": about.help or None, "metavar": metavar, "required": about.required}
    if kind is bool:
        return click.Option(names, is_flag=True, default=None if optional else default, **shown)
    if not (optional or several or about.required):
        shown |= {"default": default, "show_default": True}
    if several:
        shown |= {"multiple": True}
        kind = get_args(kind)[0]
    if get_origin(kind) is tuple:
        shown |= {"nargs": 2} if several else {"nargs": 2, "multiple": True, "callback": _single}
        kind = get_args(kind)[0]
    return click.Option(names, type=_type(kind, about), **shown)


def _single(ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, str], ...]) -> tuple[str, str] | None:
    """The only value of an option that is not for several; click itself would silently take the last."""
    if len(value) > 1:
        raise click.UsageError(
            f"--lm {ctx.params['lm']} takes {param.opts[0]} once; put the texts into one file for each language", ctx
        )
    return value[0] if value else None


def _type(kind: type, about: Option) -> Any:
    """click's type of values of a kind."""
    if about.choices:
        return click.Choice(list(about.choices))
    if kind is int:
        low, high = (None if bound is None else int(bound) for bound in (about.low, about.high))
        return click.IntRange(low, high)
    if kind is float:
        least, most = (-math.inf if about.low is None else about.low), (math.inf if about.high is None else about.high)
        return Number(least, most, about.open_low, about.open_high)
    return Words(about.metavar or "", [])


def _value(hint: Any, value: Any) -> Any:
    """A value of the command line as the field has it."""
    if isinstance(value, tuple):
        return tuple(_value(hint, part) for part in value)
    return value if value is None or "Path" not in str(hint) else Path(value)


@click.command("train", cls=TrainCommand)
@click.option(
    "--lm",
    required=True,
    is_eager=True,
    type=OneOfTrained(),
    help="Kind of model. `--lm NAME --help` lists the options of this kind.",
)
@click.pass_context
def command(ctx: click.Context, /, lm: str, **values: Any) -> None:
    """Train a language model. Write the model, tokenizer.json, and a model card (README.md) to --out.

    \b
    rescore train --lm tta --help
    rescore train --lm tta --text corpus.txt.xz --out lm --minutes 120
    torchrun --nproc-per-node 4 -m rescore train --lm tta --text a.txt --out lm
    rescore train --lm unified --text a.en --pairs train.de train.en --out lm
    rescore train --lm tta --pairs train.de train.en --out lm
    rescore train --lm lexical --pairs train.de train.en --out lm
    rescore train --lm ngram -o 5 --prune 0,0,1 --text corpus.txt.xz --out lm
    rescore train --lm channel --text dev.json --out channel

    To continue after an interruption, repeat the command with --resume. N-gram models need KenLM's lmplz on PATH; if
    lmplz is missing, the error message says how to get it.
    """
    kind = trained_kinds()[lm]
    assert kind.Options is not None
    _refuse_another(Path(values["out"]), lm)
    if "-" in (values.get("text") or ()):
        raise click.UsageError("--text -: the text is read more than once; give a file")
    hints = get_type_hints(kind.Options)
    options = kind.Options(**{name: _value(hints[name], value) for name, value in values.items()})
    kind.train(options, lambda line: click.echo(line, err=True))


def _refuse_another(out: Path, lm: str) -> None:
    """A folder that holds a model of another kind: files of both would be mixed there."""
    there = card_value(out, "kind")
    if there not in (None, lm):
        raise UserError(
            f"--out {out}: holds a model of kind {there}, not {lm}; give another folder, or delete this one"
        )
