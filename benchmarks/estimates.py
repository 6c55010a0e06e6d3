"""Error rates of systems that are estimated without references, beside the true ones.

    python benchmarks/estimates.py NAME=LISTS... [--whisper-english NAME] [--figure F]

LISTS are written by `rescore combine` with --ref. A line per system: the set, the
system, its WER, the estimate and its 95 % confidence interval. The figure has a point
per system; on the line, the estimate is the WER.
"""

from __future__ import annotations

import argparse

import numpy as np

import rescore
from rescore.dataset import Dataset
from rescore.decision.mixture import system_texts
from rescore.metrics import choose_metric
from rescore.metrics.base import MetricOptions, text_value
from rescore.metrics.normalise import Normaliser
from rescore.research.chart import Chart, Series, write
from rescore.tuning.agreement import Agreement

DOTS = 40
"""The dots that draw the line."""


def points(name: str, path: str, whisper_english: bool) -> list[tuple[float, float]]:
    """Print the rates of the systems of a set.

    Args:
        name: The name of the set.
        path: The lists of the systems, with references.
        whisper_english: Whether Whisper's normaliser for English is applied.

    Returns:
        For each system the WER and its estimate, in percent.
    """
    normaliser = Normaliser(whisper_english=whisper_english)
    lists = rescore.read(path)
    metric = choose_metric("wer", lists, MetricOptions(normaliser=normaliser))
    systems = Dataset.of(lists).header.systems
    estimates = Agreement(lists, systems, normaliser).estimates()
    referred = [nbest for nbest in lists if nbest.references]
    pairs = []
    for system in systems:
        estimate = estimates[system]
        rate = text_value(metric, referred, system_texts(referred, system))
        interval = f"{estimate.low:.1f}-{estimate.high:.1f}"
        print(f"{name}  {system:20} {rate:6.2f} {estimate.rate:6.1f}  {interval}")
        pairs.append((rate, estimate.rate))
    return pairs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="+", metavar="NAME=LISTS")
    parser.add_argument("--whisper-english", action="append", default=[])
    parser.add_argument("--figure")
    options = parser.parse_args()
    series = []
    for given in options.sets:
        name, _, path = given.partition("=")
        whisper_english = name in options.whisper_english
        series.append(Series(name, points(name, path, whisper_english)))
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
