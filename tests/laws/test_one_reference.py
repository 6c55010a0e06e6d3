"""Law: an utterance has one reference for a text, chosen once, for all word metrics and
all orders of texts.

With alternative references, the errors of WER are the errors of listed and of other
words together; no order of texts contradicts another; and the oracle is the best choice
that there is.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from rescore.dataset import Dataset
from rescore.deciding import decide
from rescore.metrics import METRICS, choose_metric, list_statistics, oracle
from rescore.metrics.base import Metric, MetricOptions, total, value
from rescore.metrics.listed import WordList
from rescore.nbest import Hypothesis, NbestList
from rescore.reports.analysis import analyse
from rescore.reports.details import details
from rescore.tuning import Weights
from tests.conftest import OF_TEXTS

LETTERS = "abcd"


def some_lists(seed: int) -> list[NbestList]:
    """Return lists with references of different lengths."""
    draw = random.Random(seed)

    def text(most: int) -> str:
        return " ".join(draw.choices(LETTERS, k=draw.randint(0, most)))

    lists = []
    for number in range(4):
        hypotheses = []
        for place in range(4):
            scores = {"s2s": -float(place), "lm": -draw.random()}
            hypotheses.append(Hypothesis(text(6), scores))
        references = [text(9), text(4), text(2)]
        lists.append(NbestList(f"u{number}", hypotheses, tuple(references)))
    return lists


@pytest.fixture
def words(tmp_path: Path) -> WordList:
    path = tmp_path / "words"
    path.write_text("a\nb\n")
    return WordList.load(path)


def metrics(words: WordList) -> dict[str, Metric]:
    """Return all metrics that are no trained models."""
    every = {}
    for name in OF_TEXTS:
        if not METRICS[name].learned:
            every[name] = METRICS[name].choose(
                METRICS[name].Options(**options_of(name, words)), ()
            )
    return every


def options_of(name: str, words: WordList) -> dict[str, WordList]:
    reads_words = "words" in METRICS[name].Options.__dataclass_fields__
    return {"words": words} if reads_words else {}


@pytest.mark.parametrize("seed", range(8))
def test_an_error_is_an_error_of_listed_or_of_other_words(
    seed: int, words: WordList
) -> None:
    lists = some_lists(seed)
    every = metrics(words)
    errors = {}
    for name in ("wer", "bwer", "uwer"):
        errors[name] = [
            every[name].losses(rows).tolist()
            for rows in list_statistics(every[name], lists)
        ]
    for whole, listed, others in zip(
        errors["wer"], errors["bwer"], errors["uwer"], strict=True
    ):
        both = [ours + theirs for ours, theirs in zip(listed, others, strict=True)]
        assert both == whole


def test_a_name_that_is_missed_is_no_full_recall(words: WordList) -> None:
    """WER takes the reference with the name: it has the fewest errors."""
    hypothesis = Hypothesis("c d c d", {"s2s": 0.0})
    nbest = NbestList("u", [hypothesis], ("a c d c d", "d d d c c c"))
    recall = choose_metric("recall", [nbest], MetricOptions(words=words))
    (rows,) = list_statistics(recall, [nbest])
    assert value(recall, rows[0]) == 0.0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["wer", "cer", "mer", "bwer", "uwer"])
def test_no_choice_has_a_lower_rate_than_the_oracle(
    seed: int, name: str, words: WordList
) -> None:
    lists = some_lists(seed)
    metric = metrics(words)[name]
    statistics = list_statistics(metric, lists)
    best = value(metric, total(statistics, oracle(metric, statistics)))
    every = []
    for choice in itertools.product(range(4), repeat=len(lists)):
        every.append(value(metric, total(statistics, choice)))
    assert best == pytest.approx(min(every))
    depths = analyse(metric, decide(metric, Dataset.of(lists), WEIGHTS)).by_depth
    assert depths[-1].oracle == pytest.approx(best)


WEIGHTS = Weights({"s2s": 0.5, "lm": 5.0})


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "name", [name for name in OF_TEXTS if not METRICS[name].learned]
)
def test_all_reports_call_the_same_choices_better(
    seed: int, name: str, words: WordList
) -> None:
    lists = some_lists(seed)
    metric = metrics(words)[name]
    decided = decide(metric, Dataset.of(lists), WEIGHTS)
    moves = analyse(metric, decided).moves
    first_pass = decided.first_pass_texts
    verdicts = [
        row["verdict"]
        for row in details(metric, Dataset.of(lists), first_pass, decided.texts)
        if row["changed"]
    ]
    counted = [verdicts.count(word) for word in ("better", "worse", "same")]
    assert counted == [moves.better, moves.worse, moves.same]
