"""The options that name language models and say how they compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from rescore.cli.bridge import Offer
from rescore.lms.base import ComputeOptions
from rescore.options import Declared, option
from rescore.parts import KINDS

if TYPE_CHECKING:
    from rescore.lms import LanguageModel


def _engine(text: str) -> str:
    if text.partition(":")[0] not in ("local", "ray") or text.startswith("local:"):
        raise ValueError(f"{text!r} is neither local nor ray[:ADDRESS]")
    return text


@dataclass(frozen=True, kw_only=True)
class LanguageModelOptions(Declared):
    """The language models of a command, and how they compute."""

    title = "Language models"

    lm: tuple[str, ...] = option(
        (),
        "Language model: a shipped model, or KIND and the PATH of a model. May be repeated. Kinds:",
        metavar="KIND[:PATH]",
        describes=KINDS,
        reads=True,
        common=True,
    )
    case: str = option(
        "keep",
        "Convert the text to this case for all models. For a single model give KIND:CASE:PATH.",
        choices=("keep", "lower", "upper", "sentence"),
    )
    pll: str = option(
        "original",
        "Pseudo-log-likelihood of masked models. original: mask the scored token; within-word-l2r: also mask the rest "
        "of its word.",
        choices=("original", "within-word-l2r"),
    )
    context: int = option(
        0,
        "The network also reads the 1-best texts of the N previous utterances; a bidirectional network also reads the "
        "N next utterances. For hf-causal, hf-masked and networks trained with --context. For a single model give "
        "KIND:context=N:PATH.",
        low=0,
        high=99,
    )
    computing: ComputeOptions = option(ComputeOptions, nested=ComputeOptions)
    cache: str | None = option(None, "Store scores in DIR, and reuse the scores of earlier runs.", metavar="DIR")
    engine: str = option(
        "local",
        "local: score in this process. ray: score on all cores, GPUs or machines of the Ray cluster at ADDRESS; "
        "without ADDRESS, start a cluster on this machine.",
        metavar="local|ray[:ADDRESS]",
        parse=_engine,
    )
    workers: int | None = option(None, "With ray: number of workers.  [default: one per GPU or core]", low=1)

    def fields(self) -> dict[str, Any]:
        """Fields of `RunConfig`."""
        return {"lms": tuple(self.specs), "cache": self.cache}

    @property
    def specs(self) -> list[str]:
        """What --lm was given, with what --case, --context and --pll say put in."""
        specs = list(self.lm)
        if self.case != "keep":
            specs = [_with_option(spec, self.case) for spec in specs]
        if self.context:
            from rescore.lms import parse

            able = [name for name in KINDS.names if "context=" in KINDS[name].options]
            reading = [parse(spec).kind in able for spec in specs]
            if not any(reading):
                raise click.UsageError(f"--context is for {', '.join(able)}")
            option = f"context={self.context}"
            specs = [_with_option(spec, option) if yes else spec for spec, yes in zip(specs, reading, strict=True)]
        if self.pll != "original":
            from rescore.lms import is_pseudo, parse

            able = [name for name in KINDS.names if self.pll in KINDS[name].options]
            masked = [parse(spec).kind in able and is_pseudo(parse(spec).name) for spec in specs]
            if not any(masked):
                raise click.UsageError(f"--pll {self.pll} is for masked language models: {' and '.join(able)}")
            specs = [_with_option(spec, self.pll) if yes else spec for spec, yes in zip(specs, masked, strict=True)]
        return specs

    def load(self, skip: bool = False) -> list[LanguageModel]:
        """The models, here or in a cluster, which ends with the command; `skip` as in `ClusterOptions`."""
        from rescore.lms import load_all

        if self.computing.prompt:
            able = [name for name in KINDS.names if KINDS[name].prompted]
            if not any(spec.partition(":")[0] in able for spec in self.lm):
                raise click.UsageError(f"--prompt needs --lm {' or '.join(able)}")
        name, _, address = self.engine.partition(":")
        if name == "local" or not self.specs:
            if self.workers:
                raise click.UsageError("--workers needs --engine ray")
            return load_all(self.specs, self.computing, self.cache)
        from rescore.scoring.cluster import Cluster, ClusterOptions

        cluster = Cluster(self.specs, self.computing, self.cache, ClusterOptions(address or None, self.workers, skip))
        click.get_current_context().call_on_close(cluster.close)
        return [*cluster.models]


def _with_option(spec: str, option: str) -> str:
    kind, _, rest = spec.partition(":")
    return f"{kind}:{option}:{rest}" if rest else f"{kind}:{option}"


PLAIN = Offer(LanguageModelOptions, required=("lm",))
"""The options of commands that only score."""
COMPARED = Offer(LanguageModelOptions, required=("lm",))
