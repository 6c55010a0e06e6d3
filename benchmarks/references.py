"""How many utterances with references do tuned votes need?

    python benchmarks/references.py NAME=LISTS [--draws 16] [--seed 7] [--test 210]
        [-o FILE]

LISTS are written by `rescore combine` with --ref. A draw takes three to eight systems
in random order, and 200 random lists with references beside `--test` lists to decide.
It prints the error rate of `rover` on the lists to decide: equal votes, votes by
agreement, and for the first 25, 50, 100 and 200 lists with references, votes that are
tuned on them, votes that are mixed of both, and a power of these. Means follow, which
FILE gets as JSON, then how often and how much votes are worse than the worse of equal
votes and votes by agreement.

The log of a mixed vote is the mean of the logs of the vote by agreement and of 1 /
error rate (over its median). The error rate has the weight n / (n + 60) for n counted
errors of the system. No system has more than half of all votes. Another power than 1
of the votes is taken if it gains more than one standard error on the lists with
references.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from agreement import (
    LOSS,
    WORD_WINS,
    Ballot,
    arguments,
    read_set,
    subsets,
)
from common import write_json

import rescore
from rescore.asr.agreement import without_majority
from rescore.asr.mixture import system_texts
from rescore.asr.rover import RoverOptions
from rescore.asr.systems import combined
from rescore.metrics.base import text_statistics, text_value
from rescore.nbest import NbestList
from rescore.styles import Cells, figure, text

Floats = npt.NDArray[np.float64]
SIZES = (25, 50, 100, 200)
"""Numbers of lists with references."""
PRIOR = 60
"""Counted errors of a system that weigh as much as its agreement with the others."""
POWERS = (1.0, 0.5, 2.0)
"""Powers of votes that are tried."""
LEAST_ERRORS = 0.5
"""The least number of errors of a system."""
TUNED = ("tuned", "mixed", "power")
"""The votes that need references, in the order of the rows that `main` prints."""


@dataclass(frozen=True, slots=True)
class Needed:
    """The mean error rates of votes on random subsets of the systems of a set."""

    set: str
    draws: int
    utterances: int
    """The number of lists with references."""
    equal: float
    agreement: float
    """Votes by agreement."""
    tuned: float
    """Votes that are tuned on the lists with references."""
    mixed: float
    """Votes by agreement and by counted errors."""
    power: float
    """A power of these."""


def mixed_votes(by_agreement: Floats, errors: Floats) -> Floats:
    """Return votes by agreement and by counted errors.

    Args:
        by_agreement: The vote of each system by agreement.
        errors: The number of errors of each system on the same lists.
    """
    prior = -np.log(by_agreement)
    counted = np.log(np.maximum(errors, LEAST_ERRORS))
    away = counted - np.median(counted) - (prior - np.median(prior))
    votes = np.exp(-prior - away * errors / (errors + PRIOR))
    return without_majority(votes, np.ones(len(votes)))


def best_power(lists: Sequence[NbestList], votes: Floats) -> Floats:
    """Return a power of votes, 1 unless another one is clearly better on some lists."""
    ballot = Ballot(lists)
    words = np.array([len(nbest.references[0].split()) for nbest in ballot.lists])
    errors = []
    for power in POWERS:
        (texts,) = ballot.texts((votes**power).tolist(), WORD_WINS)
        counts = text_statistics(ballot.metric, ballot.lists, texts)
        errors.append(ballot.metric.values(counts) * words / 100)
    gains = errors[0] - np.array(errors)
    clear = gains.sum(axis=1) - gains.std(axis=1) * np.sqrt(len(lists))
    return np.asarray(votes ** POWERS[int(clear.argmax())])


def counted_errors(ballot: Ballot, lists: Sequence[NbestList]) -> Floats:
    """Return the number of errors of each system on some lists, to a good
    approximation.
    """
    words = sum(len(nbest.references[0].split()) for nbest in lists)
    rates = []
    for name in ballot.systems:
        rates.append(text_value(ballot.metric, lists, system_texts(lists, name)))
    return np.array(rates) / 100 * words


def tuned_rate(ballot: Ballot, lists: Sequence[NbestList]) -> float:
    """Return the error rate of votes that are tuned on some lists."""
    weights = rescore.tune(lists, decision="rover", metric="wer")
    assert weights.mixture is not None
    votes = [weights.mixture.votes[name] for name in ballot.systems]
    settings: Any = {"no_word": WORD_WINS.no_word} | dict(weights.decision.settings)
    (rate,) = ballot.rates(votes, RoverOptions(no_word=settings["no_word"]))
    return rate


def needed(name: str, figures: Floats) -> list[Needed]:
    """Return the means of all draws, for each number of lists with references.

    Args:
        name: The name of the set.
        figures: The rows that `main` prints.
    """
    equal, agreement, *means = figures.mean(axis=0).tolist()
    rows = []
    for place, size in enumerate(SIZES):
        own = means[len(TUNED) * place : len(TUNED) * (place + 1)]
        rows.append(Needed(name, len(figures), size, equal, agreement, *own))
    return rows


def cells(rows: Sequence[Needed]) -> Cells:
    """Return the head of a table, and a row for each set and number of lists."""
    head = [
        "set",
        "draws",
        "utterances",
        "equal votes",
        "votes by agreement",
        "tuned votes",
        "mixed votes",
        "a power of mixed votes",
    ]
    shown = [head]
    for row in rows:
        rates = (row.equal, row.agreement, row.tuned, row.mixed, row.power)
        numbers = [str(row.draws), str(row.utterances)]
        shown.append([row.set, *numbers, *map(figure, rates)])
    return shown


def main() -> None:
    parser = arguments(__doc__, draws=16, seed=7)
    parser.add_argument("--test", type=int, default=210)
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    name, systems = read_set(options)
    draw = random.Random(options.seed)
    count = max(SIZES) + options.test
    rows = []
    for subset in subsets(systems, options.draws, count, draw):
        lists = list(combined(subset))
        draw.shuffle(lists)
        referred = lists[: len(lists) - options.test]
        ballot = Ballot(lists[len(referred) :])
        by_agreement = np.array(list(ballot.agreement.votes.values()))
        row = []
        for votes in (np.ones(len(subset)), by_agreement):
            row += ballot.rates(votes.tolist(), WORD_WINS)
        for size in SIZES:
            own = referred[:size]
            votes = mixed_votes(by_agreement, counted_errors(ballot, own))
            row.append(tuned_rate(ballot, own))
            for each in (votes, best_power(own, votes)):
                row += ballot.rates(each.tolist(), WORD_WINS)
        rows.append(row)
        shown = " ".join(f"{rate:6.2f}" for rate in row)
        print(f"{shown}  {', '.join(subset)}", flush=True)
    figures = np.array(rows)
    worse = figures[:, :2].max(axis=1)
    for place, size in enumerate(SIZES):
        for number, kind in enumerate(TUNED):
            loss = figures[:, 2 + len(TUNED) * place + number] - worse
            often = int((loss > LOSS).sum())
            print(f"{size} {kind}: {often} worse by more than {LOSS}, {loss.max():.2f}")
    result = needed(name, figures)
    print(text(cells(result)))
    if options.output:
        write_json(options.output, result)


if __name__ == "__main__":
    main()
