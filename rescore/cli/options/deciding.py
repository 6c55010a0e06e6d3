"""Options that say what is decided: fields of `RunConfig`, and weights that were tuned before."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rescore.cli.bridge import Offer
from rescore.cli.options.lms import LanguageModelOptions
from rescore.config import RunConfig
from rescore.decision.rules import with_options
from rescore.expansion import asked
from rescore.files import shown
from rescore.options import Declared, flattened, option
from rescore.parts import METRICS

if TYPE_CHECKING:
    from rescore.tuning.weights import Weights

log = logging.getLogger(__name__)


def config(*groups: str, names: Sequence[str] = (), without: Sequence[str] = ()) -> Offer:
    """The fields of `RunConfig` in some groups, and the fields of these names, as options of a command."""
    return Offer(RunConfig, groups, tuple(names), ("force_weights", *without))


@dataclass(frozen=True, kw_only=True)
class TunedWeights(Declared):
    """Weights that were tuned before."""

    weights: str | None = option(
        None,
        "Weights file from `rescore tune` or `rescore run --save-weights`.  [default: the first pass alone]",
        metavar="FILE",
        reads=True,
        common=True,
    )
    force_weights: bool = option(
        False, "Apply weights that were tuned on scores of another model; the signature then contains `forced`."
    )

    def load(self) -> Weights:
        """The weights of the file; without a file, the first pass alone."""
        from rescore.tuning import FIRST_PASS_ALONE, Weights

        return Weights.load(Path(self.weights)) if self.weights else FIRST_PASS_ALONE


def configured(
    config: RunConfig,
    lms: LanguageModelOptions | None = None,
    weights: TunedWeights | None = None,
    dev: Sequence[str] = (),
    **more: Any,
) -> RunConfig:
    """The decisions of a command's options together.

    Args:
        weights: tuned weights, which may be tuned for a metric that reads --words. dev: paths of the dev lists.
        more: further fields.
    """
    if lms:
        more |= {"lms": lms.lm, "cache": lms.cache}
    if weights:
        more["force_weights"] = weights.force_weights
    more["decide"] = with_options(config.decide, config.deciding.values)
    config = replace(config, dev=shown(", ".join(dev)) or None, **more)
    weighs = config.metrics or "boost" in click.get_current_context().params
    proposed = any(part.reads_words for _, part, _ in asked(config))
    used = proposed or config.boost or (weights and not config.metrics)
    if config.measuring.words and weighs and not used:
        readers = listed_metrics()
        if not set(readers) & {*config.metrics}:
            message = "--words changes nothing here: it is for --respell N, for --boost and for --metric %s"
            log.warning(message, " or ".join(readers))
    return config


def listed_metrics() -> list[str]:
    """The metrics that tell the words of --words from other words."""
    return [name for name in METRICS.names if "words" in _options_of(name)]


def _options_of(metric: str) -> set[str]:
    options = METRICS[metric].Options
    return {entry.name for entry in flattened(options.declared())}


def with_one_metric(config: RunConfig) -> RunConfig:
    """The config, for commands that measure one metric.

    Raises:
        UsageError: several metrics are asked for.
    """
    if len(config.metrics) > 1:
        raise click.UsageError("this command has one --metric")
    return config
