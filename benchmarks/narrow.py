"""Lists as like each other as a beam of one system: of each list the first pass's best
and what is nearest to it.

python benchmarks/narrow.py LISTS OUT.jsonl [--keep 4]; near is what has the highest
sentence BLEU against the best. No reference is looked at. Prints the mean sentence BLEU
of the hypotheses against the best, before and after.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from rescore import formats, metrics
from rescore.columns import FIRST_PASS
from rescore.decision.risk import compared


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("lists")
    parser.add_argument("out")
    parser.add_argument(
        "--keep", type=int, default=4, metavar="N", help="hypotheses of a list"
    )
    options = parser.parse_args()
    lists = formats.read([options.lists])
    metric = metrics.choose_metric("bleu", lists)
    narrow, before, after = [], [], []
    for nbest, losses in zip(lists, compared(metric, lists), strict=True):
        loss = losses.matrix()
        best = int(np.argmax(nbest.column(FIRST_PASS)))
        others = [
            int(rank)
            for rank in np.argsort(loss[:, best], kind="stable")
            if rank != best
        ]
        kept = sorted([best, *others[: options.keep - 1]])
        before += [100.0 - loss[rank, best] for rank in others]
        after += [100.0 - loss[rank, best] for rank in others[: options.keep - 1]]
        narrow.append(
            replace(nbest, hypotheses=[nbest.hypotheses[rank] for rank in kept])
        )
    formats.write(narrow, options.out)
    names = f"{options.lists}, {np.mean(after):.1f} in {options.out}"
    print(f"sentence BLEU against the best: {np.mean(before):.1f} in {names}")


if __name__ == "__main__":
    main()
