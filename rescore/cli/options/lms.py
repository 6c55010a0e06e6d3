"""The options that name language models and say how they compute."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rescore import parts
from rescore.cli.options.base import Command, OneOf, WithTable, option_group

if TYPE_CHECKING:
    from rescore.lms import LanguageModel

device_option = click.option(
    "--device",
    metavar="NAME",
    help="cpu, cuda or cuda:N. auto spreads hf models over GPUs, CPU and disk; auto:0=20GiB,cpu=64GiB sets memory "
    "limits.  [default: cuda if available]",
)


PROMPTED = ("hf-causal", "server")
"""The kinds that read a template."""


def _checked_engine(ctx: click.Context, parameter: click.Parameter, engine: str) -> str:
    if engine.partition(":")[0] not in ("local", "ray") or engine.startswith("local:"):
        raise click.BadParameter(f"{engine!r} is neither local nor ray[:ADDRESS]", ctx, parameter)
    return engine


@dataclass(frozen=True, slots=True)
class LanguageModelOptions:
    """The language models that a command was asked for."""

    lm: tuple[str, ...]
    case: str
    pll: str
    context: int
    device: str | None
    precision: str | None
    batch_tokens: int | None
    prompt: str | None
    cache: str | None
    engine: str
    workers: int | None
    cascade: str | None = None
    force_cascade: bool = False
    ilm: str | None = None

    def fields(self) -> dict[str, Any]:
        """Fields of `RunConfig`."""
        from rescore.lms.base import TOP
        from rescore.tuning import Weights

        if self.cascade and not any(option.startswith(TOP) for spec in self.lm for option in spec.split(":")):
            raise click.UsageError("--cascade needs --lm KIND:top=N:PATH, a model that scores the best hypotheses only")
        if self.force_cascade and not self.cascade:
            raise click.UsageError("--force-weights needs --cascade FILE")
        cascade = Weights.load(Path(self.cascade)) if self.cascade else None
        forced = {"force_weights": True} if self.force_cascade else {}
        return {"lms": tuple(self.specs), "cascade": cascade, "cache": self.cache, **forced}

    @property
    def specs(self) -> list[str]:
        """What --lm and --ilm were given, with what --case, --context and --pll say put in."""
        specs = [*self.lm, *([_internal(self.ilm, self.cache)] if self.ilm else [])]
        if self.case != "keep":
            specs = [_with_option(spec, self.case) for spec in specs]
        if self.context:
            from rescore.lms import KINDS, parse

            able = [name for name in KINDS.names if "context=" in KINDS[name].options]
            reading = [parse(spec).kind in able for spec in specs]
            if not any(reading):
                raise click.UsageError(f"--context is for {', '.join(able)}")
            option = f"context={self.context}"
            specs = [_with_option(spec, option) if yes else spec for spec, yes in zip(specs, reading, strict=True)]
        if self.pll != "original":
            from rescore.lms import KINDS, is_pseudo, parse

            able = [name for name in KINDS.names if self.pll in KINDS[name].options]
            masked = [parse(spec).kind in able and is_pseudo(parse(spec).name) for spec in specs]
            if not any(masked):
                raise click.UsageError(f"--pll {self.pll} is for masked language models: {' and '.join(able)}")
            specs = [_with_option(spec, self.pll) if yes else spec for spec, yes in zip(specs, masked, strict=True)]
        return specs

    def load(self, skip: bool = False) -> list[LanguageModel]:
        """The models, here or in a cluster, which ends with the command; `skip` as in `ClusterOptions`."""
        from rescore.lms import ComputeOptions, load_all

        if self.prompt and not any(spec.partition(":")[0] in PROMPTED for spec in self.lm):
            raise click.UsageError(f"--prompt needs --lm {' or '.join(PROMPTED)}")
        computing = ComputeOptions(self.device, self.precision, self.batch_tokens, self.prompt)
        name, _, address = self.engine.partition(":")
        if name == "local" or not self.specs:
            if self.workers:
                raise click.UsageError("--workers needs --engine ray")
            return load_all(self.specs, computing, self.cache)
        from rescore.engines.cluster import Cluster, ClusterOptions

        cluster = Cluster(self.specs, computing, self.cache, ClusterOptions(address or None, self.workers, skip))
        click.get_current_context().call_on_close(cluster.close)
        return [*cluster.models]


@lru_cache(maxsize=1)  # asked for several times
def _internal(given: str, cache: str | None) -> str:
    """What --lm would be given for the internal LM; a model that is estimated here is kept in the cache, if any."""
    from rescore.lms.ngram import internal_lm

    if cache is not None:
        return internal_lm(given, Path(cache))
    folder = tempfile.TemporaryDirectory(prefix="rescore-ilm-")
    context = click.get_current_context()
    context.call_on_close(_internal.cache_clear)
    context.call_on_close(folder.cleanup)
    return internal_lm(given, Path(folder.name))


def _with_option(spec: str, option: str) -> str:
    kind, _, rest = spec.partition(":")
    return f"{kind}:{option}:{rest}" if rest else f"{kind}:{option}"


def _lm_option(required: bool) -> Callable[[Command], Command]:
    return click.option(
        "--lm",
        cls=WithTable,
        table=OneOf(parts.KINDS),
        required=required,
        multiple=True,
        metavar="KIND[:PATH]",
        help="Language model: a shipped model, or KIND and the PATH of a model. May be repeated. Kinds:",
    )


_LM_DETAILS: list[Callable[[Any], Any]] = [
    click.option(
        "--case",
        type=click.Choice(["keep", "lower", "upper", "sentence"]),
        default="keep",
        show_default=True,
        help="Convert the text to this case for all models. For a single model give KIND:CASE:PATH.",
    ),
    click.option(
        "--pll",
        type=click.Choice(["original", "within-word-l2r"]),
        default="original",
        show_default=True,
        help="Pseudo-log-likelihood of masked models. original: mask the scored token; within-word-l2r: also mask the "
        "rest of its word.",
    ),
    click.option(
        "--context",
        type=click.IntRange(0, 99),
        default=0,
        show_default=True,
        metavar="N",
        help="The network also reads the 1-best texts of the N previous utterances; a bidirectional network also reads "
        "the N next utterances. For hf-causal, hf-masked and networks trained with --context. For a single model "
        "give KIND:context=N:PATH.",
    ),
    device_option,
    click.option(
        "--precision",
        type=click.Choice(["float32", "bf16", "fp16", "int8"]),
        help="Number format of networks; int8 needs a CPU, fp16 a GPU.  [default: float32 on a CPU, bf16 on a GPU]",
    ),
    click.option(
        "--batch-tokens",
        type=click.IntRange(min=1),
        metavar="N",
        help="Tokens per batch of a network.  [default: chosen to fit cache or GPU memory]",
    ),
    click.option(
        "--prompt",
        metavar="TEMPLATE",
        help="hf-causal, server: input of the model, such as 'German: {src}\\nEnglish: {text}'. Only {text} is scored.",
    ),
    click.option("--cache", metavar="DIR", help="Store scores in DIR, and reuse the scores of earlier runs."),
    click.option(
        "--engine",
        default="local",
        show_default=True,
        metavar="local|ray[:ADDRESS]",
        callback=_checked_engine,
        help="local: score in this process. ray: score on all cores, GPUs or machines of the Ray cluster at ADDRESS; "
        "without ADDRESS, start a cluster on this machine.",
    ),
    click.option(
        "--workers",
        type=click.IntRange(min=1),
        metavar="N",
        help="With ray: number of workers.  [default: one per GPU or core]",
    ),
]
_SCORING: list[Callable[[Any], Any]] = [
    click.option(
        "--cascade",
        metavar="FILE",
        help="For --lm KIND:top=N:PATH: file of weights that select the N hypotheses of each list.  "
        "[default: weights from the cards of the --lm before this --lm]",
    ),
    click.option(
        "--force-weights",
        "force_cascade",
        is_flag=True,
        help="Choose by --cascade FILE even if its weights were tuned on scores of another model.",
    ),
    click.option(
        "--ilm",
        metavar="TEXT|KIND:PATH",
        help="Subtract an internal LM. TEXT: the training transcripts of the recogniser; a bigram model is estimated "
        "from them. KIND:PATH: a language model of these transcripts. The weight is tuned and may be negative.",
    ),
]
lm_options = option_group("lms", LanguageModelOptions, "Language models", [_lm_option(True), *_LM_DETAILS])
scoring_lm_options = option_group(
    "lms", LanguageModelOptions, "Language models", [_lm_option(True), *_SCORING, *_LM_DETAILS]
)
optional_lm_options = option_group(
    "lms", LanguageModelOptions, "Language models", [_lm_option(False), *_SCORING, *_LM_DETAILS]
)
