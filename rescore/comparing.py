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

from rescore.asked import ROADS, Call, changed, check_call, checked, checked_once
from rescore.columns import FIRST_PASS, WORDS
from rescore.config import (
    EXPANSION,
    Bonus,
    RunConfig,
    flattened_options,
    with_option,
)
from rescore.dataset import Dataset
from rescore.deciding import Decided, RepeatedTexts, decide
from rescore.errors import OptionError, UserError, listed
from rescore.features.models import parts_left_out
from rescore.lms import LanguageModel, capabilities_of, single_specs
from rescore.lms.backends import ALL, parse
from rescore.metrics.significance import PairedTest
from rescore.options import OptionValues
from rescore.pipeline import expand, score, tune_row
from rescore.plan import Load, Plan, resolve
from rescore.reports import comparison
from rescore.reports.comparison import Entry, text_values
from rescore.reports.figures import baseline_of
from rescore.reports.results import decision_title
from rescore.scoring import OnProgress
from rescore.tuning import Searches, Weights
from rescore.tuning.lists import warn_of_few, warn_of_overlap
from rescore.values import is_of_kind

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Varied:
    """An option with several values: a row of the comparison for each."""

    name: str
    """The field of `RunConfig`, or the option of a part."""
    values: tuple[float, ...]

    @classmethod
    def of_text(cls, text: str) -> Varied:
        """Return what `--vary OPTION=NUMBER,NUMBER...` says.

        Args:
            text: What was typed.

        Raises:
            ValueError: The text has another form.
        """
        flag, _, typed = text.partition("=")
        name = flag.strip("-").replace("-", "_")
        try:
            values = tuple(float(value) for value in typed.split(","))
        except ValueError:
            if typed and name in flattened_options() and not _is_varied(name):
                raise ValueError(_not_varied(name)) from None
            raise ValueError(
                f"{text!r} is not OPTION=NUMBER,NUMBER..., such as boost=0,0.3,1"
            ) from None
        return cls(name, values)

    def check(self, config: RunConfig) -> None:
        """See that each row may be asked for.

        Args:
            config: What is asked beside the option.

        Raises:
            OptionError: `rescore compare` has no such option, its values are no
                numbers, or it adds hypotheses.
        """
        road = ROADS["compare"]
        check_call(Call.of_python(road, {self.name: self.values[0]}))
        if not _is_varied(self.name):
            raise OptionError(f"--vary {self.name}: {_not_varied(self.name)}")
        entry = flattened_options()[self.name]
        for value in self.values:
            entry.check(value)
            checked(road, with_option(config, self.name, value))

    def configs(self, config: RunConfig) -> Iterator[tuple[float, RunConfig]]:
        """Yield each value, and the settings of its row.

        Args:
            config: What is asked beside the option.
        """
        for value in self.values:
            yield value, with_option(config, self.name, value)


def _is_varied(name: str) -> bool:
    """Return whether an option is a number that leaves the hypotheses as they are."""
    entry = flattened_options().get(name)
    if entry is None or entry.title == EXPANSION:
        return False
    return is_of_kind(0.5, entry.hint)


def _not_varied(name: str) -> str:
    """Return the message about an option that `compare` does not vary."""
    return (
        "compare varies numbers that leave the hypotheses as they are, such as boost,"
        f" scale or no_word; give each value of {name} to `rescore run` with --report"
        " and --system NAME, and the reports to `rescore report`"
    )


def compare(
    lists: Dataset,
    dev: Dataset,
    config: RunConfig,
    load: Load | None = None,
    test: PairedTest | None = None,
    source: str = "test",
    progress: OnProgress = lambda done: None,
    specs: Sequence[str | None] = (),
    against: str | None = None,
    vary: Varied | None = None,
) -> comparison.Comparison:
    """Score both sets with every model, tune each on `dev`, and all together, and
    compare them on `lists`.

    All readings of a model (`lexical:all`) are one entry. If there are several models,
    the next entry combines all models but the intact readings of masked models (which
    are there to be looked at). If these are three or more, the last entries are all of
    them but one, for each one; of two models, such an entry would be a single model.

    If an option is varied, the entries are all models together with each of its values.

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
        vary: An option with several values, which are checked (`Varied.check`); None
            for a row for each model.

    Raises:
        UserError: A list has no reference, what was asked cannot be done, or there is
            no such row.
    """
    if config.dev is None:
        config = replace(config, dev="dev")
    config = checked_once(ROADS["compare"], config)
    # no column beside the models' is tuned: rows differ in the models alone
    config = changed(config, columns=(FIRST_PASS,))
    warn_of_overlap(lists, dev)
    warn_of_few(dev)
    _tell_left_out(dev, config)
    asked = config
    if vary is not None:  # a bonus of 0 counts nothing
        asked = with_option(config, vary.name, max(vary.values, key=abs))
    plan = resolve(asked, lists, dev, load, specs)
    lists = Dataset(expand(plan, lists))
    dev = Dataset(expand(plan, dev, dev=True))
    config = changed(config, expanding=OptionValues())
    experiments = _Experiments(lists, dev, plan, config, progress, vary)
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
        None if vary is None else vary.name,
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
    config: RunConfig | None = None
    """The settings of this row; None for the settings of all rows."""
    setting: float = 0.0
    """The value of the option that is varied."""


class _Experiments:
    """Makes the entries of a comparison, one after another, as columns are added. Each
    entry is an experiment with a plan of its own; all share the metric.
    """

    def __init__(
        self,
        lists: Dataset,
        dev: Dataset,
        plan: Plan,
        config: RunConfig,
        progress: OnProgress,
        vary: Varied | None,
    ) -> None:
        """Make entries of expanded lists.

        Args:
            lists: The test lists.
            dev: The dev lists.
            plan: The plan of all models together.
            config: What was asked, without expansions.
            progress: Is told how many hypotheses are scored.
            vary: An option with several values.
        """
        self._vary = vary
        self._lists = lists
        self._dev = dev
        self._plan = plan
        self._config = config
        self._progress = progress
        self._repeated = RepeatedTexts()
        self._searches = Searches()

    def _experiments(self) -> list[_Experiment]:
        """Return what is compared, in the order of the rows: without a model (for
        decisions other than the best score), each model alone, all together, and, for
        three models or more, all but one.
        """
        every = _readings(self._plan, self._config.lms)
        experiments = []
        if self._vary is not None:
            for value, config in self._vary.configs(self._config):
                name = f"{self._vary.name} {value:g}"
                one = _Experiment(name, every, config=config, setting=value)
                experiments.append(one)
            return experiments
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
        baseline = baseline_of(self._lists.header.by_systems)
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
        if self._vary is not None:
            for reading in _readings(self._plan, self._config.lms):
                self._score(reading)
        for one in self._experiments():
            speed = self._score(one.scored) if one.scored else None
            # Without a model, there is a word bonus if there is one with all models:
            # the model is the only difference.
            bonus: Bonus = self._config.word_bonus
            if one.ablation:
                bonus = WORDS in self._plan.tuning.bonuses
            weights = self._tune(one.readings, bonus, one.config or self._config)
            yield Entry(
                name=self._title(one.name),
                decided=self._decided(self._lists, weights),
                dev=weights.value,
                speed=speed,
                ablation=one.ablation,
                dev_others=self._on_dev(weights),
                setting=one.setting,
            )

    def _decided(self, lists: Dataset, weights: Weights) -> Decided:
        """Return lists with the text that weights choose for each."""
        return decide(self._plan.metric, lists, weights, repeated=self._repeated)

    def _on_dev(self, weights: Weights) -> dict[str, float]:
        """Return the further metrics on dev, in percent, by name."""
        others = self._plan.metrics[1:]
        if not others:
            return {}
        return text_values(others, self._dev, self._decided(self._dev, weights).texts)

    def _score(self, reading: _Reading) -> float | None:
        """Add the columns of models to both sets, and return the hypotheses per second;
        None for scores that were looked up.
        """
        plan = replace(self._plan, models=tuple(reading.models))
        began = time.perf_counter()
        self._lists = Dataset(score(plan, self._lists, self._progress))
        self._dev = Dataset(score(plan, self._dev, self._progress))
        seconds = time.perf_counter() - began
        lm = reading.models[0]
        if capabilities_of(lm).cached:
            return None
        number = 0
        for nbest in chain(self._lists, self._dev):
            number += sum(not math.isinf(score) for score in nbest.column(lm.name))
        return number / seconds

    def _tune(
        self, readings: Sequence[_Reading], word_bonus: Bonus, config: RunConfig
    ) -> Weights:
        """Return the weights of some models on dev."""
        models = [lm for one in readings for lm in one.models]
        config = changed(config, lm_norm=self._plan.norm, word_bonus=word_bonus)
        own = resolve(config, self._lists, self._dev, lambda: models)
        own = replace(own, metrics=self._plan.metrics)
        return tune_row(own, self._dev, self._searches)

    def _title(self, name: str) -> str:
        """Return the name of a row: with the decision, unless it is the best score."""
        title = decision_title(self._plan.decision.name)
        return ", ".join(filter(None, [name, title]))
