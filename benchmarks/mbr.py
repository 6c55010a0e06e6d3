"""Minimum Bayes risk against the package mbrs: the same choices, and times side by
side.

python benchmarks/mbr.py LISTS [--sizes 10,100,1000] [--lists 5]. Lists longer than
those of the file are made from them: hypotheses whose halves come from different ones.
Without mbrs (`pip install mbrs "setuptools<81"`) only the times of `rescore` are
printed.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common import is_missing, write_json

from rescore import formats
from rescore.dataset import Dataset
from rescore.decision.risk import MinimumBayesRisk
from rescore.metrics.base import Metric, Values
from rescore.metrics.mt import Bleu, Chrf
from rescore.nbest import Hypothesis, NbestList


def enlarged(texts: Sequence[str], size: int, chance: random.Random) -> list[str]:
    """`size` different hypotheses: those there are, then combinations of two, with
    words left out.
    """
    found = dict.fromkeys(texts[:size])
    while len(found) < size:
        one, other = (chance.choice(texts).split() for _ in range(2))
        cut = chance.random()
        words = one[: round(cut * len(one))] + other[round(cut * len(other)) :]
        found[" ".join(word for word in words if chance.random() > 0.05)] = None
    return list(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--sizes", default="10,100,1000")
    parser.add_argument("--lists", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    options = parser.parse_args()
    rows = utilities()
    figures: dict[str, dict[str, float]] = {}
    lists = formats.read([options.file])
    print(
        f"{'utility':28} {'N':>5} {'rescore':>10} {'mbrs':>10} {'ratio':>7}  same"
        " choices"
    )
    warm = enlarged(["a b c", "a b d e", "f g a b"], 4, random.Random(0))
    for _, metric, theirs in rows:
        ours(metric, [warm], [np.zeros(4)])
        if theirs is not None:
            peers(theirs, [warm], [np.zeros(4)])
    for size in map(int, options.sizes.split(",")):
        chance = random.Random(0)
        sample = [
            enlarged([hypothesis.text for hypothesis in nbest.hypotheses], size, chance)
            for nbest in lists[:: max(1, len(lists) // options.lists)][: options.lists]
        ]
        scores = [
            np.sort(np.random.default_rng(0).normal(size=size) * 2)[::-1]
            for _ in sample
        ]
        for name, metric, theirs in rows:
            if size > 100 and name == "chrF":
                continue  # minutes a list

            mine, own = timed(partial(ours, metric, sample, scores))
            row = f"{name:28} {size:5} {1000 * own / len(sample):7.1f} ms"
            measured = {"rescore, ms": 1000 * own / len(sample)}
            if theirs is not None:
                other, their = timed(partial(peers, theirs, sample, scores))
                same = sum(one == two for one, two in zip(mine, other, strict=True))
                row += f" {1000 * their / len(sample):7.1f} ms {their / own:7.1f}"
                row += f"  {same} of {len(sample)}"
                measured |= {
                    "mbrs, ms": 1000 * their / len(sample),
                    "times as fast": their / own,
                }
            print(row, flush=True)
            figures[f"{name}, {size:,} hypotheses"] = measured
    if options.output:
        write_json(options.output, figures)


def utilities() -> list[tuple[str, Metric, Any]]:
    """Name, metric of ours, and metric of mbrs or None, of each utility."""
    if is_missing("mbrs", 'pip install mbrs "setuptools<81"', "mbrs"):
        return [("BLEU", Bleu(tokenise="none"), None), ("chrF", Chrf(), None)]
    from mbrs.metrics import MetricBLEU, MetricChrF

    workers = torch.get_num_threads()
    bleu = MetricBLEU.Config(tokenize="none", force=True, num_workers=workers)
    chrf = MetricChrF.Config(num_workers=workers)
    fast = MetricChrF.Config(num_workers=workers, fastchrf=True)
    return [
        ("BLEU", Bleu(tokenise="none"), MetricBLEU(bleu)),
        ("chrF", Chrf(), MetricChrF(chrf)),
        ("chrF (fastchrf)", Chrf(), MetricChrF(fast)),
    ]


def ours(
    metric: Metric, sample: Sequence[list[str]], scores: Sequence[Values]
) -> list[str]:
    lists = Dataset(
        NbestList("x", [Hypothesis(text) for text in texts]) for texts in sample
    )
    posteriors = [np.exp(score) / np.exp(score).sum() for score in scores]
    return MinimumBayesRisk().chooser(lists, metric).texts(posteriors)


def peers(
    metric: Any, sample: Sequence[list[str]], scores: Sequence[Values]
) -> list[str]:
    from mbrs.decoders import DecoderMBR

    decoder = DecoderMBR(DecoderMBR.Config(), metric)
    return [
        decoder.decode(
            texts, texts, reference_lprobs=torch.tensor(score.copy())
        ).sentence[0]
        for texts, score in zip(sample, scores, strict=True)
    ]


def timed(work: Callable[[], list[str]]) -> tuple[list[str], float]:
    start = time.perf_counter()
    found = work()
    return found, time.perf_counter() - start


if __name__ == "__main__":
    main()
