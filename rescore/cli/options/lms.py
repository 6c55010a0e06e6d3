"""The options that name language models and say how they compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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

    def load(self, skip: bool = False) -> list[LanguageModel]:
        """The models, here or in a cluster, which ends with the command; `skip` as in `Cluster`."""
        from rescore.lms import load_all

        if self.computing.prompt:
            able = [name for name in KINDS.names if KINDS[name].prompted]
            if not any(spec.partition(":")[0] in able for spec in self.lm):
                raise click.UsageError(f"--prompt needs --lm {' or '.join(able)}")
        name, _, address = self.engine.partition(":")
        if name == "local" or not self.lm:
            if self.workers:
                raise click.UsageError("--workers needs --engine ray")
            return load_all(self.lm, self.computing, self.cache)
        from rescore.scoring.cluster import Cluster

        cluster = Cluster(self.lm, self.computing, self.cache, address or None, self.workers, skip)
        click.get_current_context().call_on_close(cluster.close)
        return [*cluster.models]


PLAIN = Offer(LanguageModelOptions, required=("lm",))
"""The options of commands that only score."""
COMPARED = Offer(LanguageModelOptions, required=("lm",))
