"""The stages of the pipeline, each with a plan of its own: what one call of a command
does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rescore import pipeline
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.lms import LanguageModel
from rescore.nbest import NbestList
from rescore.plan import resolve
from rescore.reports.results import Results
from rescore.tuning import Weights


def models_for(
    config: RunConfig, models: Sequence[LanguageModel], lists: Sequence[NbestList]
) -> tuple[LanguageModel, ...]:
    return resolve(config, lists, load=lambda: models, measures=False).models


def scored(
    lists: Sequence[NbestList], models: Sequence[LanguageModel], config: RunConfig
) -> list[NbestList]:
    return list(
        pipeline.score(
            resolve(config, lists, load=lambda: models, measures=False), lists
        )
    )


def expanded(
    lists: Sequence[NbestList],
    config: RunConfig,
    dev: Sequence[NbestList] | None = None,
) -> Iterator[NbestList]:
    return pipeline.expand(
        resolve(config, lists, dev, measures=False), lists, dev=dev is lists
    )


def tuned(lists: Sequence[NbestList], config: RunConfig | None = None) -> Weights:
    return pipeline.tune(resolve(config or RunConfig(), dev=lists), Dataset.of(lists))


def evaluated(
    lists: Sequence[NbestList], weights: Weights, config: RunConfig | None = None
) -> tuple[Results, list[str]]:
    plan = resolve(config or RunConfig(), lists, weights=weights)
    decided = pipeline.decide_all(plan, weights, Dataset.of(lists))
    return pipeline.measure(plan, decided), decided.texts
