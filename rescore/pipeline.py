"""The stages of `rescore run`, and the function `run`, which calls them all: they
execute a plan (`rescore.plan`).

    lists -> expand -> score -> tune (on dev lists) -> decide -> measure

Each stage can be called alone. Between stages lie lists that say where their columns
come from, so the same experiment has the same figures by `run` and by stages.

    from rescore import formats, pipeline
    from rescore.config import RunConfig

    config = RunConfig(lms=("tta",), dev="dev.json")
    lists, dev = formats.read(["test.json"]), formats.read(["dev.json"])
    outcome = pipeline.run(lists, config, dev)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice

from rescore import deciding
from rescore.asked import ROADS, checked_once
from rescore.columns import FIRST_PASS_ORIGIN
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.deciding import Decided
from rescore.decision import Decision
from rescore.errors import UserError
from rescore.expansion import expanded
from rescore.given import tell_card_weight
from rescore.keys import Key
from rescore.lms import LanguageModel
from rescore.lms.context import with_needed_neighbours
from rescore.metrics import Metric
from rescore.metrics.base import is_better
from rescore.metrics.folds import Folds
from rescore.metrics.texts import warn_of_texts
from rescore.nbest import NbestList, in_parts, with_header
from rescore.plan import Load, Plan, resolve
from rescore.reports.results import Results, evaluate
from rescore.scoring import OnProgress, OnScores, add_columns, windows_of_lists
from rescore.scoring.shards import Shards
from rescore.tuning import (
    Searches,
    TunedBy,
    Tuning,
    Weights,
    tune_weights,
    tuned_in_folds,
)
from rescore.tuning.folds import HeldOut, InFolds, judged_by_folds
from rescore.tuning.lists import (
    common_expansion_columns,
    warn_of_constant,
    warn_of_few,
    warn_of_overlap,
    warn_of_scales,
    warn_of_signs,
    warn_of_single,
    warn_of_unused,
    warn_of_unweighed,
)
from rescore.version import VERSION

__all__ = [
    "Outcome",
    "Plan",
    "RunConfig",
    "decide_all",
    "decide_stream",
    "expand",
    "measure",
    "resolve",
    "run",
    "score",
    "tune",
]

log = logging.getLogger(__name__)

CHUNK = 1_000
"""Lists that are decided together: bounds memory."""


@dataclass(slots=True)
class Outcome:
    """Everything that a run made."""

    plan: Plan
    decided: Decided
    """The test lists with their new columns, and the text chosen for each."""
    results: Results
    tuning_lists: Dataset | None = None
    """The lists that weights were tuned on, with their new columns: the dev lists, or
    with folds the lists themselves.
    """

    @property
    def lists(self) -> Dataset:
        """The test lists with their new columns."""
        return self.decided.lists

    @property
    def texts(self) -> list[str]:
        """The text chosen for each list."""
        return self.decided.texts

    @property
    def weights(self) -> Weights:
        """The weights of all lists. They decided, unless the lists were cut into folds:
        then the weights of each fold decided (`decided.in_folds`).
        """
        return self.decided.weights

    @property
    def decision(self) -> Decision:
        """How a text was chosen from each list."""
        return self.weights.decision

    @property
    def metric(self) -> Metric:
        """The objective of tuning."""
        return self.plan.metric

    @property
    def lms(self) -> Sequence[LanguageModel]:
        """The language models."""
        return self.plan.models


def run(
    lists: Iterable[NbestList],
    config: RunConfig,
    dev: Iterable[NbestList] | None = None,
    load: Load | None = None,
    progress: OnProgress = lambda done: None,
) -> Outcome:
    """Score lists, tune on `dev` (or in folds, or take the weights that `config`
    gives), decide, and measure.

    Args:
        lists: The lists.
        config: What was asked.
        dev: The dev lists, if there are any.
        load: Loads the models if `config` does not name them.
        progress: Is told how many hypotheses are scored.

    Raises:
        UserError: What `config` says cannot be done with these lists.
    """
    if dev is not None and config.dev is None:
        config = replace(config, dev="dev")
    config = checked_once(ROADS["run"], config)
    every = Dataset.of(lists)
    dev_lists = None
    if dev is not None:
        dev_lists = Dataset.of(dev)
        warn_of_overlap(every, dev_lists)
        warn_of_scales(every, dev_lists)
    plan = resolve(config, every, dev_lists, load)
    clock = _Clock()
    warn_of_unused(every, [*plan.tuned_columns, *plan.model_columns])
    if not plan.models and not plan.tuning_set:
        warn_of_unweighed(every, plan.weights.weighs)
    with clock.time("scoring"):
        scored = Dataset(score(plan, expand(plan, every), progress))
        tuning_lists = scored if plan.folds else None
        if dev_lists is not None:
            tuning_lists = Dataset(
                score(plan, expand(plan, dev_lists, dev=True), progress)
            )
    if plan.models:
        warn_of_single(scored)
    with clock.time("tuning"):
        if tuning_lists is None:
            weights = plan.weights
            if weights.tuning.by is TunedBy.CARD:
                tell_card_weight(config.lms[0])
        else:
            weights = tune(plan, tuning_lists)
        in_folds = None
        texts = None
        if plan.folds:
            held_out = _in_folds(plan, plan.folds, weights, scored)
            weights = held_out.weights
            texts = held_out.texts
            in_folds = held_out.in_folds
    with clock.time("evaluation"):
        decided = decide_all(plan, weights, scored, in_folds, texts)
        results = measure(plan, decided)
    results.stages = clock.seconds
    results.seconds = sum(clock.seconds.values())
    return Outcome(plan, decided, results, tuning_lists)


def _in_folds(plan: Plan, folds: Folds, weights: Weights, lists: Dataset) -> HeldOut:
    """Return the weights of all lists with the record of the folds, and the weights
    that decide each fold.
    """
    how = plan.tuning.for_signature
    if folds.unit == "speaker":
        how = {"cut": folds.cut, **how}
    weights_of_folds = tuned_in_folds(
        folds, plan.metric, lists, plan.tuned_columns, plan.tuning
    )
    held_out = judged_by_folds(folds, plan.metric, lists, weights, weights_of_folds)
    weights = held_out.weights
    unproven = weights.tuning.unproven
    if unproven is not None and unproven.held_out:
        how = {**how, "kept": FIRST_PASS_ORIGIN}
    tuning = weights.tuning.in_folds(folds.number, folds.unit, how)
    of_folds = tuple(each.choice for each in held_out.in_folds.weights)
    weights = replace(weights, tuning=replace(tuning, of_folds=of_folds))
    return replace(held_out, weights=weights)


def expand(
    plan: Plan, lists: Iterable[NbestList], dev: bool = False
) -> Iterator[NbestList]:
    """Yield the lists with the new hypotheses and columns of the plan.

    Args:
        plan: The plan.
        lists: The lists.
        dev: Whether these are the dev lists, from which an expansion may learn.
    """
    lists = expanded(plan.expansions, lists, dev)
    return with_header(lists, lambda header: replace(header, cut_words=plan.cut_words))


def score(
    plan: Plan,
    lists: Iterable[NbestList],
    progress: OnProgress = lambda done: None,
    on_scores: OnScores | None = None,
) -> Iterator[NbestList]:
    """Yield copies of the lists with one more column per model, and the number of
    tokens (`Plan.counted`).

    Args:
        plan: The plan.
        lists: The lists.
        progress: Is told how many hypotheses are scored.
        on_scores: Is given the scores of the tokens of each list.
    """
    batches = windows_of_lists(with_needed_neighbours(plan.models, lists))
    for window in add_columns(
        plan.models, batches, plan.norm, plan.counted, progress, on_scores
    ):
        for item in window:
            yield item.nbest


def score_in_parts(
    plan: Plan,
    lists: Iterable[NbestList],
    output: str,
    progress: OnProgress = lambda done: None,
) -> None:
    """Write the scored lists to a file in parts, so that an interrupted command
    continues where it stopped.

    Args:
        plan: The plan.
        lists: The lists.
        output: The file.
        progress: Is told how many hypotheses are scored.
    """
    shards = Shards(output, made_by(plan))
    missing = shards.missing(
        windows_of_lists(with_needed_neighbours(plan.models, lists)), progress
    )
    models = shards.keeping(plan.models)
    names = {lm.name for lm in plan.counted}
    counted = [lm for lm in models if lm.name in names]
    shards.write(add_columns(models, missing, plan.norm, counted, progress))


def made_by(plan: Plan) -> Key:
    """Return the key of scored lists, without the lists: the settings of the plan that
    decide their new columns.

    Args:
        plan: The plan.
    """
    models = []
    for lm in plan.models:
        models.append(f"{lm.name}={lm.model}@{lm.fingerprint},{lm.precision}")
    return {
        "lm": models,
        "lm_norm": plan.norm,
        "count_tokens": [lm.name for lm in plan.counted],
        "rescore": VERSION,
    }


def first_lists(
    lists: Iterable[NbestList], most: int = CHUNK
) -> tuple[Dataset, Iterator[NbestList]]:
    """Return the first lists of a stream, by which a plan is made, and the whole
    stream.
    """
    stream = iter(lists)
    first = Dataset(islice(stream, most))
    return first, chain(first, stream)


def tune(plan: Plan, lists: Dataset) -> Weights:
    """Return the weights that are best on lists with references, for the decision of
    the plan, and warn of lists that are too few.

    Args:
        plan: The plan: it says which columns have a weight, and how weights are tuned.
        lists: Scored lists that have the new hypotheses of the plan.

    Raises:
        UserError: There is no list; a list has no reference, or lacks a column.
    """
    weights = tune_row(plan, lists)
    if plan.has_weights_to_tune:
        warn_of_few(lists)
    return weights


def tune_row(plan: Plan, lists: Dataset, searches: Searches | None = None) -> Weights:
    """Return the weights as `tune` does, for one of several rows of a comparison: all
    rows are tuned on the same lists, so the comparison warns once of few lists.

    Args:
        plan: The plan of the row.
        lists: Scored lists that have the new hypotheses of the plan.
        searches: The searches of the rows before; None for none.

    Raises:
        UserError: As in `tune`.
    """
    if not lists:
        raise UserError("no lists to tune on")
    common_expansion_columns(lists)  # all lists have them, or no list
    column_names = [*plan.tuned_columns, *plan.tuning.bonuses]
    asked_for = [name for name in column_names if name not in plan.tuned_by_default]
    warn_of_constant(lists, asked_for)
    record = Tuning.on(plan.tuning_set, lists)
    weights = tune_weights(
        plan.metric, lists, plan.tuned_columns, plan.tuning, record, searches
    )
    bounded = set(lists.own_columns) - set(plan.tuning.negative)
    unweighed = []
    for name in plan.tuned_columns:
        if name in bounded and not weights.weighs(name):
            unweighed.append(name)
    warn_of_signs(plan.metric, lists, unweighed)
    for bonus in plan.told_bonuses:
        if not weights.weighs(bonus.name):
            log.warning(
                "the %s has no %sgain on %s: it is off; %s NUMBER sets it",
                bonus.phrase,
                "significant " if plan.tuning.bagging else "",
                record.source,
                bonus.option,
            )
    if not lists.header.by_systems:  # these warn of their best system
        _warn_of_decision(plan.metric, weights)
    return weights


def _warn_of_decision(metric: Metric, weights: Weights) -> None:
    """Warn of a decision that is worse than the first pass on the lists that its scale
    was tuned on.
    """
    tuning = weights.tuning
    if tuning.value is None or tuning.first_pass is None:
        return
    if weights.decision.is_best:
        return
    if is_better(tuning.first_pass, tuning.value, metric.higher_is_better):
        log.warning(
            "%s: --decide %s is worse than the first pass (%s %.2f -> %.2f); leave out"
            " --decide",
            tuning.source,
            weights.decision.name,
            metric.name,
            tuning.first_pass,
            tuning.value,
        )


def decide_all(
    plan: Plan,
    weights: Weights,
    lists: Dataset,
    in_folds: InFolds | None = None,
    texts: list[str] | None = None,
) -> Decided:
    """Return lists that have the new hypotheses of the plan, with the text chosen for
    each.

    Args:
        plan: The plan.
        weights: The weights.
        lists: Lists with the columns that have a weight.
        in_folds: The weights of each fold, if the lists were cut into folds.
        texts: The text that is chosen from each list, if it is known already; in folds,
            by the weights of each fold.

    Raises:
        UserError: There is no list, a list lacks a column that has a weight, or the
            weights were tuned on scores of another model.
    """
    if not lists:
        raise UserError("no lists to evaluate")
    applied = plan.applied(weights)
    force = plan.force_weights
    return deciding.decide(plan.metric, lists, applied, in_folds, force, texts)


def measure(plan: Plan, decided: Decided) -> Results:
    """Return the figures of decided lists."""
    lists = decided.lists
    if plan.only_reported and not lists.has_references:
        log.warning(
            "--metric %s: the lists have no references, so nothing is measured; give"
            " --ref FILE",
            ", ".join(plan.only_reported),
        )
    results = evaluate(plan.metrics, decided, plan.test, plan.by)
    results.plan = [str(reason) for reason in plan.reasons]
    return results


def apply(lists: Iterable[NbestList], weights: Weights, config: RunConfig) -> Outcome:
    """Decide lists with weights that were tuned before, and measure the texts.

    Args:
        lists: The scored lists.
        weights: The weights.
        config: What was asked.

    Raises:
        UserError: A list lacks a column that has a weight, or the weights were tuned on
            scores of another model.
    """
    all_lists = Dataset.of(lists)
    plan = resolve(config, all_lists, weights=weights)
    decided = decide_all(plan, plan.weights, Dataset(expand(plan, all_lists)))
    return Outcome(plan, decided, measure(plan, decided))


def decide_stream(
    plan: Plan,
    weights: Weights,
    lists: Iterable[NbestList],
    texts: bool = True,
    is_expanded: bool = False,
) -> Iterator[tuple[NbestList, str]]:
    """Yield each list, sorted by the combined score, with the text chosen for it.

    Args:
        plan: The plan.
        weights: The weights.
        lists: The lists; a stream is read in parts.
        texts: Whether texts are chosen; else the text of the first hypothesis stands.
        is_expanded: Whether the lists have the new hypotheses of the plan already.

    Raises:
        UserError: An expansion learned from the references of these lists (`expand`);
            weights were tuned on scores of another model.
    """
    if not is_expanded:
        lists = expand(plan, lists)
    parts = map(Dataset, in_parts(lists, CHUNK))
    # Without texts the sorted list is the result: its first hypothesis has the best
    # score.
    applied = plan.applied(weights) if texts else replace(weights, decision=Decision())
    for decided in deciding.decide_parts(
        plan.metric, parts, applied, force=plan.force_weights
    ):
        yield from decided.sorted_lists()


def rerank(
    lists: Iterable[NbestList], weights: Weights, config: RunConfig, texts: bool = True
) -> Iterator[tuple[NbestList, str]]:
    """Yield what `decide_stream` yields, with the plan that the first lists of the
    stream give.

    Args:
        lists: The scored lists.
        weights: The weights.
        config: What was asked.
        texts: Whether texts are chosen, as in `decide_stream`.
    """
    first, stream = first_lists(lists)
    if first.header.by_systems:
        first = Dataset(stream)  # their first pass follows from all lists
        stream = iter(first)
    plan = resolve(config, first, weights=weights)
    if texts and plan.applied(plan.weights).decision.uses_posteriors:
        warn_of_texts(plan.metric, first)
    yield from decide_stream(plan, plan.weights, stream, texts)


@dataclass(slots=True)
class _Clock:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def time(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - began
