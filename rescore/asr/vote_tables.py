"""Tables of results of lists that several systems wrote: a row for each system, the
decision with equal votes, and what the chosen texts gain over both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from rescore.asr.mixture import Mixture, system_texts
from rescore.asr.vote_tuning import EQUAL_VOTES, equal_votes_with
from rescore.deciding import Decided, decide
from rescore.metrics import Metric
from rescore.metrics.significance import ScoredTexts
from rescore.reports.figures import Figures, MeasuredRow
from rescore.reports.records import MetricResult
from rescore.reports.results import method_name
from rescore.reports.summary import relative
from rescore.styles import p_phrase
from rescore.tuning import Weights

TUNED_VOTES = "tuned votes"
"""Name of the row of the chosen texts if the votes of systems were tuned."""
AGREED_VOTES = "votes by agreement"
"""Name of this row if the votes follow from the agreement of the systems."""


class VoteRows:
    """Adds the systems of decided lists, and the decision with equal votes, to the
    figures of a metric (`rescore.reports.systems.RowsOfSystems`).
    """

    def __init__(self, metric: Metric | None, decided: Decided) -> None:
        """Decide the lists with equal votes.

        Args:
            metric: The objective, where the decision needs one.
            decided: The lists, and the text chosen for each.
        """
        self._by_equal = _by_equal_votes(metric, decided)
        decisions = [weights.decision for weights in _deciding_weights(decided)]
        self._equal_name = equal_votes_with(decisions)
        self._texts = decided.texts
        self._name = _name(decided.weights)

    def add_to(
        self, result: MetricResult, figures: Figures, chosen: ScoredTexts
    ) -> None:
        """Add the figures to those of a metric.

        Args:
            result: The figures of the metric.
            figures: The lists under the metric.
            chosen: The texts that were chosen.
        """
        result.votes = self._name
        result.systems = _rows_of_systems(figures)
        result.best_system = _best_system(figures, result.systems, chosen)
        if self._by_equal is not None:
            by_equal = figures.of(self._by_equal)
            against = None if self._by_equal == self._texts else chosen
            result.equal_votes = figures.row(self._equal_name, by_equal, against)


measured = VoteRows


def _by_equal_votes(metric: Metric | None, decided: Decided) -> list[str] | None:
    """Return the texts that the same decision chooses with equal votes of all systems;
    None if the weights have no votes.
    """
    if decided.weights.mixture is None:
        return None
    in_folds = decided.in_folds
    if all(map(_has_equal_votes, _deciding_weights(decided))):
        return decided.texts
    weights = _with_equal_votes(decided.weights)
    if in_folds is not None:
        in_folds = in_folds.changed(_with_equal_votes)
    return decide(metric, decided.lists, weights, in_folds).texts


def _deciding_weights(decided: Decided) -> Sequence[Weights]:
    """Return the weights that decided: of each fold, or of all lists."""
    return decided.in_folds.weights if decided.in_folds else [decided.weights]


def _has_equal_votes(weights: Weights) -> bool:
    """Return whether all systems have the same vote."""
    mixture = weights.mixture
    return not isinstance(mixture, Mixture) or mixture.has_equal_votes


def _with_equal_votes(weights: Weights) -> Weights:
    """Return the same weights, but equal votes of all systems."""
    mixture = weights.mixture
    if not isinstance(mixture, Mixture):
        return weights
    votes = dict.fromkeys(mixture.votes, 1.0)
    return replace(weights, mixture=replace(mixture, votes=votes))


def _name(weights: Weights) -> str:
    """Return how tables name the chosen texts."""
    name = EQUAL_VOTES
    mixture = weights.mixture
    if isinstance(mixture, Mixture):
        name = AGREED_VOTES if mixture.estimated else TUNED_VOTES
    return method_name(name, weights)


def _rows_of_systems(figures: Figures) -> list[MeasuredRow]:
    """Return the figures of each system alone."""
    rows = []
    for name in figures.systems:
        texts = figures.of(system_texts(figures.lists, name))
        rows.append(figures.row(name, texts))
    return rows


def _best_system(
    figures: Figures, systems: Sequence[MeasuredRow], chosen: ScoredTexts
) -> MeasuredRow:
    """Return the row of the best system.

    Args:
        figures: The lists under a metric.
        systems: The rows of all systems.
        chosen: The reranked texts; the p-value is of the difference to them.
    """
    best_of = max if figures.metric.higher_is_better else min
    best = best_of(systems, key=lambda row: row.value)
    texts = figures.of(system_texts(figures.lists, best.name))
    p_value = figures.p_value(texts, chosen)
    return replace(best, p_value=p_value)


def rows(measured: MetricResult) -> Iterator[MeasuredRow]:
    """Yield the rows of a table, in their order: the systems, their mixture, and
    decisions by votes.
    """
    yield from measured.systems
    yield measured.row("first_pass")
    yield measured.row("oracle")
    if measured.equal_votes is not None:
        yield measured.equal_votes
    yield replace(measured.row("reranked"), name=str(measured.votes))


def gains(measured: MetricResult) -> Iterator[str]:
    """Yield by how much the vote changed the figure of the best system, and of equal
    votes.
    """
    for row in (measured.best_system, measured.equal_votes):
        if row is None:
            continue
        change = "unchanged"
        if row.p_value is not None:
            change = f"{measured.reranked - row.value:+z.2f}"
            change += f"{relative(measured.reranked, row.value)}"
            change += f", {p_phrase(row.p_value)}"
        against = row.name
        if row is measured.best_system:
            against = measured.test.against
        yield f"{measured.metric} {change} against {against}"
