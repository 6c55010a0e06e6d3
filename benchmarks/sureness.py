"""Does anything without references tell where votes by agreement lose against equal
votes?

    python benchmarks/sureness.py LISTS [--draws 200] [--seed 101] [--utterances 100]
        [--whisper-english] [-o FILE]

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

Then it counts how often the interval holds the true gain. For each measure and limit,
votes by agreement are taken above the limit, and equal votes elsewhere: the number of
subsets with votes by agreement, the mean error rate of all, and how many subsets are
worse than equal votes by more than 0.1 and 0.3. FILE gets these as JSON.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from itertools import product

import numpy as np
import numpy.typing as npt
from agreement import (
    WORD_WINS,
    Agreement,
    Ballot,
    arguments,
    read_systems,
    subsets,
)

from rescore.asr.systems import combined
from rescore.metrics.normalise import EXACT
from rescore.metrics.significance import SEED

Floats = npt.NDArray[np.float64]
SAMPLES = 40
"""Bootstrap samples of each subset."""
BOUNDS = (0.0, 0.1, 0.2)
"""Limits of the lower bound of the estimated gain, in percent of the words."""
SHARES = (0.6, 0.8, 0.9)
"""Limits of the share of choices that stay the same."""
ALMOST_ZERO = 1e-9


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


def choices(votes: Floats) -> Floats:
    """Return which of any two camps of systems wins: 1 for the first, -1 for the
    second.

    Args:
        votes: The vote of each system.
    """
    camps = np.array(list(product((-1, 0, 1), repeat=len(votes))))
    camps = camps[(camps == 1).any(axis=1) & (camps == -1).any(axis=1)]
    firsts = (camps != 0).argmax(axis=1)
    margins = camps @ votes
    of_first_system = camps[np.arange(len(camps)), firsts]
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
        rows = generator.integers(0, len(ballot.lists), len(ballot.lists))
        lists = [ballot.lists[row] for row in rows]
        sample = Agreement(lists, ballot.systems, EXACT)
        own = np.array(list(sample.votes.values()))
        if changed.any():
            shares.append((choices(own) == ours)[changed].mean())
        if sample.estimates():
            gain = estimated_error(sample, equal) - estimated_error(sample, votes)
            gains.append(gain)
    low, high = np.percentile(gains or [0.0], (2.5, 97.5))
    return float(low), float(high), float(np.mean(shares or [1.0]))


def told(taken: npt.NDArray[np.bool_], figures: Floats) -> list[float]:
    """Return the number of subsets with votes by agreement, the mean error rate, and
    the numbers of subsets that are worse by more than 0.1 and 0.3.

    Args:
        taken: Whether votes by agreement are taken in each subset; else equal votes.
        figures: The rows that `main` prints.
    """
    equal = figures[:, 0]
    rates = np.where(taken, figures[:, 1], equal)
    losses = rates - equal
    numbers = [float((losses > limit).sum()) for limit in (0.1, 0.3)]
    return [float(taken.sum()), float(rates.mean()), *numbers]


def summary(rows: Sequence[Sequence[float]]) -> dict[str, object]:
    """Return what the rows of all subsets say, and print it."""
    figures = np.array(rows)
    equal, agreed, low, high, stable = figures.T
    gains = equal - agreed
    is_held = (low <= gains) & (gains <= high)
    is_sure = low > 0
    content: dict[str, object] = {
        "subsets": len(rows),
        "equal": float(equal.mean()),
        "the interval holds the gain": int(is_held.sum()),
        "worse by 0.1": int((gains < -0.1).sum()),
        "of these with an interval above 0": int((is_sure & (gains < -0.1)).sum()),
        "always": told(np.full(len(rows), True), figures),
    }
    for limit in BOUNDS:
        content[f"lower bound above {limit}"] = told(low > limit, figures)
    for limit in SHARES:
        content[f"stable from {limit} on"] = told(stable >= limit, figures)
    for name, value in content.items():
        print(f"{name}: {value}")
    return content


def main() -> None:
    options = arguments(__doc__, utterances=100).parse_args()
    systems = read_systems(options.file, options.whisper_english)
    draw = random.Random(options.seed)
    rows = []
    for subset in subsets(systems, options.draws, options.utterances, draw):
        ballot = Ballot(list(combined(subset)))
        votes = list(ballot.agreement.votes.values())
        (equal,) = ballot.rates([1.0] * len(votes), WORD_WINS)
        (agreed,) = ballot.rates(votes, WORD_WINS)
        row = [equal, agreed, *measures(ballot, np.array(votes))]
        rows.append(row)
        shown = " ".join(f"{figure:6.2f}" for figure in row)
        print(f"{shown}  {', '.join(subset)}", flush=True)
    content = summary(rows)
    if options.output:
        options.output.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
