"""Are tuned votes of random systems better than the best of these systems?

    python benchmarks/tuned.py NAME=LISTS --take NUMBER FIRST LAST... [--draws 40]
        [--seed 7] [--utterances N] [--whisper-english] [-o FILE]

LISTS are written by `rescore combine` with --ref; NAME is what the table calls the
draws. A draw takes a number of random systems of those from the first to the last place
in the order of their error rates: `--take 1 1 3 --take 4 8 14` takes one of the best
three systems, and four of the seven from the eighth place on. Votes of `rover` are
tuned in five folds. A line per draw: the error rates of the best system that was drawn
and of the votes, the loss in standard errors, and the systems. FILE gets the numbers of
draws whose votes are better, the same and worse, and the greatest loss, as JSON.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from agreement import Systems, arguments, read_set
from common import write_json

from rescore import pipeline
from rescore.asr.mixture import system_texts
from rescore.asr.systems import combined
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.metrics import choose_metric
from rescore.metrics.base import text_statistics, text_value
from rescore.metrics.wer import REFERENCE
from rescore.nbest import NbestList
from rescore.styles import Cells, figure, text

FOLDS = 5
ALMOST_ZERO = 1e-9
"""Error rates that differ by less are the same, in percent."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """Tuned votes against the best system, in all draws."""

    draws: str
    """What was drawn."""
    number: int
    """The number of draws."""
    better: int
    """Draws in which the votes are better than the best system."""
    same: int
    worse: int
    loss: float
    """By how much the votes are worse, at most, in percent of the words."""
    standard_errors: float
    """By how many standard errors of the difference they are worse, at most."""


@dataclass(frozen=True, slots=True)
class Draw:
    """Tuned votes against the best system, in one draw."""

    best: float
    """The error rate of the best system, in percent."""
    votes: float
    """The error rate of the votes, in percent."""
    standard_error: float
    """Of the difference between the two."""

    @property
    def loss(self) -> float:
        """By how much the votes are worse; below 0 if they are better."""
        return self.votes - self.best

    @property
    def standard_errors(self) -> float:
        """The loss in standard errors; 0 without a difference."""
        return self.loss / self.standard_error if self.standard_error else 0.0


def ordered(systems: Systems) -> list[str]:
    """Return the names of systems in the order of their error rates, the best first."""
    rates = {}
    for name, lists in systems.items():
        metric = choose_metric("wer", Dataset.of(lists))
        texts = [nbest.hypotheses[0].text for nbest in lists]
        rates[name] = text_value(metric, lists, texts)
    return sorted(rates, key=rates.__getitem__)


def measured(lists: Sequence[NbestList]) -> Draw:
    """Return the figures of votes that are tuned in folds."""
    config = RunConfig(decide="rover", metrics=("wer",), folds=FOLDS)
    outcome = pipeline.run(lists, config)
    (result,) = outcome.results.metrics
    assert result.best_system is not None
    metric = outcome.metric
    best_texts = system_texts(outcome.lists, result.best_system.name)
    best = text_statistics(metric, outcome.lists, best_texts)
    votes = text_statistics(metric, outcome.lists, outcome.texts)
    more_errors = metric.losses(votes) - metric.losses(best)
    words = best[:, REFERENCE].sum()
    error = 100 * more_errors.std() * len(more_errors) ** 0.5 / words
    return Draw(result.best_system.value, result.reranked, float(error))


def tuned(name: str, draws: Sequence[Draw]) -> Tuned:
    """Return what all draws say.

    Args:
        name: What was drawn.
        draws: The figures of each draw.
    """
    losses = np.array([draw.loss for draw in draws])
    better = int((losses < -ALMOST_ZERO).sum())
    worse = int((losses > ALMOST_ZERO).sum())
    return Tuned(
        name,
        len(draws),
        better,
        len(draws) - better - worse,
        worse,
        max(0.0, *losses.tolist()),
        max(0.0, *(draw.standard_errors for draw in draws)),
    )


def cells(rows: Sequence[Tuned]) -> Cells:
    """Return the head of a table, and a row for each kind of draws."""
    head = ["draws", "number", "better", "the same", "worse"]
    shown = [[*head, "greatest loss", "in standard errors"]]
    for row in rows:
        counts = (row.number, row.better, row.same, row.worse)
        losses = (row.loss, row.standard_errors)
        shown.append([row.draws, *map(str, counts), *map(figure, losses)])
    return shown


def main() -> None:
    parser = arguments(__doc__, draws=40, seed=7)
    parser.add_argument(
        "--take", type=int, nargs=3, action="append", required=True, metavar="N"
    )
    parser.add_argument("--utterances", type=int)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    name, systems = read_set(options)
    names = ordered(systems)
    draw = random.Random(options.seed)
    draws = []
    for _ in range(options.draws):
        chosen = []
        for number, first, last in options.take:
            chosen += draw.sample(names[first - 1 : last], number)
        lists = list(combined({each: systems[each] for each in chosen}))
        draw.shuffle(lists)
        one = measured(list(islice(lists, options.utterances)))
        draws.append(one)
        shown = f"{one.best:6.2f} {one.votes:6.2f} {one.standard_errors:6.2f}"
        print(f"{shown}  {', '.join(chosen)}", flush=True)
    result = tuned(name, draws)
    print(text(cells([result])))
    if options.output:
        write_json(options.output, [result])


if __name__ == "__main__":
    main()
