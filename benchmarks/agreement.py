"""Votes by agreement against equal votes, on random subsets of the systems of combined
lists.

python benchmarks/agreement.py LISTS [--draws 50] [--seed 101] [--with VARIANT]
[-o FILE]. LISTS are written by `rescore combine` with --ref. A line per subset: the
error rate of `rover` with equal votes (a tie is no word; a tie goes to the word), and
with votes by agreement. FILE gets the means, as JSON. A variant adds relatives to each
subset: `doubled`, a copy of each system; `changed`, such copies with one word in a
hundred replaced; `families`, two such copies of three systems.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import rescore
from rescore.asr.systems import combined
from rescore.columns import FIRST_PASS
from rescore.dataset import Dataset
from rescore.decision.mixture import system_texts
from rescore.nbest import Hypothesis, NbestList

MOST = 8
"""Systems of a subset, at most."""
VARIANTS = ("doubled", "changed", "families")
CHANGED = 0.01
"""The share of words that are replaced."""
FAMILIES = 3
"""Systems with two relatives each."""


def outputs(lists: Sequence[NbestList]) -> dict[str, list[NbestList]]:
    """Return the outputs of the systems of combined lists."""
    systems = {}
    for name in Dataset.of(lists).header.systems:
        own = []
        for nbest, text in zip(lists, system_texts(lists, name), strict=True):
            hypothesis = Hypothesis(text, {FIRST_PASS: 0.0})
            own.append(NbestList(nbest.id, [hypothesis], nbest.references))
        systems[name] = own
    return systems


def changed(lists: Sequence[NbestList], draw: random.Random) -> list[NbestList]:
    """Return an output in which one word in a hundred is another word of the output."""
    words = [word for nbest in lists for word in nbest.hypotheses[0].text.split()]
    result = []
    for nbest in lists:
        (one,) = nbest.hypotheses
        own = []
        for word in one.text.split():
            own.append(draw.choice(words) if draw.random() < CHANGED else word)
        result.append(replace(nbest, hypotheses=[replace(one, text=" ".join(own))]))
    return result


def with_relatives(
    systems: dict[str, list[NbestList]], variant: str, draw: random.Random
) -> dict[str, list[NbestList]]:
    """Return systems with the relatives of a variant."""
    every = dict(systems)
    names = list(systems)
    if variant == "families":
        names = 2 * draw.sample(names, FAMILIES)
    for number, name in enumerate(names):
        own = systems[name]
        if variant != "doubled":
            own = changed(own, draw)
        every[f"{name}+{number}"] = own
    return every


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
    parser.add_argument("--with", dest="variant", choices=VARIANTS)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    options = parser.parse_args()
    lists = rescore.read(options.file)
    systems = outputs(lists)
    draw = random.Random(options.seed)
    rows = []
    for _ in range(options.draws):
        number = draw.randint(3, min(MOST, len(systems)))
        chosen = draw.sample(sorted(systems), number)
        subset = {name: systems[name] for name in chosen}
        if options.variant:
            subset = with_relatives(subset, options.variant, draw)
        own = list(combined(subset))
        ties = error_rate(own, votes="equal", no_word=1.0)
        equal = error_rate(own, votes="equal")
        agreed = error_rate(own)
        rows.append((ties, equal, agreed))
        print(f"{ties:6.2f} {equal:6.2f} {agreed:6.2f}  {', '.join(chosen)}")
    figures = np.array(rows)
    gains = figures[:, 1] - figures[:, 2]
    means = figures.mean(axis=0).tolist()
    shown = " ".join(f"{mean:6.2f}" for mean in means)
    print(f"{shown}  mean of {len(rows)} subsets")
    worse = int((gains < -0.005).sum())
    most = max(0.0, -float(gains.min()))
    print(f"agreement: {worse} worse than equal votes, by {most:.2f}")
    if options.output:
        content = dict(zip(("ties", "equal", "agreement"), means, strict=True))
        content |= {"subsets": len(rows), "worse": worse, "most": most}
        options.output.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
