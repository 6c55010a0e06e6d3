"""Does anything without references tell where votes by agreement lose against equal
votes?

    python benchmarks/sureness.py NAME=LISTS [--draws 200] [--seed 101]
        [--utterances 100] [--whisper-english] [-o FILE]

LISTS are written by `rescore combine` with --ref. The subsets are those of
`benchmarks/agreement.py`. A line per subset: the error rate of `rover` with equal votes
and with votes by agreement, and two measures that read no reference, by bootstrap over
utterances:

- The 95 % confidence interval of the estimated gain. A vote is estimated by the
  probability that two systems, each drawn by its share of the votes, make the same
  error: v' C v, with the estimates in the diagonal of C and the errors that relatives
  share elsewhere.
- How stable the votes are. Any two camps of systems make a choice: the camp with more
  votes wins, and of equal camps the one with the system that is given first. Of the
  choices that votes by agreement make otherwise than equal votes, this is the share
  that the votes of a bootstrap sample make in the same way.

For each measure and limit, votes by agreement are then taken above the limit, and equal
votes elsewhere: the mean error rate of all subsets, and how many subsets are worse than
equal votes by more than 0.1 and 0.3. At last it counts how often the interval contains
the true gain. FILE gets these as JSON.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

import numpy as np
import numpy.typing as npt
from agreement import (
    GREAT_LOSS,
    LOSS,
    WORD_WINS,
    Agreement,
    Ballot,
    arguments,
    read_set,
    subsets,
)
from common import write_json

from rescore.asr.systems import combined
from rescore.metrics.significance import SEED
from rescore.styles import Cells, figure, text

Floats = npt.NDArray[np.float64]
SAMPLES = 40
"""Bootstrap samples of each subset."""
BOUNDS = (0.0, 0.1, 0.2)
"""Limits of the lower bound of the estimated gain, in percent of the words."""
SHARES = (0.6, 0.8, 0.9)
"""Limits of the share of choices that stay the same."""
ALMOST_ZERO = 1e-9


@dataclass(frozen=True, slots=True)
class Rule:
    """Votes by agreement in some subsets, and equal votes in the others."""

    name: str
    """Where votes by agreement are taken."""
    taken: int
    """The number of subsets in which they are taken."""
    rate: float
    """The mean error rate of all subsets."""
    worse: int
    """Subsets that are worse than equal votes by more than `LOSS`."""
    much_worse: int
    """The same by more than `GREAT_LOSS`."""


@dataclass(frozen=True, slots=True)
class Sureness:
    """What bootstrap says about votes by agreement on the subsets of a set."""

    set: str
    subsets: int
    held: int
    """Subsets whose interval contains the true gain."""
    worse: int
    """Subsets in which votes by agreement are worse by more than `LOSS`."""
    worse_above: int
    """Of these, the subsets whose interval is above 0."""
    rules: list[Rule]


def estimated_error(agreement: Agreement, votes: Floats) -> float:
    """Return the probability that two systems, each drawn by its share of the votes,
    make the same error, in percent of the words.

    Args:
        agreement: What the systems say about each other.
        votes: The vote of each system.
    """
    # what the votes are made of is no public part of the class
    rates = np.maximum(agreement._error_rates, 0.0)
    shared = (rates[:, None] + rates[None] - agreement._matrix) / 2
    shared = np.where(agreement._related, np.maximum(shared, 0.0), 0.0)
    np.fill_diagonal(shared, rates)
    shares = votes / votes.sum()
    return float(100 * shares @ shared @ shares)


@cache
def camps_of(number: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return any two camps of systems, and which of the two has the system that is
    given first.

    Args:
        number: The number of systems.

    Returns:
        (choices, systems) 1 for the first camp, -1 for the second, 0 for neither;
        (choices,) 1 or -1.
    """
    camps = np.array(list(product((-1, 0, 1), repeat=number)))
    camps = camps[(camps == 1).any(axis=1) & (camps == -1).any(axis=1)]
    firsts = (camps != 0).argmax(axis=1)
    return camps, camps[np.arange(len(camps)), firsts]


def choices(votes: Floats) -> Floats:
    """Return which of any two camps of systems wins: 1 for the first, -1 for the
    second.

    Args:
        votes: The vote of each system.
    """
    camps, of_first_system = camps_of(len(votes))
    margins = camps @ votes
    is_tie = np.abs(margins) < ALMOST_ZERO
    return np.where(is_tie, of_first_system, np.sign(margins))


def measures(ballot: Ballot, votes: Floats) -> tuple[float, float, float]:
    """Return the bounds of the estimated gain of votes over equal votes, in percent,
    and the share of choices that stay the same.

    Args:
        ballot: The lists.
        votes: The votes by agreement.
    """
    generator = np.random.default_rng(SEED)
    equal = np.ones(len(votes))
    ours = choices(votes)
    changed = ours != choices(equal)
    gains = []
    shares = []
    for _ in range(SAMPLES):
        places = generator.integers(0, len(ballot.lists), len(ballot.lists))
        sample = Agreement(ballot.systems, ballot.distances.of_lists(places))
        own = np.array(list(sample.votes.values()))
        if changed.any():
            shares.append((choices(own) == ours)[changed].mean())
        if sample.is_estimated:
            gain = estimated_error(sample, equal) - estimated_error(sample, votes)
            gains.append(gain)
    low, high = np.percentile(gains or [0.0], (2.5, 97.5))
    return float(low), float(high), float(np.mean(shares or [1.0]))


def rule(name: str, taken: npt.NDArray[np.bool_], figures: Floats) -> Rule:
    """Return what a rule does.

    Args:
        name: The name of the rule.
        taken: Whether votes by agreement are taken in each subset; else equal votes.
        figures: The rows that `main` prints.
    """
    equal = figures[:, 0]
    rates = np.where(taken, figures[:, 1], equal)
    losses = rates - equal
    return Rule(
        name,
        int(taken.sum()),
        float(rates.mean()),
        int((losses > LOSS).sum()),
        int((losses > GREAT_LOSS).sum()),
    )


def sureness(name: str, rows: Sequence[Sequence[float]]) -> Sureness:
    """Return what the rows of all subsets of a set say."""
    figures = np.array(rows)
    equal, agreed, low, high, stable = figures.T
    gains = equal - agreed
    is_worse = gains < -LOSS
    is_held = (low <= gains) & (gains <= high)
    all_subsets = np.full(len(rows), True)
    rules = [
        rule("nowhere", ~all_subsets, figures),
        rule("everywhere", all_subsets, figures),
    ]
    for limit in BOUNDS:
        name_of_rule = f"if the lower bound of the gain is above {limit:g}"
        rules.append(rule(name_of_rule, low > limit, figures))
    for limit in SHARES:
        name_of_rule = f"if {100 * limit:.0f} % of the choices are stable"
        rules.append(rule(name_of_rule, stable >= limit, figures))
    return Sureness(
        name,
        len(rows),
        held=int(is_held.sum()),
        worse=int(is_worse.sum()),
        worse_above=int(((low > 0) & is_worse).sum()),
        rules=rules,
    )


def cells(sets: Sequence[Sureness]) -> Cells:
    """Return the head of a table, and a row for each rule: the mean error rate of each
    set, and the numbers of subsets that are worse than equal votes by more than `LOSS`
    and by more than `GREAT_LOSS`.
    """
    rows = [["votes by agreement are taken", *(one.set for one in sets)]]
    for of_sets in zip(*(one.rules for one in sets), strict=True):
        row = [of_sets[0].name]
        for own in of_sets:
            row.append(f"{figure(own.rate)}, {own.worse}, {own.much_worse}")
        rows.append(row)
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--utterances", type=int, default=100)
    options = parser.parse_args()
    name, systems = read_set(options)
    draw = random.Random(options.seed)
    rows = []
    for subset in subsets(systems, options.draws, options.utterances, draw):
        ballot = Ballot(list(combined(subset)))
        votes = list(ballot.agreement.votes.values())
        (equal,) = ballot.rates([1.0] * len(votes), WORD_WINS)
        (agreed,) = ballot.rates(votes, WORD_WINS)
        row = [equal, agreed, *measures(ballot, np.array(votes))]
        rows.append(row)
        shown = " ".join(f"{rate:6.2f}" for rate in row)
        print(f"{shown}  {', '.join(subset)}", flush=True)
    result = sureness(name, rows)
    print(text(cells([result])))
    print(f"the interval contains the true gain in {result.held} subsets")
    print(
        f"votes by agreement are worse by more than {LOSS} in {result.worse} subsets;"
        f" the interval is above 0 in {result.worse_above} of these"
    )
    if options.output:
        write_json(options.output, [result])


if __name__ == "__main__":
    main()
