"""The main job and its stages as functions: what the commands call, and what a Python user can call.

The main job:

    from rescore import formats, metrics, pipeline, scoring

    test, dev = formats.read(["test.json"]), formats.read(["dev.json"])
    outcome = pipeline.run(test, [scoring.load("tta")], metrics.ErrorRate(), dev=dev)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from rescore import decision, scoring
from rescore.analysis import analyse
from rescore.decision.decide import Decision, text_value, tune_scale
from rescore.errors import UserError
from rescore.evaluation import evaluate
from rescore.metrics import ErrorRate, Metric
from rescore.nbest import COUNTS, FIRST_PASS, REPLACED, SUM, TOKENS, WORDS, NbestList, ranked_by_means
from rescore.reporting.page import page
from rescore.reporting.results import Dev, Results
from rescore.tuning import weights as search
from rescore.tuning.folds import Folds, split
from rescore.tuning.weights import Tuned, Weights

log = logging.getLogger(__name__)

Progress = Callable[[int], object]


def choose_norm(norm: str | None, lists: Sequence[NbestList]) -> str:
    """`norm`, or the one that suits the first pass: mean where its scores are means over tokens, else sum."""
    return norm or ("mean" if ranked_by_means(lists) else "sum")


def tune(
    metric: Metric,
    lists: Sequence[NbestList],
    columns: Sequence[str],
    source: str,
    bonuses: Sequence[str] = (),
    flat: bool = False,
    condition: str | None = None,
) -> tuple[Weights, Tuned]:
    """The best weights of LM columns, and of bonuses, on lists with references.

    Args:
        condition: for weights of their own for the lists of each condition (`condition_of`).
    """
    if condition is not None:
        return _tune_by_condition(metric, lists, columns, source, bonuses, flat, condition)
    tuned = search.tune(metric, lists, columns, bonuses, flat)
    details: dict[str, str | float] = {
        "metric": metric.signature,
        "first_pass": tuned.first_pass,
        "reranked": tuned.value,
        "utterances": len(lists),
    }
    if tuned.low is not None and tuned.high is not None:
        details |= {"low": tuned.low, "high": tuned.high}
    return Weights.interpolation(tuned.lm, f"tuned on {source}", tuned.bonuses, **details), tuned


def _tune_by_condition(
    metric: Metric,
    lists: Sequence[NbestList],
    columns: Sequence[str],
    source: str,
    bonuses: Sequence[str],
    flat: bool,
    condition: str,
) -> tuple[Weights, Tuned]:
    groups: dict[str, list[NbestList]] = {}
    for nbest in lists:
        groups.setdefault(search.condition_of(nbest, condition), []).append(nbest)
    together, tuned = tune(metric, lists, columns, source, bonuses, flat)
    each = {name: tune(metric, group, columns, source, bonuses, flat)[0] for name, group in sorted(groups.items())}
    weights = replace(
        together,
        condition=condition,
        conditions={name: one.columns for name, one in each.items()},
    )
    reached = text_value(metric, lists, Decision().texts(metric, lists, weights.of))
    return weights, replace(tuned, value=reached, low=None, high=None)


def lm_columns(lists: Sequence[NbestList]) -> list[str]:
    """The columns beside the first pass.

    Raises:
        UserError: there are none.
    """
    columns = [name for name in lists[0].hypotheses[0].scores if name not in (FIRST_PASS, SUM, REPLACED, *COUNTS)]
    if not columns:
        raise UserError("no column of LM scores in these lists; add one with `rescore score`")
    return columns


@dataclass(slots=True)
class Outcome:
    """All that a run made: the lists with their new columns, the text chosen for each test list, and the figures."""

    lists: list[NbestList]
    texts: list[str]
    weights: Weights
    results: Results
    dev: list[NbestList] | None = None


@dataclass(slots=True)
class _Clock:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class Tuning:
    """How weights are tuned.

    `bonuses`: for what there are some (names of `COUNTS`); None for words, with several language models. `flat`: of
    one weight, the middle of those that the set cannot tell from the best. `folds`: instead of dev lists, tune on the
    other parts of the test lists for each of so many; `pattern` finds the speaker in an id, whose utterances stay
    together. `condition`: for weights of their own for each condition.
    """

    bonuses: tuple[str, ...] | None = None
    flat: bool = False
    folds: int | None = None
    pattern: str | None = None
    condition: str | None = None


def run(
    lists: Sequence[NbestList],
    lms: Sequence[scoring.LanguageModel],
    metric: Metric | None,
    *,
    dev: Sequence[NbestList] | None = None,
    dev_source: str = "dev",
    weights: Callable[[Sequence[str]], Weights] | None = None,
    norm: str | None = None,
    tuning: Tuning | None = None,
    decide: Decision | None = None,
    count_tokens: bool = False,
    progress: Progress = lambda done: None,
) -> Outcome:
    """The main job: score, tune on `dev` when given (or in folds, or else take `weights`), rerank, evaluate.

    Args:
        metric: what to tune for and to report; None for test lists without references.
        weights: made from the columns' names where nothing is tuned.
        norm: `sum`, `mean` or `length^A`; None for the one that suits the first pass.
        count_tokens: whether `weights` have a bonus for the first model's tokens.
        decide: how a text is chosen; its scale, where it needs one and has none, is tuned on `dev`.
    """
    tuning, decide = tuning or Tuning(), decide or Decision()
    if (dev is not None) + (weights is not None) + (tuning.folds is not None) != 1:
        raise UserError("give one of these: dev lists to tune on, weights, or a number of folds")
    if dev is not None:
        warn_of_overlap(lists, dev)
    folds = split([nbest.id for nbest in lists], tuning.folds, tuning.pattern) if tuning.folds else None
    clock = _Clock()
    norm = choose_norm(norm, lists)
    columns = [scoring.column_name(lm, norm) for lm in lms]
    bonuses = ((WORDS,) if len(lms) > 1 else ()) if tuning.bonuses is None else tuning.bonuses
    with clock.measure("scoring"):
        count = TOKENS in bonuses or count_tokens
        scored = score_all(lms, lists, norm, progress, count)
        tuned_on = scored if folds else None if dev is None else score_all(lms, dev, norm, progress, count)
    tuned, texts = None, None
    with clock.measure("tuning"):
        if tuned_on is None:
            assert weights is not None
            found = weights(columns)
        else:
            if metric is None:
                raise UserError("tuning needs a metric")
            if folds:
                texts = _in_folds(folds, metric, scored, columns, bonuses, tuning, decide)
                dev_source = f"{folds.number} folds by {folds.unit}"
            found, tuned = tune(metric, tuned_on, columns, dev_source, bonuses, tuning.flat, tuning.condition)
            decide = _with_scale(decide, metric, tuned_on, found)
    with clock.measure("evaluation"):
        results, texts = evaluate(metric, scored, found, settings(lms, norm, found), decide, texts)
    if tuned is not None and tuned_on is not None and metric is not None:
        results.dev = Dev(dev_source, len(tuned_on), tuned.first_pass, tuned.value, tuned.low, tuned.high)
        if decide.name != "best":
            results.dev.reranked = text_value(metric, tuned_on, decide.texts(metric, tuned_on, found.of))
    results.system = " + ".join(lm.name for lm in lms)
    results.stages, results.seconds = clock.seconds, sum(clock.seconds.values())
    return Outcome(scored, texts, found, results, tuned_on)


def _with_scale(decide: Decision, metric: Metric, lists: Sequence[NbestList], weights: Weights) -> Decision:
    if decide.name == "best" or decide.scale is not None:
        return decide
    return tune_scale(decide.name, metric, lists, weights.of)


def _in_folds(
    folds: Folds,
    metric: Metric,
    lists: Sequence[NbestList],
    columns: Sequence[str],
    bonuses: Sequence[str],
    tuning: Tuning,
    decide: Decision,
) -> list[str]:
    """The text chosen for each list with weights tuned on the other folds."""
    texts = [""] * len(lists)
    for fold in range(folds.number):
        mine = [index for index, of in enumerate(folds.of) if of == fold]
        rest = [nbest for nbest, of in zip(lists, folds.of, strict=True) if of != fold]
        weights, _ = tune(metric, rest, columns, "the other folds", bonuses, tuning.flat, tuning.condition)
        chosen = [lists[index] for index in mine]
        decision = _with_scale(decide, metric, rest, weights)
        for index, text in zip(mine, decision.texts(metric, chosen, weights.of), strict=True):
            texts[index] = text
    return texts


def warn_of_overlap(lists: Sequence[NbestList], dev: Sequence[NbestList]) -> None:
    """Say so where dev and test share utterances: of one id, with the same references."""
    known = {(nbest.id, nbest.references) for nbest in dev}
    shared = [nbest.id for nbest in lists if (nbest.id, nbest.references) in known]
    if shared:
        log.warning(
            "%d of %d test utterances are in the dev lists, too (%s); figures on them flatter",
            len(shared),
            len(lists),
            shared[0],
        )


def score_all(
    lms: Sequence[scoring.LanguageModel],
    lists: Sequence[NbestList],
    norm: str,
    progress: Progress = lambda done: None,
    count_tokens: bool = False,
) -> list[NbestList]:
    """The lists with one column a language model, and if asked for one with the number of the first one's tokens."""
    scored: Iterable[NbestList] = lists
    for rank, lm in enumerate(lms):
        scored = scoring.add_column(lm, scored, norm, progress, count_tokens and rank == 0)
    return list(scored)


def settings(lms: Sequence[scoring.LanguageModel], norm: str, weights: Weights) -> list[str]:
    """The part of a signature that says which models there were, and how they were combined."""
    lambdas = [weights.columns[scoring.column_name(lm, norm)] for lm in lms]
    return [
        *(f"lm:{lm.name}@{lm.fingerprint[:12]}" for lm in lms),
        f"norm:{norm}",
        f"lambda:{','.join(f'{weight:.6g}' for weight in lambdas)}",
        *_conditions(weights),
        *(f"{name}:{weights.columns[name]:.6g}" for name in COUNTS if name in weights.columns),
        weights.origin,
    ]


def _conditions(weights: Weights) -> list[str]:
    """The part of a signature that has the weights by condition."""
    return [
        f"{name}={','.join(f'{weight:.6g}' for column, weight in columns.items() if column != FIRST_PASS)}"
        for name, columns in weights.conditions.items()
    ]


def curve(metric: Metric, lists: Sequence[NbestList], weights: Weights) -> list[search.Step]:
    """The metric's value on lists against the weight of each language model."""
    return search.curves(metric, lists, weights.language_models, weights.columns)


def report_page(outcome: Outcome, lms: Sequence[scoring.LanguageModel], metric: Metric) -> str:
    """The HTML report of a run on lists with references.

    Raises:
        UserError: the lists have no references.
    """
    if outcome.results.metric is None:
        raise UserError("an HTML report needs references; give --ref FILE")
    first = decision.best(outcome.lists, {FIRST_PASS: 1.0})
    before = [nbest.hypotheses[index].text for nbest, index in zip(outcome.lists, first, strict=True)]
    return page(
        outcome.results,
        analyse(metric, outcome.lists, outcome.weights.of),
        outcome.lists,
        (before, outcome.texts),
        lms[0],
        curve(metric, outcome.dev, outcome.weights) if outcome.dev else (),
        metric.normaliser if isinstance(metric, ErrorRate) else None,
    )
