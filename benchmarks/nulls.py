"""How often columns of random scores get a weight: whole runs on lists where no column
helps.

    python benchmarks/nulls.py [--runs 3] [--columns 2 5 20] [--lists 300] [--size 10] \
        [--decide best] [--mode dev folds]

A run has lists of its own. `dev` tunes on them as `--dev` does; `folds` is
`rescore run --folds 5`. A line has the share of runs in which a column has a weight
for other lists, and with folds also the share of runs in which a fold has a weight.
"""

from __future__ import annotations

import argparse
import logging

import numpy as np
from common import cpu_seconds

from rescore import pipeline
from rescore.config import RunConfig
from rescore.dataset import Dataset
from rescore.nbest import Hypothesis, NbestList
from rescore.tuning import Weights

WORDS = 12
"""Words of a reference."""


def made(seed: int, number: int, size: int, columns: int) -> Dataset:
    """Return lists in the order of the first pass, with columns of random scores.

    Args:
        seed: The seed of all random numbers.
        number: Number of lists.
        size: Hypotheses of a list; each has some wrong words.
        columns: Number of columns.
    """
    random = np.random.default_rng(seed)
    lists = []
    for place in range(number):
        words = [f"w{word}" for word in random.integers(0, 1000, WORDS)]
        hypotheses = []
        for rank in range(size):
            wrong = random.random(WORDS) < random.uniform(0.0, 0.3)
            text = [
                f"x{rank}" if is_wrong else word
                for word, is_wrong in zip(words, wrong, strict=True)
            ]
            scores = {"s2s": float(-wrong.sum() + random.normal(0.0, 2.0))}
            for column in range(columns):
                scores[f"random{column}"] = float(random.normal())
            hypotheses.append(Hypothesis(" ".join(text), scores))
        hypotheses.sort(key=lambda each: -each.scores["s2s"])
        lists.append(NbestList(f"u{place}", hypotheses, (" ".join(words),)))
    return Dataset(lists)


def has_weight(weights: Weights, columns: int) -> bool:
    """Return whether a random column has a weight."""
    return any(weights.weighs(f"random{column}") for column in range(columns))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="seed of the first run")
    parser.add_argument("--columns", type=int, nargs="+", default=[2, 5, 20])
    parser.add_argument("--lists", type=int, default=300)
    parser.add_argument("--size", type=int, default=10, help="hypotheses of a list")
    parser.add_argument("--decide", default="best")
    parser.add_argument("--mode", nargs="+", default=["dev", "folds"])
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    for mode in options.mode:
        for columns in options.columns:
            in_all = 0
            in_folds = 0
            began = cpu_seconds()
            for seed in range(options.first, options.first + options.runs):
                lists = made(seed, options.lists, options.size, columns)
                config = RunConfig(
                    decide=options.decide,
                    metrics=("wer",),
                    columns=tuple(f"random{column}" for column in range(columns)),
                    folds=5 if mode == "folds" else None,
                )
                dev = lists if mode == "dev" else None
                weights = pipeline.run(lists, config, dev).weights
                in_all += has_weight(weights, columns)
                for fold in weights.tuning.of_folds:
                    if any(fold.weights.get(name) for name in config.columns):
                        in_folds += 1
                        break
            of_folds = f", in a fold {in_folds}" if mode == "folds" else ""
            seconds = (cpu_seconds() - began) / options.runs
            print(
                f"{mode} {options.decide}: {columns} columns: weights in {in_all}"
                f"{of_folds} of {options.runs} runs, {seconds:.1f} s a run",
                flush=True,
            )


if __name__ == "__main__":
    main()
