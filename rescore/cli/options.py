"""Options that several commands share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click
from tqdm import tqdm

if TYPE_CHECKING:
    from rescore.scoring import LanguageModel

Progress = Callable[[int], object]
Command = TypeVar("Command", bound=Callable[..., Any])

nbest_argument = click.argument("nbest", nargs=-1, required=True, metavar="NBEST...")
device_option = click.option(
    "--device", metavar="NAME", help="cpu, cuda or cuda:N.  [default: cuda where there is one]"
)
norm_option = click.option(
    "--lm-norm",
    type=click.Choice(["sum", "mean"]),
    help="LM score as the sum or the mean over tokens.  [default: mean where first-pass scores are means, else sum]",
)


@dataclass(frozen=True, slots=True)
class Requested:
    """The language models that a command was asked for."""

    specs: list[str]
    device: str | None

    def load(self) -> list[LanguageModel]:
        from rescore import scoring

        return scoring.load_all(self.specs, self.device)


def lm_options(command: Command) -> Command:
    """--lm and what goes with it; the command gets them together as `lms`."""

    @wraps(command)
    def wrapped(*, lm: tuple[str, ...], case: str, pll: str, device: str | None, **others: Any) -> Any:
        specs = [*lm]
        if case != "keep":
            specs = [_with_option(spec, case) for spec in specs]
        if pll != "original":
            masked = [spec.partition(":")[0] in ("bilm", "hf-masked") for spec in specs]
            if not any(masked):
                raise click.UsageError(f"--pll {pll} is for masked language models: bilm and hf-masked")
            specs = [_with_option(spec, pll) if yes else spec for spec, yes in zip(specs, masked, strict=True)]
        return command(lms=Requested(specs, device), **others)

    options = [
        click.option(
            "--lm",
            required=True,
            multiple=True,
            metavar="KIND[:PATH]",
            help="Language model: tta (shipped); or tta, bilm, unilm, unilm-bw, ngram, hf-masked, hf-causal "
            "with :PATH. May be repeated.",
        ),
        click.option(
            "--case",
            type=click.Choice(["keep", "lower", "upper", "sentence"]),
            default="keep",
            show_default=True,
            help="Give all models the text in this case; for one of several, KIND:CASE:PATH.",
        ),
        click.option(
            "--pll",
            type=click.Choice(["original", "within-word-l2r"]),
            default="original",
            show_default=True,
            help="Pseudo-log-likelihood of masked models: mask the token, or it and the rest of its word.",
        ),
        device_option,
    ]
    result: Any = wrapped
    for option in reversed(options):
        result = option(result)
    return result


def _with_option(spec: str, option: str) -> str:
    kind, _, rest = spec.partition(":")
    return f"{kind}:{option}:{rest}" if rest else f"{kind}:{option}"


def input_options(command: Command) -> Command:
    """How N-best lists are read."""
    for option in reversed(
        [
            click.option(
                "--ref", metavar="FILE", help="References: Kaldi text, trn, or a line each in the lists' order."
            ),
            click.option(
                "--format",
                "format_name",
                type=click.Choice(["native", "espnet1", "espnet2", "fairseq"]),
                help="Format of the lists.  [default: found out by looking inside]",
            ),
            click.option("--s2s", default="s2s", show_default=True, metavar="COLUMN", help="The first-pass score."),
            click.option(
                "--lenpen",
                default=1.0,
                show_default=True,
                help="fairseq's length penalty, to recover sums (--s2s sum) from H scores.",
            ),
        ]
    ):
        command = option(command)
    return command


def metric_options(command: Command) -> Command:
    """What is measured."""
    for option in reversed(
        [
            click.option(
                "--metric",
                type=click.Choice(["wer", "cer", "bleu"]),
                help="[default: bleu for lists with a source text, else wer]",
            ),
            click.option(
                "--tokenize",
                type=click.Choice(["13a", "none", "intl", "char", "zh"]),
                help="sacreBLEU's tokenizer.  [default: none where references are tokenised already, else 13a]",
            ),
        ]
    ):
        command = option(command)
    return command


def progress_bar(total: int | None, label: str) -> tqdm:
    """A bar of hypotheses on stderr, at a terminal only."""
    return tqdm(total=total, desc=label, unit="hyp", disable=not sys.stderr.isatty(), leave=False)
