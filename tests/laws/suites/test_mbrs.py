"""Law: the cases of mbrs's own tests give mbrs's figures and choices, but for the cases
whose difference is listed with a reason.

The cases are from the tests in the source distribution of mbrs 0.1.8. Left out are the
tests that need a trained metric (COMET, BLEURT, MetricX, BERTScore) or MeCab, the
selection of several diverse texts, and k-means. BLEU, chrF and TER of aggregated
references, and the centroids, are approximations that `rescore` does not have.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rescore.dataset import Dataset
from rescore.decision.risk import MinimumBayesRisk
from rescore.metrics.base import Metric
from rescore.metrics.mt import Bleu, Chrf, Ter
from rescore.nbest import Hypothesis, NbestList
from tests.laws.suites.suite import Case, Suite, numbered

METRICS: dict[str, Metric] = {
    "bleu": Bleu(tokenise="13a"),
    "chrf": Chrf(),
    "ter": Ter(),
}


# --- questions ------------------------------------------------------------------------


def sentence(name: str, text: str, reference: str) -> float:
    """Return the figure of a sentence; of BLEU with effective order."""
    metric = METRICS[name]
    rows = metric.statistics([text], [(reference,)])
    return float(metric.sentence_values(rows)[0])


def whole_orders(text: str, reference: str) -> float:
    """Return the BLEU of a sentence without effective order."""
    metric = METRICS["bleu"]
    return float(metric.values(metric.statistics([text], [(reference,)]))[0])


def corpus(name: str, texts: list[str], references: list[str]) -> float:
    """Return the figure of a set with one reference per text."""
    metric = METRICS[name]
    rows = metric.statistics(texts, [(text,) for text in references])
    return float(metric.values(rows.sum(axis=0)[None])[0])


def expected_figures(name: str, texts: list[str], references: list[str]) -> list[float]:
    """Return the mean figure of each text beside all references."""
    means = []
    for text in texts:
        figures = [sentence(name, text, reference) for reference in references]
        means.append(sum(figures) / len(figures))
    return means


def means_of_whole_orders(texts: list[str], references: list[str]) -> list[float]:
    """Return the mean BLEU of each text beside all references, without effective
    order.
    """
    means = []
    for text in texts:
        figures = [whole_orders(text, reference) for reference in references]
        means.append(sum(figures) / len(figures))
    return means


def figures_by_pairs(name: str, texts: list[str], references: list[str]) -> list[float]:
    """Return `expected_figures` from the matrix product of minimum Bayes risk."""
    metric = METRICS[name]
    assert metric.pair_losses is not None
    compare = metric.pair_losses([*texts, *references])
    places = np.arange(len(texts) + len(references))
    losses = compare(places[: len(texts)], places[len(texts) :])
    figures: list[float] = (100 - losses.mean(axis=1)).tolist()
    return figures


def best(name: str, texts: list[str], references: list[str]) -> list[float]:
    """Return the place of the text with the best mean figure, and this figure."""
    figures = expected_figures(name, texts, references)
    signs = np.array(figures) * (1 if METRICS[name].higher_is_better else -1)
    place = int(signs.argmax())
    return [place, figures[place]]


def choice(name: str, texts: list[str]) -> str:
    """Return the text that `--decide mbr` chooses, with equal posteriors."""
    nbest = NbestList("one", [Hypothesis(text, {"s2s": 0.0}) for text in texts])
    posteriors = [np.full(len(texts), 1 / len(texts))]
    (text,) = (
        MinimumBayesRisk().chooser(Dataset.of([nbest]), METRICS[name]).texts(posteriors)
    )
    return text


# --- cases ----------------------------------------------------------------------------

SUGAR = "Producția de zahăr primă va fi exprimată în ceea ce privește zahărul alb;"
SUGAR_REFERENCE = "producţia de zahăr brut se exprimă în zahăr alb;"
TEST = "this is a test"
TEXTS = [TEST, "another test", "this is a fest", SUGAR]
REFERENCES = ["ref", TEST, SUGAR_REFERENCE]
OF_TEXTS = [TEST, "ref", TEST, SUGAR_REFERENCE]
FIGURES = {
    "bleu": [
        [0.0, 100.0, 0.0],
        [0.0, 18.394, 0.0],
        [0.0, 59.460, 0.0],
        [0.0, 0.0, 8.493],
    ],
    "chrf": [
        [7.246, 100.0, 3.411],
        [14.493, 23.060, 4.386],
        [14.493, 60.628, 3.411],
        [6.849, 7.224, 46.161],
    ],
    "ter": [
        [400.0, 0.0, 100.0],
        [200.0, 75.0, 100.0],
        [400.0, 25.0, 100.0],
        [1300.0, 325.0, 100.0],
    ],
}
WHOLE_ORDERS = [[0.0, 100.0, 0.0], [0.0, 0.0, 0.0], [0.0, 59.460, 0.0], [0, 0, 8.493]]
CORPUS = {"bleu": 22.41424, "chrf": 53.90979, "ter": 66.66667}


def means(figures: Sequence[Sequence[float]]) -> list[float]:
    """Return the mean of each row."""
    return [sum(row) / len(row) for row in figures]


def of_metric(name: str) -> dict[str, Case]:
    """Return the cases of the tests of a metric."""
    table = FIGURES[name]
    pairs = []
    for text, row in zip(TEXTS, table, strict=True):
        for reference, figure in zip(REFERENCES, row, strict=True):
            pairs.append((name, text, reference, figure))
    together = [(name, TEXTS, REFERENCES, means(table))]
    cases = numbered(f"{name} score", sentence, pairs)
    cases |= numbered(f"{name} expected_scores", expected_figures, together)
    cases |= numbered(
        f"{name} corpus_score", corpus, [(name, TEXTS, OF_TEXTS, CORPUS[name])]
    )
    if METRICS[name].pair_losses is not None:
        cases |= numbered(f"{name} expected_scores, pairs", figures_by_pairs, together)
    return cases


def without_effective_order() -> dict[str, Case]:
    """Return the cases of BLEU without effective order."""
    pairs = []
    for text, row in zip(TEXTS, WHOLE_ORDERS, strict=True):
        for reference, figure in zip(REFERENCES, row, strict=True):
            pairs.append((text, reference, figure))
    cases = numbered("bleu score, whole orders", whole_orders, pairs)
    return cases | numbered(
        "bleu expected_scores, whole orders",
        means_of_whole_orders,
        [(TEXTS, REFERENCES, means(WHOLE_ORDERS))],
    )


LISTS = [
    (
        ["another test", TEST, "this is an test", "this is a fest"],
        ["another test", TEST, "this is an test", "this is a fest"],
    ),
    (["another test", "this is a fest", TEST], [TEST, "ref1 ref2 ref3 ref4"]),
    ([TEST], [TEST]),
    ([SUGAR], [SUGAR_REFERENCE]),
]
SHORT_LIST = ["another test", TEST, "this is a fest", "x", "this is test"]
PRUNED = [
    (SHORT_LIST, SHORT_LIST),
    (
        ["another test", "this is a fest", TEST],
        [TEST, "ref", "these are tests", "this is the test"],
    ),
    ([TEST], [TEST]),
    ([SUGAR], [SUGAR_REFERENCE]),
]
PLACES = [1, 2, 0, 0]
BEST = {
    "bleu": [52.697, 50.0, 100.0, 8.493],
    "ter": [50.0, 50.0, 0.0, 100.0],
}
PRUNED_BEST = [48.912, 44.239, 100.0, 46.161]


def of_decoder(name: str) -> dict[str, Case]:
    """Return the cases of minimum Bayes risk by a metric."""
    rows = []
    for lists, place, figure in zip(LISTS, PLACES, BEST[name], strict=True):
        rows.append((name, *lists, [place, figure]))
    cases = numbered(f"decode by {name}", best, rows)
    return cases | numbered(
        f"decode by {name}, choice",
        choice,
        [(name, LISTS[0][0], TEST), (name, LISTS[2][0], TEST)],
    )


def of_approximations() -> dict[str, Case]:
    """Return the cases of pruned and of probabilistic minimum Bayes risk by chrF, whose
    choices are those of all pairs.
    """
    rows = []
    for lists, place, figure in zip(PRUNED, PLACES, PRUNED_BEST, strict=True):
        rows.append(("chrf", *lists, [place, figure]))
    cases = numbered("pruned decode by chrf", best, rows)
    return cases | numbered(
        "probabilistic decode by chrf, choice",
        choice,
        [("chrf", SHORT_LIST, TEST), ("chrf", [TEST], TEST)],
    )


SUITE = Suite(
    tool="mbrs 0.1.8",
    cases=of_metric("bleu")
    | of_metric("chrf")
    | of_metric("ter")
    | without_effective_order()
    | of_decoder("bleu")
    | of_decoder("ter")
    | of_approximations(),
    different={},
    within=1e-3,
)


@pytest.mark.parametrize("name", SUITE.cases)
def test_case(name: str) -> None:
    SUITE.check(name)
