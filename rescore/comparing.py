"""Models side by side: each is tuned on dev lists and measured on test lists, and all
of them together.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from rescore.columns import WORDS
from rescore.config import Bonus, RunConfig
from rescore.deciding import decide
from rescore.lms import LanguageModel, capabilities_of, each
from rescore.lms.backends import ALL, parse
from rescore.metrics.significance import PairedTest
from rescore.nbest import NbestList
from rescore.options import OptionValues
from rescore.pipeline import expand, score, tune
from rescore.plan import Load, Plan, check, resolve
from rescore.reports import comparison
from rescore.reports.comparison import Entry
from rescore.reports.results import decision_title
from rescore.scoring import OnProgress
from rescore.tuning import Weights
from rescore.tuning.folds import warn_of_overlap


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
        lists: The test lists.
        dev: The dev lists.
        config: What was asked.
        load: Loads the models; None for the models that `config` names.
        test: The significance test; None for approximate randomisation.
        source: The name of the test lists.
        progress: Is told how many hypotheses are scored.
        specs: The names of the loaded models, as in `resolve`.

    Raises:
        UserError: A list has no reference, or what was asked cannot be done.
    """
    config = check(replace(config, dev=config.dev or "dev"))
    warn_of_overlap(lists, dev)
    plan = resolve(config, lists, dev, load, specs)
    lists = list(expand(plan, lists))
    dev = list(expand(plan, dev, dev=True))
    config = replace(config, expanding=OptionValues())
    experiments = _Experiments(lists, dev, plan, config, progress)
    names = source, str(config.dev)
    test = test or PairedTest()
    return comparison.compare(
        plan.metric,
        lists,
        dev,
        experiments.entries(),
        test,
        names,
        plan.metrics[1:],
        plan.by,
    )


@dataclass(frozen=True, slots=True)
class _Reading:
    """The models of one --lm: several for `lexical:all:DIR`."""

    name: str
    models: Sequence[LanguageModel]


def _readings(plan: Plan, specs: Sequence[str]) -> list[_Reading]:
    """Return the models of each --lm, with a name."""
    numbers = [len(each([spec])) for spec in specs]
    if sum(numbers) != len(plan.models):
        return [_Reading(lm.name, [lm]) for lm in plan.models]
    readings = []
    rest = iter(plan.models)
    for spec, number in zip(specs, numbers, strict=True):
        models = list(islice(rest, number))
        name = models[0].name if number == 1 else f"{parse(spec).kind}:{ALL}"
        readings.append(_Reading(name, models))
    return readings


class _Experiments:
    """Makes the entries of a comparison, one after another, as columns are added. Each
    entry is an experiment with a plan of its own; all share the metric.
    """

    def __init__(
        self,
        lists: Sequence[NbestList],
        dev: Sequence[NbestList],
        plan: Plan,
        config: RunConfig,
        progress: OnProgress,
    ) -> None:
        """Make entries of expanded lists.

        Args:
            lists: The test lists.
            dev: The dev lists.
            plan: The plan of all models together.
            config: What was asked, without expansions.
            progress: Is told how many hypotheses are scored.
        """
        self._lists = lists
        self._dev = dev
        self._plan = plan
        self._config = config
        self._progress = progress

    def entries(self) -> Iterator[Entry]:
        """Yield the entry without a model (for decisions other than the best score),
        each model alone, all together, and all but one.
        """
        if not self._plan.decision.is_best:
            yield self._entry([])
        every = _readings(self._plan, self._config.lms)
        for reading in every:
            speed = self._score(reading)
            yield self._entry([reading], speed)
        together = [one for one in every if not capabilities_of(one.models[0]).intact]
        if len(together) > 1:
            yield self._entry(together)
            for missing in together:
                rest = [one for one in together if one is not missing]
                yield self._without(missing, rest)

    def _score(self, reading: _Reading) -> float | None:
        """Add the columns of models to both sets, and return the hypotheses per second;
        None for scores that were looked up.
        """
        plan = replace(self._plan, models=tuple(reading.models))
        began = time.perf_counter()
        self._lists = list(score(plan, self._lists, self._progress))
        self._dev = list(score(plan, self._dev, self._progress))
        seconds = time.perf_counter() - began
        lm = reading.models[0]
        if capabilities_of(lm).cached:
            return None
        number = 0
        for nbest in chain(self._lists, self._dev):
            number += sum(not math.isinf(score) for score in nbest.column(lm.name))
        return number / seconds

    def _entry(self, readings: Sequence[_Reading], speed: float | None = None) -> Entry:
        """Return the entry of some models."""
        name = " + ".join(one.name for one in readings)
        weights = self._tune(readings, self._config.word_bonus)
        return self._decided(name, weights, speed)

    def _without(self, missing: _Reading, rest: Sequence[_Reading]) -> Entry:
        """Return the entry of all models but one.

        It has a word bonus if the entry with all models has one: the model is the only
        difference.
        """
        weights = self._tune(rest, WORDS in self._plan.tuning.bonuses)
        entry = self._decided(f"without {missing.name}", weights)
        return entry._replace(ablation=True)

    def _tune(self, readings: Sequence[_Reading], word_bonus: Bonus) -> Weights:
        """Return the weights of some models on dev."""
        models = [lm for one in readings for lm in one.models]
        config = replace(
            self._config, lm_norm=self._plan.norm, columns=(), word_bonus=word_bonus
        )
        own = resolve(config, self._lists, self._dev, lambda: models)
        return tune(replace(own, metrics=self._plan.metrics), self._dev)

    def _decided(
        self, name: str, weights: Weights, speed: float | None = None
    ) -> Entry:
        """Return the entry of weights."""
        title = decision_title(self._plan.decision.name)
        named = ", ".join(filter(None, [name, title]))
        decided = decide(self._plan.metric, self._lists, weights)
        return Entry(named, decided, weights.value, speed)
