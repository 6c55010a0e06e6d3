"""Models side by side: each is tuned on dev lists and measured on test lists, and all
of them together.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rescore.config import RunConfig
from rescore.deciding import decide
from rescore.lms import LanguageModel, capabilities_of, each
from rescore.lms.backends import ALL, parse
from rescore.metrics.significance import PairedTest
from rescore.nbest import WORDS, NbestList
from rescore.options import OptionValues
from rescore.pipeline import expand, score, tune
from rescore.plan import Load, Plan, check, resolve
from rescore.reports import comparison
from rescore.reports.comparison import Entry
from rescore.reports.results import decision_title
from rescore.scoring import OnProgress
from rescore.tuning import Weights
from rescore.tuning.folds import warn_of_overlap
from rescore.tuning.weights import suited


def compare(
    lists: Sequence[NbestList],
    dev: Sequence[NbestList],
    config: RunConfig,
    load: Load | None = None,
    test: PairedTest | None = None,
    source: str = "test",
    progress: OnProgress = lambda done: None,
    specs: Sequence[str | None] = (),
) -> comparison.Comparison:
    """Score both sets with every model, tune each on `dev`, and all together, and
    compare them on `lists`.

    All readings of a model (`lexical:all`) are one entry. If there are several models,
    the next entry combines all models but the intact readings of masked models (which
    are there to be looked at), and the last entries all of these but one, for each one.

    Args:
        specs: the names of the loaded models, as in `resolve`.
    """
    config = check(replace(config, dev=config.dev or "dev"))
    warn_of_overlap(lists, dev)
    plan = resolve(config, lists, dev, load, specs)
    lists, dev = list(expand(plan, lists)), list(expand(plan, dev, dev=True))
    entries = _entries(
        lists, dev, plan, replace(config, expanding=OptionValues()), progress
    )
    names = source, str(config.dev)
    return comparison.compare(
        plan.metric, lists, dev, entries, test or PairedTest(), names, plan.metrics[1:]
    )


def _models(plan: Plan, specs: Sequence[str]) -> list[tuple[str, list[LanguageModel]]]:
    """The models of each --lm with a name: those of `lexical:all:DIR` together."""
    numbers = [len(each([spec])) for spec in specs]
    if sum(numbers) != len(plan.models):
        return [(lm.name, [lm]) for lm in plan.models]
    rest = iter(plan.models)
    every = [
        (spec, [next(rest) for _ in range(number)])
        for spec, number in zip(specs, numbers, strict=True)
    ]
    return [
        (models[0].name if len(models) == 1 else f"{parse(spec).kind}:{ALL}", models)
        for spec, models in every
    ]


def _entries(
    lists: Sequence[NbestList],
    dev: Sequence[NbestList],
    plan: Plan,
    config: RunConfig,
    progress: OnProgress,
) -> Iterator[Entry]:
    """Without a model (for decisions other than the best score), each model alone, and
    all together, tuned; one after another, as columns are added. Each entry is an
    experiment with a plan of its own; all share the metric.
    """

    tuned_before: dict[tuple[bool, tuple[str, ...]], Weights] = {}

    def entry(
        parts: Sequence[tuple[str, list[LanguageModel]]],
        speed: float | None = None,
        missing: str | None = None,
    ) -> Entry:
        models = [lm for _, several in parts for lm in several]
        if (
            key := (missing is not None, tuple(lm.name for lm in models))
        ) not in tuned_before:
            # A row without a model has a word bonus if the row with all models has it:
            # this model is the difference.
            bonus = (
                config.word_bonus if missing is None else WORDS in plan.tuning.bonuses
            )
            own = resolve(
                replace(config, lm_norm=plan.norm, columns=(), word_bonus=bonus),
                lists,
                dev,
                lambda: models,
            )
            tuned_before[key] = suited(
                tune(dev, plan=replace(own, metrics=plan.metrics)), lists
            )
        weights = tuned_before[key]
        named = (
            " + ".join(name for name, _ in parts)
            if missing is None
            else f"without {missing}"
        )
        name = ", ".join(filter(None, [named, decision_title(plan.decision.name)]))
        decided = decide(plan.metric, lists, weights)
        return Entry(name, decided, weights.value, speed, missing is not None)

    if plan.decision.name != "best":
        yield entry([])
    every = _models(plan, config.lms)
    for part in every:
        began = time.perf_counter()
        lists, dev = (
            [*score(replace(plan, models=tuple(part[1])), some, progress)]
            for some in (lists, dev)
        )
        seconds = time.perf_counter() - began
        lm = part[1][0]
        number = sum(
            not math.isinf(score)
            for nbest in [*lists, *dev]
            for score in nbest.column(lm.name)
        )
        yield entry([part], None if capabilities_of(lm).cached else number / seconds)
    together = [part for part in every if not capabilities_of(part[1][0]).intact]
    if len(together) > 1:
        yield entry(together)
        for missing in together:
            yield entry(
                [part for part in together if part is not missing], missing=missing[0]
            )
