"""Votes by agreement against equal votes, on random subsets of the systems of combined
lists.

    python benchmarks/agreement.py NAME=LISTS [--draws 200] [--seed 101]
        [--with VARIANT] [-o FILE]

LISTS are written by `rescore combine` with --ref; NAME is what tables call the set. A
line per subset: the error rate of `rover` with equal votes (a tie is no word; a tie
goes to the word), and with votes by agreement; then their means, and how often and how
much agreement is worse: FILE gets these as JSON. A subset has three to eight systems,
and `--utterances` random lists. A variant adds relatives to each subset: `doubled`, a
copy of each system; `changed`, such copies with one word in a hundred replaced;
`families`, two such copies of three systems. Times of words are not used.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
from common import write_json

import rescore
from rescore.asr.agreement import Agreement, Distances, distances_of
from rescore.asr.mixture import mixed, system_posteriors, system_texts
from rescore.asr.rover import KEPT, RoverOptions
from rescore.asr.systems import combined
from rescore.columns import FIRST_PASS
from rescore.dataset import Dataset
from rescore.decision import Choice, Decision, posteriors
from rescore.metrics import choose_metric
from rescore.metrics.base import text_statistics
from rescore.metrics.normalise import EXACT, Normaliser
from rescore.nbest import Hypothesis, NbestList
from rescore.styles import Cells, figure, text

Floats = npt.NDArray[np.float64]
Systems = dict[str, list[NbestList]]
MOST = 8
"""Systems of a subset, at most."""
VARIANTS = ("doubled", "changed", "families")
CHANGED = 0.01
"""The share of words that are replaced."""
FAMILIES = 3
"""Systems with two relatives each."""
NO_WORD_WINS = RoverOptions(no_word=1.0)
"""A tie is no word."""
WORD_WINS = RoverOptions(no_word=KEPT)
"""A tie goes to the word."""
LOSS = 0.1
"""Percent of the words by which a vote is worse than another, not by a word or two."""
GREAT_LOSS = 0.3


@dataclass(frozen=True, slots=True)
class Compared:
    """Votes on random subsets of the systems of a set."""

    set: str
    subsets: int
    """The number of subsets; the three means of error rates are over these."""
    no_word: float
    """Equal votes; a tie is no word."""
    word: float
    """Equal votes; a tie goes to the word."""
    agreement: float
    """Votes by agreement."""
    worse: int
    """Subsets in which votes by agreement are worse than `word` by more than `LOSS`."""
    much_worse: int
    """The same by more than `GREAT_LOSS`."""
    loss: float
    """By how much votes by agreement are worse than `word`, at most."""
    gain: float
    """By how much votes by agreement are better than `word`, at most."""


class Ballot:
    """The lists of some systems, and their error rates by `rover` for any votes: what
    does not depend on votes is computed once.
    """

    def __init__(self, lists: Sequence[NbestList]) -> None:
        """Prepare the lists, which are written by `combined`."""
        dataset = Dataset.of(lists)
        self.systems = dataset.header.systems
        self.metric = choose_metric("wer", dataset)
        choice = Choice({FIRST_PASS: 1.0}, decision=Decision("rover"))
        self.lists = choice.allowed(dataset)
        self._chooser = choice.decision.rule.chooser(self.lists, self.metric)
        self._shares = []
        for nbest in self.lists:
            self._shares.append(system_posteriors(nbest, self.systems, {}))
        self._counts: list[dict[str, npt.NDArray[np.int64]]] = [{} for _ in self.lists]
        """For each list, the statistics of each text that was chosen."""

    @property
    def agreement(self) -> Agreement:
        """What the systems say about each other."""
        return Agreement(self.systems, self.distances)

    @cached_property
    def distances(self) -> Distances:
        """The distances between the texts of the systems, in each list."""
        return distances_of(self.lists, self.systems, EXACT)

    def rates(self, votes: Sequence[float], *ties: RoverOptions) -> list[float]:
        """Return the error rate of a vote, in percent, for each rule of ties.

        Args:
            votes: The vote of each system.
            ties: The rules.
        """
        return [self.rate_of(texts) for texts in self.texts(votes, *ties)]

    def texts(self, votes: Sequence[float], *ties: RoverOptions) -> list[list[str]]:
        """Return the texts of a vote, for each rule of ties.

        Args:
            votes: The vote of each system.
            ties: The rules.
        """
        every = np.array(votes, dtype=np.float64)
        scores = [mixed(own, every) for own in self._shares]
        preferences = posteriors(scores, 1.0)
        held = self._chooser.near(preferences) if len(ties) > 1 else self._chooser
        return [held.with_options(one).texts(preferences) for one in ties]

    def rate_of(self, texts: Sequence[str]) -> float:
        """Return the error rate of a text of each list, in percent."""
        pairs = list(zip(self._counts, texts, strict=True))
        new = [row for row, (known, text) in enumerate(pairs) if text not in known]
        if new:
            lists = [self.lists[row] for row in new]
            counts = text_statistics(self.metric, lists, [texts[row] for row in new])
            for row, own in zip(new, counts, strict=True):
                self._counts[row][texts[row]] = own
        total = np.sum([known[text] for known, text in pairs], axis=0)
        return float(self.metric.values(total[None])[0])


def outputs(lists: Sequence[NbestList], normaliser: Normaliser = EXACT) -> Systems:
    """Return the outputs of the systems of combined lists.

    Args:
        lists: The lists.
        normaliser: Rewrites all texts, so that equal words are written equally.
    """
    references: list[tuple[str, ...]] = []
    for nbest in lists:
        own = nbest.references
        if normaliser is not EXACT:
            own = tuple(" ".join(normaliser(text)) for text in own)
        references.append(own)
    systems = {}
    for name in Dataset.of(lists).header.systems:
        texts = system_texts(lists, name)
        one_each = []
        for nbest, said, reference in zip(lists, texts, references, strict=True):
            spoken = " ".join(normaliser(said))
            hypothesis = Hypothesis(spoken, {FIRST_PASS: 0.0})
            one_each.append(NbestList(nbest.id, [hypothesis], reference))
        systems[name] = one_each
    return systems


def subsets(
    systems: Systems, draws: int, utterances: int | None, draw: random.Random
) -> Iterator[Systems]:
    """Yield random subsets of three systems or more.

    Args:
        systems: All systems.
        draws: The number of subsets.
        utterances: The number of random lists of each subset; None for all.
        draw: Draws them.
    """
    count = len(next(iter(systems.values())))
    for _ in range(draws):
        number = draw.randint(3, min(MOST, len(systems)))
        chosen = draw.sample(sorted(systems), number)
        rows = list(range(count))
        if utterances is not None and utterances < count:
            rows = sorted(draw.sample(rows, utterances))
        yield {name: [systems[name][row] for row in rows] for name in chosen}


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


def with_relatives(systems: Systems, variant: str, draw: random.Random) -> Systems:
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


def read_set(options: argparse.Namespace) -> tuple[str, Systems]:
    """Return the name of a set, and the outputs of the systems of its lists.

    Args:
        options: The options of `arguments`.
    """
    name, _, path = options.set.partition("=")
    lists = [nbest for nbest in rescore.read(path) if nbest.references]
    normaliser = EXACT
    if options.whisper_english:
        normaliser = Normaliser(whisper_english=True)
    return name, outputs(lists, normaliser)


def arguments(
    about: str | None, draws: int = 200, seed: int = 101
) -> argparse.ArgumentParser:
    """Return the parser of a script that measures random subsets.

    Args:
        about: What the script does.
        draws: The number of subsets by default.
        seed: The seed by default.
    """
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("set", metavar="NAME=LISTS")
    parser.add_argument("--draws", type=int, default=draws)
    parser.add_argument("--seed", type=int, default=seed)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    parser.add_argument("--whisper-english", action="store_true")
    return parser


def compared(name: str, rows: Sequence[Sequence[float]]) -> Compared:
    """Return what the subsets of a set say.

    Args:
        name: The name of the set.
        rows: For each subset, the error rates `no_word`, `word` and `agreement`.
    """
    figures = np.array(rows)
    losses = figures[:, 2] - figures[:, 1]
    return Compared(
        name,
        len(rows),
        *figures.mean(axis=0).tolist(),
        worse=int((losses > LOSS).sum()),
        much_worse=int((losses > GREAT_LOSS).sum()),
        loss=float(losses.max()),
        gain=float(-losses.min()),
    )


def cells(sets: Sequence[Compared]) -> Cells:
    """Return the head of a table, and a row for each set."""
    head = [
        "set",
        "subsets",
        "a tie is no word",
        "a tie goes to the word",
        "votes by agreement",
        f"worse by more than {LOSS}",
        f"by more than {GREAT_LOSS}",
        "greatest loss",
        "greatest gain",
    ]
    rows = [head]
    for one in sets:
        row = [one.set, str(one.subsets)]
        row += [figure(rate) for rate in (one.no_word, one.word, one.agreement)]
        row += [str(one.worse), str(one.much_worse)]
        rows.append([*row, figure(one.loss), figure(one.gain)])
    return rows


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--utterances", type=int)
    parser.add_argument("--with", dest="variant", choices=VARIANTS)
    options = parser.parse_args()
    name, systems = read_set(options)
    draw = random.Random(options.seed)
    rows = []
    for subset in subsets(systems, options.draws, options.utterances, draw):
        own = subset
        if options.variant:
            own = with_relatives(subset, options.variant, draw)
        ballot = Ballot(list(combined(own)))
        equal = [1.0] * len(own)
        by_agreement = list(ballot.agreement.votes.values())
        ties, words = ballot.rates(equal, NO_WORD_WINS, WORD_WINS)
        (agreed,) = ballot.rates(by_agreement, WORD_WINS)
        rows.append((ties, words, agreed))
        shown = f"{ties:6.2f} {words:6.2f} {agreed:6.2f}  {', '.join(subset)}"
        print(shown, flush=True)
    result = compared(name, rows)
    print(text(cells([result])))
    if options.output:
        write_json(options.output, [result])


if __name__ == "__main__":
    main()
