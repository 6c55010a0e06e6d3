"""Minimum Bayes risk against the package mbrs: the same choices, and times side by
side.

python benchmarks/mbr.py LISTS [--sizes 10,100,1000] [--lists 5] needs `pip install
mbrs`. Lists longer than those of the file are made from them: hypotheses whose halves
come from different ones.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from rescore import formats
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
    options = parser.parse_args()
    from mbrs.decoders import DecoderMBR
    from mbrs.metrics import MetricBLEU, MetricChrF

    workers = torch.get_num_threads()
    bleu = MetricBLEU(
        MetricBLEU.Config(tokenize="none", force=True, num_workers=workers)
    )
    chrf = MetricChrF(MetricChrF.Config(num_workers=workers))
    fast = MetricChrF(MetricChrF.Config(num_workers=workers, fastchrf=True))
    exact = MinimumBayesRisk()
    rows: list[tuple[str, Metric, Any, Any, Any]] = [
        ("BLEU", Bleu("none"), exact, DecoderMBR, bleu),
        ("chrF", Chrf(), exact, DecoderMBR, chrf),
        ("chrF (fastchrf)", Chrf(), exact, DecoderMBR, fast),
    ]
    lists = formats.read([options.file])
    print(
        f"{'utility':28} {'N':>5} {'rescore':>10} {'mbrs':>10} {'ratio':>7}  same"
        " choices"
    )
    warm = enlarged(["a b c", "a b d e", "f g a b"], 4, random.Random(0))
    for _, metric, rule, decoder, theirs in rows:
        ours(metric, rule, [warm], [np.zeros(4)])
        peers(decoder, theirs, [warm], [np.zeros(4)])
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
        for name, metric, rule, decoder, theirs in rows:
            if size > 100 and name == "chrF":
                continue  # minutes a list

            mine, own = timed(partial(ours, metric, rule, sample, scores))
            other, their = timed(partial(peers, decoder, theirs, sample, scores))
            same = sum(one == two for one, two in zip(mine, other, strict=True))
            milliseconds = [1000 * seconds / len(sample) for seconds in (own, their)]
            print(
                f"{name:28} {size:5} {milliseconds[0]:7.1f} ms {milliseconds[1]:7.1f}"
                f" ms {their / own:7.1f}  {same} of {len(sample)}",
                flush=True,
            )


def ours(
    metric: Metric, rule: Any, sample: Sequence[list[str]], scores: Sequence[Values]
) -> list[str]:
    lists = [NbestList("x", [Hypothesis(text) for text in texts]) for texts in sample]
    posteriors = [np.exp(score) / np.exp(score).sum() for score in scores]
    return rule.chooser(lists, metric).texts(posteriors)


def peers(
    decoder: Any, metric: Any, sample: Sequence[list[str]], scores: Sequence[Values]
) -> list[str]:
    made = decoder(decoder.Config(), metric)
    return [
        made.decode(texts, texts, reference_lprobs=torch.tensor(score.copy())).sentence[
            0
        ]
        for texts, score in zip(sample, scores, strict=True)
    ]


def timed(work: Callable[[], list[str]]) -> tuple[list[str], float]:
    start = time.perf_counter()
    found = work()
    return found, time.perf_counter() - start


if __name__ == "__main__":
    main()
