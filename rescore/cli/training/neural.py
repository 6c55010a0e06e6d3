"""Networks: T-TA, masked, causal and unified ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rescore.cli.options.base import Number, option_group
from rescore.cli.options.lms import device_option
from rescore.cli.training import Common, report
from rescore.parts import NETWORKS

if TYPE_CHECKING:
    from rescore.lms.neural.training.loop import Recipe

KINDS = tuple(NETWORKS.names)
PAIRED = tuple(name for name in KINDS if NETWORKS[name].pairs or NETWORKS[name].source)
MASKED = tuple(name for name in KINDS if NETWORKS[name].masks)
CLOZE = tuple(name for name in KINDS if NETWORKS[name].cloze)
REPLACING = tuple(name for name in KINDS if NETWORKS[name].replaces)
ORDERED = tuple(name for name in KINDS if NETWORKS[name].order)
IN_CONTEXT = tuple(name for name in KINDS if NETWORKS[name].before)
TITLE = "Networks"
STEPS = 100_000


@dataclass(frozen=True, slots=True)
class NeuralOptions:
    config: str
    vocabulary: str | None
    vocabulary_size: int | None
    context: int
    phrases: int
    steps: int | None
    minutes: float | None
    init: str | None
    resume: bool
    batch_tokens: int
    optimizer: str
    learning_rate: float
    warmup: float
    decay: float
    dropout: float
    weight_decay: float
    held_out: int | None
    checkpoint_seconds: float
    mask_rate: float | None
    mask_cap: int | None
    predict_frame: bool
    cloze: bool
    readings: tuple[str, ...]
    generator: str | None
    confusions: str | None
    hypernyms: str | None
    sentence_order: str | None
    seed: int
    precision: str
    compiled: bool | None
    device: str | None

    def recipe(self, kind: str) -> Recipe:
        """How to train a network of a kind.

        Raises:
            click.UsageError: options exclude each other.
        """
        from rescore.lms.neural.training.loop import Recipe
        from rescore.lms.neural.training.objectives import USUAL, ObjectiveOptions

        if self.warmup + self.decay > 1:
            raise click.UsageError(
                f"--warmup {self.warmup:g} and --decay {self.decay:g} are more than the whole training"
            )
        if self.steps is not None and self.minutes is not None:
            raise click.UsageError("--steps and --minutes exclude each other")
        masks = {"--mask-rate": self.mask_rate, "--mask-cap": self.mask_cap}
        if kind not in MASKED and (given := [name for name, value in masks.items() if value is not None]):
            raise click.UsageError(f"{given[0]} is for {', '.join(MASKED)}: these mask tokens")
        if kind not in CLOZE and (self.cloze or self.readings):
            raise click.UsageError(f"{'--cloze' if self.cloze else '--reading'} is for {' and '.join(CLOZE)}")
        given = [name for name in ("generator", "confusions") if getattr(self, name) is not None]
        if kind not in REPLACING and given:
            raise click.UsageError(f"--{given[0]} is for {' and '.join(REPLACING)}")
        if kind in REPLACING and self.hypernyms:
            raise click.UsageError(f"--hypernyms: a {kind} predicts no words")
        if kind in REPLACING and not given:
            raise click.UsageError(
                f"{kind} learns from replaced tokens; give --generator tta, --confusions LISTS, or both"
            )
        if self.predict_frame and kind != "tta":
            raise click.UsageError("--predict-frame is for tta")
        return Recipe(
            steps=STEPS if self.steps is None and self.minutes is None else self.steps,
            minutes=self.minutes,
            batch_tokens=self.batch_tokens,
            optimizer=self.optimizer,
            learning_rate=self.learning_rate,
            warmup=self.warmup,
            decay=self.decay,
            weight_decay=self.weight_decay,
            dropout=self.dropout,
            seed=self.seed,
            checkpoint_seconds=self.checkpoint_seconds,
            objective=ObjectiveOptions(
                USUAL.mask_rate if self.mask_rate is None else self.mask_rate,
                self.mask_cap,
                predict_frame=self.predict_frame,
                generator=self.generator and str(_model_folder("--generator", self.generator)),
                confusions=self.confusions,
                hypernyms=self.hypernyms,
            ),
        )


options = option_group(
    "neural",
    NeuralOptions,
    TITLE,
    [
        click.option(
            "--config", default="base", show_default=True, metavar="NAME|FILE", help="base, small, or a config.json."
        ),
        click.option(
            "--vocabulary",
            type=click.Choice(["wordpiece", "words"]),
            help="For a new tokenizer: WordPieces, or the most frequent words, all others being unknown.  "
            "[default: wordpiece]",
        ),
        click.option(
            "--size",
            "vocabulary_size",
            type=click.IntRange(6, 10_000_000),
            metavar="N",
            help="For a new tokenizer: its tokens.  [default: as --config says]",
        ),
        click.option(
            "--context",
            type=click.IntRange(0),
            default=0,
            show_default=True,
            metavar="N",
            help=f"{', '.join(IN_CONTEXT)}: learn to read N neighbouring lines on each side as well; an empty line "
            "ends a document.",
        ),
        click.option(
            "--phrases",
            type=click.IntRange(0, 1_000_000),
            default=0,
            show_default=True,
            metavar="UNITS",
            help="tta: keys and values of phrases, not of single words, by so many hidden units, twice d_model say.",
        ),
        click.option(
            "--steps",
            type=click.IntRange(min=0),
            help=f"How many updates; 0 writes a random model.  [default: {STEPS} without --minutes]",
        ),
        click.option(
            "--minutes", type=Number(0, 10_000_000, open_low=True), help="How long to train, instead of --steps."
        ),
        click.option(
            "--init",
            metavar="NAME|DIR",
            help="Start from this model's weights and tokenizer: a shipped one's name, such as tta, or a folder.",
        ),
        click.option("--resume", is_flag=True, help="Go on after the last checkpoint in --out."),
        click.option(
            "--batch-tokens",
            type=click.IntRange(8),
            default=4096,
            show_default=True,
            help="Tokens in a batch, padding included.",
        ),
        click.option(
            "--optimizer",
            type=click.Choice(["muon", "adamw"]),
            default="muon",
            show_default=True,
            help="Muon for the layers' matrices and AdamW for the rest, or AdamW for all.",
        ),
        click.option(
            "--learning-rate", type=Number(0, 10), default=1e-3, show_default=True, help="The highest, after warm-up."
        ),
        click.option(
            "--warmup",
            type=Number(0, 1),
            default=0.02,
            show_default=True,
            help="Share of the training in which the rate rises.",
        ),
        click.option(
            "--decay",
            type=Number(0, 1),
            default=0.2,
            show_default=True,
            help="Share of the training, at its end, in which the rate falls to 0.",
        ),
        click.option("--dropout", type=Number(0, 1, open_high=True), default=0.1, show_default=True),
        click.option("--weight-decay", type=Number(0, 10), default=0.01, show_default=True),
        click.option(
            "--held-out",
            type=click.IntRange(1),
            help="Sentences kept for validation.  [default: a twentieth of the text, at most 2000]",
        ),
        click.option(
            "--checkpoint-seconds",
            type=Number(0, 1e7),
            default=300.0,
            show_default=True,
            help="How often the state is saved.",
        ),
        click.option(
            "--mask-rate",
            type=Number(0, 1, open_low=True, open_high=True),
            help=f"{', '.join(MASKED)}: share of a sentence's tokens that are masked, at least one.  [default: 0.15]",
        ),
        click.option(
            "--mask-cap",
            type=click.IntRange(min=1),
            metavar="N",
            help=f"{', '.join(MASKED)}: at most N masked tokens (4 in the first paper on scoring with them).  "
            "[default: no limit]",
        ),
        click.option("--predict-frame", is_flag=True, help="tta: learn to predict [BOS] and [EOS], too."),
        click.option(
            "--cloze",
            is_flag=True,
            help=f"{', '.join(CLOZE)}: predict masked tokens in all readings, as the paper does, not the next ones.",
        ),
        click.option(
            "--reading",
            "readings",
            multiple=True,
            type=click.Choice(["bi", "bi:source", "l2r", "r2l", "seq2seq"]),
            help=f"{', '.join(CLOZE)}: train this reading (given again, these) only, say after --init.  [default: all]",
        ),
        click.option(
            "--generator",
            metavar="NAME|DIR",
            help=f"{', '.join(REPLACING)}: a tta that samples the replacements; its tokenizer is taken.",
        ),
        click.option(
            "--confusions",
            metavar="LISTS",
            help=f"{', '.join(REPLACING)}: replace also by what stands in that place of other hypotheses of a list.",
        ),
        click.option(
            "--hypernyms",
            metavar="DIR",
            help="WordNet's folder: at first the classes of rare nouns are predicted, then the nouns.",
        ),
        click.option(
            "--sentence-order",
            type=click.Choice(["sop", "srp"]),
            help=f"{', '.join(ORDERED)}: learn also whether two consecutive lines are swapped, from [BOS] (sop) or the "
            "mean vector (srp); an empty line ends a document.",
        ),
        click.option("--seed", type=click.IntRange(0, 2**63 - 1), default=0, show_default=True),
        click.option(
            "--precision", type=click.Choice(["auto", "bfloat16", "float32"]), default="auto", show_default=True
        ),
        click.option("--compile/--no-compile", "compiled", default=None, help="torch.compile.  [default: on CUDA]"),
        device_option,
    ],
)


def train(common: Common, options: NeuralOptions) -> None:
    recipe = options.recipe(common.kind)
    from rescore.lms.neural.training import train as neural
    from rescore.lms.neural.training.loop import Device

    init = _model_folder("--init", options.init) if options.init else None
    shape = neural.Shape(
        common.kind,
        options.config,
        init,
        options.context,
        options.phrases,
        cloze=options.cloze,
        readings=options.readings,
        order=options.sentence_order,
    )
    normalisation = common.normalisation or "english"
    vocabulary = options.vocabulary or "wordpiece"
    tokenizer = common.tokenizer
    if tokenizer is None and init is None and recipe.objective.generator is not None:
        tokenizer = Path(recipe.objective.generator) / "tokenizer.json"
    if (tokenizer or init) and (options.vocabulary or options.vocabulary_size):
        raise click.UsageError("--vocabulary and --size are for a new tokenizer; this model has one already")
    sources = neural.Sources(
        common.text, common.pairs, tokenizer, normalisation, options.held_out, vocabulary, options.vocabulary_size
    )
    machine = Device.choose(options.device, options.precision, options.compiled)
    with _resumable(common.out):
        neural.train(shape, sources, recipe, machine, common.out, resume=options.resume, report=report)


def _model_folder(option: str, name: str) -> Path:
    """Where the model is that an option names: a folder, or `[KIND:]DIR` and shipped names as --lm takes them.

    Raises:
        UserError: there is neither.
    """
    from rescore.errors import UserError
    from rescore.lms.backends import parse, shipped

    if Path(name).is_dir():
        return Path(name)
    try:
        found = parse(name)
    except UserError:
        found = None
    if found is None or found.options or not found.path.is_dir():
        raise UserError(f"{option} {name}: no such folder; give one, or a shipped model: {', '.join(shipped())}")
    return found.path


@contextmanager
def _resumable(out: Path) -> Iterator[None]:
    """Says to a person who interrupts a training how to resume it."""
    from rescore.lms.neural.training.loop import STATE

    try:
        yield
    except (KeyboardInterrupt, SystemExit):  # Ctrl-C, SIGTERM
        if (out / STATE).is_file():
            report(f"interrupted; the same command with --resume goes on from {out / STATE}")
        raise
