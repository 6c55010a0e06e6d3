"""The main job as a function: score, tune, decide, evaluate.

from rescore import formats, metrics, scoring
from rescore.experiment import run

test, dev = formats.read(["test.json"]), formats.read(["dev.json"])
outcome = run.run(test, [scoring.load("tta")], metrics.choose_metric("wer", dev), dev=dev)
"""

from __future__ import annotations

import logging
import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rescore.decision import Decision
from rescore.engines import OnProgress, score_all
from rescore.errors import UserError
from rescore.metrics import Metric
from rescore.nbest import FIRST_PASS, TOKENS, NbestList, ranked_by_means
from rescore.reports.results import Dev, Results, evaluate
from rescore.scoring import LanguageModel, column_name
from rescore.tuning.folds import split, tuned_in_folds
from rescore.tuning.tune import TuningOptions, tune
from rescore.tuning.weights import Weights

log = logging.getLogger(__name__)


def choose_norm(norm: str | None, lists: Sequence[NbestList]) -> str:
    """`norm`, or the one that suits the first pass: mean where its scores are means over tokens, else sum."""
    return norm or ("mean" if ranked_by_means(lists) else "sum")


@dataclass(slots=True)
class Outcome:
    """All that a run made."""

    lists: list[NbestList]
    """The test lists with their new columns."""
    texts: list[str]
    """The text chosen for each."""
    weights: Weights
    results: Results
    dev: list[NbestList] | None = None
    """The lists that weights were tuned on, with their new columns."""


@dataclass(frozen=True, slots=True)
class FoldOptions:
    """How the test lists themselves are tuned on."""

    number: int
    pattern: str | None = None
    """Where an id has its speaker, whose utterances stay together."""


@dataclass(slots=True)
class _Clock:
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - began


def run(
    lists: Sequence[NbestList],
    lms: Sequence[LanguageModel],
    metric: Metric | None,
    *,
    dev: Sequence[NbestList] | None = None,
    dev_source: str = "dev",
    weights: Callable[[Sequence[str]], Weights] | None = None,
    folds: FoldOptions | None = None,
    norm: str | None = None,
    tuning: TuningOptions | None = None,
    decide: Decision | None = None,
    count_tokens: bool = False,
    also: Sequence[Metric] = (),
    progress: OnProgress = lambda done: None,
) -> Outcome:
    """The main job: score, tune on `dev` when given (or in folds, or else take `weights`), rerank, evaluate.

    Args:
        metric: what to tune for and to report; None for test lists without references.
        weights: made from the columns' names where nothing is tuned.
        folds: instead of dev lists, tune on the other parts of the test lists for each.
        norm: `sum`, `mean` or `length^A`; None for the one that suits the first pass.
        decide: how a text is chosen where nothing is tuned; else `tuning` says it.
        count_tokens: whether `weights` have a bonus for the first model's tokens. also: further metrics to report.
    """
    tuning = tuning or TuningOptions(decide=decide or Decision())
    if (dev is not None) + (weights is not None) + (folds is not None) != 1:
        raise UserError("give one of these: dev lists to tune on, weights, or a number of folds")
    if dev is not None:
        warn_of_overlap(lists, dev)
        warn_of_scales(lists, dev)
    parts = split([nbest.id for nbest in lists], folds.number, folds.pattern) if folds else None
    clock = _Clock()
    norm = choose_norm(norm, lists)
    columns = [column_name(lm, norm) for lm in lms]
    with clock.measure("scoring"):
        count = TOKENS in (tuning.bonuses or ()) or count_tokens
        scored = score_all(lms, lists, norm, progress, count)
        tuned_on = scored if parts else None if dev is None else score_all(lms, dev, norm, progress, count)
    tuned, texts = None, None
    with clock.measure("tuning"):
        if tuned_on is None:
            assert weights is not None
            found = weights(columns)
        else:
            if metric is None:
                raise UserError("tuning needs a metric")
            if parts:
                texts = tuned_in_folds(parts, metric, scored, columns, tuning)
                dev_source = f"{parts.number} folds by {parts.unit}"
            found, tuned = tune(metric, tuned_on, columns, dev_source, tuning)
            if parts:
                found = found.with_origin(found.origin, parts.signature(scored))
    with clock.measure("evaluation"):
        results, texts = evaluate(metric, scored, found, decide, texts, also)
    if tuned is not None and tuned_on is not None:
        results.dev = Dev(dev_source, len(tuned_on), tuned.first_pass, tuned.value, tuned.low, tuned.high)
    together = found.system if tuning.negative else " + ".join(lm.name for lm in lms)
    results.system = together or (results.decision if results.decision != "best" else "first pass")
    results.stages, results.seconds = clock.seconds, sum(clock.seconds.values())
    return Outcome(scored, texts, found, results, tuned_on)


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


SCALES = 5.0
"""Ratio of spreads of first-pass scores from which on two sets cannot have the same weights."""


def warn_of_scales(lists: Sequence[NbestList], dev: Sequence[NbestList]) -> None:
    """Say so where the first-pass scores of dev and test differ in scale: then weights of the one are wrong here."""
    ours, theirs = _spread(lists), _spread(dev)
    if ours and theirs and max(ours / theirs, theirs / ours) > SCALES:
        log.warning(
            "first-pass scores of a list differ by %.3g in the dev lists and by %.3g in the test lists (medians): are "
            "both sums, or both means, of the same system? Weights tuned on the one do not fit the other",
            theirs,
            ours,
        )


def _spread(lists: Sequence[NbestList]) -> float:
    """The median over lists of the difference between the best and the worst first-pass score."""
    scores = [nbest.column(FIRST_PASS) for nbest in lists if len(nbest.hypotheses) > 1]
    spreads = [max(some) - min(some) for some in scores if math.isfinite(min(some))]
    return statistics.median(spreads) if spreads else 0.0
