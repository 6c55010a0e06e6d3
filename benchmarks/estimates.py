"""Error rates of systems that are estimated without references, beside the true ones.

    python benchmarks/estimates.py NAME=LISTS... [--whisper-english NAME] [--figure F]
        [-o FILE]

LISTS are written by `rescore combine` with --ref. A line per system: the set, the
system, its WER, the estimate and its 95 % confidence interval. The figure has a point
per system; on the line, the estimate is the WER. FILE gets the lines, as JSON.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from common import write_json

import rescore
from rescore.asr.agreement import Agreement
from rescore.asr.mixture import system_texts
from rescore.dataset import Dataset
from rescore.metrics import choose_metric
from rescore.metrics.base import MetricOptions, text_value
from rescore.metrics.normalise import Normaliser
from rescore.research.chart import Chart, Series, write

DOTS = 40
"""The dots that draw the line."""


@dataclass
class Point:
    """A system of a set, and its error rates, in percent."""

    set: str
    system: str
    value: float
    """By the references."""
    estimate: float
    low: float
    high: float
    """The confidence interval of the estimate."""


def points(name: str, path: str, whisper_english: bool) -> list[Point]:
    """Return the rates of the systems of a set, and print them.

    Args:
        name: The name of the set.
        path: The lists of the systems, with references.
        whisper_english: Whether Whisper's normaliser for English is applied.
    """
    normaliser = Normaliser(whisper_english=whisper_english)
    lists = Dataset.of(rescore.read(path))
    metric = choose_metric("wer", lists, MetricOptions(normaliser=normaliser))
    systems = lists.header.systems
    estimates = Agreement.of(lists, systems, normaliser).estimates()
    referred = [nbest for nbest in lists if nbest.references]
    found = []
    for system in systems:
        estimate = estimates[system]
        rate = text_value(metric, referred, system_texts(referred, system))
        interval = f"{estimate.low:.1f}-{estimate.high:.1f}"
        print(f"{name}  {system:20} {rate:6.2f} {estimate.rate:6.1f}  {interval}")
        point = Point(name, system, rate, estimate.rate, estimate.low, estimate.high)
        found.append(point)
    return found


def cells(points: Sequence[Point]) -> list[list[str]]:
    """Return the head of a table, and a row for each system."""
    rows = [["", "WER", "estimated", "95 % CI"]]
    for point in points:
        interval = f"{point.low:.1f}-{point.high:.1f}"
        rate, estimate = f"{point.value:.2f}", f"{point.estimate:.1f}"
        rows.append([point.system, rate, estimate, interval])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+", metavar="NAME=LISTS")
    parser.add_argument("--whisper-english", action="append", default=[])
    parser.add_argument("--figure")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    options = parser.parse_args()
    every: list[Point] = []
    series = []
    for given in options.sets:
        name, _, path = given.partition("=")
        own = points(name, path, name in options.whisper_english)
        every += own
        pairs = [(point.value, point.estimate) for point in own]
        series.append(Series(name, pairs))
    if options.output:
        write_json(options.output, every)
    if not options.figure:
        return
    rates = [rate for one in series for rate, _ in one.points]
    line = np.geomspace(min(rates), max(rates), DOTS).tolist()
    equal = Series("estimate = WER", [(rate, rate) for rate in line])
    chart = Chart(
        "Error rates estimated without references",
        "WER (%)",
        "estimated WER (%)",
        [*series, equal],
        x_log=True,
        y_log=True,
        lines=False,
    )
    write([chart], options.figure)


if __name__ == "__main__":
    main()
