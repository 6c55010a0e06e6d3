"""What chance alone does: p-values of equal systems, intervals of a known error rate,
tuning on columns of noise.

    python -m tests.reliability.chance tests [--sets 2000] [-o FILE]
    python -m tests.reliability.chance noise [--sets 100] [-o FILE]
    python -m tests.reliability.chance nulls [--sets 200] [--null NAME...] [-o FILE]

makes the figures of docs/results/tuning.md: percents of simulated sets, and changes of
an error rate in points. FILE gets them as JSON. Seeds are fixed.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rescore import decision
from rescore.asr.features import EDITS, RESPELLED
from rescore.columns import FIRST_PASS
from rescore.dataset import Dataset
from rescore.decision import Choice, Decision
from rescore.metrics import list_statistics, total, value
from rescore.metrics.base import text_statistics
from rescore.metrics.mapsswe import matched_pairs
from rescore.metrics.significance import (
    confidence_interval,
    paired_interval,
    paired_randomisation,
)
from rescore.metrics.wer import ErrorRate
from rescore.nbest import Hypothesis, NbestList
from rescore.tuning import TuningOptions, tune_weights

WORDS = 12
"""In each reference."""
RATE = 0.1
"""The true error rate of both systems."""
LEVEL = 0.05
METRIC = ErrorRate()

Wrong = npt.NDArray[np.bool_]


def wrong_words(
    random: np.random.Generator, utterances: int, systems: int = 2
) -> Wrong:
    """(systems, utterances, words) which words are wrong, by chance alone; utterances
    are easy or hard for all systems, as they are in real sets.
    """
    difficulty = random.beta(0.5, 0.5 * (1 - RATE) / RATE, utterances)
    return random.random((systems, utterances, WORDS)) < difficulty[:, None]


def counts(wrong: Wrong) -> npt.NDArray[np.int64]:
    """(utterances, 4) the statistics of WER, where each wrong word is a
    substitution.
    """
    errors = wrong.sum(axis=1)
    return np.stack(
        [errors, 0 * errors, 0 * errors, 0 * errors + WORDS], axis=1
    ).astype(np.int64)


def texts(wrong: Wrong) -> list[str]:
    """The same as texts: every other utterance of an error loses the word instead."""
    return [
        " ".join(
            "x" * (place % 2) if bad else f"w{place}" for place, bad in enumerate(row)
        )
        or "x"
        for row in wrong.tolist()
    ]


def of_mapsswe(one: Wrong, other: Wrong, trials: int) -> float:
    reference = " ".join(f"w{place}" for place in range(WORDS))
    return matched_pairs([(reference,)] * len(one), texts(one), texts(other)).p_value


def of_randomisation(one: Wrong, other: Wrong, trials: int) -> float:
    return paired_randomisation(METRIC, list(counts(one)), list(counts(other)), trials)


TESTS: dict[str, Callable[[Wrong, Wrong, int], float]] = {
    "randomisation": of_randomisation,
    "mapsswe": of_mapsswe,
}


def rejected(
    test: Callable[[Wrong, Wrong, int], float],
    sets: int,
    utterances: int,
    trials: int,
    seed: int = 0,
) -> float:
    """The share of pairs of equal systems that a test calls different at `LEVEL`."""
    random = np.random.default_rng(seed)
    return float(
        np.mean(
            [
                test(*wrong_words(random, utterances), trials) < LEVEL
                for _ in range(sets)
            ]
        )
    )


def at_most(sets: int, share: float = LEVEL, deviations: float = 3.0) -> float:
    """What a share of so many sets can be by chance: so many standard deviations
    above.
    """
    return share + deviations * math.sqrt(share * (1 - share) / sets)


def covered(sets: int, utterances: int, seed: int = 0) -> tuple[float, float]:
    """The share of sets whose 95 % interval holds the true error rate, and the true
    difference (0) of two systems.
    """
    random = np.random.default_rng(seed)
    held = [0, 0]
    for _ in range(sets):
        one, other = (list(counts(wrong)) for wrong in wrong_words(random, utterances))
        low, high = confidence_interval(METRIC, one)
        held[0] += low <= 100 * RATE <= high
        low, high = paired_interval(METRIC, one, other)
        held[1] += low <= 0 <= high
    return held[0] / sets, held[1] / sets


DEPTH = 5


def noisy_lists(
    random: np.random.Generator, utterances: int, columns: int
) -> list[NbestList]:
    """Lists whose first-pass scores know something about errors, and whose other
    columns know nothing.
    """
    reference = " ".join(f"w{place}" for place in range(WORDS))
    lists = []
    for index in range(utterances):
        wrong = wrong_words(random, DEPTH, 1)[0]
        first = -wrong.sum(axis=1) + random.normal(size=DEPTH)
        noise = random.normal(size=(columns, DEPTH))
        hypotheses = [
            Hypothesis(
                text,
                {FIRST_PASS: float(score)}
                | {f"noise{k}": float(noise[k, place]) for k in range(columns)},
            )
            for place, (text, score) in enumerate(zip(texts(wrong), first, strict=True))
        ]
        lists.append(NbestList(f"u{index}", hypotheses, (reference,)))
    return lists


def harmed(
    sets: int, utterances: int, columns: int, seed: int = 0, bagging: bool = True
) -> tuple[float, float, float]:
    """Tuning on columns of noise: the share of sets with a weight, and the change of
    the error rate of other lists.

    Returns:
        the share; the mean and the worst change, in points.
    """
    random = np.random.default_rng(seed)
    weighed, changes = 0, []
    for _ in range(sets):
        dev, test = (noisy_lists(random, utterances, columns) for _ in range(2))
        weights = tune_weights(
            METRIC,
            Dataset.of(dev),
            [f"noise{k}" for k in range(columns)],
            options=TuningOptions(bagging=bagging),
        )
        weighed += any(
            weight for name, weight in weights.weights.items() if name != FIRST_PASS
        )
        statistics = list_statistics(METRIC, test)
        before, after = (
            value(METRIC, total(statistics, decision.best(test, Choice(some))))
            for some in ({FIRST_PASS: 1.0}, weights.weights)
        )
        changes.append(after - before)
    return weighed / sets, float(np.mean(changes)), float(np.max(changes))


@dataclass(frozen=True)
class Null:
    """What knows nothing, tuned beside what is there already."""

    base: tuple[str, ...] = ()
    """Columns that are tuned with it and without."""
    extra: tuple[str, ...] = ()
    """Columns of noise."""
    negative: tuple[str, ...] = ()
    decide: str = "best"
    respelled: bool = False
    """Whether each list has two more hypotheses, in which a word is exchanged at
    random.
    """


NULLS = {
    "noise beside a useful model": Null(("useful",), ("noise0",)),
    "a negative weight": Null(("useful",), ("noise0",), ("noise0",)),
    "rover": Null((), ("noise0",), decide="rover"),
    "respelling": Null(("useful",), respelled=True),
    "three columns with mbr": Null((), ("noise0", "noise1", "noise2"), decide="mbr"),
}


def with_useful(
    random: np.random.Generator, lists: list[NbestList], respelled: bool
) -> list[NbestList]:
    """The lists with a column that knows about as much as the first pass, and with
    respelled hypotheses.
    """
    for nbest in lists:
        own = list(nbest.hypotheses)
        for hypothesis in own:
            hypothesis.scores["useful"] = float(
                random.normal() - _errors(hypothesis.text)
            )
        for hypothesis in own[:2] if respelled else ():
            words = hypothesis.text.split()
            words[int(random.integers(len(words)))] = f"w{random.integers(WORDS)}"
            scores = hypothesis.scores | {
                "useful": hypothesis.scores["useful"] + float(random.normal())
            }
            nbest.hypotheses.append(
                Hypothesis(" ".join(words), scores | {EDITS: 1.0}, RESPELLED)
            )
        for hypothesis in own if respelled else ():
            hypothesis.scores[EDITS] = 0.0
    return lists


def _errors(text: str) -> float:
    words = text.split()
    return sum(word == "x" for word in words) + WORDS - len(words)


def null(
    name: str, sets: int, utterances: int, seed: int = 0
) -> tuple[float, float, float]:
    """What is tuned with something that knows nothing against what is tuned without it,
    on other lists.

    Returns:
        the share of sets in which it is significantly worse (p < `LEVEL`), the share in
        which the texts differ, and the mean change of the error rate in points.
    """
    kind, random = NULLS[name], np.random.default_rng(seed)
    worse, other, changes = 0, 0, []
    for _ in range(sets):
        dev, test = (
            with_useful(
                random, noisy_lists(random, utterances, len(kind.extra)), kind.respelled
            )
            for _ in range(2)
        )
        rows = []
        for columns, bonuses in (
            (kind.base, ()),
            ((*kind.base, *kind.extra), (EDITS,) if kind.respelled else ()),
        ):
            negative = tuple(column for column in kind.negative if column in columns)
            options = TuningOptions(
                bonuses, negative=negative, decision=Decision(kind.decide)
            )
            known = [
                lists if bonuses or not kind.respelled else _own(lists)
                for lists in (dev, test)
            ]
            weights = tune_weights(
                METRIC, Dataset.of(known[0]), columns, options=options
            )
            rows.append(
                text_statistics(
                    METRIC,
                    known[1],
                    weights.texts(METRIC, Dataset.of(known[1])),
                )
            )
        without, with_it = (
            float(METRIC.values(each.sum(axis=0)[None])[0]) for each in rows
        )
        changes.append(with_it - without)
        other += bool((rows[0] != rows[1]).any())
        worse += (
            with_it > without
            and paired_randomisation(METRIC, list(rows[0]), list(rows[1]), 1_000)
            < LEVEL
        )
    return worse / sets, other / sets, float(np.mean(changes))


def _own(lists: list[NbestList]) -> list[NbestList]:
    """The lists without respelled hypotheses."""
    return [
        replace(
            nbest,
            hypotheses=[each for each in nbest.hypotheses if each.origin != RESPELLED],
        )
        for nbest in lists
    ]


# --- figures of the page --------------------------------------------------------------

Rows = Iterator[tuple[str, dict[str, float]]]
"""The name of each row of a table, and its figures by column."""
SETS = {"tests": 2_000, "noise": 100, "nulls": 200}
"""The tables, and the usual number of sets of each."""


def of_tests(sets: int) -> Rows:
    """Yield how often equal systems are called different at `LEVEL`, and how often
    95 % intervals hold the truth, in percent.

    Args:
        sets: Number of pairs of systems. `mapsswe` aligns all words, so it has fewer
            pairs of more than 20 utterances.
    """
    for utterances in (20, 100, 500):
        fewer = max(1, sets * 20 // utterances)
        shares = {
            "randomisation": rejected(of_randomisation, sets, utterances, 1_000),
            "mapsswe": rejected(of_mapsswe, fewer, utterances, 0),
        }
        rate, difference = covered(sets, utterances)
        shares |= {"interval of the rate": rate, "of the difference": difference}
        percents = {column: 100 * share for column, share in shares.items()}
        yield f"{utterances} utterances", percents


def of_noise(sets: int) -> Rows:
    """Yield the percent of sets in which noise gets a weight, and the mean and the
    worst change of the error rate of other lists, in points.

    Args:
        sets: Number of sets of 100 lists.
    """
    for columns in (1, 3):
        for how, bagging in (("default", True), ("--no-bagging", False)):
            share, mean, worst = harmed(sets, 100, columns, bagging=bagging)
            figures = {"with a weight": 100 * share, "mean change": mean}
            yield f"{columns}, {how}", figures | {"worst change": worst}


def of_nulls(sets: int, names: Sequence[str] = tuple(NULLS)) -> Rows:
    """Yield the percent of sets whose texts what knows nothing changes and makes
    significantly worse, and the mean change of the error rate, in points.

    Args:
        sets: Number of sets of 60 lists.
        names: Names in `NULLS`.
    """
    for name in names:
        worse, other, mean = null(name, sets, 60)
        figures = {"other texts": 100 * other, "significantly worse": 100 * worse}
        yield name, figures | {"mean change": mean}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", choices=SETS)
    parser.add_argument("--sets", type=int, help="simulated sets")
    parser.add_argument(
        "--null", choices=NULLS, action="append", help="only these rows of nulls"
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    options = parser.parse_args()
    sets = options.sets or SETS[options.table]
    if options.table == "tests":
        rows = of_tests(sets)
    elif options.table == "noise":
        rows = of_noise(sets)
    else:
        rows = of_nulls(sets, options.null or tuple(NULLS))
    figures = {}
    for name, row in rows:
        figures[name] = row
        shown = [f"{column} {figure:.3f}" for column, figure in row.items()]
        print(f"{name}: {', '.join(shown)}", flush=True)
    if options.output:
        options.output.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
