"""The stages of the main job, and `run`, which calls them all: they execute a plan
(`rescore.plan`).

    lists -> expand -> score -> tune (on dev lists) -> decide, evaluate

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
from typing import Any

from rescore import decision
from rescore.config import RunConfig
from rescore.decision import Decision
from rescore.errors import UserError
from rescore.lms import LanguageModel, origin
from rescore.lms.context import in_place
from rescore.metrics import Metric
from rescore.nbest import NbestList, in_parts, with_header, without_copies
from rescore.plan import Load, Plan, check, resolve
from rescore.reports.results import Dev, Results, system_name
from rescore.reports.results import evaluate as evaluate_weights
from rescore.scoring import OnProgress, OnScores, add_columns, windows
from rescore.tuning import Tuned, TunedBy, Weights, suited, tuned_in_folds
from rescore.tuning import tune as tune_weights
from rescore.tuning.folds import (
    added_columns,
    warn_of_overlap,
    warn_of_scales,
    warn_of_single,
    warn_of_unused,
)

__all__ = [
    "Outcome",
    "Plan",
    "RunConfig",
    "decide",
    "evaluate",
    "expand",
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
    lists: list[NbestList]
    """The test lists with their new columns."""
    texts: list[str]
    """The text chosen for each list."""
    weights: Weights
    results: Results
    dev: list[NbestList] | None = None
    """The lists that weights were tuned on, with their new columns."""
    folded: Sequence[Weights] = ()
    """The weights that each list was decided with, if the lists were cut into folds."""

    @property
    def metric(self) -> Metric:
        """The objective of tuning."""
        return self.plan.metric

    @property
    def lms(self) -> Sequence[LanguageModel]:
        """The language models."""
        return self.plan.models

    @property
    def decision(self) -> Decision:
        """How a text was chosen from each list."""
        return self.plan.decision_with(self.weights)

    def ranked(self) -> Iterator[tuple[NbestList, str]]:
        """Each list, sorted by the combined score that it was decided with, and the
        text chosen for it.
        """
        weights_of_lists = self.folded or [self.weights] * len(self.lists)
        for nbest, text, weights in zip(
            self.lists, self.texts, weights_of_lists, strict=True
        ):
            yield decision.rerank(nbest, weights.of), text


def run(
    lists: Sequence[NbestList],
    config: RunConfig,
    dev: Sequence[NbestList] | None = None,
    load: Load | None = None,
    progress: OnProgress = lambda done: None,
) -> Outcome:
    """Score lists, tune on `dev` (or in folds, or take the weights that `config`
    gives), decide, and evaluate.

    Args:
        load: loads the models if `config` does not name them. progress: see
            `OnProgress`.

    Raises:
        UserError: what `config` says cannot be done with these lists.
    """
    config = check(
        replace(config, dev="dev") if dev is not None and config.dev is None else config
    )
    if dev is not None:
        warn_of_overlap(lists, dev)
        warn_of_scales(lists, dev)
    plan, clock = resolve(config, lists, dev, load), _Clock()
    warn_of_unused(lists, [*plan.columns, *plan.model_columns])
    with clock.measure("scoring"):
        scored = list(score(plan, expand(plan, lists), progress))
        tuned_on = scored if plan.folds else None
        if dev is not None:
            tuned_on = list(score(plan, expand(plan, dev, dev=True), progress))
    if plan.models:
        warn_of_single(scored)
    texts, weights, folded = None, plan.weights, list[Weights]()
    with clock.measure("tuning"):
        if tuned_on is None and weights.tuned.by is TunedBy.CARD:
            log.info(
                "weight %g, from the model card of %s",
                weights.weights[plan.model_columns[0]],
                config.lms[0],
            )
        if tuned_on is not None:
            weights = tune(tuned_on, plan=plan)
        for parts in plan.folds:
            texts, of_folds = tuned_in_folds(
                parts, plan.metric, scored, plan.columns, plan.tuning
            )
            folded = [of_folds[fold] for fold in parts.fold]
            weights = replace(
                weights,
                tuned=weights.tuned.in_folds(parts.number, parts.unit),
                fold_weights=tuple(fold.of_fold for fold in of_folds),
            )
    with clock.measure("evaluation"):
        results, texts = evaluate(plan, weights, scored, texts)
    results.stages, results.seconds = clock.seconds, sum(clock.seconds.values())
    return Outcome(plan, scored, texts, weights, results, tuned_on, folded)


def warn_of_twice(lists: Iterable[NbestList], decide: Decision) -> bool:
    """Warn where a decision by posteriors adds those of one text with different scores;
    returns whether there is such a list.
    """
    if not decide.takes_scale:
        return False
    for nbest in lists:
        if nbest.header.systems:  # each has its votes
            continue
        texts = [hypothesis.text for hypothesis in without_copies(nbest).hypotheses]
        if len(set(texts)) < len(texts):
            log.warning(
                "%slists have a text twice (first: utterance %s); %s adds both",
                nbest.header.place,
                nbest.id,
                decide.name,
            )
            return True
    return False


def expand(
    plan: Plan, lists: Iterable[NbestList], dev: bool = False
) -> Iterator[NbestList]:
    """The lists with the new hypotheses of the plan, as a stream.

    Args:
        dev: whether these are the dev lists, from which a channel of misheard words may
            be learned.
    """
    for expansion in plan.expansions:
        lists = expansion(lists, dev)
    return with_header(lists, lambda header: replace(header, words=plan.words))


def score(
    plan: Plan,
    lists: Iterable[NbestList],
    progress: OnProgress = lambda done: None,
    on_scores: OnScores | None = None,
) -> Iterator[NbestList]:
    """Copies of the lists with one more column per model, and the number of tokens
    (`Plan.counted`); a stream.

    Args:
        on_scores: is given the scores of the tokens of each list.
    """
    placed = windows(in_place(plan.models, lists))
    for window in add_columns(
        plan.models, placed, plan.norm, plan.counted, progress, on_scores
    ):
        yield from (placed.nbest for placed in window)


def score_in_parts(
    plan: Plan,
    lists: Iterable[NbestList],
    output: str,
    progress: OnProgress = lambda done: None,
) -> None:
    """`score`, written to a file in parts, so that an interrupted command continues
    where it stopped.
    """
    from rescore.scoring.shards import Shards

    made_by = [
        f"{lm.name} {origin(lm, plan.norm).short} {lm.fingerprint}"
        for lm in plan.models
    ]
    shards = Shards(output, [*made_by, plan.norm, *(lm.name for lm in plan.counted)])
    missing = shards.missing(windows(in_place(plan.models, lists)), progress)
    shards.write(add_columns(plan.models, missing, plan.norm, plan.counted, progress))


def first_lists(
    lists: Iterable[NbestList], most: int = CHUNK
) -> tuple[list[NbestList], Iterator[NbestList]]:
    """The first lists of a stream, by which a plan is made (none of an empty stream),
    and the whole stream.
    """
    stream = iter(lists)
    first = list(islice(stream, most))
    return first, chain(first, stream)


def tune(
    lists: Sequence[NbestList],
    columns: Sequence[str] | None = None,
    metric: str | None = None,
    decision: str | None = None,
    *,
    plan: Plan | None = None,
    **options: Any,
) -> Weights:
    """The weights of columns that give the best value of a metric on lists with
    references, for one decision.

    One column gets the best weight in [0, 1] of all; several are tuned together with a
    word bonus. On 500 lists or more with a column of pseudo-log-likelihoods a bonus for
    each token is tuned as well. For BLEU there are no bonuses.

    Args:
        lists: scored lists. With `plan`, they have the new hypotheses of the plan
            already.
        columns: None for those that `score` added, else all beside the first pass.
        metric: a name of `rescore.metrics.METRICS`; None for BLEU where lists have a
            source text, else WER.
        decision: best, mbr or rover: what the weights, and the scale of posteriors, are
            tuned for.
        plan: all decisions (`rescore.plan.resolve`), in the place of the other
            arguments.
        options: `words`, a file of words as `--words`; `normaliser`, what counts as the
            same word, such as `rescore.Normaliser(split_hyphens=True)`, which the
            weights keep; and further fields of `rescore.RunConfig`, such as
            `components=True`.

    Raises:
        UserError: there is no list; a list has no reference, or lacks a column.
    """
    if plan is None:
        # here: commands make their plan themselves
        from rescore.border import checked_lists, config_of

        config = check(
            replace(
                config_of("tune", metric, decision, columns=columns, **options),
                dev="dev",
            )
        )
        lists = checked_lists("tune", lists)
        plan = resolve(config, dev=lists)
        lists = list(expand(plan, lists, dev=True))
    if not lists:
        raise UserError("no lists to tune on")
    added_columns(lists)  # all lists have them, or no list
    tuned = Tuned.on(plan.tuned_on, lists)
    return tune_weights(plan.metric, lists, plan.columns, plan.tuning, tuned)


def evaluate(
    plan: Plan,
    weights: Weights,
    lists: Sequence[NbestList],
    texts: list[str] | None = None,
) -> tuple[Results, list[str]]:
    """The figures of lists under weights, and the text chosen for each list.

    Args:
        texts: the texts if they were chosen already, in folds.

    Raises:
        UserError: there is no list, or a list lacks a column that has a weight.
    """
    if not lists:
        raise UserError("no lists to evaluate")
    weights = suited(weights, lists, plan.force_weights)
    rule = plan.decision_with(weights)
    warn_of_twice(lists, rule)
    if plan.measured_in_vain and not any(nbest.references for nbest in lists):
        log.warning(
            "--metric %s: the lists have no references, so nothing is measured; give"
            " --ref FILE",
            ", ".join(plan.measured_in_vain),
        )
    in_folds = texts is not None
    results, texts = evaluate_weights(
        plan.metric, lists, weights, rule, texts, plan.metrics[1:]
    )
    results.system = system_name(weights, rule.name)
    results.dev = Dev.of(weights, results.main if in_folds else None)
    results.plan = [str(reason) for reason in plan.reasons]
    return results, texts


def apply(lists: Iterable[NbestList], weights: Weights, config: RunConfig) -> Outcome:
    """Decide lists with weights that were tuned before, and evaluate the texts.

    Raises:
        UserError: as `decide` and `evaluate`.
    """
    every = list(lists)
    plan = resolve(config, every, weights=weights)
    decided = list(expand(plan, every))
    results, texts = evaluate(plan, weights, decided)
    return Outcome(plan, decided, texts, weights, results)


def decide(
    plan: Plan,
    weights: Weights,
    lists: Iterable[NbestList],
    texts: bool = True,
    expanded: bool = False,
) -> Iterator[tuple[NbestList, str]]:
    """Each list, sorted by the combined score, with the text chosen for it; a stream.

    Args:
        texts: whether texts are chosen; else the text of the first hypothesis stands.
            expanded: whether the lists have the new hypotheses of the plan already.

    Raises:
        UserError: new hypotheses would be made by what was learned from these lists'
        own references; weights were tuned on scores of another model.
    """
    rule, warned = plan.decision_with(weights), False
    for chunk in in_parts(lists if expanded else expand(plan, lists), CHUNK):
        suited(weights, chunk, plan.force_weights)
        warned = warned or (texts and warn_of_twice(chunk, rule))
        ranked = [decision.rerank(nbest, weights.of) for nbest in chunk]
        if not texts:
            yield from ((nbest, nbest.hypotheses[0].text) for nbest in ranked)
            continue
        yield from zip(ranked, rule.texts(plan.metric, chunk, weights.of), strict=True)


def rerank(
    lists: Iterable[NbestList], weights: Weights, config: RunConfig, texts: bool = True
) -> Iterator[tuple[NbestList, str]]:
    """`decide` of a stream, with the plan that its first lists give."""
    first, stream = first_lists(lists)
    yield from decide(resolve(config, first, weights=weights), weights, stream, texts)


@dataclass(slots=True)
class _Clock:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - began
