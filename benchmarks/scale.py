"""How scoring by Ray scales on this machine: hypotheses a second, and whether the
scores are the same bits.

    python benchmarks/scale.py LISTS [--lm tta] [--workers 1,2,3,4]

Workers have one core each. Starting them and loading models is not counted; it is
reported by itself.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import torch

from rescore import formats
from rescore.lms import load
from rescore.lms.base import DEFAULT, Question, without_context
from rescore.lms.context import with_needed_neighbours
from rescore.scoring.cluster import Cluster
from rescore.scoring.local import windows_of_lists


def main() -> None:
    parser = argparse.ArgumentParser(description="Scoring by Ray against this process.")
    parser.add_argument("lists")
    parser.add_argument("--lm", default="tta")
    parser.add_argument("--workers", default="1,2,3,4")
    parser.add_argument("--windows", type=int, default=8)
    arguments = parser.parse_args()
    lists = formats.read([arguments.lists])
    batches = [
        without_context(
            dict.fromkeys(
                one.text for placed in part for one in placed.nbest.hypotheses
            )
        )
        for part in list(windows_of_lists(with_needed_neighbours([], lists)))[
            : arguments.windows
        ]
    ]
    number = sum(map(len, batches))
    print(
        f"{number:,} different hypotheses in {len(batches)} windows of"
        f" {arguments.lists}, {arguments.lm}"
    )
    lm = load(arguments.lm)
    lm.score(batches[0][:200])
    rates = {}
    expected: list[list[float]] = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        began = time.perf_counter()
        found = [[one.sum for one in lm.score(batch)] for batch in batches]
        rates[f"this process, {threads} thread{'s' * (threads > 1)}"] = number / (
            time.perf_counter() - began
        )
        expected = expected or found
        print(f"equal with {threads} threads: {found == expected}", flush=True)
    import ray

    for workers in map(int, arguments.workers.split(",")):
        ray.init(
            "local",  # not a cluster that others started on this machine
            num_cpus=workers,
            log_to_driver=False,
            logging_level="error",
            include_dashboard=False,
        )
        began = time.perf_counter()
        cluster = Cluster([arguments.lm], DEFAULT, None, workers=workers)
        warm: Iterator[list[Question]] = iter([batches[0][:50]] * 4 * workers)
        list(cluster.models[0].stream(warm))
        print(
            f"{workers} workers ready in {time.perf_counter() - began:.1f} s",
            flush=True,
        )
        began = time.perf_counter()
        scores = [
            [one.sum for one in batch or []]
            for batch in cluster.models[0].stream(batches)
        ]
        rates[f"{workers} worker{'s' * (workers > 1)} of one core"] = number / (
            time.perf_counter() - began
        )
        print(f"equal: {scores == expected}", flush=True)
        cluster.close()
        ray.shutdown()
    alone = rates["this process, 1 thread"]
    for name, rate in rates.items():
        print(f"{name:28} {rate:8,.0f} hypotheses/s  {rate / alone:5.2f}")


if __name__ == "__main__":
    main()
