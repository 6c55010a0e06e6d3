"""Models side by side: each is tuned on dev lists and measured on test lists, and all
of them together.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from rescore.columns import FIRST_PASS, WORDS
from rescore.config import Bonus, RunConfig
from rescore.dataset import Dataset
from rescore.deciding import decide
from rescore.errors import UserError, listed
from rescore.features.models import parts_left_out
from rescore.lms import LanguageModel, capabilities_of, single_specs
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

log = logging.getLogger(__name__)


def compare(
    lists: Sequence[NbestList],
    dev: Sequence[NbestList],
    config: RunConfig,
    load: Load | None = None,
    test: PairedTest | None = None,
    source: str = "test",
    progress: OnProgress = lambda done: None,
    specs: Sequence[str | None] = (),
    against: str | None = None,
) -> comparison.Comparison:
    """Score both sets with every model, tune each on `dev`, and all together, and
    compare them on `lists`.

    All readings of a model (`lexical:all`) are one entry. If there are several models,
    the next entry combines all models but the intact readings of masked models (which
    are there to be looked at). If these are three or more, the last entries are all of
    them but one, for each one; of two models, such an entry would be a single model.

    Args:
        lists: The test lists.
        dev: The dev lists.
        config: What was asked.
        load: Loads the models; None for the models that `config` names.
        test: The significance test; None for approximate randomisation.
        source: The name of the test lists.
        progress: Is told how many hypotheses are scored.
        specs: The names of the loaded models, as in `resolve`.
        against: The row that p-values compare with, or `above`; None for the first
            pass.

    Raises:
        UserError: A list has no reference, what was asked cannot be done, or there is
            no such row.
    """
    # no column beside the models' is tuned: rows differ in the models alone
    config = replace(config, columns=(FIRST_PASS,), dev=config.dev or "dev")
    check(config)
    warn_of_overlap(lists, dev)
    _tell_left_out(Dataset.of(dev), config)
    plan = resolve(config, lists, dev, load, specs)
    lists = list(expand(plan, lists))
    dev = list(expand(plan, dev, dev=True))
    config = replace(config, expanding=OptionValues())
    experiments = _Experiments(lists, dev, plan, config, progress)
    names = source, str(config.dev)
    return comparison.compare(
        plan.metric,
        lists,
        dev,
        experiments.entries(),
        test or PairedTest(),
        names,
        plan.metrics[1:],
        plan.by,
        experiments.row(against),
    )


def _tell_left_out(lists: Dataset, config: RunConfig) -> None:
    """Log which columns of scores in the lists have no weight in any row."""
    if not config.components:
        for reason in parts_left_out(lists, ()):
            log.info("%s", reason)
    own = lists.own_columns
    if own:
        log.info(
            "left out of the comparison: %s (columns of the lists; `rescore run --dev`"
            " tunes them)",
            listed(own),
        )


@dataclass(frozen=True, slots=True)
class _Reading:
    """The models of one --lm: several for `lexical:all:DIR`."""

    name: str
    models: Sequence[LanguageModel]


def _readings(plan: Plan, specs: Sequence[str]) -> list[_Reading]:
    """Return the models of each --lm, with a name."""
    numbers = [len(single_specs([spec])) for spec in specs]
    if sum(numbers) != len(plan.models):
        return [_Reading(lm.name, [lm]) for lm in plan.models]
    readings = []
    rest = iter(plan.models)
    for spec, number in zip(specs, numbers, strict=True):
        models = list(islice(rest, number))
        name = models[0].name if number == 1 else f"{parse(spec).kind}:{ALL}"
        readings.append(_Reading(name, models))
    return readings


@dataclass(frozen=True, slots=True)
class _Experiment:
    """A row: models whose weights are tuned together."""

    name: str
    readings: Sequence[_Reading]
    scored: _Reading | None = None
    """What must be scored before; None if all columns are there."""
    ablation: bool = False
    """Whether one of all models is left out."""


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

    def _experiments(self) -> list[_Experiment]:
        """Return what is compared, in the order of the rows: without a model (for
        decisions other than the best score), each model alone, all together, and, for
        three models or more, all but one.
        """
        every = _readings(self._plan, self._config.lms)
        experiments = []
        if not self._plan.decision.is_best:
            experiments.append(_Experiment("", []))
        for reading in every:
            experiments.append(_Experiment(reading.name, [reading], scored=reading))
        together = [one for one in every if not capabilities_of(one.models[0]).intact]
        if len(together) > 1:
            name = " + ".join(one.name for one in together)
            experiments.append(_Experiment(name, together))
        if len(together) > 2:
            for missing in together:
                rest = [one for one in together if one is not missing]
                name = f"without {missing.name}"
                experiments.append(_Experiment(name, rest, ablation=True))
        return experiments

    def row(self, asked: str | None) -> str | None:
        """Return the whole name of the row of --against: a name without the decision
        is enough.

        Raises:
            UserError: There is no such row.
        """
        if asked is None or asked == comparison.ABOVE:
            return asked
        baseline = comparison.baseline_of(self._lists)
        names = {baseline: baseline}
        for one in self._experiments():
            names[self._title(one.name)] = one.name
        for name, without_decision in names.items():
            if asked in (name, without_decision):
                return name
        raise UserError(
            f"--against {asked}: no such row; the rows are {', '.join(names)}"
            f" (or {comparison.ABOVE}, for the row above each)"
        )

    def entries(self) -> Iterator[Entry]:
        """Yield an entry for each experiment."""
        for one in self._experiments():
            speed = self._score(one.scored) if one.scored else None
            # Without a model, there is a word bonus if there is one with all models:
            # the model is the only difference.
            bonus: Bonus = self._config.word_bonus
            if one.ablation:
                bonus = WORDS in self._plan.tuning.bonuses
            weights = self._tune(one.readings, bonus)
            decided = decide(self._plan.metric, self._lists, weights)
            name = self._title(one.name)
            yield Entry(name, decided, weights.value, speed, one.ablation)

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

    def _tune(self, readings: Sequence[_Reading], word_bonus: Bonus) -> Weights:
        """Return the weights of some models on dev."""
        models = [lm for one in readings for lm in one.models]
        config = replace(self._config, lm_norm=self._plan.norm, word_bonus=word_bonus)
        own = resolve(config, self._lists, self._dev, lambda: models)
        return tune(replace(own, metrics=self._plan.metrics), self._dev)

    def _title(self, name: str) -> str:
        """Return the name of a row: with the decision, unless it is the best score."""
        title = decision_title(self._plan.decision.name)
        return ", ".join(filter(None, [name, title]))
