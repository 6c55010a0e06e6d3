"""`rescore train`: a language model from text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from rescore.cli import options
from rescore.cli.bundle import GroupedCommand
from rescore.cli.types import Number

NEURAL_ONLY = (
    "config",
    "context",
    "steps",
    "minutes",
    "init",
    "resume",
    "batch_tokens",
    "optimizer",
    "learning_rate",
    "warmup",
    "decay",
    "dropout",
    "weight_decay",
    "held_out",
    "checkpoint_seconds",
    "seed",
    "precision",
    "compiled",
    "device",
)
NGRAM_ONLY = ("order", "prune", "unit", "memory", "discount_fallback", "arpa")


@click.command("train", cls=GroupedCommand)
@click.option(
    "--lm",
    required=True,
    type=click.Choice(["tta", "bilm", "unilm", "unilm-bw", "unified", "ngram"]),
    help="What to train.",
)
@click.option("--text", metavar="FILE", help="A sentence a line, UTF-8; plain, .gz or .xz.")
@click.option(
    "--pairs",
    nargs=2,
    metavar="SOURCE TARGET",
    help="unified: sentences and their translations, line by line, in two files.",
)
@click.option("--out", required=True, metavar="DIR", help="The model's folder; --lm KIND:DIR scores with it.")
@click.option("--tokenizer", metavar="FILE", help="A tokenizer.json.  [default: train one on the text]")
@click.option(
    "--normalize",
    type=click.Choice(["english", "speech", "text"]),
    default="english",
    show_default=True,
    help="For a new tokenizer: english folds case, accents and punctuation; speech keeps accents; text keeps all.",
)
@click.option("--config", default="base", show_default=True, metavar="NAME|FILE", help="base, small, or a config.json.")
@click.option(
    "--context",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="tta, bilm, unilm: learn to read N neighbouring lines on each side as well; an empty line ends a document.",
)
@click.option("--steps", type=click.IntRange(min=0), help="How many updates; 0 writes a random model.")
@click.option("--minutes", type=Number(0, 10_000_000, open_low=True), help="How long to train, instead of --steps.")
@click.option("--init", metavar="DIR", help="Start from this model's weights and tokenizer.")
@click.option("--resume", is_flag=True, help="Go on after the last checkpoint in --out.")
@click.option(
    "--batch-tokens",
    type=click.IntRange(8),
    default=4096,
    show_default=True,
    help="Tokens in a batch, padding included.",
)
@click.option(
    "--optimizer",
    type=click.Choice(["muon", "adamw"]),
    default="muon",
    show_default=True,
    help="Muon for the layers' matrices and AdamW for the rest, or AdamW for all.",
)
@click.option(
    "--learning-rate", type=Number(0, 10), default=1e-3, show_default=True, help="The highest, after warm-up."
)
@click.option(
    "--warmup",
    type=Number(0, 1),
    default=0.02,
    show_default=True,
    help="Share of the training in which the rate rises.",
)
@click.option(
    "--decay",
    type=Number(0, 1),
    default=0.2,
    show_default=True,
    help="Share of the training, at its end, in which the rate falls to 0.",
)
@click.option("--dropout", type=Number(0, 1, open_high=True), default=0.1, show_default=True)
@click.option("--weight-decay", type=Number(0, 10), default=0.01, show_default=True)
@click.option(
    "--held-out", type=click.IntRange(1), default=2000, show_default=True, help="Sentences kept for validation."
)
@click.option(
    "--checkpoint-seconds",
    type=Number(0, 1e7),
    default=300.0,
    show_default=True,
    help="How often the state is saved.",
)
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True)
@click.option("--precision", type=click.Choice(["auto", "bfloat16", "float32"]), default="auto", show_default=True)
@click.option("--compile/--no-compile", "compiled", default=None, help="torch.compile.  [default: on CUDA]")
@options.device_option
@click.option("-o", "--order", type=click.IntRange(min=1), default=5, show_default=True, help="ngram: how long.")
@click.option(
    "--prune", metavar="N,N,...", help="ngram: leave out what was seen so often or less, by order, as in lmplz: 0,0,1."
)
@click.option(
    "--unit",
    type=click.Choice(["word", "subword"]),
    default="word",
    show_default=True,
    help="ngram: of words, or of the --tokenizer's pieces.",
)
@click.option("--memory", default="50%", show_default=True, metavar="SIZE", help="ngram: lmplz's -S.")
@click.option("--discount-fallback", is_flag=True, help="ngram: for text too small to estimate discounts from.")
@click.option("--arpa", is_flag=True, help="ngram: keep lm.arpa beside lm.binary.")
@click.pass_context
def command(
    ctx: click.Context,
    lm: str,
    text: str | None,
    pairs: tuple[str, str] | None,
    out: str,
    tokenizer: str | None,
    normalize: str,
    config: str,
    context: int,
    steps: int | None,
    minutes: float | None,
    init: str | None,
    resume: bool,
    batch_tokens: int,
    optimizer: str,
    learning_rate: float,
    warmup: float,
    decay: float,
    dropout: float,
    weight_decay: float,
    held_out: int,
    checkpoint_seconds: float,
    seed: int,
    precision: str,
    compiled: bool | None,
    device: str | None,
    order: int,
    prune: str | None,
    unit: str,
    memory: str,
    discount_fallback: bool,
    arpa: bool,
) -> None:
    """Train a language model and write its folder: the model, its tokenizer.json, and a card, README.md.

    \b
    rescore train --lm tta --text corpus.txt.xz --out lm --config small --minutes 120
    torchrun --nproc-per-node 4 -m rescore train --lm tta --text corpus.txt --out lm --steps 100000
    rescore train --lm unified --text corpus.en --pairs train.de train.en --out lm --normalize text
    rescore train --lm ngram -o 5 --prune 0,0,1 --text corpus.txt.xz --out lm

    Interrupted, the same command with --resume goes on as if nothing had happened. An n-gram model is estimated by
    KenLM's lmplz, which has to be on PATH; how to get it is told where it is not.
    """
    _refuse_foreign(ctx, lm)
    if text == "-":
        raise click.UsageError("--text -: the text is read more than once; give a file")
    if pairs and lm != "unified":
        raise click.UsageError(f"--pairs does not apply to --lm {lm}")
    if warmup + decay > 1:
        raise click.UsageError(f"--warmup {warmup:g} and --decay {decay:g} are more than the whole training")
    if lm == "ngram":
        from rescore.training import ngram

        if text is None:
            raise click.UsageError("no text to train on; give --text FILE")
        ngram.train(
            Path(text),
            Path(out),
            ngram.NgramRecipe(order, _thresholds(prune), unit, memory, discount_fallback, arpa),
            tokenizer=Path(tokenizer) if tokenizer else None,
            normalisation=normalize,
            report=_report,
        )
        return
    from rescore.training import train
    from rescore.training.loop import Recipe

    if steps is not None and minutes is not None:
        raise click.UsageError("--steps and --minutes exclude each other")
    if init and resume:
        raise click.UsageError("--init and --resume exclude each other: a resumed training has its weights")
    if steps is None and minutes is None:
        steps = 100_000
    recipe = Recipe(
        steps=steps,
        minutes=minutes,
        batch_tokens=batch_tokens,
        optimizer=optimizer,
        learning_rate=learning_rate,
        warmup=warmup,
        decay=decay,
        weight_decay=weight_decay,
        dropout=dropout,
        seed=seed,
        checkpoint_seconds=checkpoint_seconds,
    )
    with _resumable(Path(out)):
        train.train(
            lm,
            Path(out),
            recipe,
            text=Path(text) if text else None,
            pairs=(Path(pairs[0]), Path(pairs[1])) if pairs else None,
            config=config,
            context=context,
            init=Path(init) if init else None,
            resume=resume,
            tokenizer=Path(tokenizer) if tokenizer else None,
            normalisation=normalize,
            held_out=held_out,
            device=device,
            precision=precision,
            compiled=compiled,
            report=_report,
        )


@contextmanager
def _resumable(out: Path) -> Iterator[None]:
    """Tells one who interrupts a training how it goes on."""
    from rescore.training.loop import STATE

    try:
        yield
    except KeyboardInterrupt:
        if (out / STATE).is_file():
            _report(f"interrupted; the same command with --resume goes on from {out / STATE}")
        raise


def _report(line: str) -> None:
    click.echo(line, err=True)


def _refuse_foreign(ctx: click.Context, lm: str) -> None:
    """An option that this kind of model does not know would otherwise be ignored in silence."""
    for name in NEURAL_ONLY if lm == "ngram" else NGRAM_ONLY:
        if ctx.get_parameter_source(name) == click.core.ParameterSource.COMMANDLINE:
            flag = next(parameter.opts[-1] for parameter in ctx.command.params if parameter.name == name)
            raise click.UsageError(f"{flag} does not apply to --lm {lm}")


def _thresholds(prune: str | None) -> tuple[int, ...]:
    try:
        return tuple(map(int, (prune or "").replace(",", " ").split()))
    except ValueError:
        raise click.UsageError(f"--prune {prune}: expected whole numbers, such as 0,0,1") from None
