"""Votes by agreement against equal votes, on random subsets of the systems of combined
lists.

python benchmarks/agreement.py LISTS [--draws 50] [--seed 101]. LISTS are written by
`rescore combine` with --ref. A line per subset: the error rate of `rover` with equal
votes (a tie is no word; a tie goes to the word), and with votes by agreement.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

import rescore
from rescore.nbest import Hypothesis, NbestList

MOST = 8
"""Systems of a subset, at most."""


def subset(lists: Sequence[NbestList], systems: Sequence[str]) -> Iterator[NbestList]:
    """Yield the lists of some systems, whose texts come in the order of the systems."""
    for nbest in lists:
        kept = {}
        for name in systems:
            for place, hypothesis in enumerate(nbest.hypotheses):
                if name in hypothesis.scores:
                    kept.setdefault(place, hypothesis)
        hypotheses = []
        for hypothesis in kept.values():
            own = {name: 0.0 for name in systems if name in hypothesis.scores}
            share = float(np.log(len(own) / len(systems)))
            scores = {"s2s": share, **own}
            hypotheses.append(Hypothesis(hypothesis.text, scores, hypothesis.origin))
        records = {name: nbest.header.records[name] for name in systems}
        header = replace(nbest.header, records=records)
        yield replace(nbest, hypotheses=hypotheses, header=header)


def error_rate(lists: Sequence[NbestList], **options: object) -> float:
    """Return the error rate of a vote word by word."""
    results = rescore.evaluate(lists, decision="rover", **options)
    assert results.reranked is not None
    return results.reranked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--seed", type=int, default=101)
    options = parser.parse_args()
    lists = rescore.read(options.file)
    systems = lists.header.systems
    draw = random.Random(options.seed)
    rows = []
    for _ in range(options.draws):
        number = draw.randint(3, min(MOST, len(systems)))
        chosen = draw.sample(systems, number)
        own = list(subset(lists, chosen))
        ties = error_rate(own, votes="equal", no_word=1.0)
        equal = error_rate(own, votes="equal")
        agreed = error_rate(own)
        rows.append((ties, equal, agreed))
        print(f"{ties:6.2f} {equal:6.2f} {agreed:6.2f}  {', '.join(chosen)}")
    figures = np.array(rows)
    gains = figures[:, 1] - figures[:, 2]
    means = " ".join(f"{mean:6.2f}" for mean in figures.mean(axis=0))
    print(f"{means}  mean of {len(rows)} subsets")
    worse = int((gains < -0.005).sum())
    print(f"agreement: {worse} worse than equal votes, by {max(-gains.min(), 0):.2f}")


if __name__ == "__main__":
    main()
